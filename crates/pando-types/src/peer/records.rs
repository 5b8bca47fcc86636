//! Records of names and files, as shards send them to each other.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::reply::{Access, Slice};
use crate::{Attr, FileKind, Ino, SessionId};

/// One change of the copy of a moving range.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RowChange {
    /// Writes this value under this key.
    Put(#[serde(with = "serde_bytes")] Vec<u8>, #[serde(with = "serde_bytes")] Vec<u8>),
    /// Deletes this key.
    Delete(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Deletes all keys from the first up to, not including, the second.
    DeleteRange(#[serde(with = "serde_bytes")] Vec<u8>, #[serde(with = "serde_bytes")] Vec<u8>),
}

/// Sums over a range of names.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Tally {
    /// Number of names.
    pub entries: u64,
    /// Names that lead to directories.
    pub subdirs: u64,
    /// Inodes that are in these entries.
    pub inodes: u64,
    /// Logical bytes of the data of these inodes.
    pub bytes: u64,
}

/// What new entries take from their directory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Inherit {
    /// Permission bits of the directory.
    pub mode: u16,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its project.
    pub project: u32,
}

/// An entry with all its rows, on its way to another place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EntryRows {
    /// What the name leads to.
    pub value: EntryValue,
    /// Cold records of the inode in the entry. Empty for other entries.
    pub inode: InodeRows,
}

/// What a name leads to, as it is stored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum EntryValue {
    /// A file, with its inode.
    File(Inode),
    /// A file with its inode at the link shard.
    Linked(Ino, FileKind),
    /// A directory, with its access metadata.
    Dir(Access),
}

/// A file's hot record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Inode {
    /// Attributes.
    pub attr: Attr,
    /// Whether its data is inline. True also of a file without data.
    pub is_inline: bool,
    /// Whether it has extended attributes.
    pub has_xattrs: bool,
}

/// A file's cold records.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct InodeRows {
    /// Extended attributes: name, value.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Inline data, or a symlink's target.
    #[serde(with = "serde_bytes")]
    pub inline: Vec<u8>,
    /// Ranges of the file's data in objects.
    pub slices: Vec<Slice>,
    /// Sessions that have it open, each with its number of opens.
    pub opens: Vec<(SessionId, u32)>,
}
