//! The participant of a transaction: it locks, checks, logs and votes. In the end it applies or
//! undoes, exactly once.

use alloc::boxed::Box;
use alloc::vec::Vec;
use pando_placement::range;
use pando_types::op::Place;
use pando_types::peer::{
    Behalf, Change, Claim, EntryRows, EntryValue, Peer, PeerMessage, Prepare, Seen, Vote,
};
use pando_types::reply::{Refusal, SplitHistory};
use pando_types::{
    Credentials, DirId, DirRef, Errno, Ino, Name, Order, PartitionIndex, Radix, TxnId,
};

use crate::contract::{Halt, Input, Need};
use crate::namespace::inode::{self, Loc};
use crate::namespace::{names, perm};
use crate::records::keys;
use crate::records::record::{Header, Prepared, Record};
use crate::state::ctx::Ctx;
use crate::state::lock_key::{Hold, LockKey};
use crate::state::migration::copy::GivenUp;
use crate::state::migration::whereabouts::Whereabouts;
use crate::state::namespace::headers::history;
use crate::state::shard::Shard;
use crate::state::stop::{Stop, broken};
use crate::state::txn::step_lock::locks_of;
use crate::txn::redo::{can_redo, votes_unsynced};

/// Shortest time until a vote about a lent part, nanoseconds.
const VOTES_AFTER: u64 = 1_000_000;
/// Longest time until a vote about a lent part, nanoseconds.
const VOTES_WITHIN: u64 = 250_000_000;

/// Whether the vote for this step only reads, so that a vote of no leaves nothing changed.
const fn only_looks(prepare: &Prepare) -> bool {
    matches!(
        prepare,
        Prepare::Name { .. }
            | Prepare::Look(_)
            | Prepare::LookFile { .. }
            | Prepare::Home(_)
            | Prepare::Removal(_)
            | Prepare::NewHome(_)
            | Prepare::Link { .. }
    )
}

/// Whether a step locks something that sessions may remember.
const fn changes_parts(prepare: &Prepare) -> bool {
    matches!(
        prepare,
        Prepare::Name { .. }
            | Prepare::Home(_)
            | Prepare::Removal(_)
            | Prepare::Partition { .. }
            | Prepare::Arrive(_)
            | Prepare::TakeHashSlot(_)
    )
}

impl Shard {
    /// Handles a coordinator's message.
    pub(crate) fn participate(&mut self, ctx: &mut Ctx<'_>, peer: Peer) -> Result<(), Halt> {
        if peer.txn.shard != self.config.shard {
            self.participant.raise_floor(ctx, peer.txn.shard, &peer.floor);
        }
        let at = (peer.txn, peer.step);
        if self.is_stale_copy(&peer) {
            self.grants.vote_leaves(at);
            return Ok(());
        }
        if self.participant.is_over(peer.txn) {
            if let PeerMessage::Finish(decision) = &peer.message {
                self.let_go(ctx, at)?;
                if decision.is_some() {
                    self.tell(ctx, Need::Durable, peer.from, at, PeerMessage::Finished);
                }
            }
            return Ok(());
        }
        if self.participant.has_finished(at) {
            if !matches!(peer.message, PeerMessage::Page { .. } | PeerMessage::HashSlotPage { .. })
            {
                self.tell(ctx, Need::Durable, peer.from, at, PeerMessage::Finished);
            }
            return Ok(());
        }
        match &peer.message {
            PeerMessage::Prepare(place, prepare) => {
                let (place, prepare) = (place.clone(), prepare.clone());
                self.prepare(ctx, peer, place, prepare)
            }
            PeerMessage::Finish(None) => self.let_go(ctx, at),
            PeerMessage::Finish(Some(changes)) => {
                let is_made = match self.participant.is_prepared(at) {
                    true => self.is_applicable(ctx, peer.from, at, changes)?,
                    false => self.once_more(ctx, &peer, changes)?,
                };
                if !is_made {
                    return Ok(());
                }
                self.finish_here(ctx, peer.txn, peer.step, changes)?;
                self.participant.finish(ctx, at);
                self.tell(ctx, Need::Durable, peer.from, at, PeerMessage::Finished);
                Ok(())
            }
            PeerMessage::Page { .. } => self.page(ctx, peer),
            PeerMessage::HashSlotPage { .. } => self.hash_slot_page(ctx, peer),
            _ => Ok(()),
        }
    }

    /// Whether it asks this shard itself for a vote of a transaction that is decided. A vote that
    /// waited for a part is asked for twice.
    fn is_stale_copy(&self, peer: &Peer) -> bool {
        let is_asked = matches!(peer.message, PeerMessage::Prepare(..));
        if !is_asked || peer.txn.shard != self.config.shard {
            return false;
        }
        self.coordinator.get(peer.txn.number).is_some_and(|txn| txn.plan().is_none())
    }

    /// Whether to apply a decision for a step that is not, or no longer, prepared here. Only
    /// changes that the decision alone describes can be applied so. False: not here, or not yet.
    fn once_more(
        &mut self,
        ctx: &mut Ctx<'_>,
        peer: &Peer,
        changes: &[Change],
    ) -> Result<bool, Halt> {
        if !changes.iter().all(can_redo) {
            if peer.from == self.config.shard {
                return Err(broken("a decision came for a step that was never prepared"));
            }
            self.counters.bad_messages += 1;
            return Ok(false);
        }
        match self.where_is(changes)? {
            Whereabouts::Here => Ok(!self.waits_to_lend(ctx, peer, changes)),
            Whereabouts::Soon(key) => {
                self.locks.wait(key, Input::Peer(Box::new(peer.clone())));
                Ok(false)
            }
            Whereabouts::There(news) => {
                let at = (peer.txn, peer.step);
                self.tell(ctx, Need::Synced, peer.from, at, PeerMessage::Elsewhere(news));
                Ok(false)
            }
            Whereabouts::Never => {
                self.counters.bad_messages += 1;
                Ok(false)
            }
        }
    }

    /// Whether a decision waits that brings a loan: a loss of power may have brought back a step
    /// that holds the id for a transaction of before. Its coordinator has undone that.
    fn waits_to_lend(&mut self, ctx: &Ctx<'_>, peer: &Peer, changes: &[Change]) -> bool {
        let held = changes.iter().find_map(|change| match change {
            Change::NewLentHome { dir, .. } if self.content(ctx, *dir).is_err() => {
                let key = LockKey::Home(dir.id);
                self.locks.free_for(key, peer.txn).is_err().then_some(key)
            }
            _ => None,
        });
        let Some(key) = held else { return false };
        self.locks.wait(key, Input::Peer(Box::new(peer.clone())));
        true
    }

    fn prepare(
        &mut self,
        ctx: &mut Ctx<'_>,
        peer: Peer,
        place: Place,
        mut prepare: Prepare,
    ) -> Result<(), Halt> {
        let at = (peer.txn, peer.step);
        let from = peer.from;
        if peer.behalf.heard > 0
            && let Some(key) = self.must_have_heard(ctx, peer.behalf.heard)
        {
            self.locks.wait(key, Input::Peer(Box::new(peer)));
            return Ok(());
        }
        // The coordinator has not heard of the session's end, and tries again until it has. Another
        // session may have this session's locks by now, and may have looked here.
        let session = peer.behalf.session;
        if session.0 > 0 && !self.session_lives(session) && !self.participant.is_prepared(at) {
            self.tell(ctx, Need::Committed, from, at, PeerMessage::Voted(Vote::Busy));
            return Ok(());
        }
        if let Prepare::Invalidate { dirs, graph } = &prepare {
            if graph.is_some_and(|step| !self.participant.is_prepared((peer.txn, step))) {
                self.tell(ctx, Need::Committed, from, at, PeerMessage::Voted(Vote::Busy));
                return Ok(());
            }
            return self.invalidate(ctx, from, at, dirs);
        }
        ctx.under = self.passes_under(&peer, &prepare);
        ctx.changes_for = prepare.locks().then_some(session);
        let heard = match changes_parts(&prepare) && !self.participant.is_prepared(at) {
            true => self.readers_have_heard(session),
            false => Ok(()),
        };
        let voted = heard.and_then(|()| self.vote(ctx, (peer.txn, peer.behalf), &mut prepare));
        (ctx.under, ctx.changes_for) = (None, None);
        let vote = match voted {
            Ok(vote) => vote,
            Err(Stop::Wait(key)) if self.is_closing(key) => Vote::Busy,
            Err(Stop::Wait(key)) if key == LockKey::Readers || self.recall_lock(ctx.now, key) => {
                return self.vote_later(ctx, peer, (place, prepare), key);
            }
            Err(Stop::Wait(key)) => {
                self.counters.waited += 1;
                self.locks.wait(key, Input::Peer(Box::new(peer)));
                return Ok(());
            }
            Err(Stop::Refuse(Refusal::Errno(errno))) => Vote::No(errno),
            Err(Stop::Refuse(Refusal::Redirect(history))) => Vote::Redirect(history),
            Err(Stop::Refuse(Refusal::HashSlot(news))) => Vote::HashSlot(news),
            Err(Stop::Refuse(_)) => Vote::AskHome,
            Err(Stop::Halt(Halt::Unreadable(_))) if only_looks(&prepare) => Vote::No(Errno::EIO),
            Err(Stop::Halt(halt)) => return Err(halt),
        };
        self.send_vote(ctx, &peer, (place, prepare), vote)
    }

    /// Votes about a part that is lent once it is back, which may be on its way. Votes `Busy` if
    /// that takes long, but not at once: the transaction would begin again without end while the
    /// holder is away.
    fn vote_later(
        &mut self,
        ctx: &mut Ctx<'_>,
        peer: Peer,
        asked: (Place, Prepare),
        key: LockKey,
    ) -> Result<(), Halt> {
        let at = (peer.txn, peer.step);
        match self.wanted_since(ctx.now, key).filter(|_| self.grants.delay_vote(at)) {
            Some(since) => {
                let pause = (since / 4).clamp(VOTES_AFTER, VOTES_WITHIN);
                self.locks.wait(key, Input::Peer(Box::new(peer.clone())));
                let input = Input::Peer(Box::new(peer));
                self.queue.put_off(ctx.now.nanos.saturating_add(pause), input);
                Ok(())
            }
            None => {
                self.queue.resume(self.locks.forget(at.0, at.1));
                self.send_vote(ctx, &peer, asked, Vote::Busy)
            }
        }
    }

    /// Records for what a vote of yes prepares this shard, and sends the vote.
    fn send_vote(
        &mut self,
        ctx: &mut Ctx<'_>,
        peer: &Peer,
        (place, mut prepare): (Place, Prepare),
        vote: Vote,
    ) -> Result<(), Halt> {
        let at = (peer.txn, peer.step);
        self.grants.vote_leaves(at);
        let locks = prepare.locks();
        let passed = self.passes_under(peer, &prepare);
        let unsynced = !locks || votes_unsynced(&prepare) && self.rests_on_durable(ctx, &prepare);
        #[cfg(feature = "planted")]
        let unsynced = unsynced || self.is_planted(crate::Planted::VoteUnsynced);
        if matches!(vote, Vote::Yes(_)) && locks && !self.participant.is_prepared(at) {
            for (lock, hold) in locks_of(&self.config, &prepare)? {
                match passed {
                    Some(grant) => self.locks.take_over(lock, peer.txn, (hold, grant)),
                    None => self.locks.take(lock, peer.txn, hold),
                }
            }
            if let Prepare::Graph(Claim::Move { above, .. }) = &mut prepare {
                above.clear();
            }
            self.participant.prepare(ctx, at, Prepared { place, prepare });
        }
        let need = match vote {
            Vote::Yes(_) if !unsynced => Need::Synced,
            _ if peer.behalf.heard > 0 && self.sessions.log.is_end_unsynced(ctx.now.durable) => {
                Need::Synced
            }
            Vote::HashSlot(_) => Need::Synced,
            _ => Need::Committed,
        };
        self.tell(ctx, need, peer.from, at, PeerMessage::Voted(vote));
        Ok(())
    }

    /// Whether a move that waits for transactions holds the lock. Then no transaction may wait for
    /// it.
    fn is_closing(&self, key: LockKey) -> bool {
        matches!(self.locks.hold(key), Some((_, Hold::Closing { .. })))
    }

    fn vote(
        &mut self,
        ctx: &mut Ctx<'_>,
        (txn, behalf): (TxnId, Behalf),
        prepare: &mut Prepare,
    ) -> Result<Vote, Stop> {
        let seen = match prepare {
            Prepare::Graph(claim) => return self.claim(txn, claim),
            Prepare::Name { dir, name, credentials, .. } => {
                self.see_name(ctx, txn, *dir, name, credentials.as_ref())?
            }
            // A holder does not change where its directory is.
            Prepare::Look(dir) if self.content_is_settled(dir.id).is_ok() => {
                self.open_hash_slot(dir.id.hash_slot())?;
                self.see_content(ctx, *dir)?
            }
            Prepare::Look(dir) | Prepare::Home(dir) => self.see_home(ctx, txn, *dir)?,
            Prepare::Removal(dir) => {
                let seen = self.see_home(ctx, txn, *dir)?;
                match self.see_partition(ctx, txn, *dir, PartitionIndex(0), true)? {
                    Some(_) => seen,
                    None => return Ok(Vote::Busy),
                }
            }
            Prepare::LookFile { dir, name, ino } => self.see_file(ctx, txn, *dir, name, *ino)?,
            Prepare::NewHome(id) => {
                self.open_hash_slot(id.hash_slot())?;
                self.locks.free_for(LockKey::Home(*id), txn)?;
                if self.id_taken(ctx, *id)? {
                    return Ok(Vote::No(Errno::EEXIST));
                }
                let inos = behalf.borrows.then(|| self.inos_for_birth(ctx, behalf.session, *id));
                inos.flatten().map_or(Seen::Nothing, Seen::Lends)
            }
            Prepare::Partition { dir, partition, seal } => {
                match self.see_partition(ctx, txn, *dir, *partition, *seal)? {
                    Some((history, subdirs)) => Seen::Partition(history, subdirs),
                    None => return Ok(Vote::Busy),
                }
            }
            Prepare::Link { ino, new } => {
                self.open_link(*ino)?;
                self.locks.free_for(LockKey::Link(*ino), txn)?;
                match self.link_inode(ctx, *ino)? {
                    None if *new => Seen::Nothing,
                    Some(inode) if !*new => {
                        Seen::Link(inode.attr, self.namespace.opens.holders(*ino))
                    }
                    // A late repetition: another transaction has brought the inode meanwhile.
                    Some(_) => return Ok(Vote::Busy),
                    None => return Err(Errno::ESTALE.into()),
                }
            }
            Prepare::Arrive(arrival) => match self.arrive(ctx, txn, arrival)? {
                Some(tally) => Seen::Arrived(tally),
                None => return Ok(Vote::Busy),
            },
            Prepare::TakeHashSlot(arrival) => match self.take_hash_slot(ctx, txn, arrival)? {
                Some(tally) => Seen::Arrived(tally),
                None => return Ok(Vote::Busy),
            },
            Prepare::Join => {
                self.locks.free_for(LockKey::Join, txn)?;
                Seen::Nothing
            }
            Prepare::Invalidate { .. } => return Err(Errno::EINVAL.into()),
        };
        Ok(Vote::Yes(seen))
    }

    fn see_home(&mut self, ctx: &Ctx<'_>, txn: TxnId, dir: DirRef) -> Result<Seen, Stop> {
        self.open_hash_slot(dir.id.hash_slot())?;
        match self.locks.hold(LockKey::Home(dir.id)) {
            Some((grant, Hold::Lent)) if ctx.is_of_grant(grant) => {}
            _ => self.locks.free_for(LockKey::Home(dir.id), txn)?,
        }
        self.see_content(ctx, dir)
    }

    fn see_content(&mut self, ctx: &Ctx<'_>, dir: DirRef) -> Result<Seen, Stop> {
        let content = self.content(ctx, dir)?;
        Ok(Seen::Home {
            parent: content.parent,
            name: content.name,
            base: content.base,
            generation: content.generation,
            history: self.history(ctx, dir.id)?,
        })
    }

    fn see_file(
        &mut self,
        ctx: &Ctx<'_>,
        txn: TxnId,
        dir: DirRef,
        name: &Name,
        ino: Ino,
    ) -> Result<Seen, Stop> {
        let order = self.order(name);
        self.own(ctx, dir, order)?;
        self.locks.free_for(LockKey::Name(dir.id, order.0), txn)?;
        match names::find(ctx, dir.id, order, name)?.map(|entry| entry.value) {
            Some(EntryValue::File(inode)) if inode.attr.ino == ino => {
                Ok(Seen::Link(inode.attr, Vec::new()))
            }
            _ => Err(Errno::ESTALE.into()),
        }
    }

    fn see_name(
        &mut self,
        ctx: &Ctx<'_>,
        txn: TxnId,
        dir: DirRef,
        name: &Name,
        credentials: Option<&Credentials>,
    ) -> Result<Seen, Stop> {
        let order = self.order(name);
        let header = self.own(ctx, dir, order)?;
        self.locks.free_for(LockKey::Name(dir.id, order.0), txn)?;
        let entry = names::find(ctx, dir.id, order, name)?;
        if let Some(credentials) = credentials {
            perm::check_dir(&header.inherit, credentials, perm::W | perm::X)?;
            let of_entry = match entry.as_ref().map(|e| &e.value) {
                Some(EntryValue::File(inode)) => Some((&inode.attr).into()),
                Some(EntryValue::Dir(access)) => Some(access.judged()),
                _ => None,
            };
            if let Some(of_entry) = of_entry {
                perm::check_sticky(&header.inherit, of_entry, credentials)?;
            }
        }
        let entry = match entry {
            None => None,
            Some(found) => {
                let mut rows = pando_types::peer::InodeRows::default();
                if let EntryValue::File(inode) = &found.value {
                    rows = inode::rows(ctx, &Loc::of_entry(dir.id, &found, name), inode)?;
                    if rows.slices.len() > self.config.moved_slices {
                        return Err(Errno::EXDEV.into());
                    }
                    rows.opens = self.namespace.opens.holders(inode.attr.ino);
                }
                Some(EntryRows { value: found.value, inode: rows })
            }
        };
        Ok(Seen::Name { entry, inherit: header.inherit })
    }

    /// What a held partition shows: split history and number of subdirectories. `None`: busy.
    fn see_partition(
        &mut self,
        ctx: &mut Ctx<'_>,
        txn: TxnId,
        dir: DirRef,
        index: PartitionIndex,
        seal: bool,
    ) -> Result<Option<(SplitHistory, u64)>, Stop> {
        let start = Order(range(index, Radix::MAX).start);
        let header = match self.find_header(ctx, dir, start) {
            Err(Stop::Wait(_)) => return Ok(None), // it is on its way here
            other => other?,
        };
        let headers = self.headers(ctx, dir.id)?;
        // The partition was merged into its parent. A transaction that wants all partitions looks
        // for them anew.
        if header.partition != index {
            return Ok(None);
        }
        if index.0 == 0 && self.closed_hash_slot(dir.id.hash_slot()).is_some() {
            return Ok(None);
        }
        let hold = self.locks.hold(LockKey::Partition(dir.id, index));
        match hold {
            Some((_, Hold::Copy)) => {}
            Some((grant, Hold::Lent)) if ctx.is_of_grant(grant) && !seal => {}
            Some((_, Hold::Lent | Hold::Read)) => {
                return Err(Stop::Wait(LockKey::Partition(dir.id, index)));
            }
            Some((owner, _)) if owner != txn => return Ok(None),
            _ => {}
        }
        if seal {
            if header.entries > 0 {
                return Err(Errno::ENOTEMPTY.into());
            }
            if let Some(order) = self.locks.first_name(dir.id, &header.range(), None) {
                let key = LockKey::Name(dir.id, order);
                // The remover of slices waits for no transaction.
                let goes_by_itself =
                    self.locks.hold(key).is_some_and(|(owner, _)| owner == self.shredder());
                return if goes_by_itself { Err(Stop::Wait(key)) } else { Ok(None) };
            }
        }
        if let Some((split, Hold::Copy)) = hold {
            self.give_up_copy(ctx, split.number, GivenUp::Wanted)?;
        }
        Ok(Some((history(self.config.shard, &headers), header.subdirs)))
    }

    /// Applies a decision's changes, and unlocks.
    pub(crate) fn finish_here(
        &mut self,
        ctx: &mut Ctx<'_>,
        txn: TxnId,
        step: u16,
        changes: &[Change],
    ) -> Result<(), Halt> {
        for change in changes {
            self.apply(ctx, change)?;
        }
        self.unlock(ctx, (txn, step))?;
        Ok(())
    }

    /// Undoes what a step prepared. Without a prepared record, drops what waits for that step.
    fn let_go(&mut self, ctx: &mut Ctx<'_>, at: (TxnId, u16)) -> Result<(), Halt> {
        self.grants.vote_leaves(at);
        self.queue.resume(self.locks.forget(at.0, at.1));
        self.forget_invalidation(at);
        self.drop_arrival(ctx, at.0);
        self.drop_incoming(ctx, at.0)?;
        match self.unlock(ctx, at)? {
            Some(Prepare::Arrive(arrival)) => {
                let header = Header::decode(&arrival.header)?;
                self.clear_range(ctx, arrival.dir.id, &header.range());
                ctx.delete(keys::arrival(arrival.dir.id, header.partition));
                self.note_freed(ctx, arrival.dir.id);
                Ok(())
            }
            Some(Prepare::TakeHashSlot(arrival)) => {
                self.forget_incoming(ctx, arrival.hash_slot.hash_slot)
            }
            // At the coordinator a lost decision takes the prepared step with it.
            Some(Prepare::Name { dir, name, .. }) if at.0.shard != self.config.shard => {
                self.recall_passed(ctx, dir, &name);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn unlock(&mut self, ctx: &mut Ctx<'_>, at: (TxnId, u16)) -> Result<Option<Prepare>, Halt> {
        let Some(prepare) = self.participant.release(ctx, at) else { return Ok(None) };
        for (lock, _) in locks_of(&self.config, &prepare)? {
            self.queue.resume(self.locks.release(lock, at.0));
        }
        if let Prepare::Graph(claim) = &prepare {
            self.end_claim(ctx, at.0, claim);
        }
        Ok(Some(prepare))
    }

    /// Drops rows of a range that this shard does not, or no longer, own.
    pub(crate) fn clear_range(
        &self,
        ctx: &mut Ctx<'_>,
        dir: DirId,
        orders: &core::ops::Range<u64>,
    ) {
        for kind in keys::MOVING {
            let (from, to) = keys::dir_range(dir, kind, orders);
            ctx.delete_range(from, to);
        }
    }

    /// Asks coordinators about transactions that have long been prepared here.
    pub(crate) fn ask_coordinators(&mut self, ctx: &mut Ctx<'_>) {
        let (now, after) = (ctx.now.nanos, self.config.ask_after);
        let mut asks = self.participant.take_unasked(now.checked_sub(after), now);
        let arriving = self.migration.arrivals.take_unheard(now, after);
        asks.extend(arriving.map(|txn| (txn, 0)));
        for at in asks {
            self.tell(ctx, Need::Committed, at.0.shard, at, PeerMessage::Ask);
        }
    }
}
