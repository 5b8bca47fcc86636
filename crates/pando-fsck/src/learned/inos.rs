//! What the sweep learns of files. It keeps the inode numbers in use, one bit each, in compressed
//! bitmaps. For inodes at their link shards it counts the names that lead there and the names they
//! record.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use pando_types::{DirId, FileKind, Ino, ShardIndex};
use roaring::RoaringTreemap;

#[derive(Default)]
struct Linked {
    /// Kind and link count of the inode, once it is found.
    inode: Option<(FileKind, u32)>,
    /// Names that the inode records: their number, and the sum of their hashes.
    known: (u32, u64),
    /// Names that lead to the inode: their number, and the sum of their hashes.
    found: (u32, u64),
    /// Kind that the latest of these names tells.
    kind: Option<FileKind>,
    /// Whether these names tell different kinds.
    is_mixed: bool,
}

/// All inode numbers in use.
#[derive(Default)]
pub struct Inos {
    single: RoaringTreemap,
    twice: BTreeSet<Ino>,
    linked: BTreeMap<Ino, Linked>,
    /// By allocator: the highest counter in use.
    highest: BTreeMap<ShardIndex, u64>,
    files: u64,
}

fn hash(dir: DirId, name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (dir, name).hash(&mut hasher);
    hasher.finish()
}

impl Inos {
    /// Notes a number that is in use.
    pub fn used(&mut self, ino: Ino) {
        let counter = ino.0 & ((1 << Ino::COUNTER_BITS) - 1);
        let highest = self.highest.entry(ino.allocator()).or_default();
        *highest = counter.max(*highest);
    }

    /// Notes a file with its inode in its entry.
    pub fn file(&mut self, ino: Ino) {
        self.files += 1;
        self.dir(ino);
    }

    /// Notes a directory.
    pub fn dir(&mut self, ino: Ino) {
        self.used(ino);
        if !self.single.insert(ino.0) {
            self.twice.insert(ino);
        }
    }

    /// Notes an inode at its link shard.
    pub fn link(&mut self, ino: Ino, kind: FileKind, nlink: u32) {
        self.used(ino);
        self.files += 1;
        self.linked.entry(ino).or_default().inode = Some((kind, nlink));
    }

    /// Notes a name that an inode records.
    pub fn known(&mut self, ino: Ino, dir: DirId, name: &[u8]) {
        let known = &mut self.linked.entry(ino).or_default().known;
        *known = (known.0 + 1, known.1.wrapping_add(hash(dir, name)));
    }

    /// Notes a name that leads to an inode.
    pub fn found(&mut self, ino: Ino, kind: FileKind, dir: DirId, name: &[u8]) {
        let linked = self.linked.entry(ino).or_default();
        linked.found = (linked.found.0 + 1, linked.found.1.wrapping_add(hash(dir, name)));
        linked.is_mixed |= linked.kind.is_some_and(|other| other != kind);
        linked.kind = Some(kind);
    }

    /// Number of files of all kinds but directories.
    pub fn files(&self) -> u64 {
        self.files
    }

    /// Number of inodes without a name.
    pub fn nameless(&self) -> u64 {
        let nameless = |linked: &&Linked| linked.inode.is_some_and(|(_, nlink)| nlink == 0);
        self.linked.values().filter(nameless).count() as u64
    }

    /// By allocator: the highest counter in use.
    pub fn highest(&self) -> &BTreeMap<ShardIndex, u64> {
        &self.highest
    }

    /// Numbers that are in use twice.
    pub fn twice(&self) -> BTreeSet<Ino> {
        let both = self
            .linked
            .iter()
            .filter(|(ino, linked)| linked.inode.is_some() && self.single.contains(ino.0));
        self.twice.iter().copied().chain(both.map(|(ino, _)| *ino)).collect()
    }

    /// Whether a link inode has names that it does not record. A second pass must find them.
    pub fn has_unknown_names(&self, ino: Ino) -> bool {
        self.linked.get(&ino).is_some_and(|linked| {
            linked.found.0 > 0 && (linked.inode.is_none() || linked.found != linked.known)
        })
    }

    /// Link inodes that do not agree with their names, and those without a name.
    pub fn suspects(&self) -> BTreeSet<Ino> {
        let is_sound = |linked: &Linked| {
            linked.inode.is_some_and(|(kind, nlink)| {
                nlink == linked.found.0
                    && nlink > 0
                    && linked.known == linked.found
                    && linked.kind == Some(kind)
                    && !linked.is_mixed
            })
        };
        self.linked.iter().filter(|(_, linked)| !is_sound(linked)).map(|(ino, _)| *ino).collect()
    }
}
