//! Reading along what servers write to stderr. A follower never holds the server up: what it does not read in time is lost to it,
//! and it is told how much.

use std::sync::OnceLock;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Pieces that wait for a follower: lines, or what was read from the pipe at a time. Together at most 1 MiB of bytes.
const MAX_PENDING: usize = 64;

/// A reader of what a server writes to stderr, from the moment of its making, across restarts.
#[derive(Debug)]
pub struct StderrFollower<T>(broadcast::Receiver<T>);

/// What a follower of stderr gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed<T> {
    /// The next that was written.
    Wrote(T),
    /// The follower was too slow: so many pieces are lost to it. The next one follows.
    Missed(u64),
}

impl<T: Clone> StderrFollower<T> {
    /// The next that the server writes; `None` when the server is gone, with every handle of it.
    ///
    /// Cancel safety: dropping it loses nothing.
    pub async fn next(&mut self) -> Option<Followed<T>> {
        match self.0.recv().await {
            Ok(written) => Some(Followed::Wrote(written)),
            Err(RecvError::Lagged(missed)) => Some(Followed::Missed(missed)),
            Err(RecvError::Closed) => None,
        }
    }
}

/// All followers of one server. Costs nothing until there is one.
pub(super) struct Followers<T>(OnceLock<broadcast::Sender<T>>);

impl<T: Clone> Followers<T> {
    pub(super) fn join(&self) -> StderrFollower<T> {
        let sender = self.0.get_or_init(|| broadcast::Sender::new(MAX_PENDING));
        StderrFollower(sender.subscribe())
    }

    pub(super) fn tell(&self, written: impl FnOnce() -> T) {
        let sender = self.0.get().filter(|sender| sender.receiver_count() > 0);
        if let Some(sender) = sender {
            // The last follower may just have left.
            let _ = sender.send(written());
        }
    }
}

impl<T> Default for Followers<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}
