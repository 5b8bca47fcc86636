//! Texts: long names, and what else belongs to a node. Records of 320 bytes, in a chain.
//!
//! A text counts if a node that counts names it. So it has no word that makes it count, but that of
//! its node's number: a text that was given to another node is not taken for the old one.
//!
//! ```text
//! 0 ino of the node | 8 next u32 (0: none), length u32 | 16 bytes, 304
//! ```

use crate::area::Area;
use crate::memory::{Memory, NoRoom, word_of};

/// Length of a record, words.
pub(crate) const WORDS: usize = 40;
/// Bytes of a text in one record.
const PART: usize = (WORDS - 2) * 8;
/// Longest name, bytes.
pub const NAME_MAX: usize = 255;
/// Longest rest of a node, bytes: a symbolic link's target.
pub const REST_MAX: usize = 4096;
/// Longest chain, records.
const PARTS_MAX: usize = (NAME_MAX + REST_MAX).div_ceil(PART);

/// Stores a text, and returns the records that it is in, the first one first.
pub(crate) fn store<M: Memory>(
    memory: &mut M,
    area: &mut Area,
    chunks: &mut usize,
    ino: u64,
    bytes: &[u8],
) -> Result<Vec<u32>, NoRoom> {
    let mut records = Vec::new();
    for _ in bytes.chunks(PART) {
        records.push(area.take(memory, chunks)?);
    }
    for (n, part) in bytes.chunks(PART).enumerate() {
        let at = area.place::<M>(records[n]);
        let next = records.get(n + 1).map_or(0, |next| u64::from(next + 1));
        memory.store(at, ino);
        memory.store(at + 1, next | (part.len() as u64) << 32);
        for (word, some) in part.chunks(8).enumerate() {
            memory.store(at + 2 + word, word_of(some));
        }
    }
    Ok(records)
}

/// Reads a text of this node, with the records that it is in. Returns `None` if there is none.
pub(crate) fn load<M: Memory>(
    memory: &M,
    area: &Area,
    ino: u64,
    first: u32,
) -> Option<(Vec<u8>, Vec<u32>)> {
    let (mut bytes, mut records) = (Vec::new(), Vec::new());
    let mut next = Some(first);
    while let Some(record) = next {
        if record >= area.count::<M>() || records.len() == PARTS_MAX || records.contains(&record) {
            return None;
        }
        let at = area.place::<M>(record);
        let head = memory.load(at + 1);
        let len = (head >> 32) as usize;
        let is_ours = memory.load(at) == ino || is_planted!(TextBelieved);
        if !is_ours || len == 0 || len > PART {
            return None;
        }
        let words = (at + 2..).take(len.div_ceil(8)).flat_map(|at| memory.load(at).to_le_bytes());
        bytes.extend(words.take(len));
        records.push(record);
        next = (head as u32).checked_sub(1);
    }
    Some((bytes, records))
}
