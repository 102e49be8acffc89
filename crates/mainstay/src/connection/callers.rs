//! Who is calling on a connection right now: a server's request can only be answered for the call that caused it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::handler::ClientHandler;

/// The calls in flight. Those without a handler of their own are only counted: they are the fleet's.
#[derive(Default)]
pub(crate) struct Callers {
    plain: AtomicUsize,
    own: Mutex<Vec<Arc<dyn ClientHandler>>>,
    left: Notify,
}

/// Whose call caused a server's request.
pub(crate) enum Whose {
    /// Nobody's in particular: the fleet's handler answers.
    Fleets,
    /// The one caller's that is there.
    Ones(Arc<dyn ClientHandler>),
    /// Several could have caused it, and nothing in the protocol tells which.
    Unknown,
}

/// A call in flight; it leaves when this is dropped.
pub(crate) struct Present<'a> {
    callers: &'a Callers,
    own: Option<Arc<dyn ClientHandler>>,
}

impl Callers {
    pub(crate) fn enter(&self, own: Option<Arc<dyn ClientHandler>>) -> Present<'_> {
        match &own {
            None => {
                self.plain.fetch_add(1, Ordering::Relaxed);
            }
            Some(handler) => self
                .own
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(handler.clone()),
        }
        Present { callers: self, own }
    }

    /// Whether any call is in flight.
    pub(crate) fn any(&self) -> bool {
        self.plain.load(Ordering::Relaxed) > 0
            || !self.own.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Comes back when no call is in flight.
    pub(crate) async fn all_left(&self) {
        loop {
            let left = self.left.notified();
            if !self.any() {
                return;
            }
            left.await;
        }
    }

    /// Whose request it must be that the server makes now.
    pub(crate) fn whose(&self) -> Whose {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(first) = own.first() else {
            return Whose::Fleets;
        };
        let alone =
            self.plain.load(Ordering::Relaxed) == 0 && own.iter().all(|other| Arc::ptr_eq(other, first));
        if alone {
            Whose::Ones(first.clone())
        } else {
            Whose::Unknown
        }
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        match &self.own {
            None => {
                self.callers.plain.fetch_sub(1, Ordering::Relaxed);
            }
            Some(handler) => {
                let mut own = self.callers.own.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(at) = own.iter().position(|other| Arc::ptr_eq(other, handler)) {
                    own.swap_remove(at);
                }
            }
        }
        self.callers.left.notify_waiters();
    }
}
