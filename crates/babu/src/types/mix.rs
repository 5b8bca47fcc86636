//! Hashing by multiplication, for numbers that are random where it matters. So no attacker can
//! direct them at one bucket.

use std::hash::Hasher;

/// Mixes 16 bytes into a hash.
#[inline]
pub(crate) fn mix(number: u128) -> u64 {
    const ODD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let mixed = number.wrapping_mul(ODD);
    let folded = (mixed >> 64) as u64 ^ mixed as u64;
    folded.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ folded
}

/// A hasher for standard maps that uses [`mix`].
#[derive(Default)]
pub(crate) struct Mixer(u64);

impl Mixer {
    fn add(&mut self, number: u64) {
        self.0 = mix(u128::from(number ^ self.0));
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.add(u64::from(byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.add(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.add(number);
    }
}
