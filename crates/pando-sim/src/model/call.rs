//! Operations and their results.

use std::collections::{BTreeMap, BTreeSet};

use pando_types::op::{AccessMask, RenameFlags, XattrMode};
use pando_types::{Credentials, Errno, FileKind, Ino, Name, SetAttr};

/// Number of a client's session, which holds files open.
pub type Who = u32;

/// An operation with its caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// Session that opens and closes the files.
    pub who: Who,
    /// User on whose behalf the operation is.
    pub credentials: Credentials,
    /// The operation.
    pub op: Op,
}

/// An operation. Directories and files are named by ino, as the kernel names them to a file system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Finds the inode that a name leads to.
    Lookup(Ino, Name),
    /// Makes a file that is no directory.
    Create {
        /// Directory of the new name.
        dir: Ino,
        /// The new name.
        name: Name,
        /// Kind of the file.
        kind: FileKind,
        /// Permission bits.
        mode: u16,
        /// Target of a symlink.
        symlink: Vec<u8>,
        /// `O_EXCL`.
        exclusive: bool,
        /// Whether the new file is also opened.
        open: bool,
    },
    /// Makes a directory: parent, name, permission bits.
    Mkdir(Ino, Name, u16),
    /// Removes a name of a file.
    Unlink(Ino, Name),
    /// Removes an empty directory.
    Rmdir(Ino, Name),
    /// Gives the file of the first ino a further name, in the directory of the second.
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
        /// Flags of `renameat2`.
        flags: RenameFlags,
    },
    /// `stat`.
    GetAttr(Ino),
    /// `chmod`, `chown`, `truncate`, `utimes`.
    SetAttr(Ino, SetAttr),
    /// `access`.
    Access(Ino, AccessMask),
    /// Reads the target of a symlink.
    Readlink(Ino),
    /// Opens a file.
    Open {
        /// The file.
        ino: Ino,
        /// Permission that the open needs.
        access: AccessMask,
        /// `O_TRUNC`.
        truncate: bool,
    },
    /// Closes one open of a file.
    Release(Ino),
    /// Reads from an offset (second) at most so many bytes (third).
    Read(Ino, u64, u64),
    /// Writes bytes at an offset.
    Write(Ino, u64, Vec<u8>),
    /// Reads one extended attribute.
    GetXattr(Ino, Vec<u8>),
    /// Lists the names of all extended attributes.
    ListXattr(Ino),
    /// Sets one extended attribute.
    SetXattr(Ino, Vec<u8>, Vec<u8>, XattrMode),
    /// Removes one extended attribute.
    RemoveXattr(Ino, Vec<u8>),
    /// Lists all entries of a directory.
    ReadDir(Ino),
    /// Finds the current parent of a directory.
    Parent(Ino),
    /// Ends the caller's session, and closes its files.
    EndSession,
    /// Makes another session hold open what the caller has open. It stands for a session of the
    /// caller that has ended for the client, and not yet on every shard.
    Linger(Who),
    /// An operation on names, by path. The paths are resolved at the very moment of the operation.
    /// The directories' inos in `op` mean nothing.
    ByPath {
        /// Path from the root to the directory of the (old) name.
        path: Vec<Name>,
        /// Path from the root to the directory of a rename's new name.
        to_path: Vec<Name>,
        /// The operation on these directories.
        op: Box<Op>,
    },
}

impl Op {
    /// The operation itself, whether it is by path or not.
    #[must_use]
    pub fn inner(&self) -> &Self {
        match self {
            Self::ByPath { op, .. } => op.inner(),
            op => op,
        }
    }
}

/// Result of an operation.
pub type Outcome = Result<Value, Errno>;

/// What a successful operation returns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// Nothing.
    Done,
    /// Attributes after the operation.
    Stat(Stat),
    /// Attributes, and whether the file is new.
    Created(Stat, bool),
    /// Data, target of a symlink, or value of an attribute.
    Bytes(Vec<u8>),
    /// Names of extended attributes.
    Names(BTreeSet<Vec<u8>>),
    /// Entries of a directory.
    Entries(BTreeMap<Name, (Ino, FileKind)>),
    /// Ino of a directory.
    Ino(Ino),
}

/// Attributes without times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    /// Inode number.
    pub ino: Ino,
    /// Kind of the inode.
    pub kind: FileKind,
    /// Permission bits.
    pub mode: u16,
    /// Number of names; of a directory 2 and its subdirectories.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes; of a directory its number of entries.
    pub size: u64,
}
