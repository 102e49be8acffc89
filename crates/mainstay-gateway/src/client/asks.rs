//! What a client was asked and has not answered yet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mainstay::Generation;
use mainstay::gateway::message::{self, Object, RawJson, RpcError};
use mainstay::handler::ServerRequest;
use serde_json::json;
use tokio::sync::oneshot;

use super::Outbox;

/// What one client may be asked at the same time: more is a server that does not stop asking.
const MAX_ASKS: usize = 64;

#[derive(Default)]
pub(super) struct Asks(Mutex<Table>);

#[derive(Default)]
struct Table {
    last: u64,
    waiting: HashMap<u64, Waiting>,
}

struct Waiting {
    origin: Origin,
    answer: oneshot::Sender<Result<RawJson, RpcError>>,
}

/// Where a question comes from.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) server: Arc<str>,
    pub(crate) generation: Generation,
    /// What it wants the client's progress to be told under, as it spells it.
    pub(crate) token: Option<RawJson>,
}

/// One thing asked. Dropped without an answer, the client is told that none is wanted.
pub(super) struct Asked<'a> {
    asks: &'a Asks,
    id: u64,
    line: Arc<dyn Outbox>,
    answer: oneshot::Receiver<Result<RawJson, RpcError>>,
}

impl Asks {
    /// Gives a new question its number; it will be asked on this line.
    pub(super) fn open(&self, origin: Origin, line: Arc<dyn Outbox>) -> Result<Asked<'_>, RpcError> {
        let mut table = self.table();
        if table.waiting.len() >= MAX_ASKS {
            let what = format!("the client has {MAX_ASKS} unanswered requests already");
            return Err(RpcError::new(RpcError::INTERNAL_ERROR, what));
        }
        table.last += 1;
        let id = table.last;
        let (sender, answer) = oneshot::channel();
        let waiting = Waiting {
            origin,
            answer: sender,
        };
        table.waiting.insert(id, waiting);
        Ok(Asked {
            asks: self,
            id,
            line,
            answer,
        })
    }

    pub(super) fn answered(&self, id: &RawJson, answer: Result<RawJson, RpcError>) -> bool {
        let Ok(id) = id.parse::<u64>() else { return false };
        let waiting = self.table().waiting.remove(&id);
        waiting.is_some_and(|waiting| waiting.answer.send(answer).is_ok())
    }

    /// Who waits for progress under this token, if it is one alone: two servers may choose the same.
    pub(super) fn under(&self, token: &RawJson) -> Option<Origin> {
        let table = self.table();
        let origins = table.waiting.values().map(|waiting| &waiting.origin);
        let mut origins = origins.filter(|origin| origin.has(token));
        match (origins.next(), origins.next()) {
            (Some(origin), None) => Some(origin.clone()),
            (None, _) | (Some(_), Some(_)) => None,
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Origin {
    /// Who makes this request. Its token is copied: the message is not kept for as long as a person takes to answer.
    pub(crate) fn of(request: &ServerRequest) -> Self {
        let token = request
            .params
            .as_ref()
            .filter(|params| params.may_hold("progressToken"))
            .and_then(Object::parse)
            .and_then(|params| Object::parse(params.get("_meta")?))
            .and_then(|meta| RawJson::from_text(meta.get("progressToken")?.as_str()).ok());
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

impl Asked<'_> {
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) async fn answer(mut self) -> Result<RawJson, RpcError> {
        let gone = |_| RpcError::new(RpcError::INTERNAL_ERROR, "the client went away without an answer");
        (&mut self.answer).await.unwrap_or_else(|error| Err(gone(error)))
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if self.asks.table().waiting.remove(&self.id).is_none() {
            return;
        }
        let params = json!({ "requestId": self.id, "reason": "the answer is not wanted any more" });
        if let Ok(params) = RawJson::from_value(&params) {
            self.line
                .send(message::notification("notifications/cancelled", Some(&params)));
        }
    }
}
