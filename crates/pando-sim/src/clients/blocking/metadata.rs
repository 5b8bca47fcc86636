//! A client in the form that `pando-data` wants: blocking, on a thread that waits through its
//! baton.

use std::sync::Arc;

use pando_client::Client;
use pando_data::{Metadata, WriteError};
use pando_types::op::{ObjectId, Piece};
use pando_types::reply::Layout;
use pando_types::{Attr, Credentials, Errno, Ino, Kill, SetAttr, ShardIndex, Timestamp};

use super::baton::Baton;

/// A client with blocking calls.
pub struct Blocking {
    /// The client.
    pub client: Arc<Client>,
    /// The baton through which its calls wait.
    pub baton: Arc<Baton>,
}

impl Metadata for Blocking {
    fn getattr(&self, ino: Ino) -> Result<Attr, Errno> {
        self.baton.wait(self.client.getattr(ino))
    }

    fn setattr(&self, credentials: &Credentials, ino: Ino, set: SetAttr) -> Result<Attr, Errno> {
        self.baton.wait(self.client.setattr(credentials, ino, set))
    }

    fn setattr_open(&self, ino: Ino, set: SetAttr) -> Result<Attr, Errno> {
        self.baton.wait(self.client.setattr_open(ino, set))
    }

    fn read_data(&self, ino: Ino, offset: u64, len: u64) -> Result<Layout, Errno> {
        self.baton.wait(self.client.read_data(ino, offset, len))
    }

    fn write_data(
        &self,
        ino: Ino,
        base: Option<u64>,
        pieces: Vec<Piece>,
        mtime: Option<Timestamp>,
        kill: Option<Kill>,
    ) -> Result<Attr, WriteError> {
        Ok(self.baton.wait(self.client.write_data(ino, base, pieces, mtime, kill))?)
    }

    fn settled(&self, ino: Ino) -> Result<(), Errno> {
        self.baton.wait(self.client.settled(ino))
    }

    fn sync_file(&self, ino: Ino) -> Result<(), Errno> {
        self.baton.wait(self.client.sync_file(ino))
    }

    fn new_object(&self) -> ObjectId {
        self.client.new_object()
    }

    fn unneeded(&self) -> Vec<ObjectId> {
        self.client.unneeded()
    }

    fn garbage(&self) -> Result<Vec<(ShardIndex, ObjectId)>, Errno> {
        self.baton.wait(self.client.garbage())
    }

    fn garbage_done(&self, deleted: Vec<(ShardIndex, ObjectId)>) -> Result<(), Errno> {
        self.baton.wait(self.client.garbage_done(&deleted))
    }

    fn shard_of(&self, ino: Ino) -> ShardIndex {
        self.client.shard_of(ino)
    }

    fn time_at(&self, shard: ShardIndex) -> Timestamp {
        self.client.time_at(shard)
    }
}
