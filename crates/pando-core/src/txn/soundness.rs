//! Checks of peer messages that come from a server that is older or at fault. Servers are trusted
//! with data, but no server may stop another. So a message is checked before it takes effect. An
//! unsound one is counted ([`Counters::bad_messages`](crate::Counters)) and refused:
//!
//! | message | what must hold | otherwise |
//! |---|---|---|
//! | any that a transaction's coordinator sends | its sender is that shard; its floor is sound | as in its row below |
//! | `Page`, `HashSlotPage` | the partition is valid; all rows are of what moves, or outcomes, and can be decoded | `PageDone(0)`: the source gives the move up |
//! | `Prepare` | the header, last rows and outcomes of a move are valid; only shard 0 gets what only it can answer; only shard 0 sends `Join` | `Voted(No(EIO))` |
//! | `Voted(Yes)` | the answer is of the kind that was asked for | it counts as `No(EIO)` |
//! | `Finish(Some)` | the step is prepared, or can be redone; its lock covers each change; each change finds what it changes | it is dropped; the coordinator sends it again, and the counter shows that |
//!
//! Records of the shard's own store are not checked here: an invalid one stops the shard
//! ([`Halt::Broken`]).

use core::ops::Range;
use pando_placement::is_partition;
use pando_types::op::Place;
use pando_types::peer::{Change, Floor, Inode, Peer, PeerMessage, Prepare, RowChange, Seen, Vote};
use pando_types::reply::Slice;
use pando_types::{DirId, DirRef, Errno, HashSlot, Ino, LockSet, Name, ShardIndex, TxnId};

use crate::contract::{Halt, Need, SHARD_0};
use crate::namespace::names::{self, is_dir};
use crate::records::keys::{self, Kind};
use crate::records::record::{Content, Entry, Header, LinkedName, Outcome, Record, Xattrs};
use crate::state::ctx::Ctx;
use crate::state::shard::Shard;
use crate::state::stop::Stop;
use crate::state::txn::pinned::PINNED_MAX;

impl Shard {
    /// Whether a peer message is sound. An unsound one is refused here, and the caller drops it.
    pub(crate) fn is_sound(&mut self, ctx: &mut Ctx<'_>, peer: &Peer) -> bool {
        if peer.from == self.config.shard || sound(self.config.shard, peer) {
            return true;
        }
        self.counters.bad_messages += 1;
        let answer = match &peer.message {
            PeerMessage::Page { .. } | PeerMessage::HashSlotPage { .. } => PeerMessage::PageDone(0),
            PeerMessage::Prepare(..) => PeerMessage::Voted(Vote::No(Errno::EIO)),
            _ => return false,
        };
        self.tell(ctx, Need::Committed, peer.from, (peer.txn, peer.step), answer);
        false
    }

    /// Whether a decision of another shard can be applied here. The step must be prepared, its lock
    /// must cover each change, and each change must find what it changes.
    pub(crate) fn is_applicable(
        &mut self,
        ctx: &Ctx<'_>,
        from: ShardIndex,
        at: (TxnId, u16),
        changes: &[Change],
    ) -> Result<bool, Halt> {
        if from == self.config.shard {
            return Ok(true);
        }
        let locked = self.participant.prepared(at);
        let mut is_right =
            locked.is_some_and(|prepare| changes.iter().all(|change| fits(prepare, change)));
        for change in changes {
            is_right = is_right && self.finds(ctx, change)?;
        }
        self.counters.bad_messages += u64::from(!is_right);
        Ok(is_right)
    }

    fn finds(&mut self, ctx: &Ctx<'_>, change: &Change) -> Result<bool, Halt> {
        match change {
            Change::RemoveEntry { dir, name, .. } => self.finds_entry(ctx, *dir, name, |_| true),
            Change::SetAccess { dir, name, access } => {
                self.finds_entry(ctx, *dir, name, |value| is_dir(value, access.dir))
            }
            Change::PutEntry { dir, name, .. } => {
                let order = self.order(name);
                found(self.find_header(ctx, *dir, order))
            }
            Change::SetParent { dir, .. }
            | Change::SetBase { dir, .. }
            | Change::DropHome { dir, .. } => found(self.content(ctx, *dir)),
            Change::SetHeader { dir, partition, .. } | Change::DropPartition { dir, partition } => {
                let header = self.header_of(ctx, dir.id, *partition)?;
                Ok(header.is_some_and(|header| header.ino == dir.ino))
            }
            Change::AddName { ino, .. } => {
                let inode = self.link_inode(ctx, *ino)?;
                Ok(inode.is_some_and(|inode| inode.attr.nlink < u32::MAX))
            }
            Change::DropName { ino, .. } => {
                let inode = self.link_inode(ctx, *ino)?;
                Ok(inode.is_some_and(|inode| inode.attr.nlink > 0))
            }
            _ => Ok(true),
        }
    }

    fn finds_entry(
        &mut self,
        ctx: &Ctx<'_>,
        dir: DirRef,
        name: &Name,
        is: impl Fn(&pando_types::peer::EntryValue) -> bool,
    ) -> Result<bool, Halt> {
        let order = self.order(name);
        if !found(self.find_header(ctx, dir, order))? {
            return Ok(false);
        }
        Ok(names::find(ctx, dir.id, order, name)?.is_some_and(|found| is(&found.value)))
    }
}

/// Whether a lookup under a lock has found its object. Only a [`Halt`] is an error.
fn found<T>(looked: Result<T, Stop>) -> Result<bool, Halt> {
    match looked {
        Ok(_) => Ok(true),
        Err(Stop::Halt(halt)) => Err(halt),
        Err(Stop::Refuse(_) | Stop::Wait(_)) => Ok(false),
    }
}

/// Whether a floor is sound: its exceptions ascend, are below `below`, and are at most
/// `PINNED_MAX`.
fn can_be(Floor { below, but }: &Floor) -> bool {
    but.is_sorted_by(|a, b| a < b)
        && but.last().is_none_or(|last| last < below)
        && but.len() <= PINNED_MAX
}

fn sound(own: ShardIndex, peer: &Peer) -> bool {
    let is_coordinators = matches!(
        peer.message,
        PeerMessage::Prepare(..)
            | PeerMessage::Finish(_)
            | PeerMessage::Page { .. }
            | PeerMessage::HashSlotPage { .. }
    );
    if is_coordinators && (peer.from != peer.txn.shard || !can_be(&peer.floor)) {
        return false;
    }
    match &peer.message {
        PeerMessage::Page { dir, partition, given_back, radix, rows, .. } => {
            let orders = pando_placement::range(*partition, *radix);
            is_partition(*partition, *radix)
                && !(given_back.is_some() && partition.0 == 0)
                && rows.iter().all(|row| moves_with(dir.id, &orders, row) || tells_outcome(row))
        }
        PeerMessage::HashSlotPage { hash_slot, rows, .. } => {
            rows.iter().all(|row| is_of_hash_slot(hash_slot.hash_slot, row) || tells_outcome(row))
        }
        PeerMessage::Prepare(place, prepare) => sound_prepare(own, peer.from, place, prepare),
        PeerMessage::Finish(Some(changes)) => changes.iter().all(|change| match change {
            Change::NewLentHome { birth, .. } => birth.grant == peer.txn,
            _ => true,
        }),
        PeerMessage::Versions { .. } => peer.from == SHARD_0,
        PeerMessage::Sessions { .. } => peer.from == SHARD_0,
        PeerMessage::VersionsKnown(_)
        | PeerMessage::AskVersions(_)
        | PeerMessage::SessionsHeard { .. }
        | PeerMessage::AskSessions { .. } => own == SHARD_0,
        _ => true,
    }
}

fn sound_prepare(own: ShardIndex, from: ShardIndex, place: &Place, prepare: &Prepare) -> bool {
    match prepare {
        Prepare::Arrive(arrival) => {
            let Ok(header) = Header::decode(&arrival.header) else { return false };
            let orders = header.range();
            is_partition(header.partition, header.radix)
                && !(arrival.given_back && header.partition.0 == 0)
                && arrival.rows.iter().all(|row| moves_with(arrival.dir.id, &orders, row))
                && arrival.slots.iter().all(|(key, value)| is_outcome(key, value))
        }
        Prepare::TakeHashSlot(arrival) => {
            arrival.rows.iter().all(|row| is_of_hash_slot(arrival.hash_slot.hash_slot, row))
                && arrival.slots.iter().all(|(key, value)| is_outcome(key, value))
        }
        Prepare::Graph(_) | Prepare::Invalidate { .. } => own == SHARD_0,
        Prepare::Join => from == SHARD_0 && *place == Place::Shard(own),
        _ => true,
    }
}

/// Whether a vote's answer is of the kind that the step asks for.
pub fn answers(prepare: &Prepare, seen: &Seen) -> bool {
    match prepare {
        Prepare::Graph(_) => matches!(seen, Seen::Nothing | Seen::Position(_)),
        Prepare::Name { .. } => matches!(seen, Seen::Name { .. }),
        Prepare::Look(_) | Prepare::Home(_) | Prepare::Removal(_) => {
            matches!(seen, Seen::Home { .. })
        }
        Prepare::Partition { .. } => matches!(seen, Seen::Partition(..)),
        Prepare::Link { new: false, .. } | Prepare::LookFile { .. } => {
            matches!(seen, Seen::Link(..))
        }
        Prepare::Arrive(_) | Prepare::TakeHashSlot(_) => matches!(seen, Seen::Arrived(_)),
        Prepare::Invalidate { .. } => matches!(seen, Seen::Version(_)),
        Prepare::NewHome(_) => matches!(seen, Seen::Nothing | Seen::Lends(_)),
        Prepare::Link { new: true, .. } | Prepare::Join => *seen == Seen::Nothing,
    }
}

/// Whether a change is of something that the step has locked.
fn fits(prepare: &Prepare, change: &Change) -> bool {
    match (prepare, change) {
        (
            Prepare::Name { dir, name, .. },
            Change::RemoveEntry { dir: of, name: at, .. }
            | Change::PutEntry { dir: of, name: at, .. }
            | Change::SetAccess { dir: of, name: at, .. },
        ) => (dir, name) == (of, at),
        (
            Prepare::Home(dir),
            Change::SetParent { dir: of, .. }
            | Change::SetBase { dir: of, .. }
            | Change::DropHome { dir: of, .. },
        ) => dir == of,
        (Prepare::Removal(dir), Change::DropHome { dir: of, .. }) => dir == of,
        (Prepare::Removal(dir), Change::DropPartition { dir: of, partition }) => {
            dir == of && partition.0 == 0
        }
        (Prepare::NewHome(id), Change::NewHome { dir, .. } | Change::NewLentHome { dir, .. }) => {
            *id == dir.id
        }
        (
            Prepare::Partition { dir, partition, .. },
            Change::SetHeader { dir: of, partition: at, .. }
            | Change::DropPartition { dir: of, partition: at },
        ) => (dir, partition) == (of, at),
        (Prepare::Link { ino, new: true }, Change::PutLink { inode, .. }) => *ino == inode.attr.ino,
        (
            Prepare::Link { ino, new: false },
            Change::AddName { ino: of, .. } | Change::DropName { ino: of, .. },
        ) => ino == of,
        (Prepare::Arrive(arrival), Change::Own { dir, partition }) => {
            let header = Header::decode(&arrival.header);
            arrival.dir == *dir && header.is_ok_and(|header| header.partition == *partition)
        }
        (Prepare::TakeHashSlot(arrival), Change::OwnHashSlot(news)) => arrival.hash_slot == *news,
        (Prepare::Join, Change::Join(_)) => true,
        _ => false,
    }
}

/// Whether a row is an outcome of a request, as shards send it to each other.
fn is_outcome(key: &[u8], value: &[u8]) -> bool {
    let is_key =
        keys::outcome_of(key).is_some_and(|(session, slot)| key == keys::outcome(session, slot));
    is_key && Outcome::decode(value).is_ok()
}

fn tells_outcome(row: &RowChange) -> bool {
    matches!(row, RowChange::Put(key, value) if is_outcome(key, value))
}

/// Whether a row belongs to the names of a directory in a range of orders.
fn moves_with(dir: DirId, orders: &Range<u64>, row: &RowChange) -> bool {
    let (RowChange::Put(key, _) | RowChange::Delete(key) | RowChange::DeleteRange(key, _)) = row;
    let is_inside = keys::order_of(key).is_some_and(|order| orders.contains(&order.0));
    let kind = keys::MOVING.into_iter().find(|kind| keys::kind_of(key) == Some(*kind as u8));
    let Some(kind) = kind.filter(|_| is_inside && keys::dir_of(key) == Some(dir)) else {
        return false;
    };
    match row {
        RowChange::Put(key, value) => is_dir_row(key, value),
        RowChange::Delete(_) => true,
        RowChange::DeleteRange(from, to) => from <= to && *to <= keys::dir(dir, kind, orders.end),
    }
}

/// Whether a row belongs to a hash slot.
fn is_of_hash_slot(hash_slot: HashSlot, row: &RowChange) -> bool {
    let (RowChange::Put(key, _) | RowChange::Delete(key) | RowChange::DeleteRange(key, _)) = row;
    if keys::hash_slot_of_row(key) != Some(hash_slot) {
        return false;
    }
    match row {
        RowChange::Put(key, value) if keys::dir_of(key).is_some() => is_dir_row(key, value),
        RowChange::Put(key, value) => is_link_row(key, value) || is_lock_row(key, value),
        RowChange::Delete(_) => true,
        RowChange::DeleteRange(from, to) => {
            let spans = [
                keys::hash_slot_dirs(hash_slot),
                keys::hash_slot_links(hash_slot),
                keys::hash_slot_locks(hash_slot),
            ];
            from <= to && spans.iter().any(|(first, end)| first <= from && to <= end)
        }
    }
}

/// Length of the key of a directory's row, without and with the offset of a slice, in bytes.
const DIR_KEY: usize = 26;
const SLICE_KEY: usize = DIR_KEY + 8;

fn is_dir_row(key: &[u8], value: &[u8]) -> bool {
    let is = |kind: Kind| keys::kind_of(key) == Some(kind as u8);
    if is(Kind::Slice) {
        return key.len() == SLICE_KEY && Slice::decode(value).is_ok();
    }
    let is_readable = match () {
        () if is(Kind::Content) => Content::decode(value).is_ok(),
        () if is(Kind::DirXattr) || is(Kind::Xattr) => Xattrs::decode(value).is_ok(),
        () if is(Kind::Header) => Header::decode(value).is_ok_and(|header| {
            is_partition(header.partition, header.radix)
                && keys::order_of(key).is_some_and(|order| order.0 == header.range().start)
        }),
        () if is(Kind::Entry) => Entry::decode(value).is_ok(),
        () => is(Kind::Inline),
    };
    key.len() == DIR_KEY && is_readable
}

fn is_link_row(key: &[u8], value: &[u8]) -> bool {
    let Some(Ok(ino)) = key.get(3..11).map(<[u8; 8]>::try_from) else { return false };
    let ino = Ino(u64::from_be_bytes(ino));
    let begins = |kind: Kind| key.strip_prefix(keys::link(ino, kind).as_slice());
    if let Some(offset) = begins(Kind::Slice) {
        return offset.len() == 8 && Slice::decode(value).is_ok();
    }
    if begins(Kind::LinkName).is_some() {
        return LinkedName::decode(value)
            .is_ok_and(|of| *key == keys::link_name(ino, of.dir.id, of.name.as_bytes()));
    }
    let is = |kind: Kind| begins(kind).is_some_and(<[u8]>::is_empty);
    match () {
        () if is(Kind::Entry) => Inode::decode(value).is_ok_and(|inode| inode.attr.ino == ino),
        () if is(Kind::Xattr) => Xattrs::decode(value).is_ok(),
        () => is(Kind::Inline),
    }
}

fn is_lock_row(key: &[u8], value: &[u8]) -> bool {
    let is_key = keys::lock_of(key).is_some_and(|(ino, session)| *key == keys::lock(ino, session));
    is_key && LockSet::decode(value).is_ok()
}
