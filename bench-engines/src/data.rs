//! The records that all engines store. They resemble a file system's directory entries.
//!
//! ```text
//! key     directory id (16) ‖ kind (1) ‖ order (8)                                   25 bytes
//! value   ino (8) ‖ version, kind, mode, owner, links, size, times (44) ‖ name       64 to 100 bytes
//! ```
//!
//! Directory ids and orders are hashes. A value has the entropy of real attributes. Owners and
//! modes repeat, times share their high bytes, sizes are small, and names are words and digits.
//! Every value identifies its record. So an engine's answer is checked by two comparisons.

/// Length of every key.
pub const KEY_BYTES: usize = 25;
/// The longest value.
pub const MAX_VALUE_BYTES: usize = 100;
/// The kind of most records.
pub const ENTRY: u8 = 4;

/// Where the name begins in a value.
const NAME_OFFSET: usize = 52;
/// Number of forms from which values are made.
const FORMS: u64 = 4096;

/// A key.
pub type Key = [u8; KEY_BYTES];

/// A bijection whose results look random (the finaliser of SplitMix64).
pub fn scatter(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The numbers below `count` in a random order that is equal in every run.
pub fn shuffled(count: u64) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count as u32).collect();
    for position in (1..numbers.len()).rev() {
        let other = scatter(0x5eed ^ position as u64) % (position as u64 + 1);
        numbers.swap(position, other as usize);
    }
    numbers
}

/// The records of one namespace, by number from 0.
pub struct Records {
    per_directory: u64,
    forms: Vec<(usize, [u8; MAX_VALUE_BYTES])>,
}

/// Parts of a value that an engine has read. They identify the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Glance {
    /// Its first eight bytes.
    pub ino: u64,
    /// Its length.
    pub len: usize,
    /// Its last byte.
    pub last: u8,
}

/// The result of a scan. It depends on the key and the value of every entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// Number of entries.
    pub entries: u64,
    /// Sum of each value's first eight bytes and last byte, and of each key's last byte. It wraps
    /// around.
    pub sum: u64,
}

impl Glance {
    /// Reads the parts of a value. A value that is too short gives zeros.
    #[inline]
    pub fn of(value: &[u8]) -> Glance {
        match value.first_chunk() {
            Some(&ino) => Glance {
                ino: u64::from_le_bytes(ino),
                len: value.len(),
                last: value[value.len() - 1],
            },
            None => Glance { ino: 0, len: 0, last: 0 },
        }
    }
}

impl Sum {
    /// Adds an entry.
    #[inline]
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        let glance = Glance::of(value);
        let ends = u64::from(glance.last) + u64::from(key[key.len() - 1]);
        self.entries += 1;
        self.sum = self.sum.wrapping_add(glance.ino).wrapping_add(ends);
    }
}

impl Records {
    /// The records of a namespace whose directories have `per_directory` entries each.
    pub fn new(per_directory: u64) -> Records {
        Records { per_directory, forms: (0..FORMS).map(form).collect() }
    }

    /// Number of entries of a directory.
    pub fn per_directory(&self) -> u64 {
        self.per_directory
    }

    /// The directory id of a record, which is the prefix of its key.
    pub fn directory(&self, number: u64) -> [u8; 16] {
        directory_id(number / self.per_directory)
    }

    /// The key of a record.
    pub fn key(&self, number: u64) -> Key {
        key(number / self.per_directory, ENTRY, number)
    }

    /// A key that no record has, in the directory of record `number`.
    pub fn absent_key(&self, number: u64) -> Key {
        key(number / self.per_directory, ENTRY, number | 1 << 62)
    }

    /// Writes the value of a record to `out` and returns it. Values of different generations differ
    /// in their times.
    #[inline]
    pub fn value<'a>(
        &self,
        number: u64,
        generation: u64,
        out: &'a mut [u8; MAX_VALUE_BYTES],
    ) -> &'a [u8] {
        let (len, form) = self.form(number);
        *out = *form;
        out[..8].copy_from_slice(&ino(number).to_le_bytes());
        let nanoseconds = scatter(number ^ generation << 40) as u32 % 1_000_000_000;
        out[40..44].copy_from_slice(&nanoseconds.to_le_bytes());
        &out[..*len]
    }

    /// Whether a lookup has returned the value of record `number`.
    #[inline]
    pub fn is(&self, number: u64, glance: Option<Glance>) -> bool {
        let (len, form) = self.form(number);
        glance == Some(Glance { ino: ino(number), len: *len, last: form[*len - 1] })
    }

    /// The result of a scan over these records.
    pub fn sum(&self, numbers: impl Iterator<Item = u64>) -> Sum {
        let mut sum = Sum::default();
        let mut value = [0; MAX_VALUE_BYTES];
        for number in numbers {
            sum.add(&self.key(number), self.value(number, 0, &mut value));
        }
        sum
    }

    fn form(&self, number: u64) -> &(usize, [u8; MAX_VALUE_BYTES]) {
        &self.forms[(scatter(number) % FORMS) as usize]
    }
}

/// The key of the record `number` of this kind, in a directory of the namespace.
#[inline]
pub fn key(directory: u64, kind: u8, number: u64) -> Key {
    let mut key = [kind; KEY_BYTES];
    key[..16].copy_from_slice(&directory_id(directory));
    key[17..].copy_from_slice(&scatter(number).to_be_bytes());
    key
}

fn directory_id(directory: u64) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&scatter(directory | 1 << 60).to_be_bytes());
    id[8..].copy_from_slice(&scatter(directory | 1 << 61).to_be_bytes());
    id
}

/// The inode number of a record, as if each of 256 slots counted up its own range.
fn ino(number: u64) -> u64 {
    (scatter(number) >> 56) << 48 | number
}

/// Attributes and name of a file. Returns the length of the value and its bytes.
fn form(number: u64) -> (usize, [u8; MAX_VALUE_BYTES]) {
    const WORDS: [&str; 16] = [
        "report", "image", "module", "index", "test", "data", "backup", "part", "draft", "main",
        "util", "photo", "session", "cache", "config", "result",
    ];
    const ENDINGS: [&str; 8] = [".txt", ".jpg", ".rs", ".json", ".log", ".o", ".tar.gz", ".h5"];
    let dice = |salt: u64| scatter(number << 8 | salt | 1 << 59);
    let mut value = [0; MAX_VALUE_BYTES];
    value[8] = 1;
    value[9] = ENTRY;
    let mode: u16 = [0o644, 0o644, 0o644, 0o600, 0o755, 0o664, 0o640, 0o444][dice(0) as usize % 8];
    value[10..12].copy_from_slice(&(0o100_000 | mode).to_le_bytes());
    let owner = 1000 + dice(1) as u32 % 8;
    value[12..16].copy_from_slice(&owner.to_le_bytes());
    value[16..20].copy_from_slice(&owner.to_le_bytes());
    value[20] = 1;
    // Sizes are spread evenly over their logarithms: as many from 1 to 2 KiB as from 1 to 2 MiB.
    let size = (1 << (dice(2) % 24)) + dice(3) % (1 << (dice(2) % 24));
    value[24..32].copy_from_slice(&size.to_le_bytes());
    let seconds = 1_700_000_000 + dice(4) % (1 << 22);
    value[32..40].copy_from_slice(&seconds.to_le_bytes());
    value[44..48].copy_from_slice(&((seconds + dice(5) % 60) as u32).to_le_bytes());
    value[48..52].copy_from_slice(&(dice(6) as u32 % 1_000_000_000).to_le_bytes());
    let name_len = 12 + (dice(7) % 37) as usize;
    let mut name = format!("{:04}", dice(8) % 10_000);
    let mut salt = 9;
    while name.len() < name_len {
        name = format!("{}_{name}", WORDS[dice(salt) as usize % WORDS.len()]);
        salt += 1;
    }
    name.push_str(ENDINGS[dice(salt) as usize % ENDINGS.len()]);
    let tail = &name.as_bytes()[name.len() - name_len..];
    value[NAME_OFFSET..NAME_OFFSET + name_len].copy_from_slice(tail);
    (NAME_OFFSET + name_len, value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_are_distinct_and_absent_ones_are_absent() {
        let records = Records::new(10);
        let keys: BTreeSet<Key> = (0..1000).map(|number| records.key(number)).collect();
        assert_eq!(keys.len(), 1000);
        assert!((0..1000).all(|number| !keys.contains(&records.absent_key(number))));
        assert!((0..10).all(|number| records.key(number).starts_with(&records.directory(0))));
        assert!(!records.key(10).starts_with(&records.directory(0)));
    }

    #[test]
    fn values_have_their_length_and_are_told_apart() {
        let records = Records::new(10);
        let mut lengths = BTreeSet::new();
        for number in 0..5000 {
            let mut out = [0; MAX_VALUE_BYTES];
            let value = records.value(number, 0, &mut out);
            lengths.insert(value.len());
            assert!(records.is(number, Some(Glance::of(value))));
            assert!(!records.is(number + 1, Some(Glance::of(value))));
        }
        assert_eq!((lengths.first(), lengths.last()), (Some(&64), Some(&100)));
        assert!(!records.is(0, None));
    }

    #[test]
    fn a_shuffle_loses_nothing() {
        let mut numbers = shuffled(1000);
        assert_ne!(numbers, (0..1000).collect::<Vec<_>>());
        numbers.sort_unstable();
        assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
    }
}
