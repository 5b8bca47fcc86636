//! Directories that are lent to this session because it makes them.
//!
//! Such a grant comes from the transaction's coordinator. Its shard hears of it a moment later, and
//! again if it has lost power since. Until it says that the grant stands, the grant is *doubtful*:
//!
//! 1. It may be used for a hold from when the first copy of the request was sent. What the shard
//!    answers to other questions does not prolong that.
//! 2. Its elements keep no others back.
//! 3. If the shard does not know it, its coordinator is asked. It is lost only if both say so, the
//!    shard last.

use std::collections::HashMap;

use futures_util::future::join_all;
use pando_client::Transport;
use pando_types::lend::{Act, Born, Element, HOLD, Part, Standing};
use pando_types::op::{Op, Request, RequestId};
use pando_types::reply::{Body, Refusal, Reply};
use pando_types::{DirRef, Errno, PartitionIndex, SHARDS_MAX, SessionId, ShardIndex, TxnId};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::borrowing::Borrowing;
use crate::settings::AGAIN;
use crate::side::State;

/// A grant that came with its directory, and of which something may have to be sent again.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Birth {
    /// Whether this start of the shard has said that the grant stands.
    is_known: bool,
    doubt: Doubt,
}

/// What follows if the shard does not know the grant.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Doubt {
    #[default]
    None,
    /// Its coordinator is to be asked.
    Asks,
    /// Its coordinator says that there is nothing to come: if the shard still does not know it, it
    /// is lost.
    Nothing,
}

/// Requests that make directories which would be borrowed.
#[derive(Default)]
pub(crate) struct Asked {
    /// By request slot, the sequence, and when the first copy was sent.
    open: Mutex<HashMap<(SessionId, u16), (u64, u64)>>,
    /// Loans of shards that are not known: they are returned unused.
    strays: Mutex<Vec<(ShardIndex, TxnId)>>,
    has_strays: Notify,
}

impl Asked {
    /// Notes that a copy is sent at `now`.
    fn sent(&self, id: RequestId, now: u64) {
        let mut open = self.open.lock();
        let known = open.entry((id.session, id.slot)).or_insert((id.sequence, now));
        if known.0 != id.sequence {
            *known = (id.sequence, now);
        }
    }

    /// Takes when the first copy of a request was sent, which is answered for good.
    fn take(&self, id: RequestId) -> Option<u64> {
        let mut open = self.open.lock();
        let (_, asked) =
            open.get(&(id.session, id.slot)).copied().filter(|its| its.0 == id.sequence)?;
        open.remove(&(id.session, id.slot));
        Some(asked)
    }
}

/// The element that changes nothing, and asks how far its grant has come.
pub(crate) const fn probe(grant: TxnId) -> Element {
    Element { grant, number: 0, act: Act::Return(None) }
}

/// Whether a reply sends the request to another shard.
fn is_sent_on(reply: &Reply) -> bool {
    matches!(reply.result, Err(Refusal::Redirect(_) | Refusal::HashSlot(_) | Refusal::AskHome))
}

impl<T: Transport> Borrowing<T> {
    /// Says in a request that makes a directory that it would be borrowed, if it would.
    pub(crate) fn would_borrow(&self, request: &mut Request) {
        let RequestId { session, sequence, .. } = request.head.id;
        let is_its = sequence > 0 && session != SessionId(0) && !session.is_local();
        let makes = request.trail.is_none() && matches!(request.op, Op::Mkdir(..));
        request.head.borrows = is_its && makes && !self.borrows_no_more();
        if request.head.borrows {
            self.asked.sent(request.head.id, self.inner.machine_nanos());
        }
    }

    /// Takes in what a reply lends. The client hears of the new directory only.
    pub(crate) fn take_born(&self, id: RequestId, reply: &mut Reply) {
        let asked = match is_sent_on(reply) {
            true => None,
            false => self.asked.take(id),
        };
        let Ok(Body::Born(dir, attr, born)) = &mut reply.result else { return };
        let (dir, attr, born) = (*dir, attr.clone(), (**born).clone());
        reply.result = Ok(Body::Made(dir, attr));
        let (home, grant) = (born.home, born.loan.grant);
        if home.0 >= SHARDS_MAX {
            return;
        }
        match asked {
            Some(asked) if home.0 < self.settings.map.shards => {
                self.enter_born(id.session, dir, born, asked);
            }
            // It was told of before.
            _ if self.side(home).lock().knows(grant) => {}
            _ => {
                self.asked.strays.lock().push((home, grant));
                self.asked.has_strays.notify_one();
            }
        }
    }

    fn enter_born(&self, session: SessionId, dir: DirRef, born: Born, asked: u64) {
        let Born { home, loan, page } = born;
        let (grant, side, now) = (loan.grant, self.side(home), self.inner.machine_nanos());
        let part = Part { dir, partition: PartitionIndex(0) };
        {
            let mut state = side.lock();
            state.take_session(session);
            // A grant that was recalled before it was heard of may be over.
            let is_new = state.told_of_others < asked && now < asked.saturating_add(HOLD);
            let is_here = is_new
                && !state.knows(grant)
                && !state.lent.as_ref().is_some_and(|it| it.core.has_dir(dir.id))
                && self.notes_begin(home, &mut state)
                && state.enter(session, (loan, part), asked, || self.config_of(home));
            if is_here {
                state.births.insert(grant, Birth::default());
            }
            let has_rows = is_here
                && state.lent.as_mut().is_some_and(|it| it.core.take_page(grant, page).is_ok());
            match has_rows {
                true => self.is_lent(&state, (home, grant)),
                false => state.give_back(&[grant], now),
            }
        }
        side.to_attend.notify_one();
        side.to_send.notify_one();
    }

    /// Returns loans of shards that are not known, until the transport is stopped.
    pub(crate) async fn return_strays(&self) {
        loop {
            let Some((shard, grant)) = self.asked.strays.lock().pop() else {
                self.asked.has_strays.notified().await;
                continue;
            };
            let back = Element { grant, number: 1, act: Act::Return(None) };
            let stream = Op::Stream { shard, elements: vec![back], synced: false };
            let Some(reply) = self.ask(shard, stream).await else { return };
            let is_full = matches!(reply.result, Err(Refusal::Errno(Errno::ENOSPC)));
            if is_full || standing_of(&reply, grant) == Some(Standing::Awaited) {
                self.asked.strays.lock().push((shard, grant));
                self.inner.sleep(AGAIN).await;
            }
        }
    }

    /// Asks coordinators about grants that a shard does not know, until the transport is stopped.
    pub(crate) async fn ask_coordinators(&self, shard: ShardIndex) {
        let side = self.side(shard);
        loop {
            let doubtful = side.lock().doubtful();
            if doubtful.is_empty() {
                side.to_doubt.notified().await;
                continue;
            }
            let asked = doubtful.into_iter().map(|grant| self.ask_coordinator(shard, grant));
            if join_all(asked).await.contains(&None) {
                return;
            }
            side.to_send.notify_one();
            self.inner.sleep(AGAIN).await;
        }
    }

    async fn ask_coordinator(&self, shard: ShardIndex, grant: TxnId) -> Option<()> {
        let to = grant.shard;
        let stream = Op::Stream { shard: to, elements: vec![probe(grant)], synced: false };
        let reply = self.ask(to, stream).await?;
        if let Some(told) = standing_of(&reply, grant)
            && let Some(birth) = self.side(shard).lock().births.get_mut(&grant)
        {
            let is_nothing = told == Standing::Unknown;
            birth.doubt = if is_nothing { Doubt::Nothing } else { Doubt::None };
        }
        Some(())
    }
}

/// What a reply tells of a grant.
pub(crate) fn standing_of(reply: &Reply, grant: TxnId) -> Option<Standing> {
    let Ok(Body::Streamed(states)) = &reply.result else { return None };
    states.iter().find(|(id, _)| *id == grant).map(|(_, told)| told.standing)
}

impl State {
    /// Whether the shard is yet to hear of a grant: its directory's decision is on its way, for the
    /// first time or after a loss of power.
    pub(crate) fn is_awaited(
        &mut self,
        (shard, grant): (ShardIndex, TxnId),
        told: Standing,
    ) -> bool {
        let Some(birth) = self.births.get_mut(&grant) else { return false };
        let is_awaited = match told {
            Standing::Awaited => {
                birth.doubt = Doubt::None;
                true
            }
            // A coordinator has none of its own left to tell itself.
            Standing::Unknown if grant.shard == shard || birth.doubt == Doubt::Nothing => false,
            Standing::Unknown => {
                birth.doubt = Doubt::Asks;
                true
            }
            _ => {
                *birth = Birth { is_known: true, doubt: Doubt::None };
                false
            }
        };
        self.queue.keep_back(grant, is_awaited);
        is_awaited
    }

    /// Whether this start of the shard has not said yet that a grant stands.
    pub(crate) fn is_doubtful(&self, grant: TxnId) -> bool {
        self.births.get(&grant).is_some_and(|birth| !birth.is_known)
    }

    /// The shard was started anew: it may have lost what it knew.
    pub(crate) fn doubt_births(&mut self) {
        self.births.values_mut().for_each(|birth| *birth = Birth::default());
    }

    /// Grants of which the coordinator is to be asked.
    fn doubtful(&self) -> Vec<TxnId> {
        let asks = self.births.iter().filter(|(_, birth)| birth.doubt == Doubt::Asks);
        asks.map(|(grant, _)| *grant).collect()
    }

    /// Whether the coordinator of some grant is to be asked.
    pub(crate) fn has_doubts(&self) -> bool {
        self.births.values().any(|birth| birth.doubt == Doubt::Asks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARD: ShardIndex = ShardIndex(1);

    #[test]
    fn a_birth_is_lost_only_if_coordinator_and_shard_say_so() {
        let grant = TxnId { shard: ShardIndex(0), number: 1 };
        let mut state = State::default();
        assert!(!state.is_awaited((SHARD, grant), Standing::Unknown), "it is no birth");
        state.births.insert(grant, Birth::default());
        for _ in 0..3 {
            assert!(state.is_awaited((SHARD, grant), Standing::Unknown));
            assert!(state.has_doubts() && state.is_doubtful(grant));
        }
        // The decision was on its way.
        state.births.insert(grant, Birth { is_known: false, doubt: Doubt::Nothing });
        assert!(!state.is_awaited((SHARD, grant), Standing::Stands));
        assert!(!state.is_doubtful(grant));
        // Another start of the shard.
        state.doubt_births();
        assert!(state.is_doubtful(grant));
        assert!(state.is_awaited((SHARD, grant), Standing::Unknown));
        state.births.insert(grant, Birth { is_known: false, doubt: Doubt::Nothing });
        assert!(!state.is_awaited((SHARD, grant), Standing::Unknown));
    }

    #[test]
    fn a_coordinator_that_is_the_shard_knows_at_once() {
        let grant = TxnId { shard: SHARD, number: 1 };
        let mut state = State::default();
        state.births.insert(grant, Birth::default());
        assert!(!state.is_awaited((SHARD, grant), Standing::Unknown));
    }

    #[test]
    fn a_hold_counts_from_the_first_copy_whichever_shard_answers() {
        let asked = Asked::default();
        let id = |sequence| RequestId { session: SessionId(5), slot: 3, sequence };
        asked.sent(id(7), 10);
        asked.sent(id(7), 20);
        assert_eq!(asked.take(id(8)), None);
        assert_eq!(asked.take(id(7)), Some(10));
        assert_eq!(asked.take(id(7)), None);
        asked.sent(id(7), 30);
        asked.sent(id(9), 40);
        assert_eq!(asked.take(id(9)), Some(40));
    }
}
