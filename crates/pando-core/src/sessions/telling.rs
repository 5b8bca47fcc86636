//! How shard 0 tells every other shard of every begin and end, in order.
//!
//! 1. Shard 0 tells each shard the events that it has not acknowledged, again and again. So a lost,
//!    late or repeated message does no harm.
//! 2. A new event is told at once, after the event that was told last. A shard that has missed
//!    something asks.

use pando_types::peer::{Peer, PeerMessage, SessionAsk, SessionEvent, SessionsTold};
use pando_types::{ShardIndex, TxnId};

use crate::contract::{Halt, Need, SHARD_0};
use crate::records::keys::{self, Table};
use crate::records::record::{Record, SessionsHeard};
use crate::state::ctx::Ctx;
use crate::state::sessions::log::Other;
use crate::state::shard::Shard;

/// Events that shard 0 remembers. A shard that is further behind gets the whole table.
const EVENTS_MAX: usize = 4096;
/// Ends are freed after a lease divided by this, even if a shard that is away has not heard them.
const GRACE: u64 = 4;
/// The furthest that another shard's position may be ahead of shard 0's. A message that claims more
/// is unsound.
const AHEAD_MAX: u64 = 1 << 32;
/// Transaction and step of messages that belong to no transaction.
pub(super) const NO_TXN: (TxnId, u16) = (TxnId { shard: SHARD_0, number: 0 }, 0);

/// What a shard has not heard.
#[derive(Clone, Copy)]
enum Unheard {
    /// Events that it was not told.
    Untold,
    /// Events that it has not acknowledged.
    Unacknowledged,
}

impl Shard {
    /// At shard 0: whether all other shards have heard all begins and ends.
    pub(super) fn have_all_heard(&self) -> bool {
        let position = Some(self.sessions.log.heard.position);
        let heard = |shard| self.sessions.log.others.get(&shard).and_then(|other| other.heard);
        self.others().all(|shard| heard(shard) == position)
    }

    fn is_any_to_tell(&self) -> bool {
        match self.sessions.log.behind {
            _ if self.config.shard != SHARD_0 => false,
            Some((shards, is_any)) if shards == self.config.map.shards => is_any,
            _ => self.others().any(|shard| self.sessions.log.is_behind(shard)),
        }
    }

    fn note_behind(&mut self) {
        self.sessions.log.behind = None;
        self.sessions.log.behind = Some((self.config.map.shards, self.is_any_to_tell()));
    }

    /// At shard 0: numbers a begin or end, records its position, and tells it to all others.
    pub(super) fn tell_event(&mut self, ctx: &mut Ctx<'_>, event: SessionEvent) {
        let log = &mut self.sessions.log;
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
        self.tell_sessions(ctx, Unheard::Untold);
    }

    /// Tells each shard what it has not heard.
    fn tell_sessions(&mut self, ctx: &mut Ctx<'_>, unheard: Unheard) {
        for shard in self.others() {
            let log = &mut self.sessions.log;
            let floor = log.floor();
            let now = (log.heard.position, log.known, log.freed);
            let other =
                log.others.entry(shard).or_insert(Other { told: floor, ..Other::default() });
            let Other { heard, told, told_known, told_freed, .. } = *other;
            match unheard {
                Unheard::Unacknowledged if log.is_behind(shard) => {
                    self.tell_shard(ctx, (Need::Durable, shard), heard.unwrap_or(floor), None);
                }
                Unheard::Untold if (told, told_known, told_freed) != now => {
                    self.tell_shard(ctx, (Need::Synced, shard), told, None);
                }
                _ => {}
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
        let table = (since < self.sessions.log.floor()).then(|| self.session_table());
        let log = &mut self.sessions.log;
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
        let message = PeerMessage::Sessions { told, last, known, freed, answers };
        self.tell(ctx, need, shard, NO_TXN, message);
    }

    /// At shard 0: another shard acknowledges all events up to a position.
    fn has_heard(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: ShardIndex,
        position: u64,
        (known, freed): (u64, u64),
    ) {
        let log = &mut self.sessions.log;
        if position > log.heard.position.saturating_add(AHEAD_MAX) {
            self.counters.bad_messages += 1;
            return;
        }
        if position > log.heard.position {
            // This shard was restored from an older copy. Sessions that it does not know are over.
            log.heard.position = position.saturating_add(1);
            log.reached.push_back((log.heard.position, ctx.now.nanos));
            log.events.clear();
            ctx.put(keys::table(Table::Session), log.heard.encode());
        }
        let other = log.others.entry(from).or_default();
        other.heard = other.heard.max(Some(position));
        other.known = other.known.max(known);
        other.freed = other.freed.max(freed);
        if self.settle_sessions(ctx.now.nanos) {
            self.tell_sessions(ctx, Unheard::Untold);
        }
        self.note_behind();
    }

    /// At shard 0: learns which ends are known everywhere or freed. Returns whether there are more
    /// than before.
    fn settle_sessions(&mut self, now: u64) -> bool {
        let log = &self.sessions.log;
        let heard = |shard| log.others.get(&shard).and_then(|other| other.heard).unwrap_or(0);
        let known = self.others().map(heard).min().unwrap_or(log.heard.position);
        let before = (log.known, log.freed);
        // Every shard that can be reached has heard by then.
        let freed = self.sessions.log.free(now, self.config.lease / GRACE);
        self.sessions.log.learn_known(known, freed);
        (self.sessions.log.known, self.sessions.log.freed) != before
    }

    fn tick_telling(&mut self, ctx: &mut Ctx<'_>, now: u64, again: u64) {
        if self.settle_sessions(now) {
            self.tell_sessions(ctx, Unheard::Untold);
        }
        if self.sessions.log.said_at.saturating_add(again) <= now && self.is_any_to_tell() {
            self.sessions.log.said_at = now;
            self.tell_sessions(ctx, Unheard::Unacknowledged);
        }
    }

    /// Handles a peer message about sessions.
    pub(crate) fn hear_sessions(&mut self, ctx: &mut Ctx<'_>, peer: Peer) -> Result<(), Halt> {
        let from = peer.from;
        match peer.message {
            PeerMessage::Sessions { told, last, known, freed, answers } => {
                // A new shard gets the sessions with the decision that it joins.
                if self.config.shard == SHARD_0 || !self.has_joined() {
                    return Ok(());
                }
                self.sessions.log.is_told = true;
                self.hear_told(ctx, told, last, (known, freed))?;
                self.wake_heard(ctx, answers);
                Ok(())
            }
            PeerMessage::SessionsHeard { position, known, freed }
                if self.config.shard == SHARD_0 =>
            {
                self.has_heard(ctx, from, position, (known, freed));
                Ok(())
            }
            PeerMessage::AskSessions { position, about } if self.config.shard == SHARD_0 => {
                // What the shard has heard may not be on its disk. If it has just started, it has
                // forgotten which ends are known everywhere.
                if let Some(other) = self.sessions.log.others.get_mut(&from) {
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

    /// Sends messages again that are due.
    pub(crate) fn tick_sessions(&mut self, ctx: &mut Ctx<'_>) {
        let now = ctx.now.nanos;
        let again = self.config.resend_after;
        self.sessions.log.clean_again(now);
        match self.config.shard {
            SHARD_0 => self.tick_telling(ctx, now, again),
            _ => self.tick_hearing(ctx, now, again),
        }
    }

    /// When `tick_sessions` has something to do, nanoseconds.
    pub(crate) fn sessions_wake(&self) -> Option<u64> {
        let (log, again) = (&self.sessions.log, self.config.resend_after);
        let tells = self.is_any_to_tell().then(|| log.said_at.saturating_add(again));
        let asks = log.asks.values().map(|ask| ask.at.saturating_add(again));
        let is_due = !log.unclean.is_empty() && log.cleaning.is_empty();
        let cleans = is_due.then_some(log.clean_at);
        let is_zero = self.config.shard == SHARD_0;
        let frees = log.reached.front().filter(|_| is_zero);
        let frees = frees.map(|(_, at)| at.saturating_add(self.config.lease / GRACE));
        asks.chain(tells).chain(cleans).chain(frees).chain(self.start_wake()).min()
    }
}
