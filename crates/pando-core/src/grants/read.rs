//! A session reads a part: it is told before another one changes it (docs/design/read-grants.md).

use alloc::vec::Vec;
use pando_types::lend::{Part, request_epoch};
use pando_types::reply::Body;
use pando_types::{Errno, KeyId, Lsn, Order, Radix, SessionId, TxnId};

use crate::contract::{Halt, Need, Now};
use crate::grants::gate::locks_of;
use crate::records::keys::{self, Table};
use crate::records::record::{Header, Reader, Record};
use crate::state::ctx::Ctx;
use crate::state::grants::held::{FENCE_AFTER, Recall};
use crate::state::grants::reads::{At, OF_SESSION_MAX, READS_MAX, Read};
use crate::state::lock_key::{Hold, LockKey};
use crate::state::shard::Shard;
use crate::state::stop::{Ran, Stop, bad_key};

impl Shard {
    /// Enters, at the start, a whole for each session that had read grants: another session may
    /// change nothing before it has heard of the start, or its hold is over.
    pub(crate) fn load_readers(&mut self, ctx: &Ctx<'_>) -> Result<(), Halt> {
        let (prefix, now) = (keys::table(Table::Reader), ctx.now.nanos);
        let rows = ctx.rows(&prefix, &keys::after(&prefix))?;
        for (nth, (key, value)) in (0..).zip(&rows) {
            let session = keys::reader_of(key).ok_or_else(|| bad_key(Table::Reader))?;
            let recalled = Some(Recall { at: now, fence_at: now.saturating_add(FENCE_AFTER) });
            let key = Reader::decode(value)?.key;
            let whole = Read { session, key, at: None, since: now, recalled };
            self.grants.enter_read(self.whole_id(ctx.now, nth), whole);
            self.migration.keep_still(now.saturating_add(FENCE_AFTER));
        }
        Ok(())
    }

    /// The generation of a whole: no transaction has it, and no other start of the shard.
    const fn whole_id(&self, now: Now, nth: u64) -> TxnId {
        TxnId { shard: self.config.shard, number: !((now.epoch.0 << 24) | nth) }
    }

    /// The owner of the locks of all parts that are read.
    const fn readers(&self) -> TxnId {
        TxnId { shard: self.config.shard, number: u64::MAX }
    }

    /// Takes the locks of all parts that are read, when the shard begins anew.
    pub(crate) fn lock_reads(&mut self) {
        for at in self.grants.reads().parts(|_| true) {
            self.lock_read(at);
        }
    }

    fn lock_read(&mut self, at: At) {
        for key in locks_of(at.0, at.1, true) {
            self.locks.take(key, self.readers(), Hold::Read);
        }
    }

    /// Whether an input passes the lock of a part that is read: it changes nothing, or nobody but
    /// its session reads the part.
    pub(crate) fn passes_readers(&self, ctx: &Ctx<'_>, key: LockKey) -> bool {
        #[cfg(feature = "planted")]
        if self.is_planted(crate::Planted::ReadersNotAsked) {
            return true;
        }
        match (ctx.changes_for, key.part()) {
            (None, _) => true,
            (Some(session), Some(at)) => !self.grants.reads().is_read_by_others(at, session),
            (Some(_), None) => false,
        }
    }

    /// Waits while another session may read any part, since before the shard's start.
    pub(crate) fn readers_have_heard(&self, session: SessionId) -> Result<(), Stop> {
        #[cfg(feature = "planted")]
        if self.is_planted(crate::Planted::ReadersForgotten) {
            return Ok(());
        }
        match self.grants.reads().has_whole_of_others(session) {
            true => Err(Stop::Wait(LockKey::Readers)),
            false => Ok(()),
        }
    }

    /// Wants a part back from its readers.
    pub(crate) fn recall_reads(&mut self, now: Now, at: At) {
        for session in self.grants.recall_reads(at, now.nanos) {
            self.counters.reads_recalled += 1;
            self.queue.resume(self.locks.wake(LockKey::Grants(session)));
        }
    }

    /// Runs [`pando_types::op::Op::BorrowToRead`].
    pub(crate) fn borrow_to_read(
        &mut self,
        ctx: &mut Ctx<'_>,
        key: KeyId,
        (session, number): (SessionId, u64),
        part: Part,
    ) -> Result<Ran, Stop> {
        if session.is_local() {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let start = Order(pando_placement::range(part.partition, Radix::MAX).start);
        let header = self.header_for(ctx, session, (part.dir, start))?;
        if header.partition != part.partition {
            return Err(Errno::EAGAIN.into());
        }
        // A copy that comes late would take the place of a grant that is used.
        let is_its_own = request_epoch(number) == ctx.now.epoch;
        let is_new = is_its_own && self.grants.is_new_request(session, number, true);
        if !is_new || !self.may_read(ctx, (key, session), part, &header) {
            return Err(Errno::EAGAIN.into());
        }
        let generation = self.numbers.txn(ctx);
        let need = self.record_reader(ctx, session, key);
        let at = (part.dir.id, part.partition);
        if !self.grants.reads().is_read(at) {
            self.lock_read(at);
        }
        let old = self.grants.reads().of(at, session);
        let since = ctx.now.nanos;
        let read = Read { session, key, at: Some(at), since, recalled: None };
        self.grants.enter_read(generation, read);
        if let Some(old) = old {
            self.grants.take_read(old);
        }
        self.counters.parts_read += 1;
        Ok(Ran::Answer(Body::ReadGranted(generation), need))
    }

    /// Records that a session reads, unless that is on record. Returns what its grant has to wait
    /// for: a shard that starts must know of its readers.
    fn record_reader(&mut self, ctx: &mut Ctx<'_>, session: SessionId, key: KeyId) -> Need {
        let at = self.grants.reader_at(session).unwrap_or_else(|| {
            let at = Lsn(ctx.now.seen.0 + 1);
            ctx.put(keys::reader(session), Reader { key }.encode());
            self.grants.note_reader(session, at);
            at
        });
        #[cfg(feature = "planted")]
        if self.is_planted(crate::Planted::ReaderUnsynced) {
            return Need::Committed;
        }
        if at <= ctx.now.durable { Need::Committed } else { Need::Synced }
    }

    /// Records the sessions that read, when the shard begins anew: the group may have been dropped
    /// in which that was recorded.
    pub(crate) fn record_readers(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Halt> {
        for session in self.grants.reads().sessions() {
            let key = self.grants.reads().of_session(session).next().map(|(_, read)| read.key);
            let row = keys::reader(session);
            if let (Some(key), None) = (key, ctx.get(&row)?) {
                ctx.put(row, Reader { key }.encode());
                self.grants.note_reader(session, Lsn(ctx.now.seen.0 + 1));
            }
        }
        Ok(())
    }

    /// Whether nobody changes a part now, nor moves it.
    fn may_read(
        &self,
        ctx: &Ctx<'_>,
        (key, session): (KeyId, SessionId),
        part: Part,
        header: &Header,
    ) -> bool {
        let at @ (dir, partition) = (part.dir.id, part.partition);
        let is_free =
            |lock: &LockKey| matches!(self.locks.hold(*lock), None | Some((_, Hold::Read)));
        let grows = header.entries > self.threshold(dir, partition) && self.may_split(header);
        self.is_home(dir)
            && header.radix == Radix(0)
            && locks_of(dir, partition, true).iter().all(is_free)
            && !grows
            && !self.is_handed_over(dir, partition)
            && self.is_quiet(dir, &header.range())
            // Somebody waits, who would have to ask anew.
            && self.grants.reads().wanted_since(at).is_none()
            && !self.grants.reads().pauses.is_paused(at, ctx.now.nanos)
            && !self.grants.pauses.is_barred(key, ctx.now.nanos)
            && self.grants.reads().count() < READS_MAX
            && self.grants.reads_of(session) < OF_SESSION_MAX
            && !ctx.now.is_full
    }

    /// Ends a read grant that its session has given back. False: there is no such one.
    pub(crate) fn give_read_back(
        &mut self,
        ctx: &mut Ctx<'_>,
        key: KeyId,
        generation: TxnId,
    ) -> bool {
        let is_its = self.grants.reads().get(generation).is_some_and(|read| read.key == key);
        if is_its {
            self.end_read(ctx, generation);
        }
        is_its
    }

    /// Ends the read grant of a part that its session borrows.
    pub(crate) fn end_own_read(&mut self, ctx: &mut Ctx<'_>, session: SessionId, part: Part) {
        let own = self.grants.reads().of((part.dir.id, part.partition), session);
        if let Some(generation) = own {
            self.end_read(ctx, generation);
        }
    }

    /// Ends a read grant, and lets go on what waits for it.
    pub(crate) fn end_read(&mut self, ctx: &mut Ctx<'_>, generation: TxnId) {
        let Some(read) = self.grants.take_read(generation) else { return };
        if self.grants.reads_of(read.session) == 0 && !ctx.now.is_spent {
            ctx.delete(keys::reader(read.session));
        }
        // A question of the session may wait for news. There may be none any more.
        self.queue.resume(self.locks.wake(LockKey::Grants(read.session)));
        let Some(at) = read.at else {
            self.queue.resume(self.locks.wake(LockKey::Readers));
            return;
        };
        if read.recalled.is_some() && !self.grants.reads().is_read(at) {
            self.grants.pause_reads(at, ctx.now.nanos);
        }
        for key in locks_of(at.0, at.1, true) {
            let woken = match self.grants.reads().is_read(at) {
                // One that is the only reader now may change the part.
                true => self.locks.wake(key),
                false => self.locks.release(key, self.readers()),
            };
            self.queue.resume(woken);
        }
    }

    /// Ends read grants that are wanted, and that their sessions do not use any more.
    pub(crate) fn fence_reads(&mut self, ctx: &mut Ctx<'_>) {
        for generation in self.grants.reads().to_fence(ctx.now.nanos) {
            let Some(read) = self.grants.reads().get(generation).copied() else { continue };
            self.counters.reads_fenced += 1;
            let is_alive = self.sessions.is_alive(read.session);
            // It may not know of its grant: the answer was lost.
            let has_known = self.grants.has_attended_since(read.session, read.since);
            if read.at.is_some() && is_alive {
                self.grants.recall_all_reads(read.session, ctx.now.nanos);
                if has_known {
                    self.grants.pauses.bar(read.key, ctx.now.nanos);
                }
            }
            self.end_read(ctx, generation);
        }
    }

    /// Ends read grants of sessions that have been over for longer than a hold.
    pub(crate) fn end_reads_of_ended(&mut self, ctx: &mut Ctx<'_>) {
        let (reads, now) = (self.grants.reads(), ctx.now.nanos);
        let is_over = |session: &SessionId| !self.sessions.is_alive(*session);
        let over = reads.sessions().into_iter().filter(is_over);
        let silent: Vec<_> = over
            .flat_map(|session| reads.of_session(session))
            .filter(|(_, read)| self.grants.is_silent(read, now))
            .map(|(generation, _)| generation)
            .collect();
        silent.into_iter().for_each(|generation| self.end_read(ctx, generation));
    }
}
