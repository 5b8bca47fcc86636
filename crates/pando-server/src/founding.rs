//! Makes a new shard: an empty store in this process's folder, which the process then serves. The
//! shard joins the volume later, by `Op::AddShard`.
//!
//! 1. A store appears under its name as a whole.
//! 2. A shard is not made while a server is known that serves one of its index. Two shards of one
//!    index that are made in two folders at once cannot be told apart. So an administrator adds
//!    shards from one place only.

use pando_types::ShardIndex;

use crate::common::options::HostOptions;
use crate::folder::error::FolderError;
use crate::folder::layout::Folder;
use crate::folder::superblock::Superblock;
use crate::host::shards::Host;
use crate::host::start::format_shard;
use crate::net::server::Server;

/// Where the new shard is made and served.
pub struct Site<'a> {
    /// The folder.
    pub folder: &'a Folder,
    /// Superblock of the volume.
    pub superblock: &'a Superblock,
    /// How shards are run.
    pub options: &'a HostOptions,
    /// The host that runs the shard.
    pub host: &'a Host,
    /// The server that admits connections to the shard.
    pub server: &'a Server,
}

impl Site<'_> {
    /// Makes a shard, unless it was made here before, and serves it. `lock` locks the shard for
    /// this process. Errors are in words.
    pub fn found(
        &self,
        shard: ShardIndex,
        lock: impl FnOnce(&Folder) -> Result<(), FolderError>,
    ) -> Result<(), String> {
        if self.host.epoch(shard).is_some() {
            return Ok(());
        }
        if shard.0 < self.superblock.shards {
            let first = self.superblock.shards;
            return Err(format!(
                "shard {shard} was made with the volume and cannot be added: take a number from {first} on"
            ));
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
        let epoch = self
            .host
            .epoch(shard)
            .ok_or("the new shard has stopped: the log of its server says why")?;
        self.server.open_shard(shard, epoch).map_err(|error| error.to_string())
    }
}

/// Makes the store of a new shard in a folder, if it is not there.
pub fn make(folder: &Folder, superblock: &Superblock, shard: u16) -> Result<(), FolderError> {
    folder.make_shard(shard, |path| format_shard(superblock, shard, path))
}
