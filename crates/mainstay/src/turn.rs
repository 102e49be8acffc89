//! How much a task does for one peer before everybody else has a turn.
//!
//! A peer that writes faster than it is read keeps its reader busy without end: there is always something more to read, so
//! the reader's task never waits. On a runtime of one thread nothing else runs meanwhile, timers and signals included. So
//! every loop that reads from a peer counts what it does, and yields when its turn is over. To yield is to let all other
//! tasks run that can, and then the drivers of timers and of input.

use std::pin::pin;
use std::task::{Context, Poll};

use tokio::task::yield_now;

/// What a loop has done for its peer since it last let the others run.
#[derive(Debug, Default)]
pub struct Turn {
    messages: u32,
    bytes: usize,
}

impl Turn {
    /// Messages in one turn, or pieces of one. Each costs some microseconds, and some tens where a gateway passes it on: a
    /// turn is a millisecond at the most, and to yield costs little beside it.
    pub const MESSAGES: u32 = 32;

    /// Bytes in one turn. To look through so many takes less than a tenth of a millisecond.
    pub const BYTES: usize = 256 * 1024;

    /// A turn that has just begun.
    pub const fn new() -> Self {
        Self {
            messages: 0,
            bytes: 0,
        }
    }

    /// Counts one message, or one piece of one.
    pub fn count_message(&mut self) {
        self.messages = self.messages.saturating_add(1);
    }

    /// Counts bytes.
    pub fn count_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Whether others should have a turn now.
    pub fn is_over(&self) -> bool {
        self.messages >= Self::MESSAGES || self.bytes >= Self::BYTES
    }

    /// Lets the others have a turn, if this one is over.
    ///
    /// Cancel safety: dropping it loses nothing; the turn counts as over where it began to yield.
    pub async fn yield_if_over(&mut self) {
        if self.is_over() {
            *self = Self::new();
            yield_now().await;
        }
    }

    /// The same for a poll function: `Pending` if the turn is over. The task is woken when the others have had theirs.
    pub fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_over() {
            return Poll::Ready(());
        }
        *self = Self::new();
        // Polled once, it asks the runtime for just that.
        pin!(yield_now()).poll(cx)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;

    /// The turns of one task that the runtime may put between two of another: it wakes those that yield in changing order.
    pub(crate) const TURNS_IN_A_ROW: u32 = 4;

    /// Counts, until `counter` has reached `total`, the most that is added to it between two turns of another task. It is
    /// for a runtime of one thread.
    pub(crate) async fn most_in_between(counter: Arc<AtomicU32>, total: u32) -> u32 {
        let watching = async move {
            let (mut last, mut most) = (0, 0);
            while last < total {
                yield_now().await;
                let now = counter.load(Ordering::Relaxed);
                most = most.max(now - last);
                last = now;
            }
            most
        };
        tokio::spawn(watching).await.expect("counted")
    }

    #[test]
    fn a_turn_is_over_after_so_many_messages_or_bytes() {
        let mut turn = Turn::new();
        (1..Turn::MESSAGES).for_each(|_| turn.count_message());
        assert!(!turn.is_over());
        turn.count_message();
        assert!(turn.is_over());

        let mut turn = Turn::new();
        turn.count_bytes(Turn::BYTES - 1);
        assert!(!turn.is_over());
        turn.count_bytes(1);
        assert!(turn.is_over());
    }

    #[tokio::test]
    async fn everybody_else_runs_between_two_turns_and_timers_fire() {
        let others = Arc::new(AtomicU32::new(0));
        let other = tokio::spawn({
            let others = others.clone();
            async move {
                loop {
                    others.fetch_add(1, Ordering::Relaxed);
                    yield_now().await;
                }
            }
        });
        let timer = tokio::time::sleep(Duration::from_millis(1));
        let mut timer = pin!(timer);
        let endless = async {
            let mut turn = Turn::new();
            loop {
                let before = others.load(Ordering::Relaxed);
                (0..Turn::MESSAGES).for_each(|_| turn.count_message());
                turn.yield_if_over().await;
                assert!(others.load(Ordering::Relaxed) > before);
            }
        };
        tokio::select! {
            biased;
            () = endless => {}
            () = &mut timer => {}
        }
        other.abort();
    }
}
