//! `pando format`: makes a volume in a folder.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use pando_keys::KeysFolder;
use pando_server::host::format_shard;
use pando_server::{Folder, Superblock};

use crate::cli::FormatArgs;
use crate::failure::Failure;
use crate::output;

pub fn run(args: &FormatArgs) -> Result<ExitCode, Failure> {
    let folder = Folder::new(&args.folder)?;
    let superblock = format(&folder, args.shards)?;
    if args.json {
        output::json(&serde_json::json!({
            "folder": folder.path().display().to_string(),
            "uuid": superblock.uuid,
            "shards": superblock.shards,
        }));
    } else {
        let shown = folder.path().display();
        output::line(&format!(
            "made volume {} with {} shards in {shown}; `pando up {shown} --mount PATH` mounts it",
            superblock.uuid, superblock.shards
        ));
    }
    Ok(ExitCode::SUCCESS)
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
        Failure::plain(format!(
            "the volume in {shown} is made, but not its keys ({error}): `pando auth init {shown}` makes them"
        ))
    })?;
    Ok(superblock)
}
