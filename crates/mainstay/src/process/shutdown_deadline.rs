//! By when everything must be gone that is being stopped, or comes to be.
//!
//! It is called from outside and heard by every stop, those that are under way included. The earliest counts, and it is
//! never lifted: whoever hears of it has but less and less time.

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// One for all processes that must be gone together. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct ShutdownDeadline(watch::Sender<Option<Instant>>);

impl Default for ShutdownDeadline {
    /// Not called yet: no stop has to hurry.
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl ShutdownDeadline {
    /// Everything must be gone by then, if it need not be earlier.
    pub(crate) fn call(&self, by: Instant) {
        self.0.send_if_modified(|at| {
            let earlier = at.is_none_or(|at| by < at);
            if earlier {
                *at = Some(by);
            }
            earlier
        });
    }

    /// By when, if it was called.
    pub(crate) fn at(&self) -> Option<Instant> {
        *self.0.borrow()
    }

    /// Comes back once it is called.
    ///
    /// Cancel safety: safe.
    pub(crate) async fn called(&self) {
        self.changed(None).await;
    }

    /// Comes back when its time is over.
    ///
    /// Cancel safety: safe.
    pub(crate) async fn over(&self) {
        loop {
            let at = self.at();
            let over = async {
                match at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = over => return,
                () = self.changed(at) => {}
            }
        }
    }

    /// Comes back when it is another than the one that is known.
    ///
    /// Cancel safety: safe.
    pub(super) async fn changed(&self, known: Option<Instant>) {
        // It cannot be gone: this is one of its ends.
        let _ = self.0.subscribe().wait_for(|at| *at != known).await;
    }
}
