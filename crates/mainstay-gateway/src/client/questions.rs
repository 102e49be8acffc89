//! Requests of servers that a client has not answered yet, and elicitations by URL, which a person answers in a browser. The server's
//! notification that one is answered comes outside of calls, and only the client that was asked gets it.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use mainstay::Generation;
use mainstay::gateway::message::{self, Object, RawJson, RpcError};
use mainstay::handler::ServerRequest;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::oneshot;

use super::Outbox;

use crate::lock::lock;
use crate::protocol::raw;

/// Questions that one client may have at the same time: more is a server that does not stop asking.
const QUESTION_LIMIT: usize = 64;

#[derive(Default)]
pub(super) struct PendingQuestions(Mutex<HashMap<u64, WaitingServer>>);

/// How many bits the first id of a process has: few enough for clients that keep numbers as floating point.
const FIRST_ID_BITS: u32 = 46;

/// The id of a new question. The session of a bridge outlives its daemon, and a person may answer late: so no other question has this
/// id, neither of this process nor of the next one, which begins at another random number.
fn next_id() -> u64 {
    static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| {
        let random = RandomState::new().build_hasher().finish();
        AtomicU64::new(random >> (u64::BITS - FIRST_ID_BITS))
    });
    NEXT.fetch_add(1, Ordering::Relaxed)
}

struct WaitingServer {
    origin: QuestionOrigin,
    answer: oneshot::Sender<Result<RawJson, RpcError>>,
}

/// The server that asks.
#[derive(Clone, Debug)]
pub(crate) struct QuestionOrigin {
    pub(crate) server: Arc<str>,
    pub(crate) generation: Generation,
    /// The progress token of its request, as it spells it.
    pub(crate) token: Option<RawJson>,
}

/// One question. Dropped without an answer, it sends the client a `notifications/cancelled`.
pub(super) struct PendingQuestion<'a> {
    questions: &'a PendingQuestions,
    id: u64,
    outbox: Arc<dyn Outbox>,
    answer: oneshot::Receiver<Result<RawJson, RpcError>>,
}

impl PendingQuestions {
    /// Gives a new question its number; the caller sends it on this outbox.
    pub(super) fn open(
        &self,
        origin: QuestionOrigin,
        outbox: Arc<dyn Outbox>,
    ) -> Result<PendingQuestion<'_>, RpcError> {
        let mut waiting = lock(&self.0);
        if waiting.len() >= QUESTION_LIMIT {
            let what = format!("the client has {QUESTION_LIMIT} unanswered requests already");
            return Err(RpcError::new(RpcError::INTERNAL_ERROR, what));
        }
        let id = next_id();
        let (sender, answer) = oneshot::channel();
        let asking = WaitingServer {
            origin,
            answer: sender,
        };
        waiting.insert(id, asking);
        Ok(PendingQuestion {
            questions: self,
            id,
            outbox,
            answer,
        })
    }

    pub(super) fn answered(&self, id: &RawJson, answer: Result<RawJson, RpcError>) -> bool {
        let Ok(id) = id.parse::<u64>() else { return false };
        let waiting = lock(&self.0).remove(&id);
        waiting.is_some_and(|waiting| waiting.answer.send(answer).is_ok())
    }

    /// The server that waits for progress under this token, if it is the only one: two servers may choose the same.
    pub(super) fn origin_of(&self, token: &RawJson) -> Option<QuestionOrigin> {
        let waiting = lock(&self.0);
        let origins = waiting.values().map(|waiting| &waiting.origin);
        let mut origins = origins.filter(|origin| origin.has(token));
        match (origins.next(), origins.next()) {
            (Some(origin), None) => Some(origin.clone()),
            (None, _) | (Some(_), Some(_)) => None,
        }
    }

    /// The id of the latest one.
    #[cfg(test)]
    pub(super) fn latest(&self) -> Option<u64> {
        lock(&self.0).keys().max().copied()
    }

    /// How many are not answered.
    pub(super) fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

impl QuestionOrigin {
    /// The server that makes this request. The token is copied, so that the message is not kept while a person answers.
    pub(crate) fn of(request: &ServerRequest) -> Self {
        let token = request
            .params
            .as_ref()
            .filter(|params| params.may_hold("progressToken"))
            .and_then(Object::parse)
            .and_then(|params| Object::parse(params.get("_meta")?))
            .and_then(|meta| meta.get("progressToken").cloned())
            .filter(|token| token.as_bytes().len() <= REMEMBERED_LENGTH_LIMIT)
            .and_then(|token| RawJson::from_text(token.as_str()).ok());
        Self {
            server: request.server.clone(),
            generation: request.generation,
            token,
        }
    }

    /// Whether this is its token, however it is spelt.
    fn has(&self, token: &RawJson) -> bool {
        let value = |raw: &RawJson| raw.parse::<serde_json::Value>().ok();
        let own = self.token.as_ref();
        own.is_some_and(|own| own == token || value(own).is_some_and(|own| Some(own) == value(token)))
    }
}

impl PendingQuestion<'_> {
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) async fn answer(mut self) -> Result<RawJson, RpcError> {
        let gone = |_| RpcError::new(RpcError::INTERNAL_ERROR, "the client went away without an answer");
        (&mut self.answer).await.unwrap_or_else(|error| Err(gone(error)))
    }
}

impl Drop for PendingQuestion<'_> {
    fn drop(&mut self) {
        if lock(&self.questions.0).remove(&self.id).is_none() {
            return;
        }
        let params = raw(&json!({ "requestId": self.id, "reason": "the answer is not wanted any more" }));
        self.outbox
            .send(message::notification("notifications/cancelled", Some(&params)));
    }
}

/// The notification that such a question was answered.
pub(crate) const URL_ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";

/// The error code of a server that wants such questions answered first.
const URL_ELICITATION_REQUIRED: i64 = -32042;

/// Questions that are remembered of one client; a person answers few at a time.
const URL_ELICITATION_LIMIT: usize = 64;

/// The longest id of such a question, and the longest progress token, that are remembered, in bytes. Servers send some tens.
const REMEMBERED_LENGTH_LIMIT: usize = 1024;

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
        if id.len() > REMEMBERED_LENGTH_LIMIT {
            return;
        }
        let mut asked = lock(&self.0);
        if asked.len() == URL_ELICITATION_LIMIT {
            asked.pop_front();
        }
        asked.push_back((server.clone(), id));
    }

    /// Whether this client was asked the question of this notification.
    pub(crate) fn has(&self, server: &str, params: Option<&RawJson>) -> bool {
        named(params).is_some_and(|id| {
            let asked = lock(&self.0);
            asked.iter().any(|(by, asked)| **by == *server && *asked == id)
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_tokens_of_a_server_are_remembered_up_to_a_length() {
        let elicited = UrlElicitations::default();
        for (length, is_remembered) in [
            (REMEMBERED_LENGTH_LIMIT - 2, true),
            (REMEMBERED_LENGTH_LIMIT + 1, false),
        ] {
            let text = "i".repeat(length);
            let params = raw(&json!({ "elicitationId": text, "_meta": { "progressToken": text } }));
            elicited.note_request(&"a".into(), "elicitation/create", Some(&params));
            assert_eq!(elicited.has("a", Some(&params)), is_remembered, "{length}");
            let request = ServerRequest {
                server: "a".into(),
                generation: Generation(1),
                method: "elicitation/create".to_owned(),
                params: Some(params),
            };
            assert_eq!(
                QuestionOrigin::of(&request).token.is_some(),
                is_remembered,
                "{length}"
            );
        }
    }
}
