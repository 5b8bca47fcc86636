//! A filter: tells without a read that a file does not have a key, for most absent keys.
//!
//! It is a Bloom filter in lines of 64 bytes. All bits of a key are in one line, so a question
//! costs one memory access. With 10 bits a key, about 1 absent key in 80 is not recognized.
//!
//! Only the first `prefix_bytes` of a key count. Longer keys may be details of what their beginning
//! names. One question then answers for all of them: does any key begin so?

use xxhash_rust::xxh3::xxh3_64;

use crate::types::prefetch as hints;

const BITS_PER_KEY: usize = 10;
const PROBES: usize = 6;
const LINE_BYTES: usize = 64;
const LINE_BITS: u64 = LINE_BYTES as u64 * 8;

/// Hash of the part of a key that a filter looks at.
pub(crate) fn hash(key: &[u8], prefix_bytes: usize) -> u64 {
    xxh3_64(&key[..key.len().min(prefix_bytes)])
}

/// The bits of a filter. Each line is aligned to a cache line of the processor.
#[derive(Default)]
pub(crate) struct Filter {
    /// One line longer than the bits, so that they can begin at an aligned address.
    memory: Box<[u8]>,
}

impl Filter {
    /// A filter with room for this many keys.
    pub(crate) fn with_room(keys: usize) -> Filter {
        Filter::of_lines((keys * BITS_PER_KEY).div_ceil(LINE_BITS as usize))
    }

    fn of_lines(lines: usize) -> Filter {
        let spare = usize::from(lines > 0);
        Filter { memory: vec![0; (lines + spare) * LINE_BYTES].into() }
    }

    #[inline]
    fn lines(&self) -> usize {
        (self.memory.len() / LINE_BYTES).saturating_sub(1)
    }

    /// Offset of the first line in `memory`.
    #[inline]
    fn start(&self) -> usize {
        self.memory.as_ptr().align_offset(LINE_BYTES)
    }

    /// A filter with these hashes, and room for this many times as many.
    pub(crate) fn build(hashes: &[u64], sparseness: usize) -> Filter {
        let mut filter = Filter::with_room(hashes.len() * sparseness);
        for &hash in hashes {
            filter.add(hash);
        }
        filter
    }

    /// A filter from bytes that [`Filter::bytes`] returned.
    pub(crate) fn read(bytes: &[u8]) -> Filter {
        let mut filter = Filter::of_lines(bytes.len() / LINE_BYTES);
        let (start, len) = (filter.start(), filter.len());
        if let Some(bits) = filter.memory.get_mut(start..start + len) {
            bits.copy_from_slice(&bytes[..len]);
        }
        filter
    }

    /// A filter that denies no key.
    pub(crate) fn of_all() -> Filter {
        Filter::read(&[0xFF; LINE_BYTES])
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.memory.get(self.start()..self.start() + self.len()).unwrap_or_default()
    }

    /// Length of the bits in bytes.
    pub(crate) fn len(&self) -> usize {
        self.lines() * LINE_BYTES
    }

    /// Number of keys for which there is room.
    pub(crate) fn room(&self) -> usize {
        self.len() * 8 / BITS_PER_KEY
    }

    /// Adds the hash of a key. Does nothing in a filter without bits.
    #[inline]
    pub(crate) fn add(&mut self, hash: u64) {
        let start = self.start() + line_of(hash, self.lines());
        if let Some(line) = self.memory.get_mut(start..start + LINE_BYTES) {
            for bit in probes(hash) {
                line[bit / 8] |= 1 << (bit % 8);
            }
        }
    }

    /// Prefetches the memory that a question for this hash reads.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Some(line) = self.line(hash) {
            hints::prefetch_line(line);
        }
    }

    /// False only if no key of this hash was added. A filter without bits answers true.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        self.line(hash)
            .is_none_or(|line| probes(hash).all(|bit| line[bit / 8] & (1 << (bit % 8)) != 0))
    }

    /// The line of a hash. `None` in a filter without bits.
    #[inline]
    fn line(&self, hash: u64) -> Option<&[u8]> {
        let start = self.start() + line_of(hash, self.lines());
        self.memory.get(start..start + LINE_BYTES)
    }
}

/// Offset of a hash's line. The high half of the hash picks it.
fn line_of(hash: u64, lines: usize) -> usize {
    (((hash >> 32) * lines as u64) >> 32) as usize * LINE_BYTES
}

/// Bits of a hash in its line. The low half of the hash gives a start and an odd distance.
fn probes(hash: u64) -> impl Iterator<Item = usize> {
    let start = hash & (LINE_BITS - 1);
    let distance = (hash >> 9) & (LINE_BITS - 1) | 1;
    // Further bits of the hash tell keys apart that have equal start and distance.
    let bend = (hash >> 18) & 0x3fff;
    (0..PROBES as u64).map(move |n| {
        ((start + n * distance + (bend.wrapping_mul(n * n) >> 5)) & (LINE_BITS - 1)) as usize
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> [u8; 26] {
        let mut key = [7; 26];
        key[18..].copy_from_slice(&number.to_be_bytes());
        key
    }

    #[test]
    fn every_key_is_found_and_few_others_are() {
        for count in [1u64, 10, 1000, 100_000] {
            let hashes: Vec<_> = (0..count).map(|number| hash(&key(number), 26)).collect();
            let bits = Filter::build(&hashes, 1);
            assert!(bits.len() as u64 * 8 <= count * 10 + 512);
            assert!(bits.bytes().as_ptr().addr().is_multiple_of(LINE_BYTES));
            assert!(hashes.iter().all(|&hash| bits.may_contain(hash)));
            let read = Filter::read(bits.bytes());
            assert_eq!(read.bytes(), bits.bytes());
            let wrong = (count..count + 100_000)
                .filter(|&number| read.may_contain(hash(&key(number), 26)))
                .count();
            assert!(wrong < 2000, "{wrong} of 100,000 at {count}");
        }
    }

    #[test]
    fn keys_with_one_beginning_are_one() {
        let long = [&key(5)[..], b"suffix"].concat();
        assert_eq!(hash(&long, 26), hash(&key(5), 26));
        assert_ne!(hash(&long, 27), hash(&key(5), 27));
        assert!(Filter::build(&[], 1).may_contain(99), "no bits: no answer");
        assert!(Filter::with_room(1000).room() >= 1000);
    }
}
