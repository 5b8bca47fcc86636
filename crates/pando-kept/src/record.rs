//! A node as a record of 128 bytes.
//!
//! ```text
//!   0 ino (0: free) | 8 version | 16 spare | 28 mode, name length u16 | 32 uid, gid
//!  40 spare | 56 directory's ino | 64 text u32 (0: the name is here) | 68 name, 44 bytes
//! 112 words of the file system's own, 2
//! ```

use crate::memory::word_of;
use crate::text::{NAME_MAX, REST_MAX};

/// Length of a record, words.
pub(crate) const WORDS: usize = 16;
/// Names up to this length need no text, bytes.
const SHORT: usize = 44;

pub(crate) const AT_INO: usize = 0;
const AT_VERSION: usize = 1;
const AT_OWN: usize = 14;
/// Where bytes of the name begin.
const NAME: usize = 68;

/// What is kept of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Number of the node; never 0.
    pub ino: u64,
    /// Type and permissions, as `st_mode`.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of the directory that has the name. 0 if the node has none.
    pub dir: u64,
    /// Name in that directory, at most [`NAME_MAX`] bytes. Empty if the node has none.
    pub name: Vec<u8>,
    /// What else belongs to the node, at most [`REST_MAX`](crate::REST_MAX) bytes: the target of a
    /// symbolic link.
    pub rest: Vec<u8>,
    /// Two words for which the file system has a meaning. Each can be changed alone.
    pub own: [u64; 2],
}

/// A record as it was read.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) node: Node,
    pub(crate) version: u64,
    /// Number of the text that has name and rest.
    pub(crate) text: Option<u32>,
    pub(crate) name_len: usize,
}

impl Node {
    /// Whether name and rest are in a text.
    pub(crate) fn has_text(&self) -> bool {
        self.name.len() > SHORT || !self.rest.is_empty()
    }

    /// Whether this is a node that there can be.
    pub(crate) fn is_sound(&self) -> bool {
        let is_name = |name: &[u8]| !name.iter().any(|&byte| byte == 0 || byte == b'/');
        let types = [0o010, 0o020, 0o040, 0o060, 0o100, 0o120, 0o140];
        self.ino != 0
            && types.contains(&(self.mode >> 9 & 0o170))
            && self.name.len() <= NAME_MAX
            && is_name(&self.name)
            && (self.dir == 0) == self.name.is_empty()
            && self.rest.len() <= REST_MAX
    }

    pub(crate) fn to_words(&self, version: u64, text: Option<u32>) -> [u64; WORDS] {
        let mut bytes = [0; WORDS * 8];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(28, &self.mode.to_le_bytes());
        put(30, &(self.name.len() as u16).to_le_bytes());
        put(32, &self.uid.to_le_bytes());
        put(36, &self.gid.to_le_bytes());
        match text {
            Some(text) => put(64, &(text + 1).to_le_bytes()),
            None => put(NAME, &self.name),
        }
        let mut words = [0; WORDS];
        for (word, part) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = word_of(part);
        }
        words[AT_INO] = self.ino;
        words[AT_VERSION] = version;
        words[7] = self.dir;
        words[AT_OWN..].copy_from_slice(&self.own);
        words
    }
}

impl Read {
    /// Returns `None` if no writer makes such a record. A name that is in a text is not here yet.
    pub(crate) fn from_words(words: &[u64; WORDS]) -> Option<Self> {
        let low = |at: usize| words[at] as u32;
        let high = |at: usize| (words[at] >> 32) as u32;
        let (text, name_len) = (low(8).checked_sub(1), (high(3) >> 16) as usize);
        let name = match text {
            Some(_) => Vec::new(),
            None if name_len <= SHORT => {
                let bytes = words.iter().flat_map(|word| word.to_le_bytes());
                bytes.skip(NAME).take(name_len).collect()
            }
            None => return None,
        };
        let node = Node {
            ino: words[AT_INO],
            mode: high(3) as u16,
            uid: low(4),
            gid: high(4),
            dir: words[7],
            name,
            rest: Vec::new(),
            own: [words[AT_OWN], words[AT_OWN + 1]],
        };
        Some(Self { node, version: words[AT_VERSION], text, name_len })
    }
}

/// Position of a word of the file system's own.
pub(crate) const fn own(number: usize) -> usize {
    AT_OWN + number
}
