//! How every shard comes to hear of every begin and end, in order.
//!
//! Shard 0 tells each other shard what it has not heard, again and again until it says that it has. So a message that is lost, late
//! or repeated does no harm. What follows what was told last is told at once, and a shard that has missed something asks.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use pando_types::peer::{Peer, Say, SessionAsk, SessionEvent, SessionTable, SessionsTold};
use pando_types::reply::Refusal;
use pando_types::{Ino, KeyId, Lsn, SessionId, ShardIndex, TxnId};

use super::{COORDINATOR, Over};
use crate::contract::{ClientTag, Halt, Input, Need};
use crate::ctx::Ctx;
use crate::keys::{self, Table};
use crate::locks::LockKey;
use crate::record::{Record, SessionsHeard};
use crate::shard::Shard;

/// Events that shard 0 remembers. A shard that is further behind gets the whole table.
const EVENTS_MAX: usize = 4096;
/// Sessions that a shard asks about at once. Requests of others wait until something is heard.
const ASKS_MAX: usize = 64;

/// What sessions have left is taken up again after this long, nanoseconds,
const AGAIN_AFTER: u64 = 1_000_000_000;
/// after this long where only a step of it was made,
const CLEAN_AFTER: u64 = 1_000_000;
/// and after this long where something of it could not be done.
const PUT_OFF: u64 = 10_000_000_000;
/// Locks go after this part of a lease, though a shard that is away has not heard that their session is over.
const GRACE: u64 = 4;
/// What another shard has heard is not further ahead of shard 0 than this.
const AHEAD_MAX: u64 = 1 << 32;

/// What a shard knows of begins and ends of sessions, besides those that live.
#[derive(Default, Debug)]
pub struct SessionLog {
    /// What has been heard, as recorded.
    pub heard: SessionsHeard,
    /// Log position of the last end.
    ended_at: Lsn,
    /// Ends up to this position are known everywhere.
    known: u64,
    /// Locks of sessions that ended up to this position go.
    freed: u64,
    /// Of shard 0: when each position was reached, of those that are not freed.
    reached: VecDeque<(u64, u64)>,
    /// Sessions that are over, and have something here, or may have something elsewhere.
    over: BTreeMap<SessionId, Over>,
    /// Of those, what something can be done about.
    unclean: BTreeSet<SessionId>,
    /// Of those, whose turn it is.
    cleaning: VecDeque<SessionId>,
    /// When the others are looked at again, nanoseconds.
    clean_at: u64,
    /// Shard 0 has told something since this shard started.
    is_told: bool,
    /// When shard 0 was last asked for that, nanoseconds.
    asked_at: Option<u64>,
    /// Sessions that shard 0 was asked about.
    asks: BTreeMap<SessionId, Ask>,
    /// Of shard 0: the newest events, and how far others are.
    events: VecDeque<SessionEvent>,
    others: BTreeMap<ShardIndex, Other>,
    /// Of shard 0: whether one of so many is behind. Looked at with every input.
    behind: Option<(u16, bool)>,
    /// Of shard 0: when it last looked who has not answered, nanoseconds.
    said_at: u64,
}

/// Shard 0 was asked about a session.
#[derive(Debug)]
struct Ask {
    /// When, nanoseconds.
    at: u64,
    what: SessionAsk,
    /// The requests that are refused if there is no such session. Later ones may be of one that has begun since.
    of: BTreeSet<ClientTag>,
}

/// How far another shard is.
#[derive(Clone, Copy, Default, Debug)]
struct Other {
    /// What it has said that it has heard, in shard 0's life.
    heard: Option<u64>,
    known: u64,
    freed: u64,
    /// What it was told last.
    told: u64,
    told_known: u64,
    told_freed: u64,
}

impl SessionLog {
    /// Of shard 0, at its start: it does not know when this was reached.
    pub fn begin_freeing(&mut self, now: u64) {
        self.reached = [(self.heard.position, now)].into();
    }

    /// A session ends with the group at this log position.
    pub fn note_end(&mut self, at: Lsn) {
        self.ended_at = at;
    }

    /// Whether an end might be lost with the power yet.
    pub fn is_end_unsynced(&self, durable: Lsn) -> bool {
        durable < self.ended_at
    }

    /// Whose a session was that is over.
    pub fn was_of(&self, session: SessionId) -> Option<Option<KeyId>> {
        self.over.get(&session).map(|over| over.key)
    }

    pub fn add_over(&mut self, session: SessionId, over: Over) {
        self.over.insert(session, over);
        self.unclean.insert(session);
        self.cleaning.push_back(session);
    }

    /// Nothing can be done about it for now.
    pub fn is_clean(&mut self, session: SessionId) {
        self.unclean.remove(&session);
    }

    pub fn forget_over(&mut self, session: SessionId) {
        self.is_clean(session);
        self.over.remove(&session);
    }

    /// Whether the session is over here, and perhaps not everywhere.
    pub fn is_over_somewhere(&self, session: SessionId) -> bool {
        self.over.get(&session).is_some_and(|over| over.at > self.known)
    }

    /// Whether locks of a session that is over stay for now.
    pub fn has_locks_yet(&self, session: SessionId) -> bool {
        self.over.get(&session).is_some_and(|over| over.at > self.freed)
    }

    /// All of them.
    pub fn over(&self) -> impl Iterator<Item = (SessionId, &Over)> {
        self.over.iter().map(|(session, over)| (*session, over))
    }

    /// Whose turn it is.
    pub fn next_to_clean(&mut self) -> Option<SessionId> {
        self.cleaning.pop_front().filter(|session| self.over.contains_key(session))
    }

    pub fn is_cleaning(&self) -> bool {
        !self.cleaning.is_empty()
    }

    /// There is more to do, after what others want.
    pub fn clean_soon(&mut self, now: u64) {
        self.clean_at = now.saturating_add(CLEAN_AFTER);
    }

    /// An inode could not be read.
    pub fn note_stuck(&mut self, session: SessionId, ino: Ino) {
        if let Some(over) = self.over.get_mut(&session) {
            over.stuck.push(ino);
        }
    }

    /// All inodes have been tried. Whether some could not be read: they are tried again later.
    pub fn take_up_stuck(&mut self, session: SessionId, now: u64) -> bool {
        let Some(over) = self.over.get_mut(&session) else { return false };
        let is_stuck = !over.stuck.is_empty();
        if is_stuck {
            over.opens = Some(core::mem::take(&mut over.stuck));
            self.clean_at = now.saturating_add(PUT_OFF);
        }
        is_stuck
    }

    /// Inodes that a session that is over had open when that was first looked at, and that were not seen to yet.
    pub fn opens_of_over(&mut self, session: SessionId) -> Option<&mut Vec<Ino>> {
        self.over.get_mut(&session)?.opens.as_mut()
    }

    pub fn set_opens_of_over(&mut self, session: SessionId, opens: Vec<Ino>) {
        if let Some(over) = self.over.get_mut(&session) {
            over.opens = Some(opens);
        }
    }

    /// What was put off is taken up.
    pub fn clean_again(&mut self, now: u64) {
        if self.cleaning.is_empty() && now >= self.clean_at && !self.unclean.is_empty() {
            self.clean_at = now.saturating_add(AGAIN_AFTER);
            self.cleaning.extend(&self.unclean);
        }
    }

    /// Locks may be free before an end is known everywhere, and are when it is.
    fn learn_known(&mut self, known: u64, freed: u64) {
        let freed = freed.max(known).max(self.freed);
        let known = known.max(self.known);
        if (known, freed) == (self.known, self.freed) {
            return;
        }
        (self.known, self.freed) = (known, freed);
        let over: Vec<_> =
            self.over.iter().filter(|(_, over)| over.at <= freed).map(|(s, _)| *s).collect();
        self.unclean.extend(&over);
        self.cleaning.extend(over);
    }

    /// Of shard 0: what was reached so long ago that whoever has not heard it is away.
    fn free(&mut self, now: u64, grace: u64) -> u64 {
        let mut freed = self.freed;
        while let Some((position, at)) = self.reached.front()
            && at.saturating_add(grace) <= now
        {
            freed = freed.max(*position);
            self.reached.pop_front();
        }
        freed
    }

    /// The shard has begun anew: what its records do not tell stays.
    pub fn keep(&mut self, old: &mut Self, now: u64) {
        (self.known, self.freed, self.ended_at) = (old.known, old.freed, old.ended_at);
        self.reached = core::mem::take(&mut old.reached);
        self.reached.retain(|(position, _)| *position <= self.heard.position);
        self.cleaning.clear();
        // It may have been a step of that which could not be done.
        let is_put_off = old.clean_at > now;
        self.clean_at = if is_put_off { old.clean_at } else { now.saturating_add(PUT_OFF) };
        self.events = core::mem::take(&mut old.events);
        // What was dropped has not been told.
        let dropped = old.heard.position.saturating_sub(self.heard.position);
        self.events.truncate(self.events.len().saturating_sub(dropped as usize));
        self.others = core::mem::take(&mut old.others);
        for other in self.others.values_mut() {
            other.told = other.told.min(self.heard.position);
        }
        (self.said_at, self.behind) = (old.said_at, None);
        (self.is_told, self.asked_at) = (old.is_told, old.asked_at);
    }

    /// All events above this position are remembered.
    fn floor(&self) -> u64 {
        self.heard.position.saturating_sub(self.events.len() as u64)
    }

    fn is_behind(&self, shard: ShardIndex) -> bool {
        let other = self.others.get(&shard).copied().unwrap_or_default();
        other.heard != Some(self.heard.position)
            || other.known < self.known
            || other.freed < self.freed
    }
}

impl Shard {
    /// Of shard 0: whether all others have heard of all begins and ends.
    pub(super) fn have_all_heard(&self) -> bool {
        let position = Some(self.session_log.heard.position);
        let heard = |shard| self.session_log.others.get(&shard).and_then(|other| other.heard);
        self.others().all(|shard| heard(shard) == position)
    }

    fn is_any_to_tell(&self) -> bool {
        match self.session_log.behind {
            _ if self.config.shard != COORDINATOR => false,
            Some((shards, is_any)) if shards == self.config.map.shards => is_any,
            _ => self.others().any(|shard| self.session_log.is_behind(shard)),
        }
    }

    fn note_behind(&mut self) {
        self.session_log.behind = None;
        self.session_log.behind = Some((self.config.map.shards, self.is_any_to_tell()));
    }

    /// Of shard 0: a session has begun or ended.
    pub(super) fn tell_event(&mut self, ctx: &mut Ctx<'_>, event: SessionEvent) {
        let log = &mut self.session_log;
        log.heard.position += 1;
        if let SessionEvent::Begins(session, _) = event {
            log.heard.last = session.number();
        }
        log.events.push_back(event);
        if log.events.len() > EVENTS_MAX {
            log.events.pop_front();
        }
        log.reached.push_back((log.heard.position, ctx.now.nanos));
        log.said_at = ctx.now.nanos;
        ctx.put(keys::table(Table::Session), log.heard.encode());
        self.settle_sessions(ctx.now.nanos);
        self.tell_sessions(ctx, false);
    }

    /// Tells each shard what it was not told; `again`: what it has not said that it heard.
    fn tell_sessions(&mut self, ctx: &mut Ctx<'_>, again: bool) {
        for shard in self.others() {
            let log = &mut self.session_log;
            let floor = log.floor();
            let now = (log.heard.position, log.known, log.freed);
            let other =
                log.others.entry(shard).or_insert(Other { told: floor, ..Other::default() });
            let Other { heard, told, told_known, told_freed, .. } = *other;
            if again && log.is_behind(shard) {
                self.tell_shard(ctx, (Need::Durable, shard), heard.unwrap_or(floor), None);
            } else if !again && (told, told_known, told_freed) != now {
                self.tell_shard(ctx, (Need::Synced, shard), told, None);
            }
        }
        self.note_behind();
    }

    fn tell_shard(
        &mut self,
        ctx: &mut Ctx<'_>,
        (need, shard): (Need, ShardIndex),
        since: u64,
        answers: Option<SessionAsk>,
    ) {
        let table = (since < self.session_log.floor()).then(|| self.session_table());
        let log = &mut self.session_log;
        let SessionsHeard { position, last } = log.heard;
        let (known, freed) = (log.known, log.freed);
        let told = match table {
            Some(table) => SessionsTold::All(table),
            None => {
                let newer = position.saturating_sub(since) as usize;
                let older = log.events.len().saturating_sub(newer);
                SessionsTold::Events { since, events: log.events.range(older..).copied().collect() }
            }
        };
        let other = log.others.entry(shard).or_default();
        (other.told, other.told_known, other.told_freed) = (position, known, freed);
        let say = Say::Sessions { told, last, known, freed, answers };
        self.tell(ctx, need, shard, NO_TXN, say);
    }

    /// Something about sessions from another shard.
    pub(crate) fn hear_sessions(&mut self, ctx: &mut Ctx<'_>, peer: Peer) -> Result<(), Halt> {
        let from = peer.from;
        match peer.say {
            Say::Sessions { told, last, known, freed, answers } => {
                // A new shard is told with the decision that it joins.
                if self.config.shard == COORDINATOR || !self.has_joined() {
                    return Ok(());
                }
                self.session_log.is_told = true;
                self.hear_told(ctx, told, last, (known, freed))?;
                self.wake_heard(ctx, answers);
                Ok(())
            }
            Say::SessionsHeard { position, known, freed } if self.config.shard == COORDINATOR => {
                self.has_heard(ctx, from, position, (known, freed));
                Ok(())
            }
            Say::AskSessions { position, about } if self.config.shard == COORDINATOR => {
                // What it has heard it may not have on disk, and what is known everywhere it has forgotten if it has just started.
                if let Some(other) = self.session_log.others.get_mut(&from) {
                    other.heard = other.heard.map(|heard| heard.min(position));
                    (other.known, other.freed) = (0, 0);
                }
                self.tell_shard(ctx, (Need::Synced, from), position, about);
                self.note_behind();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn hear_told(
        &mut self,
        ctx: &mut Ctx<'_>,
        told: SessionsTold,
        last: u64,
        (known, freed): (u64, u64),
    ) -> Result<(), Halt> {
        let before = self.session_log.heard;
        match told {
            SessionsTold::Events { since, .. } if since > before.position => {
                let say = Say::AskSessions { position: before.position, about: None };
                self.tell(ctx, Need::Committed, COORDINATOR, NO_TXN, say);
                return Ok(());
            }
            SessionsTold::Events { since, events } => {
                let news = events.into_iter().skip((before.position - since) as usize);
                for event in news {
                    self.hear_event(ctx, event)?;
                }
            }
            SessionsTold::All(table) => self.hear_table(ctx, &table)?,
        }
        let log = &mut self.session_log;
        log.heard.last = log.heard.last.max(last);
        log.learn_known(known, freed);
        let (heard, known, freed) = (log.heard, log.known, log.freed);
        if heard != before {
            ctx.put(keys::table(Table::Session), heard.encode());
        }
        // Of what it says that it heard it must lose nothing.
        let need = if heard == before { Need::Durable } else { Need::Synced };
        let say = Say::SessionsHeard { position: heard.position, known, freed };
        self.tell(ctx, need, COORDINATOR, NO_TXN, say);
        Ok(())
    }

    fn hear_event(&mut self, ctx: &mut Ctx<'_>, event: SessionEvent) -> Result<(), Halt> {
        self.session_log.heard.position += 1;
        match event {
            SessionEvent::Begins(session, key) => {
                self.session_log.heard.last = self.session_log.heard.last.max(session.number());
                self.put_session(ctx, session, key);
                Ok(())
            }
            SessionEvent::Ends(session) => {
                self.end_session(ctx, session, self.session_log.heard.position)
            }
        }
    }

    /// The whole table, where shard 0 does not remember what this shard has missed.
    pub(crate) fn hear_table(
        &mut self,
        ctx: &mut Ctx<'_>,
        table: &SessionTable,
    ) -> Result<(), Halt> {
        let heard = self.session_log.heard;
        if table.position <= heard.position && heard != SessionsHeard::default() {
            return Ok(());
        }
        let living: BTreeSet<_> = table.living.iter().map(|(session, _)| *session).collect();
        let lives = |session: &SessionId| living.contains(session);
        let over: Vec<_> =
            self.sessions.keys().copied().filter(|session| !lives(session)).collect();
        for session in over {
            self.end_session(ctx, session, table.position)?;
        }
        for (session, key) in &table.living {
            if session.number() > heard.last {
                self.put_session(ctx, *session, *key);
            }
        }
        let last = heard.last.max(table.last);
        self.session_log.heard = SessionsHeard { position: table.position, last };
        // Something of one that began and ended meanwhile may have come by others.
        let opens = self.opens.all().map(|(_, _, session, _)| session);
        let left: BTreeSet<SessionId> =
            opens.chain(self.outcomes.sessions()).chain(self.locked.sessions()).collect();
        for session in left {
            self.keep_what_is_left(ctx, session);
        }
        ctx.put(keys::table(Table::Session), self.session_log.heard.encode());
        Ok(())
    }

    /// Requests of sessions that have been heard of go on; so do those of the one that shard 0 was asked about, or are refused.
    fn wake_heard(&mut self, ctx: &mut Ctx<'_>, answers: Option<SessionAsk>) {
        let waiting = self.locks.wake(LockKey::Heard);
        self.ready.extend(waiting);
        let heard: Vec<_> =
            self.locks.awaited_sessions().filter(|session| !self.is_unheard(*session)).collect();
        for session in heard {
            self.session_log.asks.remove(&session);
            let waiting = self.locks.wake(LockKey::Session(session));
            self.ready.extend(waiting);
        }
        let Some(session) = answers.map(|ask| ask.session) else { return };
        let asks = &mut self.session_log.asks;
        if asks.get(&session).map(|ask| ask.what) != answers {
            return;
        }
        let Some(ask) = asks.remove(&session) else { return };
        let key = LockKey::Session(session);
        for input in self.locks.wake(key) {
            match input {
                Input::Client(tag, request) if ask.of.contains(&tag) => {
                    self.reply(ctx, tag, &request, Err(Refusal::NoSession), Need::Committed);
                }
                // It came after the question.
                input => self.locks.wait(key, input),
            }
        }
        self.ask_about_awaited(ctx);
    }

    /// A request waits of a session that nothing has been heard of.
    pub(crate) fn ask_about(&mut self, ctx: &mut Ctx<'_>, session: SessionId, of: ClientTag) {
        let asks = &self.session_log.asks;
        if asks.len() < ASKS_MAX && !asks.contains_key(&session) {
            self.begin_ask(ctx, session, BTreeSet::from([of]));
        }
    }

    fn begin_ask(&mut self, ctx: &mut Ctx<'_>, session: SessionId, of: BTreeSet<ClientTag>) {
        self.ticket += 1;
        let what = SessionAsk { session, epoch: ctx.now.epoch, number: self.ticket };
        self.session_log.asks.insert(session, Ask { at: ctx.now.nanos, what, of });
        self.say_ask(ctx, what);
    }

    /// Asks about sessions that it has not asked about yet.
    fn ask_about_awaited(&mut self, ctx: &mut Ctx<'_>) {
        let asks = &self.session_log.asks;
        let room = ASKS_MAX.saturating_sub(asks.len());
        let awaited = self.locks.awaited_sessions().filter(|session| !asks.contains_key(session));
        for session in awaited.take(room).collect::<Vec<_>>() {
            let of = self.locks.waiting_clients(LockKey::Session(session)).collect();
            self.begin_ask(ctx, session, of);
        }
    }

    /// What waits for what this rests on; it is asked for.
    pub(crate) fn must_have_heard(&mut self, ctx: &mut Ctx<'_>, heard: u64) -> Option<LockKey> {
        if heard <= self.session_log.heard.position || self.config.shard == COORDINATOR {
            return None;
        }
        if !self.locks.is_awaited(LockKey::Heard) {
            self.has_heard_as_much(ctx, heard);
        }
        Some(LockKey::Heard)
    }

    /// Whether this shard has heard of sessions what another has, from which something comes; else it asks.
    pub(crate) fn has_heard_as_much(&mut self, ctx: &mut Ctx<'_>, heard: u64) -> bool {
        let position = self.session_log.heard.position;
        if position >= heard {
            return true;
        }
        if self.config.shard != COORDINATOR {
            self.tell(
                ctx,
                Need::Committed,
                COORDINATOR,
                NO_TXN,
                Say::AskSessions { position, about: None },
            );
        }
        false
    }

    fn say_ask(&mut self, ctx: &mut Ctx<'_>, what: SessionAsk) {
        let position = self.session_log.heard.position;
        let say = Say::AskSessions { position, about: Some(what) };
        self.tell(ctx, Need::Committed, COORDINATOR, NO_TXN, say);
    }

    /// Of shard 0: another has heard all up to a position.
    fn has_heard(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: ShardIndex,
        position: u64,
        (known, freed): (u64, u64),
    ) {
        let log = &mut self.session_log;
        if position > log.heard.position.saturating_add(AHEAD_MAX) {
            self.counters.bad_messages += 1;
            return;
        }
        if position > log.heard.position {
            // This shard was restored from an older copy. What it does not know is over.
            log.heard.position = position.saturating_add(1);
            log.events.clear();
            ctx.put(keys::table(Table::Session), log.heard.encode());
        }
        let other = log.others.entry(from).or_default();
        other.heard = other.heard.max(Some(position));
        other.known = other.known.max(known);
        other.freed = other.freed.max(freed);
        if self.settle_sessions(ctx.now.nanos) {
            self.tell_sessions(ctx, false);
        }
        self.note_behind();
    }

    /// Of shard 0: whether more ends are known everywhere than before.
    fn settle_sessions(&mut self, now: u64) -> bool {
        let log = &self.session_log;
        let heard = |shard| log.others.get(&shard).and_then(|other| other.heard).unwrap_or(0);
        let known = self.others().map(heard).min().unwrap_or(log.heard.position);
        let before = (log.known, log.freed);
        // Others that can be reached have heard it by then.
        let freed = self.session_log.free(now, self.config.lease / GRACE);
        self.session_log.learn_known(known, freed);
        (self.session_log.known, self.session_log.freed) != before
    }

    /// Tells again, asks again.
    pub(crate) fn tick_sessions(&mut self, ctx: &mut Ctx<'_>) {
        let now = ctx.now.nanos;
        let again = self.config.resend_after;
        self.session_log.clean_again(now);
        if self.config.shard == COORDINATOR {
            self.tick_telling(ctx, now, again);
            return;
        }
        if self.start_wake().is_some_and(|at| at <= now) {
            self.session_log.asked_at = Some(now);
            let position = self.session_log.heard.position;
            let say = Say::AskSessions { position, about: None };
            self.tell(ctx, Need::Committed, COORDINATOR, NO_TXN, say);
        }
        let locks = &self.locks;
        self.session_log.asks.retain(|session, _| locks.is_awaited(LockKey::Session(*session)));
        let asks = self.session_log.asks.iter_mut();
        let due: Vec<SessionAsk> = (asks.filter(|(_, ask)| ask.at.saturating_add(again) <= now))
            .map(|(_, ask)| {
                ask.at = now;
                ask.what
            })
            .collect();
        for what in due {
            self.say_ask(ctx, what);
        }
        self.ask_about_awaited(ctx);
    }

    /// When a shard asks what it may have missed: it has just started, or something waits for that.
    fn start_wake(&self) -> Option<u64> {
        let log = &self.session_log;
        let wants = !log.is_told || self.locks.is_awaited(LockKey::Heard);
        let is_due = self.config.shard != COORDINATOR && wants && self.has_joined();
        let again = self.config.resend_after;
        is_due.then(|| log.asked_at.map_or(0, |at| at.saturating_add(again)))
    }

    fn tick_telling(&mut self, ctx: &mut Ctx<'_>, now: u64, again: u64) {
        if self.settle_sessions(now) {
            self.tell_sessions(ctx, false);
        }
        if self.session_log.said_at.saturating_add(again) <= now && self.is_any_to_tell() {
            self.session_log.said_at = now;
            self.tell_sessions(ctx, true);
        }
    }

    /// When `tick_sessions` has something to do.
    pub(crate) fn sessions_wake(&self) -> Option<u64> {
        let (log, again) = (&self.session_log, self.config.resend_after);
        let tells = self.is_any_to_tell().then(|| log.said_at.saturating_add(again));
        let asks = log.asks.values().map(|ask| ask.at.saturating_add(again));
        let is_due = !log.unclean.is_empty() && log.cleaning.is_empty();
        let cleans = is_due.then_some(log.clean_at);
        let is_zero = self.config.shard == COORDINATOR;
        let frees = log.reached.front().filter(|_| is_zero);
        let frees = frees.map(|(_, at)| at.saturating_add(self.config.lease / GRACE));
        asks.chain(tells).chain(cleans).chain(frees).chain(self.start_wake()).min()
    }
}

/// These messages are of no transaction.
const NO_TXN: (TxnId, u16) = (TxnId { shard: COORDINATOR, number: 0 }, 0);
