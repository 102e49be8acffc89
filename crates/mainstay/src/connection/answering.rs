//! The answers that are owed to a server: each is given by a task of its own, once, or not at all when the server no
//! longer wants it.

use std::sync::Arc;

use super::callers::Whose;
use super::reception::Reception;
use crate::handler::{ServerRequest, decline};
use crate::wire::{Cause, Hold, Peer, RawJson, RpcError};

/// Requests of one server that may be answered at the same time. A server that asks for more is told so.
const MAX_ANSWERING: usize = 64;

/// JSON-RPC's "invalid request": for what cannot be answered on anybody's behalf.
const INVALID_REQUEST: i64 = -32600;

/// JSON-RPC's "internal error", for a handler that panicked.
const INTERNAL_ERROR: i64 = -32603;

impl Reception {
    /// Has a request answered by the handler of the call that caused it. The idle time of that call stands still
    /// meanwhile: it is not the server that is silent.
    pub(super) fn answer(
        self: &Arc<Self>,
        peer: &Peer,
        id: &RawJson,
        method: String,
        params: Option<RawJson>,
        cause: &Cause,
    ) {
        let refuse = |why: String| {
            let error = RpcError::new(INVALID_REQUEST, format!("{method} declined: {why}"));
            peer.respond(id, Err(error));
        };
        let (handler, holds) = match self.callers.whose(cause) {
            Whose::Fleets(hold) => (self.fleet_handler().clone(), vec![hold]),
            Whose::Ones(handler, holds) => (handler, holds),
            Whose::Left(_) | Whose::Gone => return refuse("the call that it is for is over".to_owned()),
            Whose::OneOf(_) | Whose::Unknown => {
                return refuse("several calls run, and nothing tells which one it is for".to_owned());
            }
        };
        let mut answering = self.answering();
        if answering.len() >= MAX_ANSWERING {
            return refuse(format!("{MAX_ANSWERING} requests are being answered already"));
        }
        let request = ServerRequest {
            server: self.server(),
            generation: self.generation(),
            method,
            params,
        };
        let owed = Owed {
            reception: self.clone(),
            peer: peer.clone(),
            id: id.clone(),
        };
        let held: Vec<_> = holds.iter().map(Hold::hold).collect();
        // Noted before it runs, so that one that ends at once finds itself there. Not spawned under the lock: a runtime that
        // shuts down drops the task, and with it what is owed, before this returns.
        answering.insert(id.clone(), None);
        drop(answering);
        let task = tokio::spawn(async move {
            let method = request.method.clone();
            let answer = owed
                .reception
                .with_patience(handler.request(request), || decline(&method))
                .await;
            owed.give(answer);
            drop(held);
        });
        let noted = self.answering().get_mut(id).map(|place| {
            *place = Some(task.abort_handle());
        });
        if noted.is_none() {
            // It is done, or the server took its request back meanwhile.
            task.abort();
        }
        self.none_after_the_end();
    }
}

/// An answer that a server waits for. It is given at the latest when this is dropped, unless the server took its
/// request back: then it is no longer among those being answered.
struct Owed {
    reception: Arc<Reception>,
    peer: Peer,
    id: RawJson,
}

impl Owed {
    fn give(&self, answer: Result<RawJson, RpcError>) {
        let wanted = self.reception.answering().remove(&self.id).is_some();
        if wanted {
            self.peer.respond(&self.id, answer);
        }
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        let failed = RpcError::new(INTERNAL_ERROR, "the client's handler failed".to_owned());
        self.give(Err(failed));
    }
}
