//! Unfinished transactions: decided but not finished on all shards, or prepared but not decided.
//! The check does not judge what they hold, since they will put it right.
//!
//! 1. A transaction may make records differ between places. Its decision record names all of these
//!    places, from before its first change is seen until after its last one (`pando-core`, `txn/`).
//! 2. Until a split or merge is decided, its rows at the target belong to no partition. The source
//!    still has them.
//! 3. Once it is decided, they are the target's. The target's header is written, or its parent's
//!    header grows, only when the target hears of the decision.
//! 4. Rules 2 and 3 hold for hash slots that are handed over, too.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

use pando_core::keys::{self, Table};
use pando_core::record::{
    Arriving, Decided, Floor, Header, OpenAt, Owner, Prepared, Record, Shred,
};
use pando_placement::{parent, range};
use pando_types::op::ObjectId;
use pando_types::peer::{Change, Claim, Prepare};
use pando_types::reply::{HashSlotNews, Slice};
use pando_types::{DirId, HashSlot, Ino, Order, PartitionIndex, ShardIndex, TxnId};

use crate::rows::cursor;
use crate::rows::key::Key;
use crate::rows::source::Rows;
use crate::rows::volume::Volume;
use crate::unfinished::place::Place;

/// The records of transactions of all shards, read at one time.
#[derive(Default)]
pub struct Busy {
    held: HashSet<Place>,
    /// Partitions that a decision gives to a shard which has not heard of it. For a merge, the
    /// header tells what its parent gains.
    pub arrived: Vec<(ShardIndex, DirId, Header)>,
    /// Ranges of partitions that may come to a shard.
    pub arriving: Vec<(ShardIndex, DirId, Range<u64>)>,
    /// Hash slots that may come to a shard.
    pub incoming: BTreeSet<(ShardIndex, HashSlot)>,
    /// Hash slots that a decision gives to a shard which has not heard of it.
    pub arrived_hash_slots: BTreeSet<(ShardIndex, HashSlot)>,
    /// Owners of hash slots, as each shard records them.
    pub owners: BTreeMap<(ShardIndex, HashSlot), HashSlotNews>,
    /// Slices that unfinished decisions will write, and the inode of each.
    pub slices: Vec<(Ino, Slice)>,
    /// Objects of removed files that still have slices.
    pub garbage: Vec<ObjectId>,
    /// Decisions, by coordinator and number.
    pub decided: BTreeMap<(ShardIndex, u64), Decided>,
    /// Prepared steps, by shard, transaction and step.
    pub prepared: BTreeMap<(ShardIndex, TxnId, u16), Prepared>,
    /// Finished steps, with shard, transaction and step.
    pub finished: HashSet<(ShardIndex, TxnId, u16)>,
    /// Floors, by shard and coordinator.
    pub floors: BTreeMap<(ShardIndex, ShardIndex), Floor>,
}

impl Busy {
    /// Whether a shard considers a transaction over.
    pub fn is_void(&self, shard: ShardIndex, txn: TxnId) -> bool {
        self.floors.get(&(shard, txn.shard)).is_some_and(|floor| floor.is_void(txn.number))
    }

    /// Reads the tables of all shards. It leaves out records that cannot be decoded: the sweep
    /// reports them.
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
        busy.read_hash_slots(rows, volume)?;
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

    /// Reads removed files with slices that have yet to go. Their objects become garbage, if they
    /// are not garbage already.
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

    fn read_hash_slots(&mut self, rows: &mut dyn Rows, volume: &Volume) -> Result<(), String> {
        for shard in volume.shards() {
            let (from, to) =
                (keys::table(Table::Owner), keys::after(&keys::table(Table::Incoming)));
            cursor::scan(rows, shard, (&from, &to), &mut |key, value| {
                match Key::parse(key) {
                    Some(Key::Owner(hash_slot)) => {
                        if let Ok(Owner { version, owner }) = Owner::decode(value) {
                            let news = HashSlotNews { hash_slot, version, owner };
                            self.owners.insert((shard, hash_slot), news);
                        }
                    }
                    Some(Key::Incoming(hash_slot)) => {
                        self.incoming.insert((shard, hash_slot));
                    }
                    _ => {}
                }
                true
            })?;
        }
        Ok(())
    }

    /// The volume with the owners of hash slots that shards record now.
    pub fn volume(&self, volume: &Volume) -> Volume {
        let mut volume = volume.clone();
        let shards = volume.map.shards;
        for news in self.owners.values().filter(|news| news.owner.0 < shards) {
            volume.map.learn(*news);
        }
        volume
    }

    /// Whether the rows of a hash slot on a shard may still belong to another shard.
    pub fn is_incoming(&self, shard: ShardIndex, hash_slot: HashSlot) -> bool {
        self.incoming.contains(&(shard, hash_slot)) && !self.is_arrived(shard, hash_slot)
    }

    /// Whether a decision gives a hash slot to a shard that has not heard of it.
    pub fn is_arrived(&self, shard: ShardIndex, hash_slot: HashSlot) -> bool {
        self.arrived_hash_slots.contains(&(shard, hash_slot))
    }

    fn note(&mut self, volume: &Volume) {
        for prepared in self.prepared.values() {
            self.held.extend(locks_of(volume, &prepared.prepare));
        }
        for (&(coordinator, number), decided) in &self.decided {
            let txn = TxnId { shard: coordinator, number };
            for (step, shard, changes) in &decided.steps {
                // The step is applied, and only the coordinator has yet to hear so. What it changed
                // may belong to another transaction by now. To judge less for a moment does no
                // harm. After a power loss, a coordinator may have its record back although it told
                // the shard that the transaction is over.
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
                        Change::OwnHashSlot(news) => {
                            self.arrived_hash_slots.insert((*shard, news.hash_slot));
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

    /// Whether a place is in a hash slot that a decision gives to a shard which has not heard of
    /// it.
    fn is_handed_over(&self, place: &Place) -> bool {
        let hash_slot = place.hash_slot();
        hash_slot.is_some_and(|hash_slot| {
            self.arrived_hash_slots.iter().any(|(_, arrived)| *arrived == hash_slot)
        })
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

/// The header of a partition, if the step prepares its arrival.
pub fn arriving_header(prepared: &Prepared) -> Option<Header> {
    match &prepared.prepare {
        Prepare::Arrive(arrival) => Header::decode(&arrival.header).ok(),
        _ => None,
    }
}

/// The locks that a step holds.
pub fn locks_of(volume: &Volume, prepare: &Prepare) -> impl Iterator<Item = Place> + use<> {
    let seal = match prepare {
        Prepare::Removal(dir) => Some(Place::Partition(dir.id, PartitionIndex(0))),
        _ => None,
    };
    lock_of(volume, prepare).into_iter().chain(seal)
}

fn lock_of(volume: &Volume, prepare: &Prepare) -> Option<Place> {
    Some(match prepare {
        Prepare::Graph(Claim::Move { moved, .. }) => Place::Graph(moved.id),
        Prepare::Graph(Claim::Alone) => Place::Graph(DirId::ROOT),
        Prepare::Name { dir, name, .. } => Place::Name(dir.id, volume.order(name)),
        Prepare::Home(dir) | Prepare::Removal(dir) => Place::Home(dir.id),
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
        | Prepare::TakeHashSlot(_)
        | Prepare::Join => return None,
    })
}

/// The places that a change will affect.
fn places_of(volume: &Volume, change: &Change) -> Vec<Place> {
    let name = |dir: &pando_types::DirRef, name| Place::Name(dir.id, volume.order(name));
    match change {
        Change::RemoveEntry { dir, name: n, .. }
        | Change::PutEntry { dir, name: n, .. }
        | Change::SetAccess { dir, name: n, .. } => vec![name(dir, n)],
        Change::NewHome { dir, .. }
        | Change::NewLentHome { dir, .. }
        | Change::SetParent { dir, .. }
        | Change::SetBase { dir, .. }
        | Change::DropHome { dir, .. }
        | Change::Bury(dir) => vec![Place::Home(dir.id)],
        Change::SetHeader { dir, partition, .. } | Change::DropPartition { dir, partition } => {
            vec![Place::Partition(dir.id, *partition)]
        }
        // If the partition is given back, its orders go to the parent.
        Change::Own { dir, partition } => {
            let both = [Some(*partition), parent(*partition)].into_iter().flatten();
            both.map(|partition| Place::Partition(dir.id, partition)).collect()
        }
        Change::PutLink { inode, .. } => vec![Place::Link(inode.attr.ino)],
        Change::AddName { ino, .. } | Change::DropName { ino, .. } => vec![Place::Link(*ino)],
        Change::Join(table) => {
            table.living.iter().map(|(session, _)| Place::Session(*session)).collect()
        }
        // A whole hash slot changes its owner: `is_handed_over` covers that.
        Change::OwnHashSlot(_) => Vec::new(),
    }
}
