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

    /// Books the tokens that came back since the last look.
    pub(crate) fn settle(&mut self, bucket: &Bucket, now: Moment) {
        let size = bucket.size.get();
        while let Some(due) = self.refill_at.filter(|due| *due <= now) {
            self.left = self.left.saturating_add(1);
            let next = due + bucket.refill_every;
            // A period of zero would refill for ever: the bucket is simply full then.
            self.refill_at = (self.left < size && next > due).then_some(next);
        }
        if self.left >= size {
            *self = Self::full(bucket);
        }
    }

    #[cfg(test)]
    pub(crate) fn shift(&mut self, shift: &impl Fn(Moment) -> Moment) {
        self.refill_at = self.refill_at.map(shift);
    }
}
