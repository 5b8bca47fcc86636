//! The way of an input through a shard: it is dispatched, and its changes are collected as effects,
//! in one insert group. Recovery of a shard from records. The state is `state::shard::Shard`.

use alloc::boxed::Box;
use alloc::vec::Vec;
use pando_types::peer::{Peer, PeerMessage};
use pando_types::{Ino, KeyId, SessionId, ShardIndex};

use crate::contract::{Config, Effects, Halt, Input, Now, Row, Rows, SHARD_0};
use crate::counters::{Count, Counters, TxnKind};
use crate::records::keys::{self, Table};
use crate::records::record::{
    Arriving, Decided, Floor, Incoming, Open, Outcome, Prepared, Record, Stat,
};
use crate::state::concerned::Concerned;
use crate::state::ctx::Ctx;
use crate::state::grants::parts::Grants;
use crate::state::locks::Locks;
use crate::state::migration::parts::{Migration, Work};
use crate::state::namespace::parts::Namespace;
use crate::state::numbers::Numbers;
use crate::state::paths::parts::Paths;
use crate::state::queue::RunQueue;
use crate::state::sessions::leases::Leases;
use crate::state::sessions::parts::Sessions;
use crate::state::shard::Shard;
use crate::state::stop::{bad_key, broken};
use crate::state::txn::coordinator::Coordinator;
use crate::state::txn::participant::Participant;
use crate::state::txn::step_lock::locks_of;
use crate::state::txn::transaction::Txn;

impl Shard {
    /// Recovers the shard from its records in `rows`. The shell applies and syncs the effects
    /// before the first input. The effects hold a new block of numbers, among others.
    pub fn recover(config: Config, now: Now, rows: &dyn Rows) -> Result<(Self, Effects), Halt> {
        let mut ctx = Ctx::new(now, rows);
        let Some(reserved) = ctx.load(&keys::table(Table::Numbers))? else {
            return Err(broken("its store holds no shard: the record of its numbers is missing"));
        };
        let numbers = Numbers::recover(config.shard, reserved, config.number_block);
        ctx.put(keys::table(Table::Numbers), numbers.record().encode());
        let mut shard = Self::from_records(config, numbers, &ctx)?;
        shard.begin_versions();
        Ok((shard, Self::effects(ctx, Some(now.nanos))))
    }

    /// Builds the shard from its records. `numbers` continue as passed.
    pub(crate) fn from_records(
        config: Config,
        numbers: Numbers,
        ctx: &Ctx<'_>,
    ) -> Result<Self, Halt> {
        let mut shard = Self {
            begun_with: config.clone(),
            concerned: Concerned::default(),
            numbers,
            locks: Locks::default(),
            namespace: Namespace::default(),
            sessions: Sessions::new(Leases::new(config.lease, ctx.now.nanos)),
            coordinator: Coordinator::default(),
            participant: Participant::default(),
            migration: Migration::default(),
            paths: Paths::default(),
            grants: Grants::default(),
            queue: RunQueue::default(),
            watch: None,
            counters: Counters::default(),
            config,
            #[cfg(feature = "planted")]
            planted: None,
        };
        shard.namespace.load_stat(ctx.load(&keys::table(Table::Stat))?.unwrap_or_default());
        shard.load_joined(ctx)?;
        shard.load_owners(ctx)?;
        shard.load_sessions(ctx)?;
        shard.load_transactions(ctx)?;
        shard.load_shreds(ctx)?;
        shard.load_grants(ctx)?;
        shard.load_readers(ctx)?;
        Ok(shard)
    }

    fn load_sessions(&mut self, ctx: &Ctx<'_>) -> Result<(), Halt> {
        self.load_session_records(ctx)?;
        if self.config.shard == SHARD_0 {
            self.sessions.begin_leases(ctx.now.nanos);
        }
        for (key, value) in table(ctx, Table::Outcome)? {
            let slot = keys::outcome_of(&key).ok_or_else(|| bad_key(Table::Outcome))?;
            self.sessions.outcomes.load(slot, Outcome::decode(&value)?.sequence);
        }
        for (key, value) in table(ctx, Table::Open)? {
            let (ino, session) = (Ino(number(&key, 2)?), SessionId(number(&key, 10)?));
            self.namespace.opens.load(ino, session, Open::decode(&value)?);
        }
        self.load_locked(ctx)?;
        Ok(())
    }

    fn load_transactions(&mut self, ctx: &Ctx<'_>) -> Result<(), Halt> {
        for (key, value) in table(ctx, Table::Floor)? {
            let shard = key.get(2..4).ok_or_else(|| bad_key(Table::Floor))?;
            let shard = ShardIndex(u16::from_be_bytes([shard[0], shard[1]]));
            self.participant.load_floor(shard, Floor::decode(&value)?);
        }
        for (key, _) in table(ctx, Table::Finished)? {
            let step = keys::step_of(&key).ok_or_else(|| bad_key(Table::Finished))?;
            self.participant.load_finished(step);
        }
        for (key, value) in table(ctx, Table::Txn)? {
            let number = number(&key, 2)?;
            self.coordinator.enter(number, Txn::recovered(Decided::decode(&value)?));
        }
        for (key, value) in table(ctx, Table::Arrival)? {
            let partition = key.get(18..22).and_then(|bytes| bytes.try_into().ok());
            let partition =
                partition.map(u32::from_be_bytes).ok_or_else(|| bad_key(Table::Arrival))?;
            let record = Arriving::decode(&value)?;
            let place = (record.dir.id, pando_types::PartitionIndex(partition));
            self.migration.arrivals.note(place, record, 0);
        }
        for (key, value) in table(ctx, Table::Incoming)? {
            let hash_slot = keys::owner_of(&key).ok_or_else(|| bad_key(Table::Incoming))?;
            self.migration.arrivals.note_hash_slot(hash_slot, Incoming::decode(&value)?, 0);
        }
        for (key, value) in table(ctx, Table::Prepared)? {
            let step = keys::step_of(&key).ok_or_else(|| bad_key(Table::Prepared))?;
            let record = Prepared::decode(&value)?;
            for (lock, hold) in locks_of(&self.config, &record.prepare)? {
                self.locks.take(lock, step.0, hold);
            }
            if let pando_types::peer::Prepare::Arrive(arrival) = &record.prepare {
                let header = crate::records::record::Header::decode(&arrival.header)?;
                self.migration.arrivals.end((arrival.dir.id, header.partition));
            }
            if let pando_types::peer::Prepare::TakeHashSlot(arrival) = &record.prepare {
                self.migration.arrivals.end_hash_slot(arrival.hash_slot.hash_slot);
            }
            self.participant.load_prepared(step, record);
        }
        self.counters.recovered_decided = self.coordinator.count() as u64;
        self.counters.recovered_prepared = self.participant.count() as u64;
        self.counters.recovered_arrivals = self.migration.arrivals.count() as u64;
        Ok(())
    }

    /// Handles one input, by the contract in [`crate::contract`].
    pub fn handle(&mut self, now: Now, input: Input, rows: &dyn Rows) -> Result<Effects, Halt> {
        self.concerned.clear();
        self.sessions.outcomes.settle();
        self.namespace.opens.settle();
        let mut ctx = Ctx::new(now, rows).with_lookup_cache(self.namespace.lend_lookup_cache());
        let result = match self.dispatch(&mut ctx, input) {
            Ok(()) => self.commit(ctx),
            Err(halt) => Err(halt),
        };
        if result.is_err() {
            self.sessions.outcomes.restore();
        }
        result
    }

    fn dispatch(&mut self, ctx: &mut Ctx<'_>, input: Input) -> Result<(), Halt> {
        ctx.trace = input.trace();
        match input {
            Input::Client(tag, request) => self.client(ctx, tag, request),
            Input::Peer(peer) if !self.is_sound(ctx, &peer) => Ok(()),
            Input::Peer(peer) => {
                self.coordinator.silent.has_spoken(peer.from);
                if self.hears(ctx, &peer) { self.peer(ctx, peer) } else { Ok(()) }
            }
            Input::Tick => self.tick(ctx),
            Input::Ready => match self.queue.next_ready() {
                Some(Input::Ready) | None => self.work(ctx),
                Some(input) => self.dispatch(ctx, input),
            },
        }
    }

    /// Does the next work that no input asks for.
    fn work(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Halt> {
        if let Some(batch) = self.grants.take_batch() {
            return self.run_next_element(ctx, batch);
        }
        match self.migration.next_work() {
            Some(Work::Copy(number)) => self.go_on_copying(ctx, number),
            Some(Work::Count(number)) => self.count_on(ctx, number),
            Some(Work::Split(dir, partition)) => self.consider_split(ctx, dir, partition),
            Some(Work::Merge(dir, partition)) => self.consider_merge(ctx, dir, partition),
            None => match self.sessions.log.next_to_clean() {
                Some(session) => self.clean_session(ctx, session),
                None => Ok(()),
            },
        }
    }

    fn peer(&mut self, ctx: &mut Ctx<'_>, peer: Box<Peer>) -> Result<(), Halt> {
        match peer.message {
            PeerMessage::Prepare(..)
            | PeerMessage::Finish(_)
            | PeerMessage::Page { .. }
            | PeerMessage::HashSlotPage { .. } => self.participate(ctx, *peer),
            PeerMessage::Voted(_)
            | PeerMessage::Finished
            | PeerMessage::Ask
            | PeerMessage::PageDone(_)
            | PeerMessage::Elsewhere(_) => self.coordinate(ctx, *peer),
            PeerMessage::Versions { .. }
            | PeerMessage::VersionsKnown(_)
            | PeerMessage::AskVersions(_) => {
                self.hear_versions(ctx, *peer);
                Ok(())
            }
            PeerMessage::Sessions { .. }
            | PeerMessage::SessionsHeard { .. }
            | PeerMessage::AskSessions { .. } => self.hear_sessions(ctx, *peer),
            PeerMessage::Shrunk { dir, partition } => {
                self.told_shrunk(ctx, peer.from, dir, partition)
            }
        }
    }

    /// Whether some work that waited may go on: then the shell calls with [`Input::Ready`].
    #[must_use]
    pub fn has_ready(&self) -> bool {
        self.queue.has_ready()
            || self.grants.has_batches()
            || self.migration.has_work()
            || self.sessions.log.is_cleaning()
    }

    /// Counts of what the shard has done since it started.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// [`Self::counters`] one by one, and the transactions that are not over.
    #[must_use]
    pub fn counts(&self) -> Vec<Count> {
        let mut list = self.counters.list();
        let (told, alive) =
            (("txns_alive", "Transactions that began here and are not over."), self.txns_alive());
        list.extend(TxnKind::ALL.iter().map(|&kind| {
            let count = Count::of(told, ("kind", kind.name()), alive[kind as usize]);
            Count { grows: false, ..count }
        }));
        list
    }

    /// Number of transactions that began here since the start and are not over, by [`TxnKind`].
    #[must_use]
    pub fn txns_alive(&self) -> [u64; TxnKind::ALL.len()] {
        self.coordinator.count_by_kind()
    }

    /// Inodes and bytes on this shard, for `statfs`.
    #[must_use]
    pub fn stat(&self) -> Stat {
        self.namespace.stat()
    }

    /// Sessions that live, as far as this shard has heard.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.sessions.living().map(|(session, _)| session)
    }

    /// Sessions that live, each with the key that it belongs to.
    pub fn session_keys(&self) -> impl Iterator<Item = (SessionId, KeyId)> + '_ {
        self.sessions.living()
    }

    /// Numbers of locks held, transactions coordinated, steps prepared and inodes open. The first
    /// three are 0 in a shard at rest; the fourth is 0, too, without sessions.
    #[must_use]
    pub fn in_flight(&self) -> [usize; 4] {
        [
            self.locks.count_unlent(),
            self.coordinator.count(),
            self.participant.count(),
            self.namespace.opens.count(),
        ]
    }

    /// Plants a fault, for tests.
    #[cfg(feature = "planted")]
    pub fn plant(&mut self, fault: crate::Planted) {
        self.planted = Some(fault);
        self.numbers.lose_reservations(fault == crate::Planted::ReservationLost);
    }

    /// Whether a fault is planted.
    #[cfg(feature = "planted")]
    pub(crate) fn is_planted(&self, fault: crate::Planted) -> bool {
        self.planted == Some(fault)
    }

    /// Planted fault: the range that moves stays open to changes during the exchange.
    #[cfg_attr(not(feature = "planted"), expect(unused_variables, reason = "nothing is planted"))]
    pub(crate) fn tail_unlocked(&self, is_merge: bool) -> bool {
        #[cfg(feature = "planted")]
        return self.is_planted(match is_merge {
            false => crate::Planted::SplitTailUnlocked,
            true => crate::Planted::MergeTailUnlocked,
        });
        #[cfg(not(feature = "planted"))]
        false
    }

    fn commit(&mut self, mut ctx: Ctx<'_>) -> Result<Effects, Halt> {
        if !self.migration.counts.is_empty() {
            self.migration.counts.correct(&ctx)?;
        }
        if ctx.stat != (0, 0) {
            self.namespace.add_stat(ctx.stat);
            ctx.put(keys::table(Table::Stat), self.namespace.stat().encode());
        }
        Ok(self.effects_of(ctx))
    }

    fn effects_of(&mut self, ctx: Ctx<'_>) -> Effects {
        let now = ctx.now.nanos;
        let mut done = ctx.finish();
        // Only headers are written after this. The lookup cache holds none, so it is up to date
        // here.
        self.namespace.return_lookup_cache(core::mem::take(&mut done.lookup_cache));
        for (dir, start) in &done.dropped {
            done.writes.push(crate::Write::Delete(keys::dir(*dir, keys::Kind::Header, *start)));
        }
        for (dir, header) in &done.headers {
            let key = keys::dir(*dir, keys::Kind::Header, header.range().start);
            done.writes.push(crate::Write::Put(key, header.encode()));
            self.note_growth(*dir, header);
            self.note_shrinkage(*dir, header);
        }
        self.note_named(&done.writes);
        if !done.shreds.is_empty() {
            self.update_shreds(core::mem::take(&mut done.shreds));
        }
        if !self.migration.copies.is_empty() {
            self.note_writes(&done.writes, now);
            self.note_ripe();
        }
        if !self.migration.counts.is_empty() {
            self.note_counted();
        }
        let wake_at = self.next_wake();
        self.namespace.dirs.update(&done.headers, &done.dropped);
        self.note_loaded();
        self.note_room();
        for change in &done.opens {
            self.namespace.opens.update(change);
        }
        for change in &done.locks {
            self.namespace.program_locks.update(*change);
        }
        Effects { writes: done.writes, out: done.out, wake_at, meta: done.meta }
    }

    pub(crate) fn effects(ctx: Ctx<'_>, wake_at: Option<u64>) -> Effects {
        let done = ctx.finish();
        Effects { writes: done.writes, out: done.out, wake_at, meta: done.meta }
    }
}

fn table(ctx: &Ctx<'_>, table: Table) -> Result<Vec<Row>, Halt> {
    let prefix = keys::table(table);
    ctx.rows(&prefix, &keys::after(&prefix))
}

fn number(key: &[u8], at: usize) -> Result<u64, Halt> {
    key.get(at..at + 8)
        .and_then(|bytes| bytes.try_into().ok())
        .map(u64::from_be_bytes)
        .ok_or_else(|| broken("a key of one of its tables is too short"))
}
