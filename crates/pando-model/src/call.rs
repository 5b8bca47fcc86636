//! Operations and what comes of them.

use std::collections::{BTreeMap, BTreeSet};

use pando_types::op::{AccessMask, RenameFlags, XattrMode};
use pando_types::{Credentials, Errno, FileKind, Ino, Name, SetAttr};

/// Who holds a file open: one client's session, by any number.
pub type Who = u32;

/// An operation with its caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// Whose opens it counts among.
    pub who: Who,
    /// On whose behalf.
    pub credentials: Credentials,
    /// What to do.
    pub op: Op,
}

/// What can be done. Directories and files are named by ino, as the kernel names them to a file
/// system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// What a name leads to.
    Lookup(Ino, Name),
    /// A file of any kind but a directory.
    Create {
        /// In which directory.
        dir: Ino,
        /// Under which name.
        name: Name,
        /// What kind.
        kind: FileKind,
        /// Permission bits.
        mode: u16,
        /// Target of a symlink.
        symlink: Vec<u8>,
        /// `O_EXCL`.
        exclusive: bool,
        /// And open it.
        open: bool,
    },
    /// A directory.
    Mkdir(Ino, Name, u16),
    /// A name of a file less.
    Unlink(Ino, Name),
    /// An empty directory less.
    Rmdir(Ino, Name),
    /// A further name for the first ino.
    Link(Ino, Ino, Name),
    /// `renameat2`.
    Rename {
        /// Old directory.
        from: Ino,
        /// Old name.
        name: Name,
        /// New directory.
        to: Ino,
        /// New name.
        new_name: Name,
        /// How.
        flags: RenameFlags,
    },
    /// `stat`.
    GetAttr(Ino),
    /// `chmod`, `chown`, `truncate`, `utimes`.
    SetAttr(Ino, SetAttr),
    /// `access`.
    Access(Ino, AccessMask),
    /// Target of a symlink.
    Readlink(Ino),
    /// Opens a file.
    Open {
        /// Which.
        ino: Ino,
        /// Permission needed.
        access: AccessMask,
        /// `O_TRUNC`.
        truncate: bool,
    },
    /// One open less.
    Release(Ino),
    /// Bytes from an offset on, at most so many.
    Read(Ino, u64, u64),
    /// Bytes laid over what is there, from an offset on.
    Write(Ino, u64, Vec<u8>),
    /// One extended attribute.
    GetXattr(Ino, Vec<u8>),
    /// Names of all.
    ListXattr(Ino),
    /// Sets one.
    SetXattr(Ino, Vec<u8>, Vec<u8>, XattrMode),
    /// Removes one.
    RemoveXattr(Ino, Vec<u8>),
    /// All entries.
    ReadDir(Ino),
    /// Current parent of a directory.
    Parent(Ino),
    /// The caller is gone, and its opens with it.
    EndSession,
    /// What the caller has open, another holds, too: a session of its that is over for it, and not
    /// yet for everybody.
    Linger(Who),
    /// An operation on names, by path: its directories are those at the end of these ways, at the
    /// very moment in which it takes place; the numbers in `op` mean nothing.
    ByPath {
        /// From the root to the directory of the (old) name.
        way: Vec<Name>,
        /// To that of a rename's new name.
        to_way: Vec<Name>,
        /// What to do there.
        op: Box<Op>,
    },
}

impl Op {
    /// What is done, by path or not.
    #[must_use]
    pub fn inner(&self) -> &Self {
        match self {
            Self::ByPath { op, .. } => op.inner(),
            op => op,
        }
    }
}

/// What comes of an operation.
pub type Outcome = Result<Value, Errno>;

/// What a successful operation returns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// Nothing to say.
    Done,
    /// Attributes after the operation.
    Stat(Stat),
    /// Attributes, and whether it is new.
    Created(Stat, bool),
    /// Data, target or attribute.
    Bytes(Vec<u8>),
    /// Names of extended attributes.
    Names(BTreeSet<Vec<u8>>),
    /// A listing.
    Entries(BTreeMap<Name, (Ino, FileKind)>),
    /// A directory.
    Ino(Ino),
}

/// Attributes without times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    /// Which inode.
    pub ino: Ino,
    /// What kind.
    pub kind: FileKind,
    /// Permission bits.
    pub mode: u16,
    /// Names; of a directory 2 + its subdirectories.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes; of a directory its entries.
    pub size: u64,
}
