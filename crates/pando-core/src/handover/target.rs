//! A handover at the shard that gets a hash slot. The rules of a split's target hold here, too
//! (`split/target.rs`).

use alloc::vec::Vec;
use core::ops::Range;
use pando_types::peer::{
    EntryValue, HashSlotArrival, Inode, OpenEntry, Peer, PeerMessage, Prepare, RowChange,
    SessionOpens, Tally,
};
use pando_types::reply::HashSlotNews;
use pando_types::{DirId, HashSlot, TxnId};

use crate::contract::{Halt, Need};
use crate::records::keys::{self, Kind};
use crate::records::record::{Content, Entry, Header, Incoming, OpenAt, Record};
use crate::state::ctx::Ctx;
use crate::state::lock_key::LockKey;
use crate::state::migration::hash_slot_rows::dirs_of;
use crate::state::namespace::shreds::Under;
use crate::state::outcomes;
use crate::state::shard::Shard;
use crate::state::stop::{Stop, broken};

impl Shard {
    /// Takes a page of a hash slot on its way here.
    pub(crate) fn hash_slot_page(&mut self, ctx: &mut Ctx<'_>, peer: Peer) -> Result<(), Halt> {
        let PeerMessage::HashSlotPage { hash_slot: news, number, synced, rows } = peer.message
        else {
            return Ok(());
        };
        let at = (peer.txn, peer.step);
        let hash_slot = news.hash_slot;
        if !self.has_joined() {
            self.tell(ctx, Need::Committed, peer.from, at, PeerMessage::PageDone(0));
            return Ok(());
        }
        let known = self.config.map.news(hash_slot).map_or(0, |known| known.version);
        let is_held = self.locks.hold(LockKey::HashSlot(hash_slot)).is_some();
        if self.participant.is_prepared(at)
            || news.version <= known
            || is_held
            || self.owns(hash_slot)
        {
            return Ok(()); // a late page of a handover that is over
        }
        let earlier = self.migration.arrivals.hash_slot(hash_slot).cloned();
        let newness = |version: u32, txn: TxnId| (version, txn.number);
        if earlier
            .as_ref()
            .is_some_and(|r| newness(r.version, r.txn) > newness(news.version, peer.txn))
        {
            return Ok(());
        }
        let fresh = Incoming {
            txn: peer.txn,
            version: news.version,
            next_page: 0,
            tally: Tally::default(),
        };
        let mut record = earlier.filter(|r| r.txn == peer.txn).unwrap_or(fresh);
        let (rows, outcomes) = outcomes::apart(rows);
        if !self.make_way(ctx, &rows)? {
            return Ok(()); // the page is sent again
        }
        if number == record.next_page {
            if number == 0 {
                self.clear_hash_slot(ctx, hash_slot)?;
            }
            take_rows(ctx, hash_slot, rows, &mut record.tally, number == 0)?;
            self.take_slots(ctx, outcomes)?;
            record.next_page += 1;
            ctx.put(keys::incoming(hash_slot), record.encode());
        } else if number > record.next_page {
            // This shard lost an earlier page in a crash, and says so.
            self.tell(ctx, Need::Committed, peer.from, at, PeerMessage::PageDone(0));
            return Ok(());
        }
        self.migration.arrivals.note_hash_slot(hash_slot, record, ctx.now.nanos);
        let need = if synced { Need::Synced } else { Need::Committed };
        self.tell(ctx, need, peer.from, at, PeerMessage::PageDone(number + 1));
        Ok(())
    }

    /// Takes the last rows of a hash slot, if all earlier pages are here, and fills in the counts.
    /// `None`: pages are missing, and the handover begins again.
    pub(crate) fn take_hash_slot(
        &mut self,
        ctx: &mut Ctx<'_>,
        txn: TxnId,
        arrival: &mut HashSlotArrival,
    ) -> Result<Option<Tally>, Stop> {
        if let Some(tally) = self.has_hash_slot(txn) {
            return Ok(Some(tally));
        }
        let hash_slot = arrival.hash_slot.hash_slot;
        let is_held = self.locks.hold(LockKey::HashSlot(hash_slot)).is_some();
        let known = self.migration.arrivals.hash_slot(hash_slot);
        let known = known.filter(|record| record.txn == txn && record.next_page == arrival.pages);
        let (Some(record), false) = (known, is_held) else { return Ok(None) };
        let mut record = record.clone();
        if !self.has_heard_as_much(ctx, arrival.heard) {
            return Ok(None);
        }
        if !self.make_way(ctx, &arrival.rows)? {
            return Ok(None);
        }
        let rows = core::mem::take(&mut arrival.rows);
        take_rows(ctx, hash_slot, rows, &mut record.tally, false)?;
        record.next_page += 1;
        ctx.put(keys::incoming(hash_slot), record.encode());
        self.migration.arrivals.end_hash_slot(hash_slot);
        arrival.tally = record.tally;
        Ok(Some(record.tally))
    }

    /// Drops arrivals into partitions that come with the hash slot. Their source owned those
    /// partitions, and has given these moves up. Their rows would lie beneath the new ones, and
    /// take those along when they are dropped. False: an arrival is prepared, and must be undone
    /// first.
    fn make_way(&mut self, ctx: &mut Ctx<'_>, rows: &[RowChange]) -> Result<bool, Halt> {
        for row in rows {
            let RowChange::Put(key, value) = row else { continue };
            let Some(dir) = keys::dir_of(key) else { continue };
            if keys::kind_of(key) != Some(Kind::Header as u8) {
                continue;
            }
            let orders = Header::decode(value)?.range();
            let overlaps = |r: &Range<u64>| r.start < orders.end && orders.start < r.end;
            if self.locks.arrivals(dir).iter().any(|(_, there)| overlaps(there)) {
                return Ok(false);
            }
            self.drop_arrivals_in(ctx, dir, &orders);
        }
        Ok(true)
    }

    /// Whether a range of orders is coming here with its hash slot, so that a split of it is over.
    pub(crate) fn comes_with_hash_slot(
        &self,
        ctx: &Ctx<'_>,
        dir: DirId,
        orders: &Range<u64>,
    ) -> Result<bool, Halt> {
        let staged: Option<Header> = ctx.load(&keys::dir(dir, Kind::StagedHeader, 0))?;
        let there = staged.map(|header| header.range());
        Ok(there.is_some_and(|there| there.start < orders.end && orders.start < there.end))
    }

    fn has_hash_slot(&self, txn: TxnId) -> Option<Tally> {
        self.participant.prepared_in(txn).find_map(|prepare| match prepare {
            Prepare::TakeHashSlot(arrival) => Some(arrival.tally),
            _ => None,
        })
    }

    /// Applies the decision: the hash slot is this shard's.
    pub(crate) fn own_hash_slot(
        &mut self,
        ctx: &mut Ctx<'_>,
        news: HashSlotNews,
    ) -> Result<(), Halt> {
        let arrival = self.participant.all_prepared().find_map(|(_, prepare)| match prepare {
            Prepare::TakeHashSlot(arrival) if arrival.hash_slot == news => Some(arrival.clone()),
            _ => None,
        });
        let arrival =
            arrival.ok_or_else(|| broken("a hash slot arrived that was not announced"))?;
        ctx.stat.0 += arrival.tally.inodes.cast_signed();
        ctx.add_bytes(arrival.tally.bytes.cast_signed());
        for dir in dirs_of(ctx, news.hash_slot)? {
            let staged = keys::dir(dir, Kind::StagedHeader, 0);
            if let Some(header) = ctx.load::<Header>(&staged)? {
                ctx.delete(staged);
                ctx.set_header(dir, header);
            }
        }
        self.destroy_orphans(ctx, news.hash_slot, &arrival.opens)?;
        for open in arrival.opens {
            let holders = alloc::vec![(open.session, open.count)];
            let at = open.at.map_or(OpenAt::Link, |(dir, order)| OpenAt::Name(dir, order));
            self.place_opens(ctx, open.ino, &holders, at);
        }
        self.own_locks(ctx, news.hash_slot)?;
        self.take_slots(ctx, arrival.slots)?;
        ctx.delete(keys::incoming(news.hash_slot));
        self.set_owner(ctx, news);
        Ok(())
    }

    /// Destroys inodes without a name, if all sessions that had them open are over here. The source
    /// may not have heard of those ends.
    fn destroy_orphans(
        &self,
        ctx: &mut Ctx<'_>,
        hash_slot: HashSlot,
        opens: &[SessionOpens<OpenEntry>],
    ) -> Result<(), Halt> {
        let (from, to) = keys::hash_slot_links(hash_slot);
        let mut nameless = Vec::new();
        let mut bad = None;
        ctx.scan(&from, &to, &mut |key, value| {
            if keys::is_link_inode(key) {
                match Inode::decode(value) {
                    Ok(inode) if inode.attr.nlink == 0 => nameless.push(inode),
                    Ok(_) => {}
                    Err(halt) => bad = Some(halt),
                }
            }
            bad.is_none()
        })?;
        if let Some(halt) = bad {
            return Err(halt);
        }
        for inode in nameless {
            let ino = inode.attr.ino;
            let holds = |open: &SessionOpens<OpenEntry>| {
                open.ino == ino && self.session_lives(open.session)
            };
            if !opens.iter().any(holds) {
                self.destroy_link(ctx, &inode, Under::Nothing)?;
            }
        }
        Ok(())
    }

    /// Drops a handover to this shard that was given up.
    pub(crate) fn drop_incoming(&mut self, ctx: &mut Ctx<'_>, txn: TxnId) -> Result<(), Halt> {
        let gone: Vec<HashSlot> = self.migration.arrivals.hash_slots_of(txn).collect();
        for hash_slot in gone {
            self.forget_incoming(ctx, hash_slot)?;
        }
        Ok(())
    }

    /// Drops all rows that have come of a hash slot.
    pub(crate) fn forget_incoming(
        &mut self,
        ctx: &mut Ctx<'_>,
        hash_slot: HashSlot,
    ) -> Result<(), Halt> {
        self.clear_hash_slot(ctx, hash_slot)?;
        ctx.delete(keys::incoming(hash_slot));
        self.migration.arrivals.end_hash_slot(hash_slot);
        Ok(())
    }

    /// Drops rows of a hash slot that another shard owns. Rows of this shard's own partitions stay,
    /// and so do those of partitions on their way here.
    fn clear_hash_slot(&mut self, ctx: &mut Ctx<'_>, hash_slot: HashSlot) -> Result<(), Halt> {
        for dir in dirs_of(ctx, hash_slot)? {
            ctx.delete_range(keys::dir(dir, Kind::Content, 0), keys::dir(dir, Kind::Header, 0));
            ctx.delete(keys::dir(dir, Kind::StagedHeader, 0));
            for gap in self.gaps(ctx, dir)? {
                self.clear_range(ctx, dir, &gap);
            }
        }
        for (from, to) in [keys::hash_slot_links(hash_slot), keys::hash_slot_locks(hash_slot)] {
            ctx.delete_range(from, to);
        }
        Ok(())
    }

    /// Orders of a directory that are in none of this shard's partitions.
    fn gaps(&mut self, ctx: &Ctx<'_>, dir: DirId) -> Result<Vec<Range<u64>>, Halt> {
        let mut taken: Vec<Range<u64>> =
            self.headers(ctx, dir)?.iter().map(Header::range).collect();
        taken.extend(self.locks.arrivals(dir).into_iter().map(|(_, orders)| orders));
        taken.extend(self.arriving_orders(dir));
        taken.sort_by_key(|orders| orders.start);
        let (mut gaps, mut at) = (Vec::new(), 0);
        for orders in taken {
            if at < orders.start {
                gaps.push(at..orders.start);
            }
            at = at.max(orders.end);
        }
        gaps.push(at..u64::MAX);
        Ok(gaps)
    }
}

/// Applies a page to the copy, and updates the counts. `is_first`: no row can be there to be
/// replaced.
fn take_rows(
    ctx: &mut Ctx<'_>,
    hash_slot: HashSlot,
    rows: Vec<RowChange>,
    tally: &mut Tally,
    is_first: bool,
) -> Result<(), Halt> {
    for row in rows {
        let (RowChange::Put(key, _) | RowChange::Delete(key) | RowChange::DeleteRange(key, _)) =
            &row;
        if keys::hash_slot_of_row(key) != Some(hash_slot) {
            return Err(broken("a page of a handover holds a row of another hash slot"));
        }
        match row {
            RowChange::Put(key, value) => {
                if !is_first {
                    forget(ctx, &key, tally)?;
                }
                weigh(&key, &value, tally, u64::wrapping_add)?;
                ctx.put(staged(key), value);
            }
            RowChange::Delete(key) => {
                forget(ctx, &key, tally)?;
                ctx.delete(staged(key));
            }
            RowChange::DeleteRange(from, to) => {
                let mut keys = Vec::new();
                ctx.scan(&from, &to, &mut |key, _| {
                    keys.push(key.to_vec());
                    true
                })?;
                for key in keys {
                    forget(ctx, &key, tally)?;
                }
                ctx.delete_range(from, to);
            }
        }
    }
    Ok(())
}

/// The key under which a row is kept until the hash slot is owned. A header under its own key would
/// be seen.
fn staged(mut key: Vec<u8>) -> Vec<u8> {
    if keys::kind_of(&key) == Some(Kind::Header as u8) {
        key[17] = Kind::StagedHeader as u8;
    }
    key
}

/// Subtracts the row at the key, if there is one, from the counts.
fn forget(ctx: &Ctx<'_>, key: &[u8], tally: &mut Tally) -> Result<(), Halt> {
    match ctx.get(key)? {
        Some(value) => weigh(key, &value, tally, u64::wrapping_sub),
        None => Ok(()),
    }
}

/// Adds a row to the counts of a shard, or subtracts it, by `by`.
fn weigh(key: &[u8], value: &[u8], tally: &mut Tally, by: fn(u64, u64) -> u64) -> Result<(), Halt> {
    let (inodes, bytes) = match keys::kind_of(key) {
        Some(kind) if kind == Kind::Content as u8 => {
            (u64::from(!Content::decode(value)?.tombstone), 0)
        }
        Some(kind) if kind == Kind::Entry as u8 => {
            tally.entries = by(tally.entries, 1);
            match Entry::decode(value)?.is {
                Some((_, EntryValue::File(inode))) => (1, inode.attr.size),
                _ => (0, 0),
            }
        }
        None if keys::is_link_inode(key) => (1, Inode::decode(value)?.attr.size),
        _ => (0, 0),
    };
    tally.inodes = by(tally.inodes, inodes);
    tally.bytes = by(tally.bytes, bytes);
    Ok(())
}
