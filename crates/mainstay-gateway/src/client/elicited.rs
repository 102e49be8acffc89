//! The questions that a client was sent elsewhere to answer (elicitation by URL). That one was answered is told outside of any
//! call, and concerns nobody but who was asked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mainstay::gateway::message::{Object, RawJson, RpcError};
use serde::Deserialize;

/// The notification by which a server tells that such a question was answered.
pub(crate) const ANSWERED: &str = "notifications/elicitation/complete";

/// The error of a server that wants such questions answered first.
const ANSWERS_REQUIRED: i64 = -32042;

/// So many questions are remembered of one client; a person answers few at a time.
const REMEMBERED: usize = 64;

/// Which server asked, and by what name.
#[derive(Default)]
pub(crate) struct Elicited(Mutex<VecDeque<(Arc<str>, String)>>);

impl Elicited {
    /// Notes a question that a server asks, if it is one of these.
    pub(super) fn note_request(&self, server: &Arc<str>, method: &str, params: Option<&RawJson>) {
        if method == "elicitation/create"
            && let Some(id) = named(params)
        {
            self.note(server, id);
        }
    }

    /// Notes the questions for whose answers a server refuses to do what it was asked.
    pub(crate) fn note_refusal(&self, server: &Arc<str>, error: &RpcError) {
        let data = error.data().filter(|_| error.code() == ANSWERS_REQUIRED);
        let required = data.and_then(|data| data.parse::<Required>().ok());
        for question in required.into_iter().flat_map(|required| required.elicitations) {
            self.note(server, question.elicitation_id);
        }
    }

    fn note(&self, server: &Arc<str>, id: String) {
        let mut asked = self.asked();
        if asked.len() == REMEMBERED {
            asked.pop_front();
        }
        asked.push_back((server.clone(), id));
    }

    /// Whether it was asked what is said here to be answered.
    pub(crate) fn has(&self, server: &str, params: Option<&RawJson>) -> bool {
        named(params).is_some_and(|id| {
            let asked = self.asked();
            asked.iter().any(|(by, asked)| **by == *server && *asked == id)
        })
    }

    fn asked(&self) -> MutexGuard<'_, VecDeque<(Arc<str>, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn named(params: Option<&RawJson>) -> Option<String> {
    let params = params.filter(|params| params.may_hold("elicitationId"))?;
    Object::parse(params)?.get("elicitationId")?.parse().ok()
}

#[derive(Deserialize)]
struct Required {
    elicitations: Vec<Question>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question {
    elicitation_id: String,
}
