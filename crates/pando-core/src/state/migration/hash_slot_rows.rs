//! Rows that belong to a hash slot, and how to read them page by page.
//!
//! They are in three ranges of keys: of directories, of link inodes, and of locks of files. Among
//! the directories' rows there may be rows of other partitions, which stay. Partition 0 of a
//! directory is known by its header, which comes before its entries.

use alloc::vec::Vec;
use core::ops::Range;
use pando_types::peer::RowChange;
use pando_types::{DirId, HashSlot};

use crate::contract::Halt;
use crate::records::keys::{self, Kind};
use crate::records::record::Header;
use crate::state::ctx::Ctx;

/// A page ends at this many bytes, even if it may have more rows.
pub const PAGE_BYTES: usize = 64 << 10;

/// A range of keys: the first, and the one after the last.
pub type Span = (Vec<u8>, Vec<u8>);

/// Orders of a directory's partition 0, if that is on this shard.
pub fn first_partition(ctx: &Ctx<'_>, dir: DirId) -> Result<Option<Range<u64>>, Halt> {
    let header: Option<Header> = ctx.load(&keys::dir(dir, Kind::Header, 0))?;
    Ok(header.filter(|header| header.partition.0 == 0).map(|header| header.range()))
}

/// Whether a changed row in the hash slot's key ranges belongs to the hash slot.
pub fn belongs(ctx: &Ctx<'_>, change: &RowChange) -> Result<bool, Halt> {
    let (RowChange::Put(key, _) | RowChange::Delete(key) | RowChange::DeleteRange(key, _)) = change;
    let Some(dir) = keys::dir_of(key) else { return Ok(true) };
    let (Some(kind), Some(order)) = (keys::kind_of(key), keys::order_of(key)) else {
        return Ok(false);
    };
    if kind < Kind::Header as u8 {
        return Ok(true);
    }
    if kind == Kind::Header as u8 {
        return Ok(order.0 == 0);
    }
    Ok(match first_partition(ctx, dir)? {
        Some(orders) => orders.contains(&order.0),
        // The directory is gone, and with it all of its rows.
        None => !matches!(change, RowChange::Put(..)),
    })
}

/// Directories of a hash slot that have any row on this shard.
pub fn dirs_of(ctx: &Ctx<'_>, hash_slot: HashSlot) -> Result<Vec<DirId>, Halt> {
    let (mut at, end) = keys::hash_slot_dirs(hash_slot);
    let mut dirs = Vec::new();
    while let Some(key) = first_key(ctx, &at, &end)? {
        let Some(dir) = keys::dir_of(&key) else { break };
        dirs.push(dir);
        at = keys::after(&key[..17]);
    }
    Ok(dirs)
}

pub fn first_key(ctx: &Ctx<'_>, from: &[u8], to: &[u8]) -> Result<Option<Vec<u8>>, Halt> {
    let mut found = None;
    ctx.scan(from, to, &mut |key, _| {
        found = Some(key.to_vec());
        false
    })?;
    Ok(found)
}

/// The next range of rows, at `at` or after it, that all belong to the hash slot. It may be empty.
pub fn segment(ctx: &Ctx<'_>, hash_slot: HashSlot, at: Vec<u8>) -> Result<Option<Span>, Halt> {
    let (_, dirs_end) = keys::hash_slot_dirs(hash_slot);
    let (links, links_end) = keys::hash_slot_links(hash_slot);
    let mut at = at;
    while at < dirs_end {
        let Some(key) = first_key(ctx, &at, &dirs_end)? else { break };
        let (Some(dir), Some(kind), Some(order)) =
            (keys::dir_of(&key), keys::kind_of(&key), keys::order_of(&key))
        else {
            return Err(crate::state::stop::broken("the key of a directory's row is damaged"));
        };
        if kind < Kind::Header as u8 {
            return Ok(Some((key, keys::dir(dir, Kind::Header, 0))));
        }
        if kind == Kind::Header as u8 {
            let first = keys::dir(dir, Kind::Header, 0);
            if key == first {
                return Ok(Some((key, keys::dir(dir, Kind::Header, 1))));
            }
            at = keys::dir(dir, Kind::Entry, 0);
            continue;
        }
        let Some(kind) = keys::MOVING.iter().find(|moving| **moving as u8 == kind) else {
            at = keys::after(&key[..17]);
            continue;
        };
        match first_partition(ctx, dir)? {
            Some(orders) if orders.contains(&order.0) => {
                return Ok(Some((key, keys::dir(dir, *kind, orders.end))));
            }
            _ => at = keys::after(&key[..18]),
        }
    }
    let from = at.max(links);
    if from < links_end {
        return Ok(Some((from, links_end)));
    }
    let (locks, locks_end) = keys::hash_slot_locks(hash_slot);
    let from = from.max(locks);
    Ok((from < locks_end).then_some((from, locks_end)))
}

/// Whether a hash slot has no rows.
pub fn is_bare(ctx: &Ctx<'_>, hash_slot: HashSlot) -> Result<bool, Halt> {
    let (rows, _) = read_page(ctx, hash_slot, keys::hash_slot_dirs(hash_slot).0, 1)?;
    Ok(rows.is_empty())
}

/// One page of the hash slot's rows, from a key on, and the key to continue at. `None`: these were
/// the last.
pub fn read_page(
    ctx: &Ctx<'_>,
    hash_slot: HashSlot,
    from: Vec<u8>,
    most: usize,
) -> Result<(Vec<RowChange>, Option<Vec<u8>>), Halt> {
    let (mut rows, mut bytes) = (Vec::new(), 0);
    let mut at = from;
    while let Some((from, to)) = segment(ctx, hash_slot, at)? {
        let mut last = None;
        ctx.scan(&from, &to, &mut |key, value| {
            bytes += key.len() + value.len();
            rows.push(RowChange::Put(key.to_vec(), value.to_vec()));
            let is_full = rows.len() >= most || bytes >= PAGE_BYTES;
            if is_full {
                last = Some(key.to_vec());
            }
            !is_full
        })?;
        if let Some(mut next) = last {
            next.push(0);
            return Ok((rows, Some(next)));
        }
        at = to;
    }
    Ok((rows, None))
}
