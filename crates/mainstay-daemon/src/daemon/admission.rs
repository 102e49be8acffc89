//! Accepts connections, and bounds the cost of those that have not said what they want.
//!
//! - A connection is accepted when fewer than [`TURN_LIMIT`] others wait for their first turn on the runtime. So the messages of
//!   established bridges wait behind a few new connections, however many are opened and closed.
//! - [`NEWCOMER_LIMIT`] connections may be silent at once. One more takes the place of the oldest.
//! - [`CONNECTION_LIMIT`] connections may be there at once. One more is refused.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::lock;

/// Connections at once. Each is a process of this user.
pub(super) const CONNECTION_LIMIT: usize = 4096;

/// Accepted connections that no thread has looked at yet: the work that one pass of the accept loop may put in front of other tasks.
const TURN_LIMIT: usize = 16;

/// Connections that have not said what they want. A bridge does so at once, so only a flood has more than a few of them.
const NEWCOMER_LIMIT: usize = 512;

/// Decides when a connection is accepted.
pub(super) struct Admission {
    places: Arc<Semaphore>,
    turns: Arc<Semaphore>,
    newcomers: Arc<Mutex<Newcomers>>,
    newcomer_limit: usize,
}

/// The connections that have not said what they want, the oldest first.
#[derive(Default)]
struct Newcomers {
    last: u64,
    waiting: BTreeMap<u64, oneshot::Sender<Infallible>>,
}

/// A connection that has not said what it wants.
pub(super) struct Newcomer {
    place: OwnedSemaphorePermit,
    turn: OwnedSemaphorePermit,
    waiting: WaitingNewcomer,
}

struct WaitingNewcomer {
    number: u64,
    newcomers: Arc<Mutex<Newcomers>>,
    /// Ends when the connection must make room for newer ones.
    evicted: oneshot::Receiver<Infallible>,
}

impl Admission {
    pub(super) fn new() -> Self {
        Self::with_newcomer_limit(NEWCOMER_LIMIT)
    }

    fn with_newcomer_limit(newcomer_limit: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(CONNECTION_LIMIT)),
            turns: Arc::new(Semaphore::new(TURN_LIMIT)),
            newcomers: Arc::default(),
            newcomer_limit,
        }
    }

    /// Accepts the next connection when it is its turn; without a [`Newcomer`] if there is no place for it.
    ///
    /// Cancel safety: safe.
    pub(super) async fn accept(&self, listener: &UnixListener) -> io::Result<(UnixStream, Option<Newcomer>)> {
        let turn = self.turns.clone().acquire_owned().await;
        let turn = turn.expect("the semaphore is never closed");
        let (stream, _) = listener.accept().await?;
        let newcomer = self
            .places
            .clone()
            .try_acquire_owned()
            .ok()
            .map(|place| Newcomer {
                place,
                turn,
                waiting: self.admit(),
            });
        Ok((stream, newcomer))
    }

    fn admit(&self) -> WaitingNewcomer {
        let (evict, evicted) = oneshot::channel();
        let mut newcomers = lock(&self.newcomers);
        if newcomers.waiting.len() >= self.newcomer_limit {
            newcomers.waiting.pop_first();
        }
        newcomers.last += 1;
        let number = newcomers.last;
        newcomers.waiting.insert(number, evict);
        WaitingNewcomer {
            number,
            newcomers: self.newcomers.clone(),
            evicted,
        }
    }
}

impl Newcomer {
    /// Waits until the connection has said what it wants, and returns that with its place among all; `None` if it must make room before.
    /// Its turn is over when it has to wait.
    ///
    /// Cancel safety: dropping it gives the place free.
    pub(super) async fn introduced<T>(
        self,
        introduction: impl Future<Output = T>,
    ) -> Option<(T, OwnedSemaphorePermit)> {
        let Self {
            place,
            turn,
            mut waiting,
        } = self;
        let mut introduction = pin!(introduction);
        let first = poll_fn(|context| Poll::Ready(introduction.as_mut().poll(context))).await;
        drop(turn);
        let introduced = match first {
            Poll::Ready(introduced) => introduced,
            Poll::Pending => tokio::select! {
                biased;
                introduced = introduction => introduced,
                _ = &mut waiting.evicted => return None,
            },
        };
        Some((introduced, place))
    }
}

impl Drop for WaitingNewcomer {
    fn drop(&mut self) {
        lock(&self.newcomers).waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::os::unix::net::UnixStream as BlockingStream;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::AsyncReadExt as _;

    use super::super::connection::ConnectionStart;
    use super::*;

    /// Lets every task that is ready run once.
    async fn one_turn() {
        let mut is_over = false;
        poll_fn(|context| {
            if std::mem::replace(&mut is_over, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    #[tokio::test]
    async fn between_two_turns_of_an_established_bridge_a_flood_gets_a_bounded_number_of_turns() {
        const FLOOD: usize = 96;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        for _ in 0..FLOOD {
            drop(BlockingStream::connect(&path).unwrap());
        }
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = accepted.clone();
        let accepting = tokio::spawn(async move {
            let admission = Admission::new();
            loop {
                let (stream, newcomer) = admission.accept(&listener).await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                let newcomer = newcomer.expect("there is room");
                tokio::spawn(newcomer.introduced(ConnectionStart::read(stream)));
            }
        });
        let bridge = tokio::spawn(async move {
            let mut most = 0;
            let mut before = 0;
            while before < FLOOD {
                one_turn().await;
                let now = accepted.load(Ordering::Relaxed);
                most = most.max(now - before);
                before = now;
            }
            most
        });
        let most = bridge.await.unwrap();
        assert!(most <= TURN_LIMIT, "{most} between two turns of the bridge");
        accepting.abort();
    }

    #[tokio::test]
    async fn silent_connections_make_room_for_newer_ones_and_those_that_spoke_keep_their_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let admission = Admission::with_newcomer_limit(3);
        let mut clients = Vec::new();
        for number in 0..5 {
            clients.push(UnixStream::connect(&path).await.unwrap());
            let (stream, newcomer) = admission.accept(&listener).await.unwrap();
            let newcomer = newcomer.expect("there is room");
            let (introduced, place) = oneshot::channel();
            tokio::spawn(async move {
                let _stream = stream;
                match number {
                    // It speaks at once.
                    0 => {
                        let place = newcomer.introduced(async {}).await.expect("there is room").1;
                        let _ = introduced.send(());
                        pending::<()>().await;
                        drop(place);
                    }
                    _ => {
                        let gone = newcomer.introduced(pending::<()>()).await;
                        assert!(gone.is_none());
                    }
                }
            });
            if number == 0 {
                place.await.unwrap();
            }
        }
        let mut byte = [0];
        assert_eq!(
            clients[1].read(&mut byte).await.unwrap(),
            0,
            "the oldest silent one"
        );
        for client in [0, 2, 3, 4] {
            let error = clients[client].try_read(&mut byte).unwrap_err();
            assert_eq!(
                error.kind(),
                io::ErrorKind::WouldBlock,
                "connection {client} is there"
            );
        }
        let waiting: Vec<u64> = lock(&admission.newcomers).waiting.keys().copied().collect();
        assert_eq!(waiting, [3, 4, 5]);
    }
}
