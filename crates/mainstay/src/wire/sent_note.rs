//! Whether a request may have run, for a caller that may drop it before it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::failure::Outcome;

/// Notes whether a call may have run. A caller that drops the call before it has ended finds the outcome here.
#[derive(Clone, Debug, Default)]
pub struct SentNote(Arc<AtomicBool>);

impl SentNote {
    /// What is known of the call, once its future was dropped: [`Outcome::NotSent`] or [`Outcome::Unknown`].
    pub fn outcome(&self) -> Outcome {
        match self.0.load(Relaxed) {
            true => Outcome::Unknown,
            false => Outcome::NotSent,
        }
    }

    /// Notes how the request, or one round of it, ended.
    pub(super) fn note(&self, outcome: Outcome) {
        match outcome {
            Outcome::Unknown | Outcome::Answered => self.0.store(true, Relaxed),
            Outcome::NotSent | Outcome::Refused => {}
        }
    }
}
