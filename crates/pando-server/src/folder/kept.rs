//! Which shards a folder keeps.

use pando_types::SHARDS_MAX;

use crate::folder::error::{FolderError, io_error};
use crate::folder::layout::Folder;
use crate::folder::move_notes::Given;

impl Folder {
    /// The shards that have their stores in this folder, without those that were given away.
    pub fn kept(&self) -> Result<Vec<u16>, FolderError> {
        self.read()?;
        let is_here = |shard: &u16| self.shard(*shard).is_dir() && self.check_kept(*shard).is_ok();
        Ok((0..SHARDS_MAX).filter(is_here).collect())
    }

    /// The shards that should have their stores in this folder: those that have, and those that the
    /// volume was made with. Shards that were given away are left out.
    pub fn stores(&self) -> Result<Vec<u16>, FolderError> {
        let superblock = self.read()?;
        // A folder that was made to move shards to has no shards of its own.
        let made = if self.has_objects() { superblock.shards } else { 0 };
        let mut stores = Vec::new();
        for shard in 0..SHARDS_MAX {
            match self.check_kept(shard) {
                Ok(()) => stores.push(shard),
                Err(FolderError::NoShard { .. }) if shard < made => stores.push(shard),
                Err(FolderError::NoShard { .. } | FolderError::Given { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(stores)
    }

    pub(crate) fn check_kept(&self, shard: u16) -> Result<(), FolderError> {
        let path = self.path.clone();
        match Given::read(self, shard) {
            Ok(None) if self.shard(shard).is_dir() => Ok(()),
            Ok(None) => Err(FolderError::NoShard { path, shard }),
            Ok(Some(given)) => {
                Err(FolderError::Given { path, shard, addresses: given.to.addresses })
            }
            Err(error) => Err(io_error("read", &Given::path(self, shard))(error)),
        }
    }
}
