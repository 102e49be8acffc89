//! Waiting for what gives no event: what `/proc` shows, and the files and ports of another program.
//!
//! The one place where a test sleeps and looks again. Whatever says when it is done is awaited instead.

use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything takes on a machine with too much to do; reached only by a test that fails.
pub const LIMIT: Duration = Duration::from_secs(60);

const INTERVAL: Duration = Duration::from_millis(5);

/// Whether the condition comes true before `limit` has passed. Blocks the thread.
pub fn comes_true(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    look_for(limit, || holds().then_some(())).is_some()
}

/// As [`comes_true`], without blocking the thread.
///
/// # Cancel safety
/// Safe: it only looks.
pub async fn comes_true_async(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    look_for_async(limit, || holds().then_some(())).await.is_some()
}

/// The first thing that `look` finds; `None` when `limit` has passed first. Blocks the thread.
pub fn look_for<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        let found = look();
        if found.is_some() || Instant::now() >= deadline {
            return found;
        }
        thread::sleep(INTERVAL);
    }
}

/// As [`look_for`], without blocking the thread.
///
/// # Cancel safety
/// Safe: it only looks.
pub async fn look_for_async<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        let found = look();
        if found.is_some() || Instant::now() >= deadline {
            return found;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Asks somebody else again and again, until there is an answer; `None` when `limit` has passed first.
///
/// # Cancel safety
/// As safe as what is asked.
pub async fn ask_for<T>(limit: Duration, mut ask: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        let answer = ask().await;
        if answer.is_some() || Instant::now() >= deadline {
            return answer;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
