//! The calls of each client that are under way on each shared server: they wait for it, run there, or are parked.
//!
//! The library bounds both the calls that wait for a server and the requests that one server over HTTP has under way, for all clients
//! together: it knows no client. The share of each client is counted here, so that one with many slow calls leaves places to the others.
//! A call beyond the share of its client waits in a queue, and a free place goes to the waiting client that has the fewest.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mainstay::Server;
use mainstay::gateway::ServerExt;
use mainstay::server::TransportKind;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::lock::lock;
use crate::principal::Principal;

/// Calls that one server may have under way while it is connected, as shares are reckoned: the library's bound for a server over HTTP.
const RUNNING_PLACES: usize = 256;

/// Calls of all clients that may wait for a place at one server.
const QUEUE_PLACES: usize = 1024;

/// The part of all places that one client may take while other clients use the server too, and that it leaves free otherwise.
const SHARE: usize = 4;

/// The calls that are under way.
#[derive(Default)]
pub(super) struct CallPlaces(Mutex<HashMap<String, ServerCalls>>);

/// The calls on one server.
#[derive(Default)]
struct ServerCalls {
    running: CallCounts,
    queued: CallCounts,
    /// In the order in which they came.
    queue: VecDeque<QueueEntry>,
    /// The number of the latest entry.
    last: u64,
}

/// Calls of all clients, and of each.
#[derive(Default)]
struct CallCounts {
    all: usize,
    of: HashMap<Principal, usize>,
}

struct QueueEntry {
    number: u64,
    principal: Principal,
    granted: oneshot::Sender<()>,
}

/// How many places a server has now.
#[derive(Clone, Copy)]
struct ServerPlaces {
    /// Of these each client has its share.
    shared: usize,
    /// How many there are in all; `None` where every client has its share, however many clients there are.
    all: Option<usize>,
    /// Whether a call may wait for one. A call that would wait for its server too is refused.
    has_queue: bool,
}

/// What becomes of a call at first.
#[derive(Debug)]
enum Admission {
    Runs,
    /// It has this number in the queue, and is told when it has a place.
    Waits(u64, oneshot::Receiver<()>),
}

/// One client has too many calls under way on one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyCalls {
    pub(crate) limit: usize,
    /// Whether other clients have calls there, too.
    pub(crate) has_others: bool,
    /// How long the call waited for a place, if it did.
    pub(crate) waited: Option<Duration>,
}

/// The place of one call, given back when this is dropped.
pub(super) struct CallPlace {
    places: Arc<CallPlaces>,
    server: Server,
    principal: Principal,
}

/// A call in the queue. If it is dropped before it runs, it leaves the queue, or gives its place back.
struct QueuedCall<'a> {
    places: &'a CallPlaces,
    server: &'a Server,
    principal: Principal,
    number: u64,
    runs: bool,
}

impl CallPlaces {
    /// Takes a place for a call of this client on this server. If the client has its share already, the call waits for a place as long
    /// as calls wait for the server.
    ///
    /// Cancel safety: dropping it leaves the queue.
    pub(super) async fn take(
        self: &Arc<Self>,
        server: &Server,
        principal: Principal,
    ) -> Result<CallPlace, TooManyCalls> {
        let place = |places: &Arc<Self>| CallPlace {
            places: places.clone(),
            server: server.clone(),
            principal,
        };
        let admitted = self.admit(server.name(), principal, || places_of(server))?;
        let Admission::Waits(number, granted) = admitted else {
            return Ok(place(self));
        };
        let mut queued = QueuedCall {
            places: self,
            server,
            principal,
            number,
            runs: false,
        };
        let within = server.wait_timeout();
        // Boxed: few calls wait, and the others should not carry room for it.
        if let Ok(Ok(())) = Box::pin(timeout(within, granted)).await {
            queued.runs = true;
            return Ok(place(self));
        }
        drop(queued);
        let mut full = self.full(server.name(), principal, places_of(server));
        full.waited = Some(within);
        Err(full)
    }

    fn admit(
        &self,
        server: &str,
        principal: Principal,
        places: impl Fn() -> ServerPlaces,
    ) -> Result<Admission, TooManyCalls> {
        let mut table = lock(&self.0);
        if !table.contains_key(server) {
            table.insert(server.to_owned(), ServerCalls::default());
        }
        let Some(calls) = table.get_mut(server) else {
            return Ok(Admission::Runs);
        };
        calls.admit(principal, places())
    }

    /// Gives the place of a call back, or of one that left the queue.
    fn release(&self, server: &str, principal: Principal, places: impl Fn() -> ServerPlaces) {
        let mut table = lock(&self.0);
        let Some(calls) = table.get_mut(server) else {
            return;
        };
        calls.running.subtract(principal);
        if !calls.queue.is_empty() {
            calls.grant(places());
        }
        if calls.is_empty() {
            table.remove(server);
        }
    }

    /// A call leaves the queue. It may have got a place this very moment.
    fn leave(&self, server: &str, principal: Principal, number: u64, places: impl Fn() -> ServerPlaces) {
        let mut table = lock(&self.0);
        let Some(calls) = table.get_mut(server) else {
            return;
        };
        if let Some(at) = calls.queue.iter().position(|entry| entry.number == number) {
            calls.queue.remove(at);
            calls.queued.subtract(principal);
            return;
        }
        drop(table);
        self.release(server, principal, places);
    }

    fn full(&self, server: &str, principal: Principal, places: ServerPlaces) -> TooManyCalls {
        let table = lock(&self.0);
        let has_others = table
            .get(server)
            .is_some_and(|calls| calls.running.has_others(principal));
        TooManyCalls {
            limit: limit(places.shared, has_others),
            has_others,
            waited: None,
        }
    }
}

impl ServerCalls {
    /// Takes a place, or one in the queue.
    fn admit(&mut self, principal: Principal, places: ServerPlaces) -> Result<Admission, TooManyCalls> {
        // Behind its own calls that wait.
        if self.queued.of(principal) == 0 && self.has_place(principal, places) {
            self.running.add(principal);
            return Ok(Admission::Runs);
        }
        let has_room = self.queued.has_room(principal, QUEUE_PLACES) && self.queued.all < QUEUE_PLACES;
        if !places.has_queue || !has_room {
            let has_others = self.running.has_others(principal);
            return Err(TooManyCalls {
                limit: limit(places.shared, has_others),
                has_others,
                waited: None,
            });
        }
        self.last += 1;
        let (granted, waits) = oneshot::channel();
        self.queue.push_back(QueueEntry {
            number: self.last,
            principal,
            granted,
        });
        self.queued.add(principal);
        Ok(Admission::Waits(self.last, waits))
    }

    fn has_place(&self, principal: Principal, places: ServerPlaces) -> bool {
        places.all.is_none_or(|all| self.running.all < all) && self.running.has_room(principal, places.shared)
    }

    /// Gives the free places to calls that wait.
    fn grant(&mut self, places: ServerPlaces) {
        while let Some(next) = self.next(places) {
            self.queued.subtract(next.principal);
            self.running.add(next.principal);
            // A call that no longer waits gives its place back.
            let _ = next.granted.send(());
        }
    }

    /// Takes the first waiting call of the client that has the fewest calls under way, if that may run.
    fn next(&mut self, places: ServerPlaces) -> Option<QueueEntry> {
        let mut seen = HashSet::new();
        let firsts = self.queue.iter().enumerate();
        let firsts = firsts.filter(|(_, entry)| seen.insert(entry.principal));
        let (at, _) = firsts
            .filter(|(_, entry)| self.has_place(entry.principal, places))
            .min_by_key(|(_, entry)| self.running.of(entry.principal))?;
        self.queue.remove(at)
    }

    fn is_empty(&self) -> bool {
        self.running.all == 0 && self.queue.is_empty()
    }
}

impl CallCounts {
    fn of(&self, principal: Principal) -> usize {
        self.of.get(&principal).copied().unwrap_or(0)
    }

    fn has_others(&self, principal: Principal) -> bool {
        self.all > self.of(principal)
    }

    /// Whether a client may have one more of so many places.
    fn has_room(&self, principal: Principal, places: usize) -> bool {
        self.of(principal) < limit(places, self.has_others(principal))
    }

    fn add(&mut self, principal: Principal) {
        self.all += 1;
        *self.of.entry(principal).or_default() += 1;
    }

    fn subtract(&mut self, principal: Principal) {
        self.all -= 1;
        if let Some(own) = self.of.get_mut(&principal) {
            *own -= 1;
            if *own == 0 {
                self.of.remove(&principal);
            }
        }
    }
}

impl Drop for CallPlace {
    fn drop(&mut self) {
        let server = &self.server;
        self.places
            .release(server.name(), self.principal, || places_of(server));
    }
}

impl Drop for QueuedCall<'_> {
    fn drop(&mut self) {
        if !self.runs {
            let server = self.server;
            self.places
                .leave(server.name(), self.principal, self.number, || places_of(server));
        }
    }
}

/// The places of a server as it is now.
fn places_of(server: &Server) -> ServerPlaces {
    match server.waiters() {
        None => ServerPlaces {
            shared: RUNNING_PLACES,
            all: (server.status().transport == Some(TransportKind::Http)).then_some(RUNNING_PLACES),
            has_queue: true,
        },
        Some(waiters) => ServerPlaces {
            shared: waiters.min(RUNNING_PLACES),
            all: None,
            has_queue: false,
        },
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
    const THIRD: Principal = Principal::session(3);

    /// The places of a server over HTTP.
    fn over_http() -> ServerPlaces {
        ServerPlaces {
            shared: RUNNING_PLACES,
            all: Some(RUNNING_PLACES),
            has_queue: true,
        }
    }

    /// Those of a server that is not connected.
    fn waiting(places: usize) -> ServerPlaces {
        ServerPlaces {
            shared: places,
            all: None,
            has_queue: false,
        }
    }

    fn waits(admitted: Result<Admission, TooManyCalls>) -> (u64, oneshot::Receiver<()>) {
        match admitted {
            Ok(Admission::Waits(number, granted)) => (number, granted),
            other => panic!("{other:?}"),
        }
    }

    /// Takes places until the next call would wait.
    fn take_all(places: &CallPlaces, principal: Principal) -> usize {
        let runs = |places: &CallPlaces| {
            let mut table = lock(&places.0);
            let calls = table.entry("a".to_owned()).or_default();
            let has_place = calls.has_place(principal, over_http());
            if has_place {
                calls.running.add(principal);
            }
            has_place
        };
        (0..=RUNNING_PLACES).take_while(|_| runs(places)).count()
    }

    fn is_granted(granted: &mut oneshot::Receiver<()>) -> bool {
        granted.try_recv().is_ok()
    }

    #[test]
    fn a_client_leaves_a_quarter_to_others_and_its_further_calls_wait() {
        let places = CallPlaces::default();
        assert_eq!(take_all(&places, ONE), 192);
        let (_, mut own) = waits(places.admit("a", ONE, over_http));
        assert_eq!(take_all(&places, OTHER), 64, "beside the first");
        let (_, mut of_other) = waits(places.admit("a", OTHER, over_http));
        let (_, mut of_third) = waits(places.admit("a", THIRD, over_http));
        // The client with the fewest calls is first, whoever gives the place back, and whoever waits for longer.
        places.release("a", ONE, over_http);
        assert!(is_granted(&mut of_third));
        assert!(!is_granted(&mut of_other) && !is_granted(&mut own));
        places.release("a", OTHER, over_http);
        assert!(
            is_granted(&mut of_other),
            "it has 63 calls, and the first more than its share"
        );
        for left in (63..191).rev() {
            places.release("a", ONE, over_http);
            assert_eq!(is_granted(&mut own), left == 63, "beside others it has a quarter");
        }
        let calls = &lock(&places.0)["a"];
        assert_eq!((calls.queue.len(), calls.queued.all), (0, 0));
    }

    #[test]
    fn a_free_place_goes_to_the_waiting_client_that_has_the_fewest() {
        let places = CallPlaces::default();
        let two = || ServerPlaces {
            all: Some(2),
            ..over_http()
        };
        for _ in 0..2 {
            let admitted = places.admit("a", ONE, two);
            assert!(matches!(admitted, Ok(Admission::Runs)));
        }
        let (_, mut of_one) = waits(places.admit("a", ONE, two));
        let (_, mut of_other) = waits(places.admit("a", OTHER, two));
        places.release("a", ONE, two);
        assert!(
            is_granted(&mut of_other),
            "it has none, though the first waits for longer"
        );
        assert!(!is_granted(&mut of_one));
        places.release("a", OTHER, two);
        assert!(is_granted(&mut of_one));
    }

    #[test]
    fn the_queue_is_shared_like_the_places_and_what_is_given_back_is_forgotten() {
        let places = CallPlaces::default();
        let running = take_all(&places, ONE);
        let mut queued = Vec::new();
        while let Ok(admitted) = places.admit("a", ONE, over_http) {
            queued.push(waits(Ok(admitted)));
        }
        assert_eq!(queued.len(), 768, "all but a quarter");
        let full = places.admit("a", ONE, over_http).unwrap_err();
        assert_eq!((full.limit, full.has_others), (192, false));
        assert_eq!(take_all(&places, OTHER), 64);
        let (number, granted) = waits(places.admit("a", OTHER, over_http));
        assert!(matches!(places.admit("b", ONE, over_http), Ok(Admission::Runs)));
        places.release("b", ONE, over_http);
        // One that gives up leaves the queue, and one that got its place meanwhile gives that back.
        drop(granted);
        places.leave("a", OTHER, number, over_http);
        (0..64).for_each(|_| places.release("a", OTHER, over_http));
        for (number, granted) in queued {
            drop(granted);
            places.leave("a", ONE, number, over_http);
        }
        (0..running).for_each(|_| places.release("a", ONE, over_http));
        assert!(lock(&places.0).is_empty());
    }

    #[test]
    fn few_places_are_shared_too_and_no_call_waits_for_one_of_a_server_that_is_down() {
        let places = CallPlaces::default();
        for (all, alone, beside) in [(0, 1, 1), (1, 1, 1), (4, 3, 1), (256, 192, 64)] {
            assert_eq!((limit(all, false), limit(all, true)), (alone, beside));
        }
        for principal in [ONE, OTHER] {
            let admitted = places.admit("a", principal, || waiting(4));
            assert!(matches!(admitted, Ok(Admission::Runs)));
        }
        for principal in [ONE, OTHER] {
            assert!(places.admit("a", principal, || waiting(4)).is_err());
        }
        for principal in [ONE, OTHER] {
            places.release("a", principal, || waiting(4));
        }
        assert!(lock(&places.0).is_empty());
    }
}
