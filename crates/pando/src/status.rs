//! `pando status`: shows the state of a mount, of a `pando up`, or of all servers of a volume.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use pando_server::admin::{self, Answer};
use pando_server::host::status::ShardStatus;
use pando_server::{Folder, Superblock};

use pando_types::ShardIndex;
use pando_wire::{Ask, Told as wire, uuid};
use serde::Serialize;

use crate::asking::{self, IN_TIME};
use crate::cli::StatusArgs;
use crate::connect::{Named, Questioner};
use crate::failure::{FAILED, Failure, NOT_RUNNING};
use crate::keys;
use crate::mounting::losses;
use crate::protocol::{MountStatus, Query, ServerStatus, Told, VolumeStatus};
use crate::text::{bytes, count, table};
use crate::{info, mounts, output};

/// Number of files with lost bytes that the text names. `--json` names all that are remembered.
const LOSSES_MAX: usize = 20;
/// A server that is not suspended has sent its status by then.
const STATUS_WITHIN: Duration = Duration::from_secs(4);

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
        .map_err(|failure| crate::down::suspended(&holders, failure))?;
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
    let status = match info::ask(root, volume, &Query::Status, IN_TIME)? {
        Answer::Ok(Told::Mount(status)) => status,
        Answer::Ok(Told::Status(status)) => status.mount,
        Answer::Ok(_) => return Err(Failure::plain("the process answered something else")),
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

fn lost(status: &MountStatus) -> String {
    match status.lost_bytes {
        0 => String::new(),
        lost => format!(
            "LOST: {} that programs wrote could not be stored:\n{}",
            bytes(lost),
            losses::lines(&status.losses, lost, LOSSES_MAX)
        ),
    }
}

/// Shows the status of a `pando up`.
fn whole(args: &StatusArgs, folder: &Folder, pid: &str) -> Result<ExitCode, Failure> {
    let status = match asking::ask(&folder.socket(), &Query::Status, IN_TIME) {
        Ok(Answer::Ok(Told::Status(status))) => status,
        Ok(Answer::Ok(_)) => return Err(Failure::plain("the process answered something else")),
        Ok(Answer::Error(error)) => return Err(Failure::plain(error)),
        Err(error) => return Err(crate::down::not_answering(folder, pid, &error)),
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

/// The status of a volume whose shards are served by several processes.
#[derive(Serialize)]
struct Cluster {
    running: bool,
    volume: String,
    uuid: String,
    servers: Vec<Process>,
}

/// The status of one process of a cluster.
#[derive(Serialize)]
struct Process {
    addresses: Vec<String>,
    shards: Vec<u16>,
    /// Why the process does not answer, or `None` if it does.
    error: Option<String>,
    #[serde(flatten)]
    status: Option<ServerStatus>,
}

/// Asks every process. `holders` are processes of this machine that serve shards.
fn ask_all(named: &Named, questioner: &Questioner, holders: &[(u16, String)]) -> Cluster {
    let mut known = questioner.processes();
    known.sort_by_key(|(_, shards)| shards.first().copied());
    let all: Vec<_> = known.iter().map(|(addresses, _)| addresses.clone()).collect();
    let told = questioner.ask_each(&all, &Ask::Status, STATUS_WITHIN);
    let suspended = |shards: &[ShardIndex]| {
        let mut here = holders.iter().filter(|(held, _)| shards.contains(&ShardIndex(*held)));
        here.find_map(|(_, pid)| admin::suspended(pid.parse().ok()?))
    };
    let mut servers: Vec<Process> = known
        .into_iter()
        .zip(told)
        .map(|((addresses, shards), told)| {
            let status = match told {
                Err(_) if addresses.is_empty() => {
                    Err("none of its addresses can be used from here".to_owned())
                }
                Ok(wire::Json(json)) => {
                    serde_json::from_str(&json).map_err(|error| error.to_string())
                }
                Ok(_) => Err("it answered something else".to_owned()),
                Err(error) => Err(match suspended(&shards) {
                    Some(why) => format!("{error}; {why}"),
                    None => error.to_string(),
                }),
            };
            let addresses = addresses.iter().map(|address| address.to_string()).collect();
            let shards = shards.into_iter().map(|shard| shard.0).collect();
            let (status, error) = match status {
                Ok(status) => (Some(status), None),
                Err(error) => (None, Some(error)),
            };
            Process { addresses, shards, error, status }
        })
        .collect();
    let facts = questioner.facts();
    let is_known = |shard: &u16| servers.iter().any(|server| server.shards.contains(shard));
    let missing: Vec<u16> = (0..facts.map.shards).filter(|shard| !is_known(shard)).collect();
    if !missing.is_empty() {
        let error = Some("never started, or nobody knows where".to_owned());
        servers.push(Process { addresses: Vec::new(), shards: missing, error, status: None });
    }
    Cluster { running: true, volume: named.shown(), uuid: uuid(&facts.id), servers }
}

fn show_cluster(cluster: &Cluster) -> String {
    let mut text = format!("{} is served (volume {})\n", cluster.volume, cluster.uuid);
    for server in &cluster.servers {
        let shards: Vec<_> = server.shards.iter().map(u16::to_string).collect();
        let what = match (&server.status, &server.error) {
            (Some(status), _) => format!(
                "process {}, for {} s, durability {}",
                status.pid,
                count(status.started_seconds_ago),
                status.durability
            ),
            (None, Some(error)) => format!("NOT REACHED: {error}"),
            (None, None) => String::new(),
        };
        text.push_str(&format!(
            "shards {} at {}: {what}\n",
            shards.join(","),
            server.addresses.join(", ")
        ));
    }
    let statuses = cluster.servers.iter().filter_map(|server| server.status.as_ref());
    text + &shards_table(statuses.flat_map(|status| &status.shards))
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

fn shards_table<'a>(shards: impl Iterator<Item = &'a ShardStatus> + Clone) -> String {
    let heading = [
        "shard",
        "inodes",
        "requests",
        "splits",
        "checkpoints",
        "memory",
        "index",
        "not durable",
        "state",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(shards.clone().map(row));
    let mut text = table(&rows);
    for shard in shards {
        if let Some(reason) = &shard.failed {
            text.push_str(&format!("shard {} has stopped: {reason}\n", shard.shard));
        }
        for what in &shard.unreadable {
            text.push_str(&format!(
                "shard {} cannot read a part of its files, and tells EIO to who needs it: {what}\n",
                shard.shard
            ));
        }
    }
    text
}

const fn state(shard: &ShardStatus) -> &'static str {
    match (&shard.failed, shard.unreadable.is_empty()) {
        (Some(_), _) => "FAILED",
        (None, false) => "DAMAGED",
        (None, true) => "ok",
    }
}

fn row(shard: &ShardStatus) -> Vec<String> {
    let counter = |name: &str| shard.counters.get(name).copied().unwrap_or(0);
    vec![
        shard.shard.to_string(),
        shard.inodes.map_or_else(|| "?".to_owned(), count),
        count(counter("requests")),
        count(counter("shard_splits_local") + counter("shard_splits_moved")),
        count(counter("checkpoints")),
        bytes(shard.tree_bytes + shard.frozen_bytes),
        bytes(shard.index_bytes),
        count(shard.groups_not_durable),
        state(shard).to_owned(),
    ]
}
