//! `pando shard list`: shows each shard, where it runs, and what is moving.

use std::process::ExitCode;

use pando_placement::ClusterMap;
use pando_types::{HashSlot, ShardIndex};
use pando_wire::{Address, Ask, MoveStage, Moving, Told, uuid};
use serde::Serialize;

use super::share::{share, unfinished};
use crate::admin::protocol::ServerStatus;
use crate::commands::shard::args::ShardListArgs;
use crate::console::output;
use crate::console::text::{bytes, count, table};
use crate::failure::{FAILED, Failure};
use crate::volume::keys;
use crate::volume::map::{superblock, whole_map};
use crate::volume::named::Named;
use crate::volume::questioner::Questioner;

/// All shards of a volume, with additions and moves that are under way.
#[derive(Serialize)]
struct List {
    volume: String,
    uuid: String,
    /// Epoch of the map of hash slots to shards.
    map_epoch: u64,
    shards: Vec<Row>,
    adds: Vec<Addition>,
    moves: Vec<Move>,
}

/// One shard.
#[derive(Serialize)]
struct Row {
    shard: u16,
    /// Addresses of its host. Empty if they are unknown.
    addresses: Vec<String>,
    epoch: Option<u64>,
    /// Hash slots that it owns, of 65,536.
    slots: u32,
    /// `None` here and below: the shard does not answer.
    partitions: Option<u64>,
    entries: Option<u64>,
    /// Bytes of its store, in index files and memory.
    bytes: Option<u64>,
    error: Option<String>,
}

/// A shard that was added and does not own its whole share of hash slots yet. `pando shard add` is
/// running, or was interrupted.
#[derive(Serialize)]
struct Addition {
    shard: u16,
    slots: u64,
    of_slots: u64,
}

/// A shard that is moving to another process.
#[derive(Serialize)]
struct Move {
    shard: u16,
    from: Vec<String>,
    to: Vec<String>,
    stage: &'static str,
    copied_bytes: u64,
    /// An estimate.
    total_bytes: u64,
    error: Option<String>,
}

pub fn run(args: &ShardListArgs) -> Result<ExitCode, Failure> {
    let named = Named::parse(&args.target)?;
    let mut questioner = Questioner::new(&named, keys::find(&named, args.key.as_ref())?)?;
    let list = ask_all(&named, &mut questioner);
    if args.json {
        output::json(&list);
    } else {
        output::line(show(&list).trim_end());
    }
    let all_answer = list.shards.iter().all(|row| row.error.is_none());
    Ok(if all_answer { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn ask_all(named: &Named, questioner: &mut Questioner) -> List {
    let mut facts = questioner.facts().clone();
    facts.map = whole_map(questioner);
    let slots = hash_slots(&facts.map);
    let mut rows: Vec<Row> = (0..facts.map.shards)
        .map(|shard| Row {
            shard,
            addresses: Vec::new(),
            epoch: None,
            slots: slots[usize::from(shard)],
            partitions: None,
            entries: None,
            bytes: None,
            error: Some("never started, or at an unknown address".to_owned()),
        })
        .collect();
    let mut moves: Vec<(bool, Moving)> = Vec::new();
    for (addresses, shards) in questioner.processes() {
        let shown: Vec<String> = addresses.iter().map(Address::to_string).collect();
        let status = status(questioner, &addresses);
        for shard in shards {
            let Some(row) = rows.get_mut(usize::from(shard.0)) else { continue };
            row.addresses.clone_from(&shown);
            row.error = status.as_ref().err().cloned();
            if let Ok(status) = &status {
                fill(row, status, questioner, &addresses);
            }
        }
        if let Ok(Told::Moves(told)) = questioner.ask(&addresses, Ask::Moves) {
            let from_afar = |moving: &Moving| !moving.to.iter().any(|to| shown.contains(to));
            moves.extend(told.into_iter().map(|moving| (from_afar(&moving), moving)));
        }
    }
    List {
        volume: named.shown(),
        uuid: uuid(&facts.id),
        map_epoch: facts.map.epoch,
        shards: rows,
        adds: additions(questioner, &facts.map),
        moves: each_once(moves),
    }
}

fn additions(questioner: &mut Questioner, map: &ClusterMap) -> Vec<Addition> {
    let Ok(superblock) = superblock(questioner) else { return Vec::new() };
    let unfinished = unfinished(map, superblock.shards).into_iter();
    let addition = |shard: ShardIndex| Addition {
        shard: shard.0,
        slots: share(shard).filter(|&hash_slot| map.hash_slot_owner(hash_slot) == shard).count()
            as u64,
        of_slots: share(shard).count() as u64,
    };
    unfinished.map(addition).collect()
}

/// Removes duplicates of moves that both source and target report, and keeps the target's, which
/// knows more. The flag says that the source reported it.
fn each_once(mut told: Vec<(bool, Moving)>) -> Vec<Move> {
    told.sort_by_key(|(from_afar, moving)| (moving.shard, *from_afar));
    told.dedup_by(|(_, later), (_, earlier)| {
        (later.shard, &later.to) == (earlier.shard, &earlier.to)
    });
    let told = told.into_iter().map(|(_, moving)| moving);
    let under_way = told.filter(|moving| moving.stage != MoveStage::Done);
    let shown = |moving: Moving| Move {
        shard: moving.shard.0,
        from: moving.from,
        to: moving.to,
        stage: moving.stage.name(),
        copied_bytes: moving.copied,
        total_bytes: moving.total,
        error: match moving.stage {
            MoveStage::Failed(why) => Some(why),
            _ => None,
        },
    };
    under_way.map(shown).collect()
}

fn hash_slots(map: &ClusterMap) -> Vec<u32> {
    let mut slots = vec![0; usize::from(map.shards)];
    for hash_slot in 0..=u16::MAX {
        slots[usize::from(map.hash_slot_owner(HashSlot(hash_slot)).0)] += 1;
    }
    slots
}

fn status(questioner: &mut Questioner, addresses: &[Address]) -> Result<ServerStatus, String> {
    match questioner.ask(addresses, Ask::Status) {
        Ok(Told::Json(json)) => serde_json::from_str(&json).map_err(|error| error.to_string()),
        Ok(_) => Err("it sent an unexpected reply".to_owned()),
        Err(_) if addresses.is_empty() => {
            Err("none of its addresses can be used from here".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

fn fill(row: &mut Row, status: &ServerStatus, questioner: &mut Questioner, at: &[Address]) {
    let Some(shard) = status.shards.iter().find(|shard| shard.shard == row.shard) else {
        row.error = Some("its server no longer serves it".to_owned());
        return;
    };
    row.error.clone_from(&shard.failed);
    row.epoch = Some(shard.epoch);
    row.bytes = Some(shard.index_bytes + shard.tree_bytes + shard.frozen_bytes);
    match census(questioner, at, ShardIndex(row.shard)) {
        Ok((partitions, entries)) => {
            (row.partitions, row.entries) = (Some(partitions), Some(entries));
        }
        Err(why) => row.error = row.error.take().or(Some(why)),
    }
}

/// Counts partitions and names. A shard is busy while it counts, so each query covers only a part.
fn census(
    questioner: &mut Questioner,
    addresses: &[Address],
    shard: ShardIndex,
) -> Result<(u64, u64), String> {
    let (mut partitions, mut entries, mut from) = (0, 0, Some(Vec::new()));
    while let Some(at) = from {
        match questioner.ask(addresses, Ask::Census(shard, at)) {
            Ok(Told::Census(census)) => {
                partitions += census.partitions;
                entries += census.entries;
                from = census.next;
            }
            Ok(Told::Failed(why)) => return Err(why),
            Ok(_) => return Err("it sent an unexpected reply".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok((partitions, entries))
}

fn show(list: &List) -> String {
    let heading = ["shard", "epoch", "hash slots", "partitions", "names", "bytes", "served at"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    let or_unknown = |n: Option<String>| n.unwrap_or_else(|| "?".to_owned());
    rows.extend(list.shards.iter().map(|row| {
        vec![
            row.shard.to_string(),
            or_unknown(row.epoch.map(count)),
            count(row.slots.into()),
            or_unknown(row.partitions.map(count)),
            or_unknown(row.entries.map(count)),
            or_unknown(row.bytes.map(bytes)),
            row.addresses.first().cloned().unwrap_or_else(|| "?".to_owned()),
        ]
    }));
    let mut text = table(&rows);
    for row in &list.shards {
        if let Some(error) = &row.error {
            text.push_str(&format!("shard {}: {error}\n", row.shard));
        }
    }
    for adding in &list.adds {
        text.push_str(&format!(
            "shard {} is being added: {} of {} hash slots moved (`pando shard add` continues)\n",
            adding.shard,
            count(adding.slots),
            count(adding.of_slots)
        ));
    }
    for moving in &list.moves {
        let (shard, to) = (moving.shard, moving.to.first().map_or("?", String::as_str));
        match &moving.error {
            Some(error) => {
                text.push_str(&format!("shard {shard} could not move to {to}: {error}\n"));
            }
            None => text.push_str(&format!(
                "shard {shard} moves to {to}: {}, {} of about {}\n",
                moving.stage,
                bytes(moving.copied_bytes),
                bytes(moving.total_bytes.max(moving.copied_bytes))
            )),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_of_which_both_sides_tell_is_listed_once_as_the_target_tells_it() {
        let moving = |shard: u16, stage, copied| Moving {
            shard: ShardIndex(shard),
            from: vec!["a".to_owned()],
            to: vec!["b".to_owned()],
            stage,
            copied,
            total: 100,
        };
        let told = vec![
            (true, moving(1, MoveStage::Copying, 40)),
            (true, moving(2, MoveStage::Copying, 30)),
            (true, moving(3, MoveStage::Copying, 20)),
            (false, moving(1, MoveStage::Copying, 50)),
            (false, moving(3, MoveStage::Done, 90)),
        ];
        let listed = each_once(told);
        let listed: Vec<_> = listed.iter().map(|one| (one.shard, one.copied_bytes)).collect();
        assert_eq!(listed, [(1, 50), (2, 30)]);
    }

    #[test]
    fn every_hash_slot_has_an_owner() {
        let slots = hash_slots(&ClusterMap::new(4));
        assert_eq!((slots.len(), slots.iter().sum::<u32>()), (4, 1 << 16));
        assert!(slots.iter().all(|&slots| slots > 1 << 13), "{slots:?}");
    }
}
