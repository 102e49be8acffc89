//! What waits for a time and what does not, however slow the machine is.
//!
//! A test with real sockets and processes cannot have its time paused from the start: time would leap ahead whenever the
//! runtime waits for one of them. Here time runs as it always does, up to a point, and then stands still.

use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use crate::poll::LIMIT;

const TICK: Duration = Duration::from_millis(5);

/// The longest leap of the clock, after however long a time in which the machine did something else.
const LONGEST_STEP: Duration = Duration::from_millis(20);

/// Does the work while the clock of the runtime advances by no more than `time`, and then stands still. Work that comes to its
/// end waited for no timer that is due later; all else it waited for were events, which may be as late as the machine makes them.
///
/// # Panics
/// When the work waits for a later timer, on a runtime of several threads, and where time is paused already.
///
/// # Cancel safety
/// Not safe: time stays paused.
pub async fn within<T>(time: Duration, work: impl Future<Output = T>) -> T {
    let (ticks, mut ticked) = mpsc::channel(1);
    // As long as a blocking task runs, paused time does not advance by itself.
    spawn_blocking(move || {
        while ticks.blocking_send(()).is_ok() {
            thread::sleep(TICK);
        }
    });
    tokio::time::pause();
    let ticking = async {
        let (mut left, mut last) = (time, Instant::now());
        while !left.is_zero() || last.elapsed() < LIMIT {
            ticked.recv().await.expect("it ticks as long as somebody listens");
            if !left.is_zero() {
                let step = last.elapsed().min(LONGEST_STEP).min(left);
                (left, last) = (left - step, Instant::now());
                tokio::time::advance(step).await;
            }
        }
    };
    let done = tokio::select! {
        biased;
        done = work => Some(done),
        () = ticking => None,
    };
    tokio::time::resume();
    done.unwrap_or_else(|| panic!("it waits for a timer that is due after {time:?}"))
}

/// Time leaps ahead: whatever waits for a timer that is due by then goes on.
///
/// # Panics
/// On a runtime of several threads, and where time is paused.
///
/// # Cancel safety
/// Not safe: time stays paused.
pub async fn leap(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// So many turns that every task of the runtime that can go on has gone as far as it can, over the sockets of this machine too.
const TURNS: usize = 10_000;

/// Gives all other tasks of a runtime of one thread so many turns that none is left which can go on by itself.
///
/// # Cancel safety
/// Safe: it only waits.
pub async fn turns() {
    for _ in 0..TURNS {
        tokio::task::yield_now().await;
    }
}

/// Whether this waits for something that no other task brings about by itself.
///
/// # Cancel safety
/// As safe as `work`.
pub async fn keeps_waiting(work: &mut (impl Future + Unpin)) -> bool {
    tokio::select! {
        biased;
        _ = work => false,
        () = turns() => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_timer_that_is_due_in_time_fires_and_time_runs_on_afterwards() {
        within(
            Duration::from_millis(50),
            tokio::time::sleep(Duration::from_millis(20)),
        )
        .await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    #[tokio::test]
    async fn a_timer_that_is_due_later_does_not_fire_though_real_time_passes() {
        let sleep = tokio::time::sleep(Duration::from_millis(30));
        let (over, is_over) = tokio::sync::oneshot::channel();
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(200));
            over.send(())
        });
        let came_first = within(Duration::from_millis(10), async {
            tokio::select! {
                () = sleep => "the timer",
                _ = is_over => "the event",
            }
        });
        assert_eq!(came_first.await, "the event");
    }
}
