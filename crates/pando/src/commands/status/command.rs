//! Finds out what the user asks about, and shows its state.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use pando_server::admin::Answer;
use pando_server::{Folder, Superblock};

use super::cluster::{ask_all, show_cluster};
use super::tables::{lost, shards_table};
use crate::admin::asking::{self, IN_TIME};
use crate::admin::protocol::{MountStatus, Query, Told, VolumeStatus};
use crate::admin::{mount, silent};
use crate::console::output;
use crate::console::text::{bytes, count, table};
use crate::failure::{FAILED, Failure, NOT_RUNNING};
use crate::mounts;
use crate::volume::keys;
use crate::volume::named::Named;
use crate::volume::questioner::Questioner;

/// Show what a volume and its shards are doing, or what a mount is doing
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando status ~/volume
  pando status ~/tree                                       of a mount: what the kernel asked, and what it cost
  pando status ~/volume --json | jq '.shards[].counters'
  pando status 10.0.0.1:7400 --key ada.pem")]
pub struct StatusArgs {
    /// Folder of the volume, address of any of its servers, or folder at which it is mounted
    #[arg(value_name = "FOLDER-or-ADDRESS-or-MOUNT")]
    pub target: String,
    /// File with a key of the volume; needed over TCP [default: $PANDO_KEY, then the volume's key
    /// in ~/.config/pando or /etc/pando]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Print one JSON object, with all counters and latencies
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &StatusArgs) -> Result<ExitCode, Failure> {
    if let Some((root, volume)) = mounted_at(Path::new(&args.target))? {
        return mount(args, &root, &volume);
    }
    let named = Named::parse(&args.target)?;
    if let Named::Folder(folder, superblock) = &named {
        if let Some(pid) = folder.holder()? {
            return whole(args, folder, &pid);
        }
        if folder.shard_holders()?.is_empty() {
            stopped(args, folder, superblock);
            return Ok(ExitCode::from(NOT_RUNNING));
        }
    }
    let holders = match &named {
        Named::Folder(folder, _) => folder.shard_holders()?,
        Named::Servers(_) => Vec::new(),
    };
    let questioner = Questioner::new(&named, keys::find(&named, args.key.as_ref())?)
        .map_err(|failure| silent::suspended(&holders, failure))?;
    let cluster = ask_all(&named, &questioner, &holders);
    if args.json {
        output::json(&cluster);
    } else {
        output::line(show_cluster(&cluster).trim_end());
    }
    let all_answer = cluster.servers.iter().all(|server| server.error.is_none());
    Ok(if all_answer { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// The mountpoint and the volume, if a mount of Pando is at exactly this path. The mount itself is
/// not asked, since it may hang.
fn mounted_at(path: &Path) -> Result<Option<(PathBuf, String)>, Failure> {
    let Ok(path) = std::path::absolute(path) else { return Ok(None) };
    let all = mounts::all()
        .map_err(|error| Failure::plain(format!("cannot read the list of mounts: {error}")))?;
    let at = all.into_iter().rev().find(|mount| path == mount.path);
    // Returns the list's own spelling of the path, since it names the socket. The user may have
    // typed a slash more.
    Ok(at.and_then(|mount| Some((mount.path.clone(), mount.volume()?))))
}

/// Shows the status of one mount, which a `pando mount` or a `pando up` serves.
fn mount(args: &StatusArgs, root: &Path, volume: &str) -> Result<ExitCode, Failure> {
    let status = match mount::ask(root, volume, &Query::Status, IN_TIME)? {
        Answer::Ok(Told::Mount(status)) => status,
        Answer::Ok(Told::Status(status)) => status.mount,
        Answer::Ok(_) => return Err(Failure::unexpected("the process")),
        Answer::Error(error) => return Err(Failure::plain(error)),
    };
    if args.json {
        output::json(&status);
    } else {
        output::line(show_mount(&status, volume).trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

fn show_mount(status: &MountStatus, volume: &str) -> String {
    let mut text = format!(
        "{volume} is mounted at {}: {} inodes known, {} not yet stored\n",
        status.path,
        count(status.known_inodes),
        bytes(status.dirty_bytes),
    );
    text.push_str(&lost(status));
    for (heading, counts) in [
        ("requests of the kernel", &status.requests),
        ("messages to shards", &status.messages),
        ("of the kernel", &status.counters),
    ] {
        let mut rows = vec![vec![heading.to_owned(), String::new()]];
        rows.extend(counts.iter().map(|(name, number)| vec![name.clone(), count(*number)]));
        text.push_str(&table(&rows));
    }
    text
}

/// Shows the status of a `pando up`.
fn whole(args: &StatusArgs, folder: &Folder, pid: &str) -> Result<ExitCode, Failure> {
    let status = match asking::ask(&folder.socket(), &Query::Status, IN_TIME) {
        Ok(Answer::Ok(Told::Status(status))) => status,
        Ok(Answer::Ok(_)) => return Err(Failure::unexpected("the process")),
        Ok(Answer::Error(error)) => return Err(Failure::plain(error)),
        Err(error) => return Err(silent::not_answering(folder, pid, &error)),
    };
    if args.json {
        output::json(&status);
    } else {
        output::line(show(&status).trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

fn stopped(args: &StatusArgs, folder: &Folder, superblock: &Superblock) {
    if args.json {
        return output::json(&serde_json::json!({
            "running": false,
            "folder": folder.path().display().to_string(),
            "uuid": superblock.uuid,
            "shards": superblock.shards,
        }));
    }
    let shown = folder.path().display();
    output::line(&format!(
        "{shown} is not running (volume {}, {} shards); `pando up {shown} --mount PATH` starts it",
        superblock.uuid, superblock.shards
    ));
}

fn show(status: &VolumeStatus) -> String {
    let mut text = format!(
        "{} is running: process {}, for {} s, durability {}\nvolume {}, mounted at {}\n",
        status.folder,
        status.pid,
        count(status.started_seconds_ago),
        status.durability,
        status.uuid,
        status.mount.path,
    );
    text.push_str(&lost(&status.mount));
    text + &shards_table(status.shards.iter())
}
