//! `pando shard add`: adds one shard to a volume. The command only asks; all progress is kept by
//! the shards. After an interruption, the command continues when it is run again.
//!
//! The steps:
//! 1. The process that is to serve the shard makes it.
//! 2. Shard 0 takes it into the volume.
//! 3. The shards that own its share of hash slots hand them over, one by one.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use pando_client::Transport;
use pando_types::op::Op;
use pando_types::{SHARDS_MAX, ShardIndex};
use pando_wire::{Address, Ask, Told};

use super::share::{share, unfinished};
use super::taking::{PAUSE, ask, take_over};
use crate::commands::shard::args::ShardAddArgs;
use crate::console::output;
use crate::console::text::count;
use crate::failure::Failure;
use crate::volume::connect::connect;
use crate::volume::keys;
use crate::volume::map::{superblock, whole_map};
use crate::volume::named::Named;
use crate::volume::questioner::Questioner;

/// Every server knows a new shard within this time.
const KNOWN_WITHIN: Duration = Duration::from_secs(30);

pub fn run(args: &ShardAddArgs) -> Result<ExitCode, Failure> {
    let named = Named::parse(&args.target)?;
    let keys = keys::find(&named, args.key.as_ref())?;
    let mut questioner = Questioner::new(&named, keys.clone())?;
    let mut map = whole_map(&mut questioner);
    let made_with = superblock(&mut questioner)?.shards;
    let shard = match unfinished(&map, made_with) {
        Some(shard) => shard,
        None if map.shards == SHARDS_MAX => {
            return Err(Failure::plain(format!("the volume has {SHARDS_MAX} shards already")));
        }
        None => ShardIndex(map.shards),
    };
    found(&mut questioner, args, shard)?;
    let connected = connect(&named, keys)?;
    let transport: &dyn Transport = &*connected.transport;
    take_in(transport, shard)?;
    map.grow(shard.0 + 1);
    let moved = take_over(transport, &map, shard, args)?;
    let slots = share(shard).count() as u64;
    if args.json {
        output::json(&serde_json::json!({ "shard": shard.0, "slots": slots, "moved": moved }));
    } else {
        output::line(&format!(
            "shard {shard} is part of the volume, with {} hash slots ({} moved now)",
            count(slots),
            count(moved)
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes the shard in a server process, unless one already serves it.
fn found(
    questioner: &mut Questioner,
    args: &ShardAddArgs,
    shard: ShardIndex,
) -> Result<(), Failure> {
    let host_of = |questioner: &Questioner, shard: ShardIndex| {
        let mut processes = questioner.processes().into_iter();
        processes.find(|(_, shards)| shards.contains(&shard)).map(|(addresses, _)| addresses)
    };
    let is_there = host_of(questioner, shard).is_some();
    let to: Vec<Address> = match &args.to {
        _ if is_there => return Ok(()),
        Some(to) => vec![to.clone()],
        None => host_of(questioner, ShardIndex(0)).unwrap_or_default(),
    };
    match questioner.ask(&to, Ask::Found(shard)).map_err(Failure::plain)? {
        Told::Founded => Ok(()),
        Told::Failed(why) => Err(Failure::plain(format!("shard {shard} was not made: {why}"))),
        _ => Err(Failure::unexpected("the server")),
    }
}

/// Makes shard 0 take the new shard into the volume.
fn take_in(transport: &dyn Transport, shard: ShardIndex) -> Result<(), Failure> {
    let begun = Instant::now();
    loop {
        match ask(transport, ShardIndex(0), Op::AddShard(shard)) {
            Some(Ok(())) => return Ok(()),
            Some(Err(refusal)) => {
                return Err(Failure::plain(format!("shard 0 refused shard {shard}: {refusal}")));
            }
            None if begun.elapsed() > KNOWN_WITHIN => {
                return Err(Failure::plain(format!(
                    "shard {shard} was made, but shard 0 does not answer or cannot reach it: see \
                     that all servers run, then run this again"
                )));
            }
            None => std::thread::sleep(PAUSE),
        }
    }
}
