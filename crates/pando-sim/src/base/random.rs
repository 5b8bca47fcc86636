//! Random numbers of a run, from one seed.

/// A stream of pseudo-random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, from all of `u64`.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`. `end` must be above 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(end)) >> 64) as u64
    }

    /// A number from `from` up to, but not including, `to`.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from)
    }

    /// True with probability `times / of`.
    pub fn chance(&mut self, times: u64, of: u64) -> bool {
        self.below(of) < times
    }

    /// One element of `of`, which must not be empty.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }

    /// A stream of its own. Drawing from it does not change this stream.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.draw())
    }
}
