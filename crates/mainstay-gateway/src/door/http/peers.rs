//! How many connections come from where.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::guard::Caller;

#[derive(Default)]
pub(super) struct Peers(Mutex<HashMap<Caller, usize>>);

/// A connection, as long as this lives.
pub(super) struct Seat {
    peers: Arc<Peers>,
    peer: Caller,
}

impl Peers {
    /// A seat for one more connection from there, unless there are so many already.
    pub(super) fn seat(self: &Arc<Self>, peer: Caller, most: usize) -> Option<Seat> {
        let mut peers = self.table();
        let count = peers.entry(peer).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Seat {
            peers: self.clone(),
            peer,
        })
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Caller, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut peers = self.peers.table();
        if let Some(count) = peers.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                peers.remove(&self.peer);
            }
        }
    }
}
