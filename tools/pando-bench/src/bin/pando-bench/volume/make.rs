//! Makes new volumes.

use std::time::{SystemTime, UNIX_EPOCH};

use pando_keys::KeysFolder;
use pando_server::host::format_shard;
use pando_server::{Folder, Superblock};
use tempfile::TempDir;

use crate::output::failure::Failure;

/// A temporary folder that is removed when it is dropped.
pub fn temporary(prefix: &str) -> Result<TempDir, Failure> {
    TempDir::with_prefix(prefix).map_err(|error| {
        let folder = std::env::temp_dir();
        Failure::plain(format!("cannot make a temporary folder in {}: {error}", folder.display()))
    })
}

/// Makes a volume and its keys in the folder.
pub fn format(folder: &Folder, shards: u16) -> Result<Superblock, Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let nanos = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    let superblock = Superblock::new(shards, nanos)
        .map_err(|error| Failure::plain(format!("no random numbers from the system: {error}")))?;
    folder.format(&superblock, |shard, path| format_shard(&superblock, shard, path))?;
    KeysFolder::create(&folder.keys(), superblock.id()).map_err(|error| {
        let shown = folder.path().display();
        Failure::plain(format!("cannot make keys of the volume in {shown}: {error}"))
    })?;
    Ok(superblock)
}
