//! Random calls on a few files in a few directories.

use rustix::fs::FallocateFlags;

/// A file: one that is held open, or one by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    Held(usize),
    Name(Name),
}

/// A name in a directory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Name {
    pub dir: u64,
    pub file: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    /// Opens a file, which is made if it does not exist.
    Open(usize, Name),
    OpenCut(usize, Name),
    Close(usize),
    CloseAll,
    /// Writes bytes that follow from `seed`.
    Write {
        at: At,
        offset: u64,
        len: u64,
        seed: u64,
    },
    Append {
        at: Name,
        len: u64,
        seed: u64,
    },
    /// Writes bytes through a mapping.
    Map {
        at: At,
        offset: u64,
        len: u64,
        seed: u64,
    },
    Truncate(At, u64),
    Allocate(At, FallocateFlags, u64, u64),
    Copy {
        from: At,
        to: At,
        offset: u64,
        len: u64,
        to_offset: u64,
    },
    Read {
        at: At,
        offset: u64,
        len: u64,
    },
    Sync(At),
    Rename(Name, Name),
    Exchange(Name, Name),
    Link(Name, Name),
    Unlink(Name),
    /// Makes this many more names in a directory. `Disperse` removes them again.
    Crowd(u64, u64),
    Disperse(u64),
}

pub const DIRS: u64 = 3;
pub const HELD: usize = 3;
const FILES: u64 = 4;
/// Sizes at which something changes: bytes in the inode, blocks, objects.
const EDGES: [u64; 6] = [1, 600, 4_096, 8_192, 131_072, 4 << 20];

const MODES: [FallocateFlags; 5] = [
    FallocateFlags::empty(),
    FallocateFlags::KEEP_SIZE,
    FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE),
    FallocateFlags::ZERO_RANGE,
    FallocateFlags::ZERO_RANGE.union(FallocateFlags::KEEP_SIZE),
];

pub struct Maker {
    random: fastrand::Rng,
}

impl Maker {
    pub fn new(seed: u64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed) }
    }

    fn name(&mut self) -> Name {
        Name { dir: self.random.u64(..DIRS), file: self.random.u64(..FILES) }
    }

    fn at(&mut self) -> At {
        match self.random.u64(..3) {
            0 => At::Name(self.name()),
            _ => At::Held(self.held()),
        }
    }

    fn held(&mut self) -> usize {
        self.random.usize(..HELD)
    }

    /// A position in a file, mostly small and mostly odd.
    fn position(&mut self) -> u64 {
        let edge = EDGES[self.random.usize(..EDGES.len())];
        match self.random.u64(..4) {
            0 => edge,
            1 => edge.saturating_sub(self.random.u64(..10)),
            2 => edge + self.random.u64(..10),
            _ => self.random.u64(..2 * edge),
        }
    }

    fn len(&mut self) -> u64 {
        match self.random.u64(..12) {
            0 => self.random.u64(..5 << 20),
            1..4 => self.random.u64(..140_000),
            _ => self.random.u64(..6_000),
        }
        .max(1)
    }

    pub fn make(&mut self) -> Act {
        let (offset, len, seed) = (self.position(), self.len(), self.random.u64(..));
        match self.random.u64(..30) {
            0..4 => Act::Open(self.held(), self.name()),
            4 => Act::OpenCut(self.held(), self.name()),
            5 => Act::Close(self.held()),
            6..11 => Act::Write { at: self.at(), offset, len, seed },
            11 => Act::Append { at: self.name(), len, seed },
            12 => Act::Map { at: self.at(), offset, len: len.min(40_000), seed },
            13..15 => Act::Truncate(self.at(), self.position()),
            15..19 => {
                let mode = MODES[self.random.usize(..MODES.len())];
                Act::Allocate(self.at(), mode, offset, len)
            }
            19 => {
                let (from, to, to_offset) = (self.at(), self.at(), self.position());
                Act::Copy { from, to, offset, len, to_offset }
            }
            20..22 => Act::Read { at: self.at(), offset, len },
            22 => Act::Sync(self.at()),
            23..25 => Act::Rename(self.name(), self.name()),
            25 => Act::Exchange(self.name(), self.name()),
            26 => Act::Link(self.name(), self.name()),
            27 => Act::Unlink(self.name()),
            28 => Act::Crowd(self.random.u64(..DIRS), 20 + self.random.u64(..60)),
            _ => Act::Disperse(self.random.u64(..DIRS)),
        }
    }
}
