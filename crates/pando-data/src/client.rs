//! The client as this crate uses it: with calls that block.

use pando_client::{Client, block_on};
use pando_types::op::{ObjectId, Piece};
use pando_types::reply::Layout;
use pando_types::{
    Attr, Credentials, DirRef, Errno, Ino, Kill, Name, SetAttr, ShardIndex, Timestamp,
};

use crate::metadata::{Metadata, WriteError};

impl From<pando_client::WriteError> for WriteError {
    fn from(error: pando_client::WriteError) -> Self {
        match error {
            pando_client::WriteError::DataChanged => Self::DataChanged,
            pando_client::WriteError::Errno(errno) => Self::Errno(errno),
            pando_client::WriteError::Unsure(errno) => Self::Unsure(errno),
        }
    }
}

impl Metadata for Client {
    fn getattr(&self, ino: Ino) -> Result<Attr, Errno> {
        block_on(self.getattr(ino))
    }

    fn setattr(&self, credentials: &Credentials, ino: Ino, set: SetAttr) -> Result<Attr, Errno> {
        block_on(self.setattr(credentials, ino, set))
    }

    fn setattr_open(&self, ino: Ino, set: SetAttr) -> Result<Attr, Errno> {
        block_on(self.setattr_open(ino, set))
    }

    fn read_data(&self, ino: Ino, offset: u64, len: u64) -> Result<Layout, Errno> {
        block_on(self.read_data(ino, offset, len))
    }

    fn write_data(
        &self,
        ino: Ino,
        base: Option<u64>,
        pieces: Vec<Piece>,
        mtime: Option<Timestamp>,
        kill: Option<Kill>,
    ) -> Result<Attr, WriteError> {
        Ok(block_on(self.write_data(ino, base, pieces, mtime, kill))?)
    }

    fn settled(&self, ino: Ino) -> Result<(), Errno> {
        block_on(self.settled(ino))
    }

    fn sync_file(&self, ino: Ino) -> Result<(), Errno> {
        block_on(self.sync_file(ino))
    }

    fn new_object(&self) -> ObjectId {
        self.new_object()
    }

    fn unneeded(&self) -> Vec<ObjectId> {
        self.unneeded()
    }

    fn garbage(&self) -> Result<Vec<(ShardIndex, ObjectId)>, Errno> {
        block_on(self.garbage())
    }

    fn garbage_done(&self, deleted: Vec<(ShardIndex, ObjectId)>) -> Result<(), Errno> {
        block_on(self.garbage_done(&deleted))
    }

    fn shard_of(&self, ino: Ino) -> ShardIndex {
        self.shard_of(ino)
    }

    fn time_at(&self, shard: ShardIndex) -> Timestamp {
        self.time_at(shard)
    }

    fn place(&self, ino: Ino) -> Option<(DirRef, Name)> {
        self.place(ino)
    }

    fn path_to(&self, dir: DirRef) -> Result<Vec<Name>, Errno> {
        block_on(self.path_to(dir))
    }
}
