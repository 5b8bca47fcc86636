//! Random numbers from a seed (xorshift64*): one seed gives one test.

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `end`, which must not be 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        if items.is_empty() { None } else { items.get(self.below(items.len() as u64) as usize) }
    }
}

/// The seed in the environment variable, to repeat one run. Without it, the first `few` seeds, or
/// with `PANDO_LONG` a hundred times as many.
pub fn seeds(variable: &str, few: u64) -> std::ops::Range<u64> {
    if let Some(seed) = std::env::var(variable).ok().and_then(|seed| seed.parse().ok()) {
        return seed..seed + 1;
    }
    let is_long = std::env::var_os("PANDO_LONG").is_some();
    1..1 + few * if is_long { 100 } else { 1 }
}
