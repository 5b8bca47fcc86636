//! `pando status`.

use std::process::ExitCode;

use pando_server::Folder;
use pando_server::admin::{self, Answer};
use pando_server::host::status::ShardStatus;

use crate::cli::StatusArgs;
use crate::failure::{Failure, NOT_RUNNING};
use crate::output;
use crate::protocol::{Query, Told, VolumeStatus};
use crate::text::{bytes, count, table};

pub fn run(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let folder = Folder::new(&args.folder)?;
    let superblock = folder.read()?;
    let shown = folder.path().display();
    let Some(pid) = folder.holder()? else {
        if args.json {
            output::json(&serde_json::json!({
                "running": false,
                "folder": folder.path(),
                "uuid": superblock.uuid,
                "shards": superblock.shards,
            }));
        } else {
            output::line(&format!(
                "{shown} is not running (volume {}, {} shards); `pando up {shown} --mount PATH` starts it",
                superblock.uuid, superblock.shards
            ));
        }
        return Ok(ExitCode::from(NOT_RUNNING));
    };
    let status = match admin::ask(&folder.socket(), &Query::Status) {
        Ok(Answer::Ok(Told::Status(status))) => status,
        Ok(Answer::Ok(_)) => return Err(Failure::plain("the process answered something else")),
        Ok(Answer::Error(error)) => return Err(Failure::plain(error)),
        Err(error) => return Err(crate::down::not_answering(&folder, &pid, &error)),
    };
    if args.json {
        output::json(&status);
    } else {
        output::line(show(&status).trim_end());
    }
    Ok(ExitCode::SUCCESS)
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
    if status.mount.lost_bytes > 0 {
        text.push_str(&format!(
            "LOST: {} that programs wrote could not be stored\n",
            bytes(status.mount.lost_bytes)
        ));
    }
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
    rows.extend(status.shards.iter().map(row));
    text.push_str(&table(&rows));
    for shard in &status.shards {
        if let Some(reason) = &shard.failed {
            text.push_str(&format!("shard {} has stopped: {reason}\n", shard.shard));
        }
    }
    text
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
        if shard.failed.is_some() { "FAILED" } else { "ok" }.to_owned(),
    ]
}
