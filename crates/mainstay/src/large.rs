//! Large payloads are never taken apart on a thread of the runtime: whatever else runs there would wait.

use std::future::pending;
use std::panic::resume_unwind;

use tokio::task::spawn_blocking;

/// What is longer is taken apart on a thread that may block. To look through so many bytes takes some tenths of a
/// millisecond; to hand them to another thread and back takes about one tenth.
pub const INLINE_LIMIT: usize = 1024 * 1024;

/// Does work on a payload of this many bytes: here where it is short, and on a thread that may block where it is long.
///
/// Cancel safety: when the future is dropped, work that has begun on another thread is finished there, and its result lost.
pub async fn process<T: Send + 'static>(length: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
    if length <= INLINE_LIMIT {
        return work();
    }
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime is being shut down, and this task with it.
            Err(_cancelled) => pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn only_what_is_large_goes_to_another_thread() {
        let here = thread::current().id();
        let on = |length| process(length, || thread::current().id());
        assert_eq!(on(INLINE_LIMIT).await, here);
        assert_ne!(on(INLINE_LIMIT + 1).await, here);
    }

    #[tokio::test]
    #[should_panic(expected = "seen by the one who waits")]
    async fn a_panic_over_there_is_a_panic_here() {
        process::<()>(INLINE_LIMIT + 1, || panic!("seen by the one who waits")).await;
    }
}
