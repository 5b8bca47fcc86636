//! Nodes of the null file system.

use std::collections::{BTreeMap, HashMap};
use std::time::SystemTime;

/// Node number of the root.
pub(super) const ROOT: u64 = 1;

/// The kind of a node, and its contents.
pub(super) enum Content {
    /// A file, of which only the size is kept.
    File {
        /// Size in bytes.
        size: u64,
    },
    /// A directory.
    Dir(Dir),
    /// A symbolic link, with its target.
    Link(Vec<u8>),
}

/// A directory's entries, by name and by position. Positions follow the order of creation, and a
/// listing continues after one.
#[derive(Default)]
pub(super) struct Dir {
    pub(super) by_name: HashMap<Vec<u8>, (u64, u64)>,
    pub(super) by_position: BTreeMap<u64, (Vec<u8>, u64)>,
}

/// A file or directory.
pub(super) struct Node {
    /// Its kind and contents.
    pub content: Content,
    /// Permission bits.
    pub mode: u16,
    /// Owner's user id.
    pub uid: u32,
    /// Owner's group id.
    pub gid: u32,
    /// Time of creation.
    pub time: SystemTime,
}

impl Dir {
    /// Adds an entry, whose position is the node's number. Returns whether the name was free.
    pub(super) fn insert(&mut self, name: &[u8], number: u64) -> bool {
        if self.by_name.contains_key(name) {
            return false;
        }
        self.by_name.insert(name.to_vec(), (number, number));
        self.by_position.insert(number, (name.to_vec(), number));
        true
    }
}
