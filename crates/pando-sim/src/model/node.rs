//! One inode.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use pando_types::{FileKind, Ino, Name};

use crate::model::{Stat, Who};

/// A file or a directory, with its contents.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    /// Kind of the inode.
    pub kind: FileKind,
    /// Permission bits.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of names of a file; of a directory 2 and its subdirectories.
    pub nlink: u32,
    /// Contents of a file, or target of a symlink.
    pub data: Vec<u8>,
    /// Extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Number of opens of each session that has the file open.
    pub opens: BTreeMap<Who, u32>,
    /// Entries of a directory, with their kinds.
    pub entries: BTreeMap<Name, (Ino, FileKind)>,
    /// Parent of a directory. The root and files have their own ino here.
    pub parent: Ino,
    /// Whether a name of it was ever renamed. A handle on the old name may dangle then.
    pub is_moved: bool,
}

impl Node {
    /// A node without names.
    #[must_use]
    pub fn new(kind: FileKind, mode: u16, uid: u32, gid: u32, parent: Ino) -> Self {
        Self {
            kind,
            mode,
            uid,
            gid,
            nlink: if kind == FileKind::Directory { 2 } else { 0 },
            data: Vec::new(),
            xattrs: BTreeMap::new(),
            opens: BTreeMap::new(),
            entries: BTreeMap::new(),
            parent,
            is_moved: false,
        }
    }

    /// Whether the node is a directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// What `stat` shows.
    #[must_use]
    pub fn stat(&self, ino: Ino) -> Stat {
        let size = if self.is_dir() { self.entries.len() } else { self.data.len() };
        Stat {
            ino,
            kind: self.kind,
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            size: size as u64,
        }
    }

    /// A hash of everything in the node. Equal nodes have equal hashes, in every run.
    pub(crate) fn fingerprint(&self, ino: Ino) -> u64 {
        let mut hasher = Mixer(ino.0 ^ 0x9E37_79B9_7F4A_7C15);
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// A hash by multiplying and rotating. It is fast and portable, and does not resist attacks.
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        mixed ^ (mixed >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_u16(&mut self, word: u16) {
        self.write_u64(u64::from(word));
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(u64::from(word));
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}
