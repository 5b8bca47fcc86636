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
use crate::records::record::Record;
use crate::state::ctx::Ctx;
use crate::state::sessions::log::{Acknowledged, Unheard};
use crate::state::shard::Shard;

/// Ends are freed after a lease divided by this, even if a shard that is away has not heard them.
const GRACE: u64 = 4;
/// Transaction and step of messages that belong to no transaction.
pub(super) const NO_TXN: (TxnId, u16) = (TxnId { shard: SHARD_0, number: 0 }, 0);

impl Shard {
    /// At shard 0: whether all other shards have heard the ends of all sessions that wrote.
    pub(super) fn have_all_heard_of_writers(&self) -> bool {
        let position = Some(self.sessions.holds.ended_at());
        self.others().all(|shard| self.sessions.log.heard_by(shard) >= position)
    }

    fn is_any_to_tell(&self) -> bool {
        let noted = self.sessions.log.is_any_behind(self.config.map.shards);
        self.config.shard == SHARD_0 && noted.unwrap_or_else(|| self.is_any_unheard())
    }

    fn is_any_unheard(&self) -> bool {
        self.others().any(|shard| self.sessions.log.is_behind(shard))
    }

    fn note_behind(&mut self) {
        let is_any = self.is_any_unheard();
        self.sessions.log.note_behind(self.config.map.shards, is_any);
    }

    /// At shard 0: numbers a begin or end, records its position, and tells it to all others.
    pub(super) fn tell_event(&mut self, ctx: &mut Ctx<'_>, event: SessionEvent) {
        self.sessions.log.add_event(event, ctx.now.nanos);
        ctx.put(keys::table(Table::Session), self.sessions.log.heard().encode());
        self.settle_sessions(ctx.now.nanos);
        self.tell_sessions(ctx, Unheard::Untold);
    }

    /// Tells each shard what it has not heard.
    fn tell_sessions(&mut self, ctx: &mut Ctx<'_>, unheard: Unheard) {
        let need = match unheard {
            Unheard::Unacknowledged => Need::Durable,
            Unheard::Untold => Need::Synced,
        };
        for shard in self.others() {
            if let Some(since) = self.sessions.log.unheard_by(shard, unheard) {
                self.tell_shard(ctx, (need, shard), since, None);
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
        let told = match self.sessions.log.events_since(since) {
            Some(events) => SessionsTold::Events { since, events },
            None => SessionsTold::All(self.session_table()),
        };
        self.sessions.log.note_told_to(shard);
        let last = self.sessions.log.heard().last;
        let (known, freed) = self.sessions.log.known_and_freed();
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
        match log.acknowledge(from, position, (known, freed), ctx.now.nanos) {
            Acknowledged::Unsound => {
                self.counters.bad_messages += 1;
                return;
            }
            Acknowledged::Ahead => ctx.put(keys::table(Table::Session), log.heard().encode()),
            Acknowledged::Known => {}
        }
        if self.settle_sessions(ctx.now.nanos) {
            self.tell_sessions(ctx, Unheard::Untold);
        }
        self.note_behind();
    }

    /// At shard 0: learns which ends are known everywhere or freed. Returns whether there are more
    /// than before.
    fn settle_sessions(&mut self, now: u64) -> bool {
        let log = &self.sessions.log;
        let heard = |shard| log.heard_by(shard).unwrap_or(0);
        let known = self.others().map(heard).min().unwrap_or(log.heard().position);
        let before = log.known_and_freed();
        // Every shard that can be reached has heard by then.
        let freed = self.sessions.log.free(now, self.config.lease / GRACE);
        self.sessions.log.learn_known(known, freed);
        self.sessions.log.known_and_freed() != before
    }

    fn tick_telling(&mut self, ctx: &mut Ctx<'_>, now: u64, again: u64) {
        if self.settle_sessions(now) {
            self.tell_sessions(ctx, Unheard::Untold);
        }
        if self.sessions.log.next_telling(again) <= now && self.is_any_to_tell() {
            self.sessions.log.note_said(now);
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
                self.sessions.log.note_told();
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
                self.sessions.log.note_asked_by(from, position);
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
        self.tick_holds(now);
        match self.config.shard {
            SHARD_0 => self.tick_telling(ctx, now, again),
            _ => self.tick_hearing(ctx, now, again),
        }
    }

    /// When `tick_sessions` has something to do, nanoseconds.
    pub(crate) fn sessions_wake(&self) -> Option<u64> {
        let (log, again) = (&self.sessions.log, self.config.resend_after);
        let tells = self.is_any_to_tell().then(|| log.next_telling(again));
        let frees = match self.config.shard {
            SHARD_0 => log.next_freed(self.config.lease / GRACE),
            _ => None,
        };
        let waits = self.sessions.holds.next_due();
        let due =
            [log.next_ask(again), tells, log.next_cleaning(), frees, self.start_wake(), waits];
        due.into_iter().flatten().min()
    }
}
