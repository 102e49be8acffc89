//! Elicitations by URL: questions that a person answers in a browser. The server's notification that one is answered comes outside of
//! calls, and only the client that was asked gets it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mainstay::message::{Object, RawJson, RpcError};
use serde::Deserialize;

/// The notification that such a question was answered.
pub(crate) const COMPLETE: &str = "notifications/elicitation/complete";

/// The error code of a server that wants such questions answered first.
const URL_ELICITATION_REQUIRED: i64 = -32042;

/// Questions that are remembered of one client; a person answers few at a time.
const REMEMBERED_LIMIT: usize = 64;

/// The server and the id of each question.
#[derive(Default)]
pub(crate) struct UrlElicitations(Mutex<VecDeque<(Arc<str>, String)>>);

impl UrlElicitations {
    /// Notes a server's request, if it is such a question.
    pub(super) fn note_request(&self, server: &Arc<str>, method: &str, params: Option<&RawJson>) {
        if method == "elicitation/create"
            && let Some(id) = named(params)
        {
            self.note(server, id);
        }
    }

    /// Notes the questions that a server wants answered before it does what it was asked.
    pub(crate) fn note_refusal(&self, server: &Arc<str>, error: &RpcError) {
        let data = error.data().filter(|_| error.code() == URL_ELICITATION_REQUIRED);
        let required = data.and_then(|data| data.parse::<RequiredElicitations>().ok());
        for question in required.into_iter().flat_map(|required| required.elicitations) {
            self.note(server, question.elicitation_id);
        }
    }

    fn note(&self, server: &Arc<str>, id: String) {
        let mut asked = self.asked();
        if asked.len() == REMEMBERED_LIMIT {
            asked.pop_front();
        }
        asked.push_back((server.clone(), id));
    }

    /// Whether this client was asked the question of this notification.
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
struct RequiredElicitations {
    elicitations: Vec<RequiredElicitation>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequiredElicitation {
    elicitation_id: String,
}
