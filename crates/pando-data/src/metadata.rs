//! What this crate asks of the shards. The client implements it, and tests have a model of it.

use pando_types::op::{ObjectId, Piece};
use pando_types::reply::Layout;
use pando_types::{
    Attr, Credentials, DirRef, Errno, Ino, Kill, Name, SetAttr, ShardIndex, Timestamp,
};

/// Why pieces were not laid over a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteError {
    /// The data version is another, or the file is inline where it was not, or the reverse. The
    /// caller reads again, then tries again.
    DataChanged,
    /// The operation's own error: nothing was changed, and nothing will be. Of `EIO` that is not
    /// known: a shard that cannot read or write its records may have the change in its log.
    Errno(Errno),
    /// The write may have run, or may yet.
    Unsure(Errno),
}

impl From<Errno> for WriteError {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// The metadata of file contents. Any thread may call, and calls block it.
pub trait Metadata: Send + Sync {
    /// Attributes as the shards know them.
    fn getattr(&self, ino: Ino) -> Result<Attr, Errno>;
    /// Changes attributes, and returns the new ones.
    fn setattr(&self, credentials: &Credentials, ino: Ino, set: SetAttr) -> Result<Attr, Errno>;
    /// Changes attributes through a descriptor that is open for writing.
    fn setattr_open(&self, ino: Ino, set: SetAttr) -> Result<Attr, Errno> {
        self.setattr(&Credentials::ROOT, ino, set)
    }
    /// The slices that hold the bytes `offset .. offset + len`.
    fn read_data(&self, ino: Ino, offset: u64, len: u64) -> Result<Layout, Errno>;
    /// Lays pieces over the data, and clears the set-id bits that `kill` names.
    fn write_data(
        &self,
        ino: Ino,
        base: Option<u64>,
        pieces: Vec<Piece>,
        mtime: Option<Timestamp>,
        kill: Option<Kill>,
    ) -> Result<Attr, WriteError>;
    /// Waits until no earlier change of the file is in doubt.
    fn settled(&self, _ino: Ino) -> Result<(), Errno> {
        Ok(())
    }
    /// Makes all earlier changes of the file durable.
    fn sync_file(&self, ino: Ino) -> Result<(), Errno>;
    /// A name for a new object, never given before.
    fn new_object(&self) -> ObjectId;
    /// Objects of writes that were [`WriteError::Unsure`], and turned out not to have run. Each is
    /// returned once.
    fn unneeded(&self) -> Vec<ObjectId> {
        Vec::new()
    }
    /// Objects that no durable record needs any more, with the shard that says so.
    fn garbage(&self) -> Result<Vec<(ShardIndex, ObjectId)>, Errno>;
    /// Tells the shards that these objects are deleted.
    fn garbage_done(&self, deleted: Vec<(ShardIndex, ObjectId)>) -> Result<(), Errno>;
    /// The shard that has the file, as far as is known without asking.
    fn shard_of(&self, _ino: Ino) -> ShardIndex {
        ShardIndex(0)
    }
    /// The time on a shard.
    fn time_at(&self, shard: ShardIndex) -> Timestamp;
    /// The directory and the name of the file, as far as is known without asking.
    fn place(&self, _ino: Ino) -> Option<(DirRef, Name)> {
        None
    }
    /// The names that lead from the root to a directory.
    fn path_to(&self, _dir: DirRef) -> Result<Vec<Name>, Errno> {
        Err(Errno::EOPNOTSUPP)
    }
}
