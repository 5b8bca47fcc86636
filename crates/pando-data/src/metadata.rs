//! What this crate asks of the shards. The client implements it; tests have a model of it.

use pando_types::op::{ObjectId, Piece};
use pando_types::reply::Layout;
use pando_types::{
    Attr, Credentials, DirRef, Errno, Ino, Kill, Name, SetAttr, ShardIndex, Timestamp,
};

/// Why pieces were not laid over a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteError {
    /// The data version moved on, or the file is inline where it was not (or the reverse): read
    /// again, then try again.
    DataChanged,
    /// The operation's own error: nothing was changed, and nothing will be. Only of `EIO` is that
    /// not known: a shard that cannot read or write its records may have the change in its log.
    Errno(Errno),
    /// It may have been written, or may yet be.
    Unsure(Errno),
}

impl From<Errno> for WriteError {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// The metadata of file contents. Calls block the calling thread; any thread may call.
pub trait Metadata: Send + Sync {
    /// Attributes as the shards know them.
    fn getattr(&self, ino: Ino) -> Result<Attr, Errno>;
    /// Changes attributes.
    fn setattr(&self, credentials: &Credentials, ino: Ino, set: SetAttr) -> Result<Attr, Errno>;
    /// The same through a descriptor that was opened for writing.
    fn setattr_open(&self, ino: Ino, set: SetAttr) -> Result<Attr, Errno> {
        self.setattr(&Credentials::ROOT, ino, set)
    }
    /// Where the bytes `offset .. offset + len` are.
    fn read_data(&self, ino: Ino, offset: u64, len: u64) -> Result<Layout, Errno>;
    /// Lays pieces over the data, and takes off what `kill` says.
    fn write_data(
        &self,
        ino: Ino,
        base: Option<u64>,
        pieces: Vec<Piece>,
        mtime: Option<Timestamp>,
        kill: Option<Kill>,
    ) -> Result<Attr, WriteError>;
    /// Waits until it is known of every earlier change of the file whether it was made.
    fn settled(&self, _ino: Ino) -> Result<(), Errno> {
        Ok(())
    }
    /// Makes what was done to the file until now durable.
    fn sync_file(&self, ino: Ino) -> Result<(), Errno>;
    /// A name for a new object, never given before.
    fn new_object(&self) -> ObjectId;
    /// Objects of writes that were [`WriteError::Unsure`], and of which it is known by now that
    /// they were not made. Each is told once.
    fn unneeded(&self) -> Vec<ObjectId> {
        Vec::new()
    }
    /// Objects that no durable record needs any more.
    fn garbage(&self) -> Result<Vec<(ShardIndex, ObjectId)>, Errno>;
    /// They are deleted.
    fn garbage_done(&self, deleted: Vec<(ShardIndex, ObjectId)>) -> Result<(), Errno>;
    /// The shard that has the file, as far as is known without asking.
    fn shard_of(&self, _ino: Ino) -> ShardIndex {
        ShardIndex(0)
    }
    /// What time it is on a shard.
    fn time_at(&self, shard: ShardIndex) -> Timestamp;
    /// The directory that has the file, and its name there, as far as is known without asking.
    fn place(&self, _ino: Ino) -> Option<(DirRef, Name)> {
        None
    }
    /// The names that lead from the root to a directory.
    fn way_to(&self, _dir: DirRef) -> Result<Vec<Name>, Errno> {
        Err(Errno::EOPNOTSUPP)
    }
}
