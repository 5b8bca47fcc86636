//! Splits: the upper half of a grown partition becomes a partition of its own (GIGA+ §3.2), on this shard at no cost
//! but two headers, or on another by copying.
//!
//! This version freezes the moving half, copies it in pages, and hands it over by a transaction of one step; it has the
//! messages and states of DESIGN §5's live split, which is to come.
//!
//! ```text
//!  source                                          target
//!   lock the half (operations on it wait)
//!    | -- Page 0, 1, 2 … ------------------------->|  logs the rows under an arrival record: nobody sees them
//!    |<------------------------- PageDone ---------|
//!    | -- Prepare(Arrive: header, opens, slots) -->|  counts the rows, locks, syncs
//!    |<------------------------------ Voted -------|
//!   logs: smaller header, rows dropped, decision; syncs; unlocks: who waited is redirected
//!    | -- Finish(Own) ---------------------------->|  writes the header: it is the owner
//! ```

use alloc::vec::Vec;
use core::ops::Range;
use pando_placement::{child, range, shard_of};
use pando_types::op::Place;
use pando_types::peer::{Arrival, Change, EntryValue, Peer, Prepare, Say};
use pando_types::reply::{Body, Spread};
use pando_types::{DirId, DirRef, Order, PartitionIndex, Radix, ShardIndex, TxnId};

use crate::contract::{Halt, Need, Row};
use crate::ctx::{Ctx, Stop, broken};
use crate::keys::{self, Kind, Table};
use crate::locks::{Hold, LockKey};
use crate::record::{Arriving, Entry, Header, OpenAt, Outcome, Record};
use crate::shard::Shard;
use crate::txn::StepState;
use crate::txn::plan::{Decision, Next, Plan, View};

/// A split to another shard, on its way.
#[derive(Debug)]
pub struct Split {
    dir: DirRef,
    from: PartitionIndex,
    target: ShardIndex,
    /// As it will be at the target; counts are those of the rows sent.
    header: Header,
    /// Pages that the target has.
    pages: u64,
    /// Where copying goes on: index into `keys::MOVING`, and the first key.
    cursor: Option<(usize, Vec<u8>)>,
    rows: u64,
}

impl Split {
    /// Whether the page that was sent last has arrived.
    pub fn page_done(&mut self, pages: u64) -> bool {
        let fresh = pages == self.pages + 1;
        self.pages += u64::from(fresh);
        fresh
    }

    pub fn next(&mut self, view: &mut View<'_, '_>) -> Result<Next, Stop> {
        if self.cursor.is_some() {
            let rows = self.read_page(view)?;
            let say = Say::Page {
                dir: self.dir,
                partition: self.header.partition,
                radix: self.header.radix,
                number: self.pages,
                rows,
            };
            return Ok(Next::Send(self.target, say));
        }
        match view.votes.0.last() {
            Some(step) if step.state == StepState::Yes => self.decide(view),
            _ => self.ask(view),
        }
    }

    fn read_page(&mut self, view: &View<'_, '_>) -> Result<Vec<Row>, Stop> {
        let most = view.shard.config.split_page_rows;
        let orders = self.header.range();
        let mut rows: Vec<Row> = Vec::new();
        while let Some((index, from)) = self.cursor.take() {
            let (_, to) = keys::dir_range(self.dir.id, keys::MOVING[index], &orders);
            view.ctx.scan(&from, &to, &mut |key, value| {
                rows.push((key.to_vec(), value.to_vec()));
                rows.len() < most
            })?;
            if rows.len() >= most {
                let mut after = rows[rows.len() - 1].0.clone();
                after.push(0);
                self.cursor = Some((index, after));
                break;
            }
            self.cursor = keys::MOVING
                .get(index + 1)
                .map(|kind| (index + 1, keys::dir_range(self.dir.id, *kind, &orders).0));
        }
        self.rows += rows.len() as u64;
        for (key, value) in &rows {
            if keys::kind_of(key) == Some(Kind::Entry as u8)
                && let Some((_, value)) = Entry::decode(value)?.is
            {
                self.header.entries += 1;
                self.header.subdirs += u64::from(matches!(value, EntryValue::Dir(_)));
            }
        }
        Ok(rows)
    }

    fn ask(&self, view: &mut View<'_, '_>) -> Result<Next, Stop> {
        let orders = self.header.range();
        let arrival = Arrival {
            dir: self.dir,
            header: self.header.encode(),
            rows: self.rows,
            opens: view.shard.opens.in_range(self.dir.id, &orders),
            slots: view.shard.slots_for(view.ctx, self.dir.id, &orders)?,
        };
        Ok(Next::Ask(Place::Shard(self.target), Prepare::Arrive(arrival)))
    }

    fn decide(&self, view: &mut View<'_, '_>) -> Result<Next, Stop> {
        let (shard, ctx) = (&mut *view.shard, &mut *view.ctx);
        let mut header = shard.held_header(ctx, self.dir, self.from)?;
        let orders = self.header.range();
        header.radix = Radix(header.radix.0 + 1);
        header.spread = self.header.spread;
        header.entries = header.entries.saturating_sub(self.header.entries);
        header.subdirs = header.subdirs.saturating_sub(self.header.subdirs);
        ctx.set_header(self.dir.id, header);
        let (inodes, bytes) = shard.range_stat(ctx, self.dir.id, &orders)?;
        ctx.stat.0 -= inodes;
        ctx.stat.1 -= bytes;
        shard.clear_range(ctx, self.dir.id, &orders);
        for (ino, ..) in shard.opens.in_range(self.dir.id, &orders) {
            if let Some(at) = shard.opens.place(ino) {
                shard.clear_opens(ctx, ino, at);
            }
        }
        shard.counters.splits_moved += 1;
        shard.counters.entries_moved += self.header.entries;
        let waiting = shard.locks.release(LockKey::Partition(self.dir.id, self.from), view.txn);
        shard.ready.extend(waiting);
        let own = Change::Own { dir: self.dir, partition: self.header.partition };
        let changes = alloc::vec![(view.votes.0.len() - 1, own)];
        Ok(Next::Decide(Decision { changes, then: Vec::new(), body: Body::Done }))
    }

    /// Given up: the half is open again, and the target drops what it has.
    pub fn abandon(self, shard: &mut Shard, ctx: &mut Ctx<'_>, txn: TxnId) {
        shard.tell(ctx, Need::Committed, self.target, (txn, 0), Say::Finish(None));
        let waiting = shard.locks.release(LockKey::Partition(self.dir.id, self.from), txn);
        shard.ready.extend(waiting);
    }
}

impl Shard {
    /// Notes a partition that a create made large enough.
    pub(crate) fn note_growth(&mut self, dir: DirId, header: &Header) {
        if header.entries > self.threshold(dir, header.partition) && self.may_split(header) {
            let at = (DirRef { id: dir, ino: header.ino }, header.partition);
            if !self.grown.contains(&at) {
                self.grown.push_back(at);
            }
        }
    }

    /// How the directory is, or at its first split will be, spread.
    fn spread(&self, header: &Header) -> Spread {
        header.spread.unwrap_or(Spread {
            base: self.config.shard,
            servers: self.config.map.shards,
            per_server: self.config.partitions_per_shard.max(1),
        })
    }

    /// Splitting stops at M partitions a shard (GIGA+ §3.2).
    fn may_split(&self, header: &Header) -> bool {
        let (index, radix) = (header.partition, header.radix);
        let shards = self.config.map.shards;
        radix < Radix::MAX && pando_placement::may_split(&self.spread(header), index, radix, shards)
    }

    /// Entries beyond which a partition splits: the configured number, less up to an eighth, by partition, so that
    /// neighbours do not split at once.
    fn threshold(&self, dir: DirId, index: PartitionIndex) -> u64 {
        let most = self.config.split_threshold;
        let seed = u64::from(index.0) ^ u64::from_be_bytes(dir.0[8..].try_into().unwrap_or([0; 8]));
        most - (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % (most / 8 + 1)
    }

    /// Splits a partition, if it still is due and nothing is in the way.
    pub(crate) fn consider_split(
        &mut self,
        ctx: &mut Ctx<'_>,
        dir: DirRef,
        index: PartitionIndex,
    ) -> Result<(), Halt> {
        let Some(header) = self.header_of(ctx, dir.id, index)? else { return Ok(()) };
        let radix = header.radix;
        let due = header.entries > self.threshold(dir.id, index) && self.may_split(&header);
        if header.ino != dir.ino || !due {
            return Ok(());
        }
        let spread = self.spread(&header);
        let key = LockKey::Partition(dir.id, index);
        let new = child(index, radix);
        let orders = range(new, Radix(radix.0 + 1));
        // Transactions that hold a name in the moving half finish first; the next create looks again.
        let awaited = |at: (DirId, u64)| at.0 == dir.id && orders.contains(&at.1);
        if self.locks.hold(key).is_some()
            || self.locks.any_name(dir.id, &orders)
            || self.undecided_names().any(awaited)
        {
            return Ok(());
        }
        let moving = Header {
            partition: new,
            radix: Radix(radix.0 + 1),
            entries: 0,
            subdirs: 0,
            change: 0,
            spread: Some(spread),
            ..header.clone()
        };
        let target = shard_of(&spread, new);
        if target == self.config.shard {
            return self.split_here(ctx, dir, header, moving);
        }
        let txn = self.numbers.txn(ctx);
        self.locks.take(key, txn, Hold::Split { from: orders.start });
        let cursor = Some((0, keys::dir_range(dir.id, keys::MOVING[0], &orders).0));
        let split = Split { dir, from: index, target, header: moving, pages: 0, cursor, rows: 0 };
        self.enter(txn.number, None, Plan::Split(split));
        self.advance(ctx, txn.number)
    }

    fn split_here(
        &mut self,
        ctx: &mut Ctx<'_>,
        dir: DirRef,
        mut header: Header,
        mut moving: Header,
    ) -> Result<(), Halt> {
        let (from, to) = keys::dir_range(dir.id, Kind::Entry, &moving.range());
        let mut bad = None;
        ctx.scan(&from, &to, &mut |_, value| match Entry::decode(value) {
            Ok(entry) => {
                if let Some((_, value)) = entry.is {
                    moving.entries += 1;
                    moving.subdirs += u64::from(matches!(value, EntryValue::Dir(_)));
                }
                true
            }
            Err(halt) => {
                bad = Some(halt);
                false
            }
        })?;
        if let Some(halt) = bad {
            return Err(halt);
        }
        header.radix = moving.radix;
        header.spread = moving.spread;
        header.entries -= moving.entries;
        header.subdirs -= moving.subdirs;
        ctx.set_header(dir.id, header);
        ctx.set_header(dir.id, moving);
        self.counters.splits_local += 1;
        Ok(())
    }

    /// All slots' outcomes (of the names that move) and floors (of all others): so that no late repetition runs again
    /// at the target.
    fn slots_for(&self, ctx: &Ctx<'_>, dir: DirId, orders: &Range<u64>) -> Result<Vec<Row>, Halt> {
        let prefix = keys::table(Table::Slot);
        let mut rows = ctx.rows(&prefix, &keys::after(&prefix))?;
        for (_, value) in &mut rows {
            let mut outcome = Outcome::decode(value)?;
            let moves = outcome.at.is_some_and(|(d, o)| d == dir && orders.contains(&o));
            if !moves {
                (outcome.result, outcome.at) = (None, None);
                *value = outcome.encode();
            }
        }
        Ok(rows)
    }

    /// Inodes and bytes of a range's entries.
    fn range_stat(
        &self,
        ctx: &Ctx<'_>,
        dir: DirId,
        orders: &Range<u64>,
    ) -> Result<(i64, i64), Halt> {
        let (from, to) = keys::dir_range(dir, Kind::Entry, orders);
        let mut stat = (0, 0);
        ctx.scan(&from, &to, &mut |_, value| {
            if let Ok(Entry { is: Some((_, EntryValue::File(inode))), .. }) = Entry::decode(value) {
                stat.0 += 1;
                stat.1 += inode.attr.size.cast_signed();
            }
            true
        })?;
        Ok(stat)
    }

    /// A page of a partition on its way here.
    pub(crate) fn page(&mut self, ctx: &mut Ctx<'_>, peer: Peer) -> Result<(), Halt> {
        let Say::Page { dir, partition, radix, number, rows } = peer.say else { return Ok(()) };
        let at = (dir.id, partition);
        let orders = range(partition, radix);
        if self.prepared.contains_key(&(peer.txn, peer.step)) {
            return Ok(());
        }
        self.drop_arrivals_of_other_lives(ctx, dir);
        let overlaps = |range: Range<u64>| range.start < orders.end && orders.start < range.end;
        let headers = self.headers(ctx, dir.id)?;
        let owned = headers.iter().any(|h| h.ino != dir.ino || overlaps(h.range()));
        let known = self.arriving.get(&at).map(|(record, _)| record.clone());
        let held = self.locks.hold(LockKey::Partition(dir.id, partition)).is_some();
        if owned || held || known.as_ref().is_some_and(|r| r.txn.number > peer.txn.number) {
            return Ok(()); // a late page of a split that is over
        }
        let fresh = Arriving { txn: peer.txn, dir, radix, next_page: 0 };
        let mut record = known.filter(|r| r.txn == peer.txn).unwrap_or(fresh);
        if number == record.next_page {
            if number == 0 {
                self.clear_range(ctx, dir.id, &orders);
            }
            for (key, value) in rows {
                let inside = keys::order_of(&key).is_some_and(|o| orders.contains(&o.0));
                if keys::dir_of(&key) != Some(dir.id) || !inside {
                    return Err(broken("a page of a split holds a row of another range"));
                }
                ctx.put(key, value);
            }
            record.next_page += 1;
            ctx.put(keys::arrival(dir.id, partition), record.encode());
        } else if number > record.next_page {
            // This shard lost an earlier one in a crash, and says so.
            self.tell(ctx, Need::Committed, peer.from, (peer.txn, peer.step), Say::PageDone(0));
            return Ok(());
        }
        let done = number + 1;
        self.arriving.insert(at, (record, ctx.now.nanos));
        self.tell(ctx, Need::Committed, peer.from, (peer.txn, peer.step), Say::PageDone(done));
        Ok(())
    }

    /// Whether all rows of an arrival are here. If not (this shard lost some in a crash), the split begins again.
    pub(crate) fn arrived(
        &mut self,
        ctx: &Ctx<'_>,
        txn: TxnId,
        arrival: &Arrival,
    ) -> Result<bool, Stop> {
        let header = Header::decode(&arrival.header)?;
        let key = LockKey::Partition(arrival.dir.id, header.partition);
        if let Some((owner, _)) = self.locks.hold(key) {
            return if owner == txn { Ok(true) } else { Ok(false) };
        }
        let at = (arrival.dir.id, header.partition);
        if self.arriving.get(&at).is_none_or(|(record, _)| record.txn != txn) {
            return Ok(false);
        }
        let mut rows = 0;
        for kind in keys::MOVING {
            let (from, to) = keys::dir_range(arrival.dir.id, kind, &header.range());
            ctx.scan(&from, &to, &mut |_, _| {
                rows += 1;
                true
            })?;
        }
        if rows != arrival.rows {
            return Ok(false);
        }
        if self.headers(ctx, arrival.dir.id)?.iter().any(|h| h.ino != arrival.dir.ino) {
            return Ok(false);
        }
        self.arriving.remove(&at);
        Ok(true)
    }

    /// The decision: the partition is this shard's.
    pub(crate) fn own_arrived(
        &mut self,
        ctx: &mut Ctx<'_>,
        dir: DirRef,
        partition: PartitionIndex,
    ) -> Result<(), Halt> {
        let found = self.prepared.values().find_map(|(record, _)| match &record.prepare {
            Prepare::Arrive(a) if a.dir == dir => match Header::decode(&a.header) {
                Ok(header) if header.partition == partition => Some((a.clone(), header)),
                _ => None,
            },
            _ => None,
        });
        let (arrival, header) = found.ok_or_else(|| broken("a partition arrived unannounced"))?;
        let orders = header.range();
        let (inodes, bytes) = self.range_stat(ctx, dir.id, &orders)?;
        ctx.stat.0 += inodes;
        ctx.stat.1 += bytes;
        for (ino, session, count) in arrival.opens {
            if let Some(order) = self.order_of_ino(ctx, dir.id, &orders, ino)? {
                let holders = alloc::vec![(session, count)];
                self.place_opens(ctx, ino, &holders, OpenAt::Name(dir.id, order.0));
            }
        }
        for (key, value) in arrival.slots {
            let Some((session, slot)) = keys::slot_of(&key) else { continue };
            let theirs = Outcome::decode(&value)?;
            let ours = self.slots.get(&(session, slot)).copied().unwrap_or(0);
            // Of the same request this shard may have the floor already, from an earlier split; the answer comes only now.
            let is_answer = theirs.sequence == ours && theirs.result.is_some();
            if self.session_lives(session) && (theirs.sequence > ours || is_answer) {
                self.slots.insert((session, slot), theirs.sequence);
                ctx.put(key, value);
            }
        }
        ctx.delete(keys::arrival(dir.id, partition));
        ctx.set_header(dir.id, header);
        Ok(())
    }

    fn order_of_ino(
        &self,
        ctx: &Ctx<'_>,
        dir: DirId,
        orders: &Range<u64>,
        ino: pando_types::Ino,
    ) -> Result<Option<Order>, Halt> {
        let (from, to) = keys::dir_range(dir, Kind::Entry, orders);
        let mut found = None;
        ctx.scan(&from, &to, &mut |key, value| {
            if let Ok(Entry { is: Some((_, EntryValue::File(inode))), .. }) = Entry::decode(value)
                && inode.attr.ino == ino
            {
                found = keys::order_of(key);
            }
            found.is_none()
        })?;
        Ok(found)
    }

    /// Whether anything of this directory id is on its way here.
    pub(crate) fn arrives(&self, dir: DirId) -> bool {
        let (from, to) = ((dir, PartitionIndex(0)), (dir, PartitionIndex(u32::MAX)));
        self.arriving.range(from..=to).next().is_some() || !self.locks.arrivals(dir).is_empty()
    }

    /// Rows of an arrival that was given up go.
    pub(crate) fn drop_arrival(&mut self, ctx: &mut Ctx<'_>, txn: TxnId) {
        self.drop_arrivals(ctx, |_, record| record.txn == txn);
    }

    /// What was on its way when the directory was removed, and would lie beneath what arrives in its next life.
    fn drop_arrivals_of_other_lives(&mut self, ctx: &mut Ctx<'_>, dir: DirRef) {
        self.drop_arrivals(ctx, |id, record| id == dir.id && record.dir.ino != dir.ino);
    }

    fn drop_arrivals(&mut self, ctx: &mut Ctx<'_>, goes: impl Fn(DirId, &Arriving) -> bool) {
        let gone: Vec<_> = self
            .arriving
            .iter()
            .filter(|((dir, _), (record, _))| goes(*dir, record))
            .map(|(at, (record, _))| (*at, record.radix))
            .collect();
        for ((dir, partition), radix) in gone {
            self.clear_range(ctx, dir, &range(partition, radix));
            ctx.delete(keys::arrival(dir, partition));
            self.arriving.remove(&(dir, partition));
        }
    }
}
