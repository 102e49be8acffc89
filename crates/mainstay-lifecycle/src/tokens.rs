//! The bucket of starts: whatever the cause, a server is never started more often than its tokens allow.

use crate::policy::Bucket;
use crate::time::Moment;

/// The tokens left, and when the next one comes back. Invariant: `refill_at` is set exactly while a token is missing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tokens {
    left: u32,
    refill_at: Option<Moment>,
}

impl Tokens {
    pub(crate) fn full(bucket: &Bucket) -> Self {
        Self {
            left: bucket.size.get(),
            refill_at: None,
        }
    }

    /// Takes a token, or says when the next one is there.
    pub(crate) fn take(&mut self, bucket: &Bucket, now: Moment) -> Result<(), Moment> {
        self.settle(bucket, now);
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                self.refill_at.get_or_insert(now + bucket.refill_every);
                Ok(())
            }
            None => Err(self.refill_at.unwrap_or(now)),
        }
    }

    /// Books the tokens that came back since the last look, and takes notice of a bucket that changed its size.
    pub(crate) fn settle(&mut self, bucket: &Bucket, now: Moment) {
        let size = bucket.size.get();
        if bucket.refill_every.is_zero() {
            // The loop below would refill for ever.
            self.left = size;
        }
        while self.left < size {
            let due = *self.refill_at.get_or_insert(now + bucket.refill_every);
            if due > now {
                return;
            }
            self.left += 1;
            self.refill_at = Some(due + bucket.refill_every);
        }
        *self = Self::full(bucket);
    }

    #[cfg(test)]
    pub(crate) fn shift(&mut self, shift: &impl Fn(Moment) -> Moment) {
        self.refill_at = self.refill_at.map(shift);
    }
}
