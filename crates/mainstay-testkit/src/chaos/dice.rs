//! Chance that can be repeated.

/// A small generator (xorshift64*): the same seed and role, the same throws.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice of their own for each role in a run.
    #[must_use]
    pub fn new(seed: u64, role: usize) -> Self {
        let mut dice = Self((seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (role as u64 + 1)) | 1);
        // The first throws of seeds that are alike are alike.
        for _ in 0..8 {
            dice.below(2);
        }
        dice
    }

    /// A number below `limit`, which is not zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }

    /// A place in something of this length, which is not zero.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("below a length")
    }
}
