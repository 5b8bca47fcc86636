//! All grants of a shard.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use pando_types::{DirId, Lsn, PartitionIndex, SessionId, TxnId};

use crate::records::record::Grant;
use crate::state::grants::batch::Batch;
use crate::state::grants::held::{AT_ONCE, Held, Holder, fence_after};
use crate::state::grants::pauses::Pauses;
use crate::state::grants::reads::{At, Read, Reads};

/// Pause between two looks for grants of sessions that are over, nanoseconds.
const LOOK_EVERY: u64 = 60_000_000_000;

/// The grants of a shard: those that stand, and those that are over and not yet known to be.
#[derive(Default, Debug)]
pub struct Grants {
    all: BTreeMap<TxnId, Held>,
    /// The grant of a part that is lent.
    lent: BTreeMap<(DirId, PartitionIndex), TxnId>,
    /// Sessions that have a grant in `all`, and which.
    holders: BTreeMap<SessionId, Holder>,
    of_sessions: BTreeSet<(SessionId, TxnId)>,
    /// Recalled grants, by when they are fenced.
    fences: BTreeSet<(u64, TxnId)>,
    /// Sessions of which a question waits for news, by until when.
    waits: BTreeSet<(u64, SessionId)>,
    pub pauses: Pauses,
    /// Parts that are read.
    reads: Reads,
    /// The last request for a part by each session.
    asked: BTreeMap<SessionId, u64>,
    /// The last request for a read grant by each session.
    asked_to_read: BTreeMap<SessionId, u64>,
    /// When to look next for grants of sessions that are over.
    look_at: u64,
    /// Votes about lent parts that wait.
    delayed: BTreeSet<(TxnId, u16)>,
    /// Batches of elements that are under way.
    batches: VecDeque<Batch>,
}

impl Grants {
    /// Whether there is no grant at all.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.reads.is_empty()
    }

    /// Read grants.
    pub const fn reads(&self) -> &Reads {
        &self.reads
    }

    /// Whether the session of a read grant does not use it any more at `now`.
    pub fn is_silent(&self, read: &Read, now: u64) -> bool {
        let holder = self.holders.get(&read.session).copied().unwrap_or_default();
        fence_after(read.since, holder, 0) <= now
    }

    /// Lets a part that its readers have given back be read again only after a pause.
    pub fn pause_reads(&mut self, at: At, now: u64) {
        self.reads.pauses.note(at, now);
    }

    /// Where in the log it is recorded that a session reads. `None`: it is not.
    pub fn reader_at(&self, session: SessionId) -> Option<Lsn> {
        self.holders.get(&session).filter(|holder| holder.reads > 0).map(|it| it.reader_at)
    }

    /// Notes where it is recorded.
    pub fn note_reader(&mut self, session: SessionId, at: Lsn) {
        self.holders.entry(session).or_default().reader_at = at;
    }

    /// Enters a read grant.
    pub fn enter_read(&mut self, generation: TxnId, read: Read) {
        self.holders.entry(read.session).or_default().reads += 1;
        self.reads.enter(generation, read);
    }

    /// Takes a read grant out that is over.
    pub fn take_read(&mut self, generation: TxnId) -> Option<Read> {
        let read = self.reads.take(generation)?;
        if let Some(holder) = self.holders.get_mut(&read.session) {
            holder.reads -= 1;
        }
        self.forget_holder(read.session);
        Some(read)
    }

    /// Wants all back that a session reads: it did not give back what others wait for.
    pub fn recall_all_reads(&mut self, session: SessionId, now: u64) {
        let holder = self.holders.get(&session).copied().unwrap_or_default();
        self.reads.recall_all_of(session, holder, now);
    }

    /// Whether a session was told that it may go on, since a moment.
    pub fn has_attended_since(&self, session: SessionId, since: u64) -> bool {
        self.holders.get(&session).is_some_and(|holder| holder.heard > since)
    }

    /// Notes that somebody wants to change a part that is read. Returns sessions to which that is
    /// news.
    pub fn recall_reads(&mut self, at: At, now: u64) -> Vec<SessionId> {
        let holders = &self.holders;
        let holder = |session| holders.get(&session).copied().unwrap_or_default();
        self.reads.recall(at, holder, now)
    }

    /// Enters a grant, given or loaded at `now`.
    pub fn enter(&mut self, generation: TxnId, grant: Grant, now: u64) {
        let holder = self.holders.entry(grant.session).or_default();
        holder.count += 1;
        if grant.is_lent() {
            self.lent.insert((grant.part.dir.id, grant.part.partition), generation);
        }
        self.of_sessions.insert((grant.session, generation));
        self.all.insert(generation, Held { grant, since: now, recalled: None });
    }

    /// A grant by its generation.
    pub fn get(&self, generation: TxnId) -> Option<&Held> {
        self.all.get(&generation)
    }

    /// Replaces the record of a grant. A part that is not lent any more is free.
    pub fn update(&mut self, generation: TxnId, grant: Grant) {
        let Some(held) = self.all.get_mut(&generation) else { return };
        if held.grant.is_lent() && !grant.is_lent() {
            self.lent.remove(&(grant.part.dir.id, grant.part.partition));
            if let Some(recall) = held.recalled {
                self.fences.remove(&(recall.fence_at, generation));
            }
        }
        held.grant = grant;
    }

    /// Forgets a grant that is over.
    pub fn forget(&mut self, generation: TxnId) {
        let Some(Held { grant, .. }) = self.all.remove(&generation) else { return };
        self.of_sessions.remove(&(grant.session, generation));
        if let Some(holder) = self.holders.get_mut(&grant.session) {
            holder.count -= 1;
        }
        self.forget_holder(grant.session);
    }

    /// Forgets a session that has nothing here any more.
    fn forget_holder(&mut self, session: SessionId) {
        if self.holders.get(&session).is_some_and(|it| it.count == 0 && it.reads == 0) {
            self.stop_waiting(session);
            self.holders.remove(&session);
        }
    }

    /// Notes that somebody wants the part of a grant. Returns its session if that is news.
    pub fn recall(&mut self, generation: TxnId, now: u64) -> Option<SessionId> {
        let held = self.all.get_mut(&generation).filter(|held| held.grant.is_lent())?;
        let session = held.grant.session;
        let holder = self.holders.get(&session).copied().unwrap_or_default();
        let recall = held.recall(holder, now)?;
        self.fences.insert((recall.fence_at, generation));
        Some(session)
    }

    /// Notes a request for a part, to use or to read. Returns whether it comes after all others of
    /// its kind and session.
    pub fn is_new_request(&mut self, session: SessionId, nth: u64, reads: bool) -> bool {
        let asked = if reads { &mut self.asked_to_read } else { &mut self.asked };
        let last = asked.entry(session).or_default();
        let is_new = nth > *last;
        *last = nth.max(*last);
        is_new
    }

    /// Forgets the requests of a session that is over: none of it is granted any more.
    pub fn forget_requests(&mut self, session: SessionId) {
        self.asked.remove(&session);
        self.asked_to_read.remove(&session);
    }

    /// Number of read grants of a session.
    pub fn reads_of(&self, session: SessionId) -> usize {
        self.holders.get(&session).map_or(0, |holder| holder.reads)
    }

    /// Number of grants of a session, with those that are over.
    pub fn count_of(&self, session: SessionId) -> usize {
        self.holders.get(&session).map_or(0, |holder| holder.count)
    }

    /// Grants of a session, ascending by generation.
    pub fn of_session(&self, session: SessionId) -> impl Iterator<Item = (TxnId, &Held)> {
        let least = TxnId { shard: pando_types::ShardIndex(0), number: 0 };
        let its = self.of_sessions.range((session, least)..);
        its.take_while(move |(of, _)| *of == session)
            .filter_map(|(_, id)| Some((*id, self.all.get(id)?)))
    }

    /// Grants of parts of directories for which `is_it` holds.
    pub fn of_parts(&self, is_it: impl Fn(DirId, PartitionIndex) -> bool) -> Vec<TxnId> {
        self.lent.iter().filter(|((dir, at), _)| is_it(*dir, *at)).map(|(_, id)| *id).collect()
    }

    /// Notes that a session is told that it may go on using its parts.
    pub fn prolong(&mut self, session: SessionId, now: u64) {
        if let Some(holder) = self.holders.get_mut(&session) {
            holder.heard = now;
        }
    }

    /// Lets a question of a session wait for news until `until`, or as long as another of its
    /// questions. False: the session has no grant here.
    pub fn wait(&mut self, session: SessionId, until: u64) -> bool {
        let Some(holder) = self.holders.get_mut(&session) else { return false };
        let until = *holder.waits_until.get_or_insert(until);
        self.waits.insert((until, session));
        true
    }

    fn stop_waiting(&mut self, session: SessionId) {
        if let Some(until) = self.holders.get_mut(&session).and_then(|it| it.waits_until.take()) {
            self.waits.remove(&(until, session));
        }
    }

    /// Whether a question of the session is to be answered though there are no news. That counts
    /// for one question.
    pub fn take_due(&mut self, session: SessionId) -> bool {
        let due = self.holders.get_mut(&session).map(|it| &mut it.due).filter(|due| **due > 0);
        due.map(|due| *due -= 1).is_some()
    }

    /// Notes that so many questions of a session have waited long enough: each is to be answered.
    /// Some may be copies that nobody waits for any more. They must not keep the others back.
    pub fn are_due(&mut self, session: SessionId, questions: usize) {
        if let Some(holder) = self.holders.get_mut(&session) {
            holder.due = questions;
        }
    }

    /// Takes the sessions of which questions have waited long enough by `now`.
    pub fn take_waited(&mut self, now: u64) -> Vec<SessionId> {
        let due = self.waits.iter().take_while(|(until, _)| *until <= now);
        let sessions: Vec<_> = due.map(|(_, session)| *session).collect();
        for session in &sessions {
            self.stop_waiting(*session);
        }
        sessions
    }

    /// Grants that are wanted, and that their holders do not use any more at `now`: some of them,
    /// so that one tick takes little room.
    pub fn to_fence(&self, now: u64) -> Vec<TxnId> {
        let due = self.fences.iter().take_while(|(at, _)| *at <= now).take(AT_ONCE);
        due.map(|(_, generation)| *generation).collect()
    }

    /// Puts off what is due at `now` until `later`.
    pub fn put_off(&mut self, now: u64, later: u64) {
        for generation in self.to_fence(now) {
            let recall = self.all.get_mut(&generation).and_then(|held| held.recalled.as_mut());
            if let Some(recall) = recall {
                self.fences.remove(&(recall.fence_at, generation));
                recall.fence_at = later;
                self.fences.insert((later, generation));
            }
        }
    }

    /// Whether it is time to look for grants of sessions that are over.
    pub fn is_look_due(&mut self, now: u64) -> bool {
        let is_due = self.look_at <= now;
        if is_due {
            self.look_at = now.saturating_add(LOOK_EVERY);
        }
        is_due
    }

    /// All grants, ascending by generation.
    pub fn all(&self) -> impl Iterator<Item = (TxnId, &Held)> {
        self.all.iter().map(|(generation, held)| (*generation, held))
    }

    /// Lets a vote about a lent part wait once. Returns whether it has not waited yet.
    pub fn delay_vote(&mut self, at: (TxnId, u16)) -> bool {
        let is_new = self.delayed.insert(at);
        if !is_new {
            self.delayed.remove(&at);
        }
        is_new
    }

    /// Notes that the vote leaves.
    pub fn vote_leaves(&mut self, at: (TxnId, u16)) {
        self.delayed.remove(&at);
    }

    /// When there is something to do next, nanoseconds.
    pub fn next_due(&self) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        let read = self.reads.next_fence();
        let fence = self.fences.first().map(|(at, _)| *at);
        let wait = self.waits.first().map(|(at, _)| *at);
        fence.into_iter().chain(read).chain(wait).chain([self.look_at]).min()
    }

    /// Takes in a batch of elements.
    pub fn push(&mut self, batch: Batch) {
        self.batches.push_back(batch);
    }

    /// Takes the batch of which the next element runs now.
    pub fn take_batch(&mut self) -> Option<Batch> {
        self.batches.pop_front()
    }

    /// Puts a batch back, of which elements are left. It goes on before all others.
    pub fn put_back(&mut self, batch: Batch) {
        self.batches.push_front(batch);
    }

    /// Whether elements are under way.
    pub fn has_batches(&self) -> bool {
        !self.batches.is_empty()
    }

    /// Takes over read grants: no record tells of them.
    fn keep_reads(&mut self, reads: Reads) {
        let wholes: Vec<_> = self.reads.all().map(|(id, _)| id).collect();
        for id in wholes {
            self.take_read(id);
        }
        for (_, read) in reads.all() {
            self.holders.entry(read.session).or_default().reads += 1;
        }
        self.reads = reads;
    }

    /// Takes over from `old`, when the shard begins anew, what the records do not tell.
    pub fn keep(&mut self, old: &mut Self) {
        self.keep_reads(core::mem::take(&mut old.reads));
        for (generation, held) in &mut self.all {
            if let Some(was) = old.all.get(generation) {
                (held.since, held.recalled) = (was.since, was.recalled);
            }
            if let Some(recall) = held.recalled.filter(|_| held.grant.is_lent()) {
                self.fences.insert((recall.fence_at, *generation));
            }
        }
        for (session, holder) in &mut self.holders {
            if let Some(was) = old.holders.get(session) {
                (holder.heard, holder.waits_until) = (was.heard, was.waits_until);
                holder.reader_at = was.reader_at;
            }
            self.waits.extend(holder.waits_until.map(|until| (until, *session)));
        }
        (self.look_at, self.delayed) = (old.look_at, core::mem::take(&mut old.delayed));
        self.asked = core::mem::take(&mut old.asked);
        self.asked_to_read = core::mem::take(&mut old.asked_to_read);
        self.pauses = core::mem::take(&mut old.pauses);
        self.batches = core::mem::take(&mut old.batches);
    }
}
