//! Which answers and failures of calls are reported to the keeper.

use std::sync::atomic::{AtomicBool, Ordering};

/// What the calls of one connection have shown so far.
#[derive(Default)]
pub(crate) struct CallRecord {
    proved: AtomicBool,
    failing: AtomicBool,
}

impl CallRecord {
    /// Whether to report this answered call: the first one proves the connection, and one after a failure clears the count.
    /// All others cost two atomic loads.
    pub(crate) fn answered_matters(&self) -> bool {
        let first = !self.proved.load(Ordering::Relaxed) && !self.proved.swap(true, Ordering::Relaxed);
        let mends = self.failing.load(Ordering::Acquire) && self.failing.swap(false, Ordering::AcqRel);
        first || mends
    }

    /// A call failed in transport: the next answered one matters. The failure is queued before it is noted: otherwise an
    /// answer that comes in between would be queued before the failure which it clears, and the failure would count on.
    pub(crate) fn failed(&self, queue: impl FnOnce()) {
        queue();
        self.failing.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_clears_a_failure_only_once_the_failure_is_queued() {
        let calls = CallRecord::default();
        assert!(calls.answered_matters(), "the first one proves the connection");
        assert!(!calls.answered_matters());
        calls.failed(|| {
            assert!(!calls.answered_matters(), "it would be queued before the failure");
        });
        assert!(calls.answered_matters(), "it clears the failure");
        assert!(!calls.answered_matters());
    }
}
