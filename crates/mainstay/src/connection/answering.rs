//! The answers that are owed to a server: each is given by a task of its own, once, or not at all when the server no
//! longer wants it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use tokio::task::AbortHandle;

use super::callers::CallOrigin;
use super::inbound::InboundHandler;
use crate::handler::{ClientHandler, NamedClient, ServerRequest, decline};
use crate::lock::Lock;
use crate::wire::{IdlePause, MessageOrigin, Peer, RawJson, RpcError};

/// Requests of one server that are answered at the same time. A server that sends more gets an error.
const ANSWERING_LIMIT: usize = 1024;

/// The same for one handler: callers that wait for a person must not keep the server from asking others.
const ANSWERING_LIMIT_OF_HANDLER: usize = 64;

impl InboundHandler {
    /// Has a request answered by the handler of the call that caused it. The idle time of that call stands still
    /// meanwhile: it is not the server that is silent.
    pub(super) fn answer(
        self: &Arc<Self>,
        peer: &Peer,
        id: &RawJson,
        method: String,
        params: Option<RawJson>,
        cause: &MessageOrigin,
    ) {
        let refuse = |why: String| {
            let error = RpcError::new(RpcError::INVALID_REQUEST, format!("{method} declined: {why}"));
            peer.respond(id, Err(error));
        };
        let named = self
            .fleet_handler()
            .named_client(&self.server(), &method, params.as_ref());
        let origin = match named {
            NamedClient::None => self.callers.origin_of(cause),
            NamedClient::Here(handler) => {
                let holds = self.callers.holds_of(&handler);
                CallOrigin::OnlyCaller(handler, holds)
            }
            NamedClient::Gone => {
                return refuse("the client that began the task is gone".to_owned());
            }
        };
        let (handler, holds) = match origin {
            CallOrigin::FleetHandler(hold) => (self.fleet_handler().clone(), vec![hold]),
            CallOrigin::OnlyCaller(handler, holds) => (handler, holds),
            CallOrigin::Left(_) | CallOrigin::Gone => {
                return refuse("the call that it is for is over".to_owned());
            }
            CallOrigin::LatestOfClient(_) | CallOrigin::Unknown => {
                return refuse(
                    "several calls run, and the protocol does not say which one it is for".to_owned(),
                );
            }
        };
        let begun = self.answering.lock().begin(id, &handler);
        let (number, place) = match begun {
            Begun::Now(number, place) => (number, place),
            Begun::Before => {
                // An id has one answer: that to the request which came first with it.
                let (server, generation) = (self.server(), self.generation().0);
                return tracing::debug!(%server, generation, %id, "a request repeats the id of another and is ignored");
            }
            Begun::TooMany => return refuse("too many requests are being answered already".to_owned()),
        };
        let request = ServerRequest {
            server: self.server(),
            generation: self.generation(),
            method,
            params,
        };
        let owed = Owed {
            inbound: self.clone(),
            peer: peer.clone(),
            id: id.clone(),
            number,
            _place: place,
        };
        let held: Vec<_> = holds.iter().map(IdlePause::hold).collect();
        // Noted before it runs, so that one that ends at once finds itself there. Not spawned under the lock: a runtime that
        // shuts down drops the task, and with it what is owed, before this returns.
        let task = tokio::spawn(async move {
            let method = request.method.clone();
            let answer = owed
                .inbound
                .with_answer_timeout(handler.request(request), || decline(&method))
                .await;
            owed.give(answer);
            drop(held);
        });
        if !self.answering.lock().note(id, number, task.abort_handle()) {
            // It is done, or the server took its request back meanwhile.
            task.abort();
        }
        self.none_after_the_end();
    }
}

/// The requests of a server that are being answered.
#[derive(Default)]
pub(super) struct Answering {
    requests: HashMap<RawJson, Running>,
    /// How many were begun.
    begun: u64,
    /// One place for each handler that runs, given back when its task is gone: a server that takes its requests back
    /// as soon as it has made them starts no more handlers than any other.
    places: Arc<AnswerPlaces>,
}

/// Counts the handlers that run.
#[derive(Default)]
struct AnswerPlaces(Lock<TakenPlaces>);

#[derive(Default)]
struct TakenPlaces {
    count: usize,
    /// By the address of the handler, which lives as long as it has a place.
    of_handlers: HashMap<usize, usize>,
}

/// A place for a handler that runs, given back when this is dropped.
struct AnswerPlace {
    places: Arc<AnswerPlaces>,
    handler: Arc<dyn ClientHandler>,
}

impl AnswerPlaces {
    fn take(self: &Arc<Self>, handler: &Arc<dyn ClientHandler>) -> Option<AnswerPlace> {
        let mut taken = self.0.lock();
        let TakenPlaces { count, of_handlers } = &mut *taken;
        let of_handler = of_handlers.entry(address(handler)).or_default();
        if *count >= ANSWERING_LIMIT || *of_handler >= ANSWERING_LIMIT_OF_HANDLER {
            of_handlers.retain(|_, count| *count > 0);
            return None;
        }
        (*count, *of_handler) = (*count + 1, *of_handler + 1);
        Some(AnswerPlace {
            places: self.clone(),
            handler: handler.clone(),
        })
    }
}

impl Drop for AnswerPlace {
    fn drop(&mut self) {
        let mut taken = self.places.0.lock();
        taken.count -= 1;
        if let Entry::Occupied(mut entry) = taken.of_handlers.entry(address(&self.handler)) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

fn address(handler: &Arc<dyn ClientHandler>) -> usize {
    Arc::as_ptr(handler).cast::<()>().addr()
}

/// One request that is being answered. An id may come again once its request is over; the number never does.
pub(super) struct Running {
    number: u64,
    /// Unknown for the moment in which the task is started.
    task: Option<AbortHandle>,
}

/// What becomes of a request.
enum Begun {
    /// It is answered, as this number, in this place.
    Now(u64, AnswerPlace),
    /// One with the same id is being answered already.
    Before,
    /// There is no place.
    TooMany,
}

impl Answering {
    fn begin(&mut self, id: &RawJson, handler: &Arc<dyn ClientHandler>) -> Begun {
        let Entry::Vacant(entry) = self.requests.entry(id.clone()) else {
            return Begun::Before;
        };
        let Some(place) = self.places.take(handler) else {
            return Begun::TooMany;
        };
        self.begun += 1;
        entry.insert(Running {
            number: self.begun,
            task: None,
        });
        Begun::Now(self.begun, place)
    }

    /// Notes the task that answers a request, and says whether the answer is still wanted.
    fn note(&mut self, id: &RawJson, number: u64, task: AbortHandle) -> bool {
        let running = self.requests.get_mut(id);
        let Some(running) = running.filter(|running| running.number == number) else {
            return false;
        };
        running.task = Some(task);
        true
    }

    /// Ends a request that is answered, and says whether the answer is still wanted.
    fn end(&mut self, id: &RawJson, number: u64) -> bool {
        match self.requests.entry(id.clone()) {
            Entry::Occupied(entry) if entry.get().number == number => {
                entry.remove();
                true
            }
            Entry::Occupied(_) | Entry::Vacant(_) => false,
        }
    }

    /// Takes back the request with this id.
    pub(super) fn withdraw(&mut self, id: &RawJson) -> Option<Running> {
        self.requests.remove(id)
    }

    /// Takes all of them back.
    pub(super) fn withdraw_all(&mut self) -> Vec<Running> {
        let requests = std::mem::take(&mut self.requests);
        requests.into_values().collect()
    }
}

impl Running {
    /// Ends the handler of a request that was taken back. Never under the lock: a runtime that shuts down drops the task
    /// here, and with it what is owed.
    pub(super) fn abort(self) {
        // A task that is about to be noted finds that it is not wanted.
        if let Some(task) = self.task {
            task.abort();
        }
    }
}

/// An answer that a server waits for. It is given at the latest when this is dropped, unless the server took its
/// request back: then it is no longer among those being answered.
struct Owed {
    inbound: Arc<InboundHandler>,
    peer: Peer,
    id: RawJson,
    number: u64,
    _place: AnswerPlace,
}

impl Owed {
    fn give(&self, answer: Result<RawJson, RpcError>) {
        if self.inbound.answering.lock().end(&self.id, self.number) {
            self.peer.respond(&self.id, answer);
        }
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        let failed = RpcError::new(RpcError::INTERNAL_ERROR, "the client's handler failed".to_owned());
        self.give(Err(failed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Silent;

    impl ClientHandler for Silent {}

    fn handler() -> Arc<dyn ClientHandler> {
        Arc::new(Silent)
    }

    #[test]
    fn a_handler_that_takes_its_whole_share_leaves_room_for_others() {
        let places = Arc::<AnswerPlaces>::default();
        let (one, other) = (handler(), handler());
        let mut taken: Vec<_> = (0..ANSWERING_LIMIT_OF_HANDLER)
            .map(|_| places.take(&one).expect("room"))
            .collect();
        assert!(places.take(&one).is_none());
        assert!(places.take(&other).is_some());
        taken.pop();
        assert!(places.take(&one).is_some(), "a place that was given back");
        drop(taken);
        let left = places.0.lock();
        assert!(left.count == 0 && left.of_handlers.is_empty());
    }

    #[test]
    fn all_handlers_together_are_bounded() {
        let places = Arc::<AnswerPlaces>::default();
        let handlers: Vec<_> = (0..=ANSWERING_LIMIT).map(|_| handler()).collect();
        let taken: Vec<_> = handlers
            .iter()
            .map_while(|handler| places.take(handler))
            .collect();
        assert_eq!(taken.len(), ANSWERING_LIMIT);
        assert_eq!(places.0.lock().of_handlers.len(), ANSWERING_LIMIT);
    }
}
