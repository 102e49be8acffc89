//! The bucket of starts. Starts that lead to no completed call never come more often than its tokens allow. A start whose
//! connection completes a call gives its token back.

use crate::policy::Bucket;
use crate::time::Moment;

/// The tokens left, and when the next one returns. Invariant: `refill_at` is set exactly while a token is missing.
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

    /// The tokens left, and when the next one returns.
    pub(crate) const fn left(&self) -> (u32, Option<Moment>) {
        (self.left, self.refill_at)
    }

    /// Takes a token, or returns the moment of the next one.
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

    /// Takes back the token of a start that led to a completed call.
    pub(crate) fn give_back(&mut self, bucket: &Bucket, now: Moment) {
        self.left = self.left.saturating_add(1);
        self.settle(bucket, now);
    }

    /// Adds the tokens that returned since the last call, and adapts to a bucket of another size.
    pub(crate) fn settle(&mut self, bucket: &Bucket, now: Moment) {
        let size = bucket.size.get();
        if bucket.refill_every.is_zero() {
            // The loop below would never end.
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

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use super::Tokens;
    use crate::policy::Bucket;
    use crate::time::Moment;

    fn bucket(size: u32, refill_secs: u64) -> Bucket {
        Bucket {
            size: NonZeroU32::new(size).expect("a bucket holds something"),
            refill_every: Duration::from_secs(refill_secs),
        }
    }

    fn at(secs: u64) -> Moment {
        Moment::new(Duration::from_secs(secs))
    }

    #[test]
    fn a_full_bucket_gives_its_size_at_once_and_then_one_in_each_period() {
        let bucket = bucket(2, 6);
        let mut tokens = Tokens::full(&bucket);
        assert_eq!(tokens.take(&bucket, at(0)), Ok(()));
        assert_eq!(tokens.take(&bucket, at(1)), Ok(()));
        assert_eq!(tokens.take(&bucket, at(1)), Err(at(6)));
        assert_eq!(tokens.take(&bucket, at(6)), Ok(()));
        assert_eq!(tokens.take(&bucket, at(11)), Err(at(12)));
        assert_eq!(tokens.take(&bucket, at(12)), Ok(()));
    }

    #[test]
    fn a_long_rest_fills_the_bucket_and_no_more() {
        let bucket = bucket(2, 6);
        let mut tokens = Tokens::full(&bucket);
        assert_eq!(tokens.take(&bucket, at(0)), Ok(()));
        tokens.settle(&bucket, at(1_000));
        assert_eq!(tokens, Tokens::full(&bucket));
    }

    #[test]
    fn a_token_that_is_given_back_is_there_at_once_and_brings_no_other_sooner() {
        let bucket = bucket(2, 6);
        let mut tokens = Tokens::full(&bucket);
        assert_eq!(tokens.take(&bucket, at(0)), Ok(()));
        assert_eq!(tokens.take(&bucket, at(1)), Ok(()));
        tokens.give_back(&bucket, at(2));
        assert_eq!(tokens.take(&bucket, at(2)), Ok(()));
        assert_eq!(tokens.take(&bucket, at(2)), Err(at(6)));
    }

    #[test]
    fn a_token_that_is_given_back_to_a_full_bucket_is_dropped() {
        let bucket = bucket(2, 6);
        let mut tokens = Tokens::full(&bucket);
        assert_eq!(tokens.take(&bucket, at(0)), Ok(()));
        tokens.give_back(&bucket, at(7));
        assert_eq!(tokens, Tokens::full(&bucket));
    }

    #[test]
    fn a_period_of_zero_never_makes_a_start_wait() {
        let (slow, instant) = (bucket(3, 6), bucket(3, 0));
        let mut tokens = Tokens::full(&slow);
        for _ in 0..3 {
            assert_eq!(tokens.take(&slow, at(0)), Ok(()));
        }
        for _ in 0..10 {
            assert_eq!(tokens.take(&instant, at(0)), Ok(()));
        }
    }

    #[test]
    fn a_bucket_that_shrinks_keeps_no_more_than_it_holds() {
        let (wide, narrow) = (bucket(5, 6), bucket(1, 6));
        let mut tokens = Tokens::full(&wide);
        assert_eq!(tokens.take(&narrow, at(0)), Ok(()));
        assert_eq!(tokens.take(&narrow, at(0)), Err(at(6)));
    }
}
