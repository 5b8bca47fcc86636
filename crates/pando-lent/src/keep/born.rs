//! New directories that are lent, and what becomes of such a loan.

use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use futures_util::future::join_all;
use pando_client::Transport;
use pando_types::lend::{Act, Born, Element, HOLD, Standing};
use pando_types::op::{Op, Request, RequestId};
use pando_types::reply::{Body, Refusal, Reply};
use pando_types::{DirRef, Errno, SHARDS_MAX, SessionId, ShardIndex, TxnId};

use crate::borrowing::{Borrowing, either};
use crate::known::births::{Birth, Doubt, probe, standing_of};
use crate::settings::{AGAIN, ASK_WITHIN};

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
        request.head.borrows = is_its && makes && !self.is_barren.load(Ordering::Relaxed);
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
                self.enter_born(id.session, (dir, born), (asked, reply.clock));
            }
            // It was told of before.
            _ if self.side(home).lock().knows(grant) => {}
            // A shard was added since this mount began. What has its home there is not borrowed.
            _ => {
                self.is_barren.store(true, Ordering::Relaxed);
                self.asked.strays.lock().push((home, grant));
                self.asked.has_strays.notify_one();
            }
        }
    }

    /// Takes in a loan that was asked for at `asked` and told of at the time of day `clock`.
    fn enter_born(
        &self,
        session: SessionId,
        (dir, born): (DirRef, Born),
        (asked, clock): (u64, u64),
    ) {
        let Born { home, loan, page } = born;
        let (grant, side, now) = (loan.grant, self.side(home), self.inner.machine_nanos());
        {
            let mut state = side.lock();
            if state.knows(grant) {
                return;
            }
            state.take_session(session);
            state.heard_beside(clock, now);
            state.births.insert(grant, Birth::default());
            // A grant that was recalled before it was heard of may be over.
            let is_new = state.told_of_others < asked && now < asked.saturating_add(HOLD);
            let is_here = is_new
                && !state.lent.as_ref().is_some_and(|it| it.core.has_dir(dir.id))
                && self.notes_begin(home, &mut state)
                && state.enter(session, (loan, dir), asked, || self.config_of(home));
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
            // A coordinator that is away keeps no others from being asked.
            let asks = doubtful.into_iter().map(|grant| self.ask_coordinator(shard, grant));
            either(join_all(asks).map(drop), self.inner.sleep(ASK_WITHIN)).await;
            side.to_send.notify_one();
            self.inner.sleep(AGAIN).await;
        }
    }

    async fn ask_coordinator(&self, shard: ShardIndex, grant: TxnId) {
        let to = grant.shard;
        let stream = Op::Stream { shard: to, elements: vec![probe(grant)], synced: false };
        let Some(reply) = self.ask(to, stream).await else { return };
        let mut state = self.side(shard).lock();
        let left = state.batches;
        if let Some(told) = standing_of(&reply, grant)
            && let Some(birth) = state.births.get_mut(&grant)
        {
            let is_nothing = told == Standing::Unknown;
            birth.doubt = if is_nothing { Doubt::Nothing(left) } else { Doubt::None };
        }
    }
}
