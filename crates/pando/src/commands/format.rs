//! `pando format`: makes a volume in a folder.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pando_server::Folder;

use crate::console::number::number;
use crate::console::output;
use crate::failure::Failure;
use crate::volume::format::{SHARDS, format};

/// Make a volume in an empty or new folder
///
/// `pando up` makes the volume by itself, so it needs no `pando format`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pando format ~/volume --shards 8")]
pub struct FormatArgs {
    /// Folder of the new volume; it must be empty, or not exist yet
    pub folder: PathBuf,
    /// Number of shards, 1 to 256; `pando shard add` adds more later, none can be removed
    #[arg(long, value_name = "N", default_value_t = SHARDS, value_parser = number::<u16>(1..=256))]
    pub shards: u16,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

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
