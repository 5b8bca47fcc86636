//! What is under way: transactions that are decided and not finished everywhere, or prepared and
//! not decided. What they hold is not judged, for it is theirs to put right.
//!
//! 1. Whatever differs between places because of a transaction is named by its decision record,
//!    from the moment its first change is seen until after its last one is (`pando-core`, `txn/`).
//! 2. Rows of a split or merge that is not decided are nobody's yet at its target: the source still
//!    has them.
//! 3. Once it is decided they are the target's, although its header comes, or its parent's grows,
//!    only with the word of it.
//! 4. The same holds for slots that are handed over.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

use pando_core::keys::{self, Table};
use pando_core::record::{
    Arriving, Decided, Floor, Header, OpenAt, Owner, Prepared, Record, Shred,
};
use pando_placement::{parent, range};
use pando_types::op::ObjectId;
use pando_types::peer::{Change, Claim, Prepare};
use pando_types::reply::{Slice, SlotNews};
use pando_types::{DirId, Ino, Order, PartitionIndex, SessionId, ShardIndex, SlotIndex, TxnId};

use crate::cursor;
use crate::key::Key;
use crate::source::Rows;
use crate::volume::Volume;

/// What a transaction can hold.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// The right to move a directory; of the root: to move any.
    Graph(DirId),
    /// All names of one order.
    Name(DirId, u64),
    /// A directory's content.
    Home(DirId),
    /// A partition.
    Partition(DirId, PartitionIndex),
    /// A link inode.
    Link(Ino),
    /// A session.
    Session(SessionId),
    /// Orders that may be arriving on a shard.
    Orders(ShardIndex, DirId, Range<u64>),
}

impl Place {
    /// The slot it is found by.
    pub fn slot(&self) -> Option<SlotIndex> {
        match self {
            Self::Link(ino) => Some(ino.slot()),
            place => place.dir().map(DirId::slot),
        }
    }

    /// The directory it is of.
    pub fn dir(&self) -> Option<DirId> {
        match self {
            Self::Name(dir, _)
            | Self::Home(dir)
            | Self::Partition(dir, _)
            | Self::Orders(_, dir, _) => Some(*dir),
            Self::Link(_) | Self::Graph(_) | Self::Session(_) => None,
        }
    }
}

/// The transactions' records of all shards, read at one time.
#[derive(Default)]
pub struct Busy {
    held: HashSet<Place>,
    /// Partitions that are a shard's by a decision it has not heard of; of a merge, what its parent
    /// will be more.
    pub arrived: Vec<(ShardIndex, DirId, Header)>,
    /// Partitions that may come to a shard.
    pub arriving: Vec<(ShardIndex, DirId, Range<u64>)>,
    /// Slots that may come to a shard.
    pub incoming: BTreeSet<(ShardIndex, SlotIndex)>,
    /// Slots that are a shard's by a decision it has not heard of.
    pub arrived_slots: BTreeSet<(ShardIndex, SlotIndex)>,
    /// What shards say of owners of slots.
    pub owners: BTreeMap<(ShardIndex, SlotIndex), SlotNews>,
    /// Data that decisions under way will name, and of which inode.
    pub slices: Vec<(Ino, Slice)>,
    /// Objects of removed files whose slices have yet to go.
    pub garbage: Vec<ObjectId>,
    /// By shard and number.
    pub decided: BTreeMap<(ShardIndex, u64), Decided>,
    /// By shard that is prepared.
    pub prepared: BTreeMap<(ShardIndex, TxnId, u16), Prepared>,
    /// By shard that has finished.
    pub finished: HashSet<(ShardIndex, TxnId, u16)>,
    /// By shard, and coordinator.
    pub floors: BTreeMap<(ShardIndex, ShardIndex), Floor>,
}

impl Busy {
    /// Whether a shard takes a transaction for over.
    pub fn is_void(&self, shard: ShardIndex, txn: TxnId) -> bool {
        self.floors.get(&(shard, txn.shard)).is_some_and(|floor| floor.is_void(txn.number))
    }

    /// Reads the tables of all shards. What cannot be decoded is left out: the sweep tells of it.
    pub fn read(rows: &mut dyn Rows, volume: &Volume) -> Result<Self, String> {
        let mut busy = Self::default();
        let mut arrivals = Vec::new();
        for shard in volume.shards() {
            let (from, to) = (keys::table(Table::Txn), keys::after(&keys::table(Table::Arrival)));
            cursor::scan(rows, shard, (&from, &to), &mut |key, value| {
                match Key::parse(key) {
                    Some(Key::Txn(number)) => {
                        if let Ok(decided) = Decided::decode(value) {
                            busy.decided.insert((shard, number), decided);
                        }
                    }
                    Some(Key::Prepared(txn, step)) => {
                        if let Ok(prepared) = Prepared::decode(value) {
                            busy.prepared.insert((shard, txn, step), prepared);
                        }
                    }
                    Some(Key::Finished(txn, step)) => {
                        busy.finished.insert((shard, txn, step));
                    }
                    Some(Key::Floor(coordinator)) => {
                        if let Ok(floor) = Floor::decode(value) {
                            busy.floors.insert((shard, coordinator), floor);
                        }
                    }
                    Some(Key::Arrival(dir, partition)) => {
                        if let Ok(record) = Arriving::decode(value) {
                            arrivals.push((shard, dir, partition, record));
                        }
                    }
                    _ => {}
                }
                true
            })?;
        }
        busy.read_slots(rows, volume)?;
        busy.read_shreds(rows, volume)?;
        busy.note(volume);
        for (shard, dir, partition, record) in arrivals {
            let is_owned = busy
                .arrived
                .iter()
                .any(|(s, d, header)| (*s, *d, header.partition) == (shard, dir, partition));
            if !is_owned {
                busy.arriving.push((shard, dir, range(partition, record.radix)));
            }
        }
        Ok(busy)
    }

    /// Slices of removed files that are to go: their objects will be garbage, if they are not yet.
    fn read_shreds(&mut self, rows: &mut dyn Rows, volume: &Volume) -> Result<(), String> {
        for shard in volume.shards() {
            let table = keys::table(Table::Shred);
            for (key, value) in cursor::range(rows, shard, &table, &keys::after(&table))? {
                let (Some(Key::Shred(slices)), Ok(shred)) =
                    (Key::parse(&key), Shred::decode(&value))
                else {
                    continue;
                };
                self.held.insert(match shred.at {
                    OpenAt::Name(dir, order) => Place::Name(dir, Order(order).base().0),
                    OpenAt::Link => Place::Link(shred.ino),
                });
                let range = (&*slices, &*keys::after(&slices));
                cursor::scan(rows, shard, range, &mut |_, value| {
                    self.garbage.extend(Slice::decode(value).ok().map(|slice| slice.range.object));
                    true
                })?;
            }
        }
        Ok(())
    }

    fn read_slots(&mut self, rows: &mut dyn Rows, volume: &Volume) -> Result<(), String> {
        for shard in volume.shards() {
            let (from, to) =
                (keys::table(Table::Owner), keys::after(&keys::table(Table::Incoming)));
            cursor::scan(rows, shard, (&from, &to), &mut |key, value| {
                match Key::parse(key) {
                    Some(Key::Owner(slot)) => {
                        if let Ok(Owner { version, owner }) = Owner::decode(value) {
                            let news = SlotNews { slot, version, owner };
                            self.owners.insert((shard, slot), news);
                        }
                    }
                    Some(Key::Incoming(slot)) => drop(self.incoming.insert((shard, slot))),
                    _ => {}
                }
                true
            })?;
        }
        Ok(())
    }

    /// The volume with its slots as they are by now.
    pub fn volume(&self, volume: &Volume) -> Volume {
        let mut volume = volume.clone();
        let shards = volume.map.shards;
        for news in self.owners.values().filter(|news| news.owner.0 < shards) {
            volume.map.learn(*news);
        }
        volume
    }

    /// Whether what a shard has of a slot may be another's still.
    pub fn is_incoming(&self, shard: ShardIndex, slot: SlotIndex) -> bool {
        self.incoming.contains(&(shard, slot)) && !self.is_arrived(shard, slot)
    }

    /// Whether a slot is a shard's, which has not heard it yet.
    pub fn is_arrived(&self, shard: ShardIndex, slot: SlotIndex) -> bool {
        self.arrived_slots.contains(&(shard, slot))
    }

    fn note(&mut self, volume: &Volume) {
        for prepared in self.prepared.values() {
            self.held.extend(lock_of(volume, &prepared.prepare));
        }
        for (&(coordinator, number), decided) in &self.decided {
            let txn = TxnId { shard: coordinator, number };
            for (step, shard, changes) in &decided.steps {
                // Applied, and only the word of it is still on its way: what it changed may be
                // another's by now, but to judge less for a moment does no harm. A coordinator that
                // lost its power may have its record back after it told the shard that all of it is
                // over.
                let is_applied =
                    self.finished.contains(&(*shard, txn, *step)) || self.is_void(*shard, txn);
                for change in changes {
                    self.held.extend(places_of(volume, change));
                    if is_applied {
                        continue;
                    }
                    match change {
                        Change::Own { dir, partition } => {
                            let prepared = self.prepared.get(&(*shard, txn, *step));
                            let header = prepared.and_then(arriving_header);
                            if let Some(header) = header.filter(|h| h.partition == *partition) {
                                self.arrived.push((*shard, dir.id, header));
                            }
                        }
                        Change::OwnSlot(news) => {
                            self.arrived_slots.insert((*shard, news.slot));
                        }
                        Change::PutEntry { entry, .. } => {
                            if let pando_types::peer::EntryValue::File(inode) = &entry.value {
                                let ino = inode.attr.ino;
                                self.slices.extend(entry.inode.slices.iter().map(|s| (ino, *s)));
                            }
                        }
                        Change::PutLink { inode, rows, .. } => {
                            let ino = inode.attr.ino;
                            self.slices.extend(rows.slices.iter().map(|s| (ino, *s)));
                        }
                        _ => {}
                    }
                }
            }
            for (_, change) in &decided.then {
                self.held.extend(places_of(volume, change));
            }
        }
    }

    /// Whether a place is in a slot whose new owner has not heard of it yet.
    fn is_handed_over(&self, place: &Place) -> bool {
        let slot = place.slot();
        slot.is_some_and(|slot| self.arrived_slots.iter().any(|(_, arrived)| *arrived == slot))
    }

    /// Whether a transaction holds the place.
    pub fn holds(&self, place: &Place) -> bool {
        match place {
            Place::Orders(shard, dir, orders) => {
                let overlaps = |r: &Range<u64>| r.start < orders.end && orders.start < r.end;
                self.arriving.iter().any(|(s, d, r)| (s, d) == (shard, dir) && overlaps(r))
                    || self
                        .arrived
                        .iter()
                        .any(|(s, d, h)| (s, d) == (shard, dir) && overlaps(&h.range()))
            }
            place => self.held.contains(place) || self.is_handed_over(place),
        }
    }
}

/// The header of a partition whose arrival a step prepares.
pub fn arriving_header(prepared: &Prepared) -> Option<Header> {
    match &prepared.prepare {
        Prepare::Arrive(arrival) => Header::decode(&arrival.header).ok(),
        _ => None,
    }
}

/// The lock a step holds, if it holds one.
pub fn lock_of(volume: &Volume, prepare: &Prepare) -> Option<Place> {
    Some(match prepare {
        Prepare::Graph(Claim::Move { moved, .. }) => Place::Graph(moved.id),
        Prepare::Graph(Claim::Alone) => Place::Graph(DirId::ROOT),
        Prepare::Name { dir, name, .. } => Place::Name(dir.id, volume.order(name)),
        Prepare::Home(dir) => Place::Home(dir.id),
        Prepare::NewHome(id) => Place::Home(*id),
        Prepare::Partition { dir, partition, .. } => Place::Partition(dir.id, *partition),
        Prepare::Link { ino, .. } => Place::Link(*ino),
        Prepare::Arrive(arrival) => {
            let header = Header::decode(&arrival.header).ok()?;
            let into = parent(header.partition).filter(|_| arrival.given_back);
            Place::Partition(arrival.dir.id, into.unwrap_or(header.partition))
        }
        Prepare::Look(_)
        | Prepare::LookFile { .. }
        | Prepare::Invalidate { .. }
        | Prepare::TakeSlot(_)
        | Prepare::Join => return None,
    })
}

/// What a change will change.
fn places_of(volume: &Volume, change: &Change) -> Vec<Place> {
    let name = |dir: &pando_types::DirRef, name| Place::Name(dir.id, volume.order(name));
    match change {
        Change::RemoveEntry { dir, name: n, .. }
        | Change::PutEntry { dir, name: n, .. }
        | Change::SetAccess { dir, name: n, .. } => vec![name(dir, n)],
        Change::NewHome { dir, .. }
        | Change::SetParent { dir, .. }
        | Change::SetBase { dir, .. }
        | Change::DropHome { dir, .. }
        | Change::Bury(dir) => vec![Place::Home(dir.id)],
        Change::SetHeader { dir, partition, .. } | Change::DropPartition { dir, partition } => {
            vec![Place::Partition(dir.id, *partition)]
        }
        // It becomes the parent's if it is given back.
        Change::Own { dir, partition } => {
            let both = [Some(*partition), parent(*partition)].into_iter().flatten();
            both.map(|partition| Place::Partition(dir.id, partition)).collect()
        }
        Change::PutLink { inode, .. } => vec![Place::Link(inode.attr.ino)],
        Change::AddName { ino, .. } | Change::DropName { ino, .. } => vec![Place::Link(*ino)],
        Change::Join(table) => {
            table.living.iter().map(|(session, _)| Place::Session(*session)).collect()
        }
        // All of it: see `is_handed_over`.
        Change::OwnSlot(_) => Vec::new(),
    }
}
