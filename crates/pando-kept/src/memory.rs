//! What records are written to.

use std::fmt;
use std::io;

/// Words of 8 bytes that outlive the process that writes them. New ones are 0.
///
/// Positions are numbers of words. Those beyond [`len`](Self::len) are errors of the caller.
pub trait Memory {
    /// Length of a chunk, words.
    const CHUNK: usize;

    /// How many words there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads a word.
    fn load(&self, at: usize) -> u64;

    /// Stores a word, after all that was stored before.
    fn store(&mut self, at: usize, word: u64);

    /// Makes sure that the first `words` words are there, with room that nothing takes away. Fails
    /// if there is not that much.
    fn reach(&mut self, words: usize) -> io::Result<()>;
}

/// There is no room for a record. The memory says now that the mount is not kept any more.
#[derive(Debug)]
pub struct NoRoom(pub(crate) io::Error);

impl fmt::Display for NoRoom {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = "the mount's records have no room, so it will end with this process; \
                    give the machine, or the unit, more memory and mount anew";
        write!(to, "{what}: {}", self.0)
    }
}

impl std::error::Error for NoRoom {}

/// A word of at most 8 bytes.
pub(crate) fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}
