//! A panic in a task as a value: the end of every task of a keeper is a report, however the task ends.
//!
//! A task that the keeper aborts itself reports nothing: the keeper has let go of its generation before.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use crate::PlainText;

/// How much of a panic's message is kept.
const MESSAGE_LIMIT: usize = 512;

/// A task that panicked. Everything that it held was dropped.
#[derive(Clone, Debug, thiserror::Error)]
#[error("its task panicked: {0}")]
pub(crate) struct Panicked(String);

/// Runs a future to its end, and returns its panic if that is how it ends.
///
/// Cancel safety: that of the future.
pub(super) async fn caught<F: Future>(future: F) -> Result<F::Output, Panicked> {
    let mut future = pin!(future);
    // A future that panicked is not polled again, so nothing sees what it left half done.
    poll_fn(
        move |context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(Panicked::of(&*panic))),
        },
    )
    .await
}

impl Panicked {
    fn of(panic: &(dyn Any + Send)) -> Self {
        let message = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("it says no more");
        Self(PlainText::line(message).cut(MESSAGE_LIMIT).into_string())
    }
}
