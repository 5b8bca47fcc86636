//! `pando gc`: deletes objects that no file names while the volume runs.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use pando_fsck::Collected;

use crate::collecting::collect::collect_in;
use crate::console::output;
use crate::console::text::{bytes, count, several};
use crate::failure::Failure;
use crate::volume::keys;
use crate::volume::named::Named;

/// Delete file data that no file names any more, while the volume runs
///
/// A mount that dies may leave objects that are not part of a file yet. The server of shard 0
/// deletes these once a day (--gc-seconds); this command does it now. Objects of sessions that are
/// alive are left alone.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando gc ~/volume --dry-run        how much there is
  pando gc ~/volume                  and delete it")]
pub struct GcArgs {
    /// Folder of the volume, or address of any of its servers
    #[arg(value_name = "FOLDER-or-ADDRESS")]
    pub target: String,
    /// File with a key of the volume; needed over TCP [default: $PANDO_KEY, then the volume's key
    /// in ~/.config/pando or /etc/pando]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Folder of the volume's objects on this machine [default: the path that the servers use]
    #[arg(long, value_name = "FOLDER")]
    pub objects: Option<PathBuf>,
    /// Only show how much would be deleted
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &GcArgs) -> Result<ExitCode, Failure> {
    let named = Named::parse(&args.target)?;
    let keys = keys::find(&named, args.key.as_ref())?;
    let objects = args.objects.as_ref();
    let collected = collect_in(&named, keys, objects, (args.dry_run, &Arc::default()))?;
    if args.json {
        output::json(&serde_json::json!({
            "objects": collected.objects,
            "of_sessions_that_live": collected.of_the_living,
            "unneeded": collected.collected,
            "bytes": collected.bytes,
            "deleted": !args.dry_run,
        }));
    } else {
        output::line(&told(&collected, args.dry_run));
    }
    Ok(ExitCode::SUCCESS)
}

fn told(collected: &Collected, is_trial: bool) -> String {
    let Collected { objects, of_the_living, collected, bytes: size } = *collected;
    let done = if is_trial { "would be deleted" } else { "deleted" };
    format!(
        "{} that no file names {done} ({}), of {}; {} of open sessions were kept",
        several(collected, "object", "objects"),
        bytes(size),
        count(objects),
        count(of_the_living)
    )
}
