//! A split or merge at its target. Rows come page by page, each page with a record of the progress;
//! no request sees them. In the end they become this shard's, as a partition or as the upper half
//! of the parent, or they are dropped.
//!
//! 1. A page is logged together with the count of pages. So after a crash the rows here are a
//!    beginning of what was sent, and the record tells its length.
//! 2. Pages are taken in order, each once, and of one transaction only. A later attempt begins with
//!    page 0, which clears the range. After it, no page of an earlier attempt is taken.
//! 3. Ranges on their way here are disjoint from each other, and from what this shard owns. A merge
//!    that was given up may leave its record. Part of its range may then come by a split. The split
//!    waits until the record is gone: dropping it later would take the new rows along.

use alloc::vec::Vec;
use core::ops::Range;
use pando_placement::{parent, range};
use pando_types::peer::{Arrival, Peer, PeerMessage, Prepare, RowChange, SessionOpens, Tally};
use pando_types::reply::HashSlotNews;
use pando_types::{DirId, DirRef, PartitionIndex, ShardIndex, TxnId};

use crate::contract::{Halt, Need};
use crate::records::keys::{self, Kind};
use crate::records::record::{Arriving, Header, OpenAt, Record};
use crate::split::overlap;
use crate::state::ctx::Ctx;
use crate::state::lock_key::LockKey;
use crate::state::migration::arrivals::PartitionAt;
use crate::state::migration::tally::count;
use crate::state::outcomes;
use crate::state::shard::Shard;
use crate::state::stop::{Stop, broken};
use crate::state::txn::participant::StepId;
use crate::state::txn::step_lock::holder;

impl Shard {
    /// Takes a page of a partition on its way here.
    pub(crate) fn page(&mut self, ctx: &mut Ctx<'_>, peer: Peer) -> Result<(), Halt> {
        let PeerMessage::Page { dir, partition, given_back, radix, number, synced, rows } =
            peer.message
        else {
            return Ok(());
        };
        let at = (dir.id, partition);
        let orders = range(partition, radix);
        if self.participant.is_prepared((peer.txn, peer.step)) {
            return Ok(());
        }
        self.drop_arrivals_of_other_lives(ctx, dir);
        let headers = self.headers(ctx, dir.id)?;
        let owned = headers.iter().any(|h| h.ino != dir.ino || overlap(&h.range(), &orders));
        let known = self.migration.arrivals.partition(at).cloned();
        let arrivals = self.locks.arrivals(dir.id);
        let prepared = arrivals.iter().any(|(_, arrival)| overlap(arrival, &orders));
        let is_over = owned || prepared || self.comes_with_hash_slot(ctx, dir.id, &orders)?;
        if is_over || known.as_ref().is_some_and(|r| r.txn.number > peer.txn.number) {
            return Ok(()); // a late page of a move that is over
        }
        let known = known.filter(|r| r.txn == peer.txn);
        if known.is_none() && number == 0 {
            let is_refused = match given_back {
                Some(names) => self.may_take_back(ctx, dir, (partition, radix), names)?.is_none(),
                None => false,
            };
            self.counters.merges_refused += u64::from(is_refused);
            if is_refused || self.ask_for_others(ctx, at, &orders) {
                self.refuse_move(ctx, (peer.from, (peer.txn, peer.step)), at);
                return Ok(());
            }
        }
        let fresh = Arriving { txn: peer.txn, dir, radix, next_page: 0, tally: Tally::default() };
        let mut record = known.unwrap_or(fresh);
        if number == record.next_page {
            if number == 0 {
                self.clear_range(ctx, dir.id, &orders);
            }
            let (rows, outcomes) = outcomes::apart(rows);
            take_rows(ctx, dir.id, &orders, rows, &mut record.tally)?;
            self.take_slots(ctx, outcomes)?;
            record.next_page += 1;
            ctx.put(keys::arrival(dir.id, partition), record.encode());
        } else if number > record.next_page {
            // This shard lost an earlier page in a crash, and says so.
            let step = (peer.txn, peer.step);
            self.tell(ctx, Need::Committed, peer.from, step, PeerMessage::PageDone(0));
            return Ok(());
        }
        let done = number + 1;
        self.migration.arrivals.note(at, record, ctx.now.nanos);
        let need = if synced { Need::Synced } else { Need::Committed };
        self.tell(ctx, need, peer.from, (peer.txn, peer.step), PeerMessage::PageDone(done));
        Ok(())
    }

    /// Answers that a move may not come here, and where the parent is instead.
    fn refuse_move(
        &mut self,
        ctx: &mut Ctx<'_>,
        (from, step): (ShardIndex, StepId),
        (dir, partition): PartitionAt,
    ) {
        if let Some(news) = self.news_of_parent(dir, partition) {
            self.tell(ctx, Need::Synced, from, step, PeerMessage::Elsewhere(news));
        }
        self.tell(ctx, Need::Committed, from, step, PeerMessage::PageDone(0));
    }

    /// Owner of partition 0, if that is the parent and has gone to another shard with its hash
    /// slot.
    fn news_of_parent(&self, dir: DirId, partition: PartitionIndex) -> Option<HashSlotNews> {
        let is_first = parent(partition) == Some(PartitionIndex(0));
        self.config.map.news(dir.hash_slot()).filter(|_| is_first && !self.is_home(dir))
    }

    /// Whether something else is on its way to some of these orders. If so, its coordinator is
    /// asked at once what became of it.
    fn ask_for_others(
        &mut self,
        ctx: &mut Ctx<'_>,
        (dir, partition): (DirId, PartitionIndex),
        orders: &Range<u64>,
    ) -> bool {
        let others = self.migration.arrivals.of_dir(dir).filter(|(index, record)| {
            *index != partition && overlap(&range(*index, record.radix), orders)
        });
        let others: Vec<TxnId> = others.map(|(_, record)| record.txn).collect();
        for txn in &others {
            self.tell(ctx, Need::Committed, txn.shard, (*txn, 0), PeerMessage::Ask);
        }
        !others.is_empty()
    }

    /// Takes the last rows of a partition, if all earlier pages are here, and fills in the counts.
    /// `None`: pages are missing after a crash, or the parent may not take the partition back. The
    /// source then begins anew.
    pub(crate) fn arrive(
        &mut self,
        ctx: &mut Ctx<'_>,
        txn: TxnId,
        arrival: &mut Arrival,
    ) -> Result<Option<Tally>, Stop> {
        let mut header = Header::decode(&arrival.header)?;
        if let Some(tally) = self.has_arrived(txn) {
            return Ok(Some(tally));
        }
        let at = (arrival.dir.id, header.partition);
        let holder = LockKey::Partition(at.0, holder(arrival, &header)?);
        let is_held = self.locks.hold(holder).is_some();
        let known = self.migration.arrivals.partition(at);
        let known = known.filter(|record| record.txn == txn && record.next_page == arrival.pages);
        let (Some(record), false) = (known, is_held) else { return Ok(None) };
        let mut record = record.clone();
        if !self.has_heard_as_much(ctx, arrival.heard) {
            return Ok(None);
        }
        if self.headers(ctx, arrival.dir.id)?.iter().any(|h| h.ino != arrival.dir.ino) {
            return Ok(None);
        }
        let (of, names) = ((header.partition, header.radix), record.tally.entries);
        if arrival.given_back && self.may_take_back(ctx, arrival.dir, of, names)?.is_none() {
            self.counters.merges_refused += 1;
            return Ok(None);
        }
        let rows = core::mem::take(&mut arrival.rows);
        take_rows(ctx, at.0, &header.range(), rows, &mut record.tally)?;
        record.next_page += 1;
        ctx.put(keys::arrival(at.0, at.1), record.encode());
        self.migration.arrivals.end(at);
        (header.entries, header.subdirs) = (record.tally.entries, record.tally.subdirs);
        (arrival.header, arrival.tally) = (header.encode(), record.tally);
        Ok(Some(record.tally))
    }

    /// Counts of the partition for which this shard is prepared in `txn`.
    fn has_arrived(&self, txn: TxnId) -> Option<Tally> {
        self.participant.prepared_in(txn).find_map(|prepare| match prepare {
            Prepare::Arrive(arrival) => Some(arrival.tally),
            _ => None,
        })
    }

    /// Applies the decision: the partition is this shard's.
    pub(crate) fn own_arrived(
        &mut self,
        ctx: &mut Ctx<'_>,
        dir: DirRef,
        partition: PartitionIndex,
    ) -> Result<(), Halt> {
        let found = self.participant.all_prepared().find_map(|(_, prepare)| match prepare {
            Prepare::Arrive(a) if a.dir == dir => match Header::decode(&a.header) {
                Ok(header) if header.partition == partition => Some((a.clone(), header)),
                _ => None,
            },
            _ => None,
        });
        let (arrival, header) =
            found.ok_or_else(|| broken("a partition arrived that was not announced"))?;
        ctx.stat.0 += arrival.tally.inodes.cast_signed();
        ctx.add_bytes(arrival.tally.bytes.cast_signed());
        for SessionOpens { ino, at: order, session, count } in arrival.opens {
            let holders = alloc::vec![(session, count)];
            self.place_opens(ctx, ino, &holders, OpenAt::Name(dir.id, order));
        }
        self.take_slots(ctx, arrival.slots)?;
        ctx.delete(keys::arrival(dir.id, partition));
        if !arrival.given_back {
            ctx.set_header(dir.id, header);
            return Ok(());
        }
        let into = parent(partition).ok_or_else(|| broken("partition 0 was given back"))?;
        let whole = self.held_header(ctx, dir, into)?.with(&header);
        ctx.set_header(dir.id, whole.clone());
        self.tell_next(ctx, dir, &whole);
        Ok(())
    }

    /// Orders of a directory's partitions that are on their way here and not prepared.
    pub(crate) fn arriving_orders(&self, dir: DirId) -> Vec<Range<u64>> {
        let arriving = self.migration.arrivals.of_dir(dir);
        arriving.map(|(partition, record)| range(partition, record.radix)).collect()
    }

    /// Whether any partition of this directory id is on its way here.
    pub(crate) fn arrives(&self, dir: DirId) -> bool {
        self.migration.arrivals.of_dir(dir).next().is_some() || !self.locks.arrivals(dir).is_empty()
    }

    /// Drops what was on its way to a range that comes with a hash slot. The earlier owner of the
    /// range does not move it any more.
    pub(crate) fn drop_arrivals_in(&mut self, ctx: &mut Ctx<'_>, dir: DirId, orders: &Range<u64>) {
        let arriving = self.migration.arrivals.of_dir(dir);
        let gone: Vec<_> = arriving
            .map(|(partition, record)| (partition, range(partition, record.radix)))
            .filter(|(_, there)| overlap(there, orders))
            .collect();
        for (partition, there) in gone {
            self.clear_range(ctx, dir, &there);
            ctx.delete(keys::arrival(dir, partition));
            self.note_freed(ctx, dir);
            self.migration.arrivals.end((dir, partition));
        }
    }

    /// Drops the rows of an arrival that was given up.
    pub(crate) fn drop_arrival(&mut self, ctx: &mut Ctx<'_>, txn: TxnId) {
        self.drop_arrivals(ctx, |_, record| record.txn == txn);
    }

    /// Drops what was on its way when the directory was removed. It would lie beneath what arrives
    /// in the id's next life.
    fn drop_arrivals_of_other_lives(&mut self, ctx: &mut Ctx<'_>, dir: DirRef) {
        self.drop_arrivals(ctx, |id, record| id == dir.id && record.dir.ino != dir.ino);
    }

    fn drop_arrivals(&mut self, ctx: &mut Ctx<'_>, goes: impl Fn(DirId, &Arriving) -> bool) {
        let gone: Vec<_> = self
            .migration
            .arrivals
            .partitions()
            .filter(|((dir, _), record)| goes(*dir, record))
            .map(|(at, record)| (at, record.radix))
            .collect();
        for ((dir, partition), radix) in gone {
            self.clear_range(ctx, dir, &range(partition, radix));
            ctx.delete(keys::arrival(dir, partition));
            self.note_freed(ctx, dir);
            self.migration.arrivals.end((dir, partition));
        }
    }
}

/// Applies a page to the copy, and updates the counts.
fn take_rows(
    ctx: &mut Ctx<'_>,
    dir: DirId,
    orders: &Range<u64>,
    rows: Vec<RowChange>,
    tally: &mut Tally,
) -> Result<(), Halt> {
    for row in rows {
        let (RowChange::Put(key, _) | RowChange::Delete(key) | RowChange::DeleteRange(key, _)) =
            &row;
        let inside = keys::order_of(key).is_some_and(|order| orders.contains(&order.0));
        if keys::dir_of(key) != Some(dir) || !inside {
            return Err(broken("a page of a split or merge holds a row of another range"));
        }
        match row {
            RowChange::Put(key, value) => {
                forget(ctx, &key, tally)?;
                count(&key, &value, tally, u64::wrapping_add)?;
                ctx.put(key, value);
            }
            RowChange::Delete(key) => {
                forget(ctx, &key, tally)?;
                ctx.delete(key);
            }
            RowChange::DeleteRange(from, to) => {
                let mut keys = Vec::new();
                if keys::kind_of(&from) == Some(Kind::Entry as u8) {
                    ctx.scan(&from, &to, &mut |key, _| {
                        keys.push(key.to_vec());
                        true
                    })?;
                }
                for key in keys {
                    forget(ctx, &key, tally)?;
                }
                ctx.delete_range(from, to);
            }
        }
    }
    Ok(())
}

/// Subtracts the entry at the key, if there is one, from the counts.
fn forget(ctx: &Ctx<'_>, key: &[u8], tally: &mut Tally) -> Result<(), Halt> {
    if keys::kind_of(key) != Some(Kind::Entry as u8) {
        return Ok(());
    }
    match ctx.get(key)? {
        Some(value) => count(key, &value, tally, u64::wrapping_sub),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
