//! The keys of a tree that share their first 16 bytes: in Pando, the records of one directory.
//!
//! What is left of a key is kept as 128 bits in two numbers with the same order, so that comparing is an instruction or
//! two:
//!
//! ```text
//! byte 0       how many of the 16 bytes the key has (16 unless the key is shorter)
//! bytes 1–14   what follows them, padded with zeros
//! byte 15      how much follows them; 15 if it is more than 14, and then it goes on in `tail`
//! ```
//!
//! Order: a key that ends within the 16 bytes comes before all that go on. Equal padded bytes mean that the shorter
//! is a prefix of the longer one, followed by zeros: the length decides, rightly.

use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;

use crate::key::Key;
use crate::tree::arena::Slot;

pub(crate) const PREFIX_BYTES: usize = 16;
const HEAD_BYTES: usize = 14;
/// Up to so many entries a sorted vector is smaller and as fast. Most directories are small.
const FEW: usize = 16;

/// A key's first 16 bytes, padded with zeros, as a number with the same order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Prefix(pub(crate) u128);

/// The rest of a key. Two numbers instead of one keep it at 24 bytes: most of a tree's memory beside values is these.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Suffix {
    head: [u64; 2],
    /// Rare, so that it costs a pointer and not two words.
    tail: Option<Box<Tail>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Tail(Box<[u8]>);

/// Splits a key.
pub(crate) fn split(key: &[u8]) -> (Prefix, Suffix) {
    let mut prefix = [0; PREFIX_BYTES];
    let mut head = [0; 16];
    let prefix_len = key.len().min(PREFIX_BYTES);
    prefix[..prefix_len].copy_from_slice(&key[..prefix_len]);
    let rest = &key[prefix_len..];
    head[0] = prefix_len as u8;
    head[15] = rest.len().min(HEAD_BYTES + 1) as u8;
    let tail = if rest.len() <= HEAD_BYTES {
        head[1..1 + rest.len()].copy_from_slice(rest);
        None
    } else {
        head[1..15].copy_from_slice(&rest[..HEAD_BYTES]);
        Some(Box::new(Tail(rest[HEAD_BYTES..].into())))
    };
    let head = u128::from_be_bytes(head);
    let head = [(head >> 64) as u64, head as u64];
    (Prefix(u128::from_be_bytes(prefix)), Suffix { head, tail })
}

/// Puts a key together again.
pub(crate) fn join(prefix: Prefix, suffix: &Suffix) -> Key {
    let prefix = prefix.0.to_be_bytes();
    let [high, low] = suffix.head;
    let head = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
    let prefix = &prefix[..usize::from(head[0])];
    let len = usize::from(head[15]);
    match &suffix.tail {
        None => Key::join(prefix, &head[1..1 + len]),
        Some(tail) => Key::join(&[prefix, &head[1..15]].concat(), &tail.0),
    }
}

/// The entries of one prefix. `None` is a tombstone.
pub(crate) enum Branch {
    Few(Vec<(Suffix, Option<Slot>)>),
    Many(BTreeMap<Suffix, Option<Slot>>),
}

impl Branch {
    pub(crate) fn new() -> Branch {
        Branch::Few(Vec::new())
    }

    pub(crate) fn get(&self, suffix: &Suffix) -> Option<Option<Slot>> {
        match self {
            Branch::Few(entries) => {
                let position = entries.binary_search_by(|(key, _)| key.cmp(suffix)).ok()?;
                Some(entries[position].1)
            }
            Branch::Many(entries) => entries.get(suffix).copied(),
        }
    }

    /// Returns what to set the entry to, given what it was: `change(None)` if there was none.
    pub(crate) fn upsert(
        &mut self,
        suffix: Suffix,
        change: impl FnOnce(Option<Option<Slot>>) -> Option<Slot>,
    ) {
        match self {
            Branch::Few(entries) => match entries.binary_search_by(|(key, _)| key.cmp(&suffix)) {
                Ok(position) => {
                    let slot = &mut entries[position].1;
                    *slot = change(Some(*slot));
                }
                Err(position) => {
                    entries.insert(position, (suffix, change(None)));
                    if entries.len() > FEW {
                        *self = Branch::Many(std::mem::take(entries).into_iter().collect());
                    }
                }
            },
            Branch::Many(entries) => match entries.entry(suffix) {
                btree_map::Entry::Occupied(mut entry) => {
                    let slot = entry.get_mut();
                    *slot = change(Some(*slot));
                }
                btree_map::Entry::Vacant(entry) => {
                    entry.insert(change(None));
                }
            },
        }
    }

    pub(crate) fn remove(&mut self, suffix: &Suffix) -> bool {
        match self {
            Branch::Few(entries) => match entries.binary_search_by(|(key, _)| key.cmp(suffix)) {
                Ok(position) => {
                    entries.remove(position);
                    true
                }
                Err(_) => false,
            },
            Branch::Many(entries) => entries.remove(suffix).is_some(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Branch::Few(entries) => entries.len(),
            Branch::Many(entries) => entries.len(),
        }
    }

    /// Entries from a suffix on, or all.
    pub(crate) fn range(&self, from: Option<&Suffix>) -> BranchIter<'_> {
        match (self, from) {
            (Branch::Few(entries), None) => BranchIter::Few(entries.iter()),
            (Branch::Few(entries), Some(from)) => {
                let start = entries.partition_point(|(key, _)| key < from);
                BranchIter::Few(entries[start..].iter())
            }
            (Branch::Many(entries), None) => BranchIter::Many(entries.range(..)),
            (Branch::Many(entries), Some(from)) => {
                BranchIter::Many(entries.range((Bound::Included(from), Bound::Unbounded)))
            }
        }
    }
}

pub(crate) enum BranchIter<'a> {
    Few(std::slice::Iter<'a, (Suffix, Option<Slot>)>),
    Many(btree_map::Range<'a, Suffix, Option<Slot>>),
}

impl<'a> Iterator for BranchIter<'a> {
    type Item = (&'a Suffix, Option<Slot>);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            BranchIter::Few(entries) => entries.next().map(|(suffix, slot)| (suffix, *slot)),
            BranchIter::Many(entries) => entries.next().map(|(suffix, slot)| (suffix, *slot)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_small() {
        assert_eq!(size_of::<Suffix>() + size_of::<Option<Slot>>(), 24 + 12);
    }

    #[test]
    fn split_keys_keep_their_order_and_join_again() {
        // Lengths on both sides of 16 and 30, bytes that make padding matter.
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for len in [0, 1, 2, 15, 16, 17, 18, 29, 30, 31, 32, 40] {
            for fill in [0u8, 1, 255] {
                for last in [0u8, 1, 255] {
                    let mut key = vec![fill; len];
                    if let Some(byte) = key.last_mut() {
                        *byte = last;
                    }
                    keys.push(key);
                }
            }
        }
        for a in &keys {
            let (prefix, suffix) = split(a);
            assert_eq!(&*join(prefix, &suffix), &a[..]);
            for b in &keys {
                assert_eq!(split(a).cmp(&split(b)), a.cmp(b), "{a:?} {b:?}");
            }
        }
    }
}
