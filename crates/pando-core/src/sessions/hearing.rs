//! How a shard hears of begins and ends of sessions, and asks shard 0 about them.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use pando_types::peer::{PeerMessage, SessionAsk, SessionEvent, SessionTable, SessionsTold};
use pando_types::reply::Refusal;
use pando_types::{Lsn, SessionId};

use super::telling::NO_TXN;
use crate::contract::{ClientTag, Halt, Input, Need, SHARD_0};
use crate::records::keys::{self, Table};
use crate::records::record::{Record, SessionsHeard};
use crate::state::ctx::Ctx;
use crate::state::lock_key::LockKey;
use crate::state::shard::Shard;

impl Shard {
    pub(super) fn hear_told(
        &mut self,
        ctx: &mut Ctx<'_>,
        told: SessionsTold,
        last: u64,
        (known, freed): (u64, u64),
    ) -> Result<(), Halt> {
        let before = self.sessions.log.heard();
        match told {
            SessionsTold::Events { since, .. } if since > before.position => {
                self.say_ask(ctx, None);
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
        let log = &mut self.sessions.log;
        log.hear_of_last(last);
        log.learn_known(known, freed);
        let (heard, (known, freed)) = (log.heard(), log.known_and_freed());
        if heard != before {
            ctx.put(keys::table(Table::Session), heard.encode());
        }
        // What this shard acknowledges must survive a loss of power.
        let need = if heard == before { Need::Durable } else { Need::Synced };
        let message = PeerMessage::SessionsHeard { position: heard.position, known, freed };
        self.tell(ctx, need, SHARD_0, NO_TXN, message);
        Ok(())
    }

    fn hear_event(&mut self, ctx: &mut Ctx<'_>, event: SessionEvent) -> Result<(), Halt> {
        let position = self.sessions.log.hear(event);
        match event {
            SessionEvent::Begins(session, key) => {
                self.put_session(ctx, session, key);
                Ok(())
            }
            SessionEvent::Ends(session) => self.end_session(ctx, session, position),
        }
    }

    /// Takes in the whole table of sessions, when shard 0 does not remember the events that this
    /// shard has missed.
    pub(crate) fn hear_table(
        &mut self,
        ctx: &mut Ctx<'_>,
        table: &SessionTable,
    ) -> Result<(), Halt> {
        let heard = self.sessions.log.heard();
        if table.position <= heard.position && heard != SessionsHeard::default() {
            return Ok(());
        }
        let living: BTreeSet<_> = table.living.iter().map(|(session, _)| *session).collect();
        let lives = |session: &SessionId| living.contains(session);
        let over: Vec<_> = self.sessions().filter(|session| !lives(session)).collect();
        for session in over {
            self.end_session(ctx, session, table.position)?;
        }
        for (session, key) in &table.living {
            if session.number() > heard.last {
                self.put_session(ctx, *session, *key);
            }
        }
        self.sessions.log.hear_all(table.position, table.last);
        // Other shards may have sent something of a session that began and ended meanwhile.
        let opens = self.namespace.opens.all().map(|open| open.session);
        let left: BTreeSet<SessionId> = opens
            .chain(self.sessions.outcomes.sessions())
            .chain(self.namespace.program_locks.sessions())
            .collect();
        for session in left {
            self.keep_what_is_left(ctx, session);
        }
        ctx.put(keys::table(Table::Session), self.sessions.log.heard().encode());
        Ok(())
    }

    /// Lets the requests of sessions go on that have been heard of. The session that `answers`
    /// names has not begun if it is still unheard: the requests that waited when shard 0 was asked
    /// are refused.
    pub(super) fn wake_heard(&mut self, ctx: &mut Ctx<'_>, answers: Option<SessionAsk>) {
        self.queue.resume(self.locks.wake(LockKey::Heard));
        let heard: Vec<_> =
            self.locks.awaited_sessions().filter(|session| !self.is_unheard(*session)).collect();
        for session in heard {
            self.sessions.log.end_ask(session);
            self.queue.resume(self.locks.wake(LockKey::Session(session)));
        }
        let Some(answered) = answers else { return };
        let Some(refused) = self.sessions.log.end_answered(answered) else { return };
        let key = LockKey::Session(answered.session);
        for input in self.locks.wake(key) {
            match input {
                Input::Client(tag, request) if refused.contains(&tag) => {
                    self.reply(ctx, tag, &request, Err(Refusal::NoSession), Need::Committed);
                }
                // The request came after the question.
                input => self.locks.wait(key, input),
            }
        }
        self.ask_about_awaited(ctx);
    }

    /// Asks shard 0 about a session that this shard has not heard of, for a request that waits.
    pub(crate) fn ask_about(&mut self, ctx: &mut Ctx<'_>, session: SessionId, of: ClientTag) {
        let log = &self.sessions.log;
        if log.room_for_asks() > 0 && !log.asks_about(session) {
            self.begin_ask(ctx, session, BTreeSet::from([of]));
        }
    }

    fn begin_ask(&mut self, ctx: &mut Ctx<'_>, session: SessionId, of: BTreeSet<ClientTag>) {
        let number = self.queue.take_ticket();
        let what = SessionAsk { session, epoch: ctx.now.epoch, number };
        self.sessions.log.begin_ask(what, of, ctx.now.nanos);
        self.say_ask(ctx, Some(what));
    }

    /// Asks about unheard sessions that have requests waiting, as far as there is room.
    fn ask_about_awaited(&mut self, ctx: &mut Ctx<'_>) {
        let log = &self.sessions.log;
        let awaited = self.locks.awaited_sessions().filter(|session| !log.asks_about(*session));
        for session in awaited.take(log.room_for_asks()).collect::<Vec<_>>() {
            let of = self.locks.waiting_clients(LockKey::Session(session)).collect();
            self.begin_ask(ctx, session, of);
        }
    }

    /// The lock to wait for until this shard has heard all events up to `heard`; it asks for them.
    /// `None`: it has heard them.
    pub(crate) fn must_have_heard(&mut self, ctx: &mut Ctx<'_>, heard: u64) -> Option<LockKey> {
        if heard <= self.sessions.log.heard().position || self.config.shard == SHARD_0 {
            return None;
        }
        // A position that shard 0 never told causes at most one question per `resend_after`.
        let now = ctx.now.nanos;
        let again = self.config.resend_after;
        if self.sessions.log.next_asking_missed(again) <= now {
            self.sessions.log.note_asked_missed(now);
            self.has_heard_as_much(ctx, heard);
        }
        Some(LockKey::Heard)
    }

    /// Whether this shard has heard all events up to a position, and would have after a loss of
    /// power.
    pub(crate) fn has_durably_heard(&self, heard: u64, durable: Lsn) -> bool {
        let has = self.config.shard == SHARD_0 || heard <= self.sessions.log.heard().position;
        has && !self.sessions.log.is_end_unsynced(durable)
    }

    /// Whether this shard has heard all that another shard had heard, from which something comes.
    /// If not, it asks.
    pub(crate) fn has_heard_as_much(&mut self, ctx: &mut Ctx<'_>, heard: u64) -> bool {
        let position = self.sessions.log.heard().position;
        if position >= heard {
            return true;
        }
        if self.config.shard != SHARD_0 {
            self.say_ask(ctx, None);
        }
        false
    }

    /// Asks shard 0 for the events that follow, and about a session.
    fn say_ask(&mut self, ctx: &mut Ctx<'_>, about: Option<SessionAsk>) {
        let position = self.sessions.log.heard().position;
        let message = PeerMessage::AskSessions { position, about };
        self.tell(ctx, Need::Committed, SHARD_0, NO_TXN, message);
    }

    /// Sends questions again that are due, and asks about sessions that had no room before.
    pub(super) fn tick_hearing(&mut self, ctx: &mut Ctx<'_>, now: u64, again: u64) {
        if self.start_wake().is_some_and(|at| at <= now) {
            self.sessions.log.note_asked_missed(now);
            self.say_ask(ctx, None);
        }
        let locks = &self.locks;
        let is_awaited = |session| locks.is_awaited(LockKey::Session(session));
        self.sessions.log.forget_asks(is_awaited);
        let due = self.sessions.log.take_due_asks(now, again);
        for what in due {
            self.say_ask(ctx, Some(what));
        }
        self.ask_about_awaited(ctx);
    }

    /// When this shard asks shard 0 what it may have missed: after its start, or while an input
    /// waits for that. Nanoseconds.
    pub(super) fn start_wake(&self) -> Option<u64> {
        let log = &self.sessions.log;
        let wants = !log.is_told() || self.locks.is_awaited(LockKey::Heard);
        let is_due = self.config.shard != SHARD_0 && wants && self.has_joined();
        is_due.then(|| log.next_asking_missed(self.config.resend_after))
    }
}
