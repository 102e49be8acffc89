//! The calls of each client that are under way on each shared server: they wait for it, run there, or are parked.
//!
//! The library bounds both the calls that wait for a server and the requests that one server over HTTP has under way, for all clients
//! together: it knows no client. The share of each client is counted here, so that one with many slow calls leaves places to the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use mainstay::Server;
use mainstay::gateway::ServerExt;

use crate::lock::lock;
use crate::principal::Principal;

/// Calls that one server may have under way while it is connected, as shares are reckoned: the library's bound for a server over HTTP.
const RUNNING_PLACES: usize = 256;

/// The part of all places that one client may take while other clients use the server too, and that it leaves free otherwise.
const SHARE: usize = 4;

/// The calls that are under way.
#[derive(Default)]
pub(super) struct CallPlaces(Mutex<HashMap<String, ServerCalls>>);

/// The calls on one server.
#[derive(Default)]
struct ServerCalls {
    all: usize,
    of: HashMap<Principal, usize>,
}

/// One client has too many calls under way on one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyCalls {
    pub(crate) limit: usize,
    /// Whether other clients have calls there, too.
    pub(crate) has_others: bool,
}

/// The place of one call, given back when this is dropped.
pub(super) struct CallPlace {
    places: Arc<CallPlaces>,
    server: Server,
    principal: Principal,
}

impl CallPlaces {
    /// Takes a place for a call of this client on this server.
    pub(super) fn take(
        self: &Arc<Self>,
        server: &Server,
        principal: Principal,
    ) -> Result<CallPlace, TooManyCalls> {
        let waiters = server.waiters();
        let places = waiters.map_or(RUNNING_PLACES, |waiters| waiters.min(RUNNING_PLACES));
        self.add(server.name(), principal, places)?;
        Ok(CallPlace {
            places: self.clone(),
            server: server.clone(),
            principal,
        })
    }

    fn add(&self, server: &str, principal: Principal, places: usize) -> Result<(), TooManyCalls> {
        let mut table = lock(&self.0);
        if !table.contains_key(server) {
            table.insert(server.to_owned(), ServerCalls::default());
        }
        let Some(calls) = table.get_mut(server) else {
            return Ok(());
        };
        let own = calls.of.get(&principal).copied().unwrap_or(0);
        let has_others = calls.all > own;
        let limit = limit(places, has_others);
        if own >= limit {
            return Err(TooManyCalls { limit, has_others });
        }
        calls.all += 1;
        *calls.of.entry(principal).or_default() += 1;
        Ok(())
    }

    fn remove(&self, server: &str, principal: Principal) {
        let mut table = lock(&self.0);
        let Some(calls) = table.get_mut(server) else {
            return;
        };
        calls.all -= 1;
        if let Some(own) = calls.of.get_mut(&principal) {
            *own -= 1;
            if *own == 0 {
                calls.of.remove(&principal);
            }
        }
        if calls.all == 0 {
            table.remove(server);
        }
    }
}

impl Drop for CallPlace {
    fn drop(&mut self) {
        self.places.remove(self.server.name(), self.principal);
    }
}

/// How many of these places one client may take: a quarter, or all but a quarter while it is the only client.
fn limit(places: usize, has_others: bool) -> usize {
    let share = places / SHARE;
    let limit = if has_others { share } else { places - share };
    limit.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Principal = Principal::session(1);
    const OTHER: Principal = Principal::session(2);

    fn taken(places: &CallPlaces, principal: Principal) -> usize {
        let taken = (0..=RUNNING_PLACES).take_while(|_| places.add("a", principal, RUNNING_PLACES).is_ok());
        taken.count()
    }

    #[test]
    fn a_client_leaves_a_quarter_to_others_and_has_a_quarter_beside_them() {
        let places = CallPlaces::default();
        assert_eq!(taken(&places, ONE), 192);
        assert_eq!(taken(&places, OTHER), 64, "beside the first");
        for _ in 0..192 - 63 {
            assert!(
                places.add("a", ONE, RUNNING_PLACES).is_err(),
                "it has more than a quarter"
            );
            places.remove("a", ONE);
        }
        assert!(places.add("a", ONE, RUNNING_PLACES).is_ok());
        let full = places.add("a", ONE, RUNNING_PLACES).unwrap_err();
        assert_eq!((full.limit, full.has_others), (64, true));
        assert_eq!(taken(&places, Principal::session(3)), 64);
        assert!(
            places.add("b", ONE, RUNNING_PLACES).is_ok(),
            "each server has its own"
        );
    }

    #[test]
    fn few_places_are_shared_too_and_what_is_given_back_is_forgotten() {
        let places = CallPlaces::default();
        for (all, alone, beside) in [(0, 1, 1), (1, 1, 1), (4, 3, 1), (256, 192, 64)] {
            assert_eq!((limit(all, false), limit(all, true)), (alone, beside));
        }
        assert!(places.add("a", ONE, 4).is_ok() && places.add("a", OTHER, 4).is_ok());
        for principal in [ONE, OTHER] {
            assert!(places.add("a", principal, 4).is_err());
        }
        for principal in [ONE, OTHER] {
            places.remove("a", principal);
        }
        assert!(lock(&places.0).is_empty());
    }
}
