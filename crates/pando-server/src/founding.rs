//! A new shard: an empty store in this process' folder, served from then on. That makes it no shard
//! of the volume yet: see `Op::AddShard`.
//!
//! 1. A store appears under its name as a whole.
//! 2. It is not made while anybody is known to serve one of this number. Two that are made at the
//!    same time in two folders are told apart by nothing: whoever adds shards does so from one
//!    place.

use pando_types::ShardIndex;

use crate::folder::{Folder, FolderError};
use crate::host::{Host, HostOptions, format_shard};
use crate::net::Server;
use crate::superblock::Superblock;

/// Where it is to be.
pub struct Site<'a> {
    /// The folder.
    pub folder: &'a Folder,
    /// Of the volume.
    pub superblock: &'a Superblock,
    /// How shards are run.
    pub options: &'a HostOptions,
    /// Who is to run it.
    pub host: &'a Host,
    /// Who lets others come to it.
    pub server: &'a Server,
}

impl Site<'_> {
    /// Makes a shard, unless it was made here before, and serves it. `lock` takes it for this
    /// process. Errors are in words.
    pub fn found(
        &self,
        shard: ShardIndex,
        lock: impl FnOnce(&Folder) -> Result<(), FolderError>,
    ) -> Result<(), String> {
        if self.host.epoch(shard).is_some() {
            return Ok(());
        }
        if shard.0 < self.superblock.shards {
            return Err(format!("shard {shard} is one that the volume was made with"));
        }
        if let Some(hosting) = self.server.hosts().get(shard) {
            let at = hosting.addresses.join(" or ");
            return Err(format!("shard {shard} is there already, served at {at}"));
        }
        lock(self.folder).map_err(|error| error.to_string())?;
        make(self.folder, self.superblock, shard.0).map_err(|error| error.to_string())?;
        let path = self.folder.shard(shard.0);
        let start = self.host.take_over(&path, self.superblock, self.options, shard);
        start.map_err(|error| error.what)?;
        let epoch = self.host.epoch(shard).ok_or("it has stopped")?;
        self.server.open_shard(shard, epoch).map_err(|error| error.to_string())
    }
}

/// Makes the store of a new shard in a folder, if it is not there.
pub fn make(folder: &Folder, superblock: &Superblock, shard: u16) -> Result<(), FolderError> {
    folder.make_shard(shard, |path| format_shard(superblock, shard, path))
}
