//! A filter: says "not there" of most keys that are not in a file, without a read.
//!
//! A Bloom filter in lines of 64 bytes: all bits of a key are in one line, so that a question costs one access to memory.
//! With 10 bits a key about 1 absent key in 80 is not recognized.
//!
//! Only the first `prefix_bytes` of a key count. Where longer keys are details of what their beginning names, one
//! question answers for all of them: "is there anything at all that begins so?"

use xxhash_rust::xxh3::xxh3_64;

const BITS_PER_KEY: usize = 10;
const PROBES: usize = 6;
const LINE_BYTES: usize = 64;
const LINE_BITS: u64 = LINE_BYTES as u64 * 8;

/// Hash of as much of a key as a filter looks at.
pub(crate) fn hash(key: &[u8], prefix_bytes: usize) -> u64 {
    xxh3_64(&key[..key.len().min(prefix_bytes)])
}

/// Builds the bits from hashes; one that follows its like counts once.
pub(crate) fn build(hashes: &[u64]) -> Vec<u8> {
    let mut bits = empty(hashes.len());
    for &hash in hashes {
        add(&mut bits, hash);
    }
    bits
}

/// Bits with room for so many keys.
pub(crate) fn empty(keys: usize) -> Vec<u8> {
    vec![0; (keys * BITS_PER_KEY).div_ceil(LINE_BYTES * 8) * LINE_BYTES]
}

/// For how many keys so many bytes of bits have room.
pub(crate) fn keys_of(bytes: usize) -> usize {
    bytes * 8 / BITS_PER_KEY
}

/// Adds a key to bits that are not none.
#[inline]
pub(crate) fn add(bits: &mut [u8], hash: u64) {
    let start = line_of(hash, bits.len() / LINE_BYTES);
    let line = &mut bits[start..][..LINE_BYTES];
    for bit in probes(hash) {
        line[bit / 8] |= 1 << (bit % 8);
    }
}

/// Whether a key of this hash may be there. Without bits everything may.
pub(crate) fn may_contain(bits: &[u8], hash: u64) -> bool {
    let lines = bits.len() / LINE_BYTES;
    if lines == 0 {
        return true;
    }
    let line = line(bits, hash);
    probes(hash).all(|bit| line[bit / 8] & (1 << (bit % 8)) != 0)
}

/// The line of a hash, of bits that are not none.
fn line(bits: &[u8], hash: u64) -> &[u8] {
    &bits[line_of(hash, bits.len() / LINE_BYTES)..][..LINE_BYTES]
}

/// The high half of the hash picks the line.
fn line_of(hash: u64, lines: usize) -> usize {
    (((hash >> 32) * lines as u64) >> 32) as usize * LINE_BYTES
}

/// The low half picks the bits: a start and an odd distance.
fn probes(hash: u64) -> impl Iterator<Item = usize> {
    let start = hash & (LINE_BITS - 1);
    let distance = (hash >> 9) & (LINE_BITS - 1) | 1;
    // A third part keeps keys apart that agree in both.
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
            let bits = build(&hashes);
            assert!(bits.len() as u64 * 8 <= count * 10 + 512);
            assert!(hashes.iter().all(|&hash| may_contain(&bits, hash)));
            let wrong = (count..count + 100_000)
                .filter(|&number| may_contain(&bits, hash(&key(number), 26)))
                .count();
            assert!(wrong < 2000, "{wrong} of 100,000 at {count}");
        }
    }

    #[test]
    fn keys_with_one_beginning_are_one() {
        let long = [&key(5)[..], b"suffix"].concat();
        assert_eq!(hash(&long, 26), hash(&key(5), 26));
        assert_ne!(hash(&long, 27), hash(&key(5), 27));
        assert!(may_contain(&build(&[]), 99), "no bits: no answer");
        assert!(keys_of(empty(1000).len()) >= 1000);
    }
}
