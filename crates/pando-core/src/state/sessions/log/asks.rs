//! What a shard asks shard 0: which events it has missed, and whether sessions have begun.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use pando_types::SessionId;
use pando_types::peer::SessionAsk;

use super::{Ask, SessionLog};
use crate::contract::ClientTag;

/// Sessions about which a shard asks at a time. Requests of further sessions wait until an answer
/// comes.
const ASKS_MAX: usize = 64;

impl SessionLog {
    /// Number of sessions about which this shard may ask besides.
    pub(crate) fn room_for_asks(&self) -> usize {
        ASKS_MAX.saturating_sub(self.asks.len())
    }

    /// Whether shard 0 was asked about a session, and has not answered.
    pub(crate) fn asks_about(&self, session: SessionId) -> bool {
        self.asks.contains_key(&session)
    }

    /// Notes a question that is sent now. Without such a session, the clients `of` are refused.
    pub(crate) fn begin_ask(&mut self, what: SessionAsk, of: BTreeSet<ClientTag>, now: u64) {
        self.asks.insert(what.session, Ask { at: now, what, of });
    }

    /// Notes that this shard has heard of a session.
    pub(crate) fn end_ask(&mut self, session: SessionId) {
        self.asks.remove(&session);
    }

    /// Ends the question that was answered. Returns the clients to refuse; `None`: it is an earlier
    /// question.
    pub(crate) fn end_answered(&mut self, what: SessionAsk) -> Option<BTreeSet<ClientTag>> {
        let ask = self.asks.get(&what.session)?;
        if ask.what != what {
            return None;
        }
        self.asks.remove(&what.session).map(|ask| ask.of)
    }

    /// Forgets questions about sessions for which no request waits.
    pub(crate) fn forget_asks(&mut self, is_awaited: impl Fn(SessionId) -> bool) {
        self.asks.retain(|session, _| is_awaited(*session));
    }

    /// Takes the questions that have been unanswered for `again` nanoseconds. They are sent `now`.
    pub(crate) fn take_due_asks(&mut self, now: u64, again: u64) -> Vec<SessionAsk> {
        let due = self.asks.values_mut().filter(|ask| ask.at.saturating_add(again) <= now);
        due.map(|ask| {
            ask.at = now;
            ask.what
        })
        .collect()
    }

    /// When the next question is sent again, nanoseconds.
    pub(crate) fn next_ask(&self, again: u64) -> Option<u64> {
        self.asks.values().map(|ask| ask.at.saturating_add(again)).min()
    }

    /// Notes that shard 0 has told something since this shard started.
    pub(crate) fn note_told(&mut self) {
        self.is_told = true;
    }

    /// Whether shard 0 has told something since this shard started.
    pub(crate) fn is_told(&self) -> bool {
        self.is_told
    }

    /// Notes that this shard asks now which events it has missed.
    pub(crate) fn note_asked_missed(&mut self, now: u64) {
        self.asked_at = Some(now);
    }

    /// When this shard may ask again which events it has missed, nanoseconds.
    pub(crate) fn next_asking_missed(&self, again: u64) -> u64 {
        self.asked_at.map_or(0, |at| at.saturating_add(again))
    }
}
