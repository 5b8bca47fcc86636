//! Text that several kinds of status have: lost bytes, and the table of shards.

use pando_server::host::status::ShardStatus;

use crate::admin::protocol::MountStatus;
use crate::console::text::{bytes, count, date, table};
use crate::mounting::losses;

/// Number of files with lost bytes that the text names. `--json` names all that are remembered.
const LOSSES_MAX: usize = 20;

pub fn lost(status: &MountStatus) -> String {
    match status.lost_bytes {
        0 => String::new(),
        lost => format!(
            "LOST: {} that programs wrote could not be stored:\n{}",
            bytes(lost),
            losses::lines(&status.losses, lost, LOSSES_MAX)
        ),
    }
}

pub fn shards_table<'a>(shards: impl Iterator<Item = &'a ShardStatus> + Clone) -> String {
    let heading = [
        "shard",
        "inodes",
        "requests",
        "splits",
        "checkpoints",
        "memory",
        "index",
        "not durable",
        "scrub",
        "state",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(shards.clone().map(row));
    let mut text = table(&rows);
    for shard in shards {
        if let Some(reason) = &shard.failed {
            text.push_str(&format!("shard {} has stopped: {reason}\n", shard.shard));
        }
        if let Some(reason) = &shard.pressure {
            text.push_str(&format!(
                "shard {} does not keep up ({} requests wait): {reason}\n",
                shard.shard, shard.braked
            ));
        }
        for what in &shard.unreadable {
            text.push_str(&format!(
                "shard {} cannot read a part of its files; requests that need it get EIO: {what}\n",
                shard.shard
            ));
        }
    }
    text
}

const fn state(shard: &ShardStatus) -> &'static str {
    match (&shard.failed, shard.unreadable.is_empty(), &shard.pressure) {
        (Some(_), ..) => "FAILED",
        (None, false, _) => "DAMAGED",
        (None, true, Some(_)) => "behind",
        (None, true, None) => "ok",
    }
}

/// How far the present pass is, and when the last one ended.
fn scrub(shard: &ShardStatus) -> String {
    let Some(scrub) = shard.scrub else { return "?".to_owned() };
    let percent = (scrub.read_bytes * 100).checked_div(scrub.read_bytes + scrub.left_bytes);
    let percent = percent.map_or_else(|| "empty".to_owned(), |percent| format!("{percent} %"));
    match scrub.ended {
        0 => percent,
        ended => format!("{percent}, whole on {}", date(ended)),
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
        bytes(shard.memory_bytes),
        bytes(shard.index_bytes),
        count(shard.groups_not_durable),
        scrub(shard),
        state(shard).to_owned(),
    ]
}
