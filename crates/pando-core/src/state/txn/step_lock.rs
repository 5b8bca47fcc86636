//! The locks that a step takes at its participant.

use pando_placement::parent;
use pando_types::PartitionIndex;
use pando_types::peer::{Arrival, Prepare};

use crate::contract::{Config, Halt};
use crate::records::record::{Header, Record};
use crate::state::lock_key::{Hold, LockKey};
use crate::state::stop::broken;

/// The locks that a step takes, and how they are held.
pub fn locks_of(
    config: &Config,
    prepare: &Prepare,
) -> Result<impl Iterator<Item = (LockKey, Hold)> + use<>, Halt> {
    let seal = match prepare {
        Prepare::Removal(dir) => Some((LockKey::Partition(dir.id, PartitionIndex(0)), Hold::Seal)),
        _ => None,
    };
    let (lock, hold) = lock_of(config, prepare)?;
    Ok(lock.map(|lock| (lock, hold)).into_iter().chain(seal))
}

fn lock_of(config: &Config, prepare: &Prepare) -> Result<(Option<LockKey>, Hold), Halt> {
    Ok(match prepare {
        Prepare::Graph(claim) => (Some(crate::state::txn::graph::lock_of(claim)), Hold::Plain),
        Prepare::Name { dir, name, .. } => {
            let order = config.secrets.order(name.as_bytes());
            (Some(LockKey::Name(dir.id, order.0)), Hold::Plain)
        }
        Prepare::Home(dir) | Prepare::Removal(dir) => (Some(LockKey::Home(dir.id)), Hold::Plain),
        Prepare::NewHome(id) => (Some(LockKey::Home(*id)), Hold::Plain),
        Prepare::Partition { dir, partition, seal } => {
            let hold = if *seal { Hold::Seal } else { Hold::Plain };
            (Some(LockKey::Partition(dir.id, *partition)), hold)
        }
        Prepare::Link { ino, .. } => (Some(LockKey::Link(*ino)), Hold::Plain),
        Prepare::Arrive(arrival) => {
            let header = Header::decode(&arrival.header)?;
            let orders = header.range();
            let hold = Hold::Arrival { from: orders.start, to: orders.end };
            let partition = holder(arrival, &header)?;
            (Some(LockKey::Partition(arrival.dir.id, partition)), hold)
        }
        Prepare::TakeHashSlot(arrival) => {
            (Some(LockKey::HashSlot(arrival.hash_slot.hash_slot)), Hold::Arrival { from: 0, to: 0 })
        }
        Prepare::Join => (Some(LockKey::Join), Hold::Plain),
        Prepare::Look(_) | Prepare::LookFile { .. } | Prepare::Invalidate { .. } => {
            (None, Hold::Plain)
        }
    })
}

/// The partition that holds the arriving orders: the arriving one, or the parent that takes it
/// back.
pub fn holder(arrival: &Arrival, header: &Header) -> Result<PartitionIndex, Halt> {
    match (arrival.given_back, parent(header.partition)) {
        (false, _) => Ok(header.partition),
        (true, Some(parent)) => Ok(parent),
        (true, None) => Err(broken("partition 0 is given back")),
    }
}
