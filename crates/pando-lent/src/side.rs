//! What a holder knows of one shard, and holds of it.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use pando_core::LentCore;
use pando_core::contract::Now;
use pando_types::lend::{Act, Element, HOLD, Inos};
use pando_types::reply::Reply;
use pando_types::{DirId, Epoch, Lsn, SessionId, TxnId};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::eager::Eager;
use crate::queue::Queue;
use crate::requests::Requests;

/// One shard, as its holder sees it.
#[derive(Default)]
pub(crate) struct Side {
    state: Mutex<State>,
    /// Told when something has changed for which a request may wait.
    pub(crate) changed: Notify,
    /// Told when there is something to send.
    pub(crate) to_send: Notify,
    /// Told when there is something to attend for.
    pub(crate) to_attend: Notify,
    /// Told when a directory is to be borrowed.
    pub(crate) to_borrow: Notify,
}

#[derive(Default)]
pub(crate) struct State {
    /// Parts that are here, and the session that has them. None while there are none.
    pub(crate) lent: Option<Lent>,
    pub(crate) requests: Requests,
    pub(crate) eager: Eager,
    pub(crate) queue: Queue,
    /// Directories that are being borrowed: requests about them wait.
    pub(crate) borrowing: HashSet<DirId>,
    /// Grants that are returned, and of which the shard has not said that they are over.
    pub(crate) returning: BTreeSet<TxnId>,
    /// Grants of which the shard is to be told that this holder knows that they are over.
    pub(crate) over: BTreeSet<TxnId>,
    /// The session to which all of these belong.
    pub(crate) session: SessionId,
    /// Whether nothing is to be borrowed any more.
    pub(crate) is_closed: bool,
    /// Number of the last request for a part.
    pub(crate) borrowed: u64,
    /// Whether somebody waits for elements to be applied.
    pub(crate) is_urgent: bool,
    /// Elements that were answered and could not be applied.
    pub(crate) set_aside: Vec<Element>,
    /// Numbers of inodes that count once the shard is durable up to a position.
    inos: BTreeMap<TxnId, (Vec<Inos>, (Epoch, Lsn))>,
    told: Told,
}

/// Parts that are here.
pub(crate) struct Lent {
    pub(crate) core: LentCore,
    /// Until when they may be used, by the clock that goes on while the machine sleeps.
    pub(crate) until: u64,
    /// When each was used last.
    pub(crate) used: BTreeMap<TxnId, u64>,
}

/// What the shard's last replies told.
#[derive(Clone, Copy, Default)]
struct Told {
    epoch: Epoch,
    durable: Lsn,
    version: u64,
    /// Its time of day, and when that was heard.
    clock: (u64, u64),
}

impl Side {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// Notes what a reply tells besides its result. Returns whether the shard was started anew.
    pub(crate) fn heard(&mut self, reply: &Reply, now: u64) {
        if reply.epoch < self.told.epoch {
            return;
        }
        if reply.epoch > self.told.epoch {
            self.queue.started_anew(now);
            self.told.durable = Lsn(0);
        }
        let told = &mut self.told;
        told.epoch = reply.epoch;
        told.durable = told.durable.max(reply.durable);
        told.version = told.version.max(reply.version);
        if reply.clock > told.clock.0 {
            told.clock = (reply.clock, now);
        }
        self.queue.durable(told.epoch, told.durable);
        self.use_durable_inos();
    }

    /// The shard's time of day, as far as is known.
    fn wall(&self, now: u64) -> u64 {
        self.told.clock.0.saturating_add(now.saturating_sub(self.told.clock.1))
    }

    /// The moment for a run of the lent core.
    pub(crate) fn moment(&self, now: u64) -> Now {
        Now { wall: self.wall(now), ..Now::at(now, self.told.epoch, Lsn(0), Lsn(0)) }
    }

    /// The reply to a request that was answered here.
    pub(crate) fn reply_of(
        &self,
        request: &pando_types::op::Request,
        shard: pando_types::ShardIndex,
        now: u64,
        result: Result<pando_types::reply::Body, pando_types::reply::Refusal>,
    ) -> Box<Reply> {
        Box::new(Reply {
            id: request.head.id,
            trace: request.head.trace,
            shard,
            epoch: self.told.epoch,
            durable: self.told.durable,
            seen: self.told.durable,
            version: self.told.version,
            clock: self.wall(now),
            result,
            news: None,
        })
    }

    /// Whether there is something to ask the shard for news about.
    pub(crate) fn attends(&self) -> bool {
        self.lent.is_some()
            || !self.returning.is_empty()
            || !self.over.is_empty()
            || !self.queue.is_empty()
    }

    /// Gives parts back: drops them, and queues their returns. A grant that is not here was never
    /// used.
    pub(crate) fn give_back(&mut self, grants: &[TxnId], now: u64) {
        for grant in grants {
            if self.returning.contains(grant) || self.over.contains(grant) {
                continue;
            }
            let last = self.lent.as_mut().and_then(|lent| {
                lent.used.remove(grant);
                lent.core.end(*grant)
            });
            let never = Element { grant: *grant, number: 1, act: Act::Return(None) };
            self.queue.push(last.unwrap_or(never), now);
            self.returning.insert(*grant);
            self.is_urgent = true;
        }
        self.drop_empty_core();
    }

    /// Borrows no more, and gives all parts back. False: a part is being borrowed, so not yet.
    pub(crate) fn close(&mut self, now: u64) -> bool {
        self.is_closed = true;
        if !self.borrowing.is_empty() {
            return false;
        }
        let parts = self.lent.iter().flat_map(|lent| lent.core.parts());
        let grants: Vec<_> = parts.map(|(grant, _)| grant).collect();
        self.give_back(&grants, now);
        true
    }

    fn drop_empty_core(&mut self) {
        if self.lent.as_ref().is_some_and(|lent| lent.core.parts().next().is_none()) {
            self.lent = None;
        }
    }

    /// The shard takes no more elements of a grant: what is left of it is set aside. `returns`: the
    /// shard waits for the part to be returned after the elements up to that number.
    pub(crate) fn lose(&mut self, grant: TxnId, returns: Option<u64>, now: u64) {
        let mut lost = self.queue.drop_grant(grant);
        if is_planted!(ForgetsLost) {
            lost.clear();
        }
        self.set_aside.extend(lost.into_iter().filter(|it| matches!(it.act, Act::Change(_))));
        let last = self.lent.as_mut().and_then(|lent| {
            lent.used.remove(&grant);
            lent.core.end(grant)
        });
        if let Some(applied) = returns
            && !self.over.contains(&grant)
        {
            let act = last.map_or(Act::Return(None), |last| last.act);
            self.queue.push(Element { grant, number: applied + 1, act }, now);
            self.returning.insert(grant);
            self.is_urgent = true;
        }
        self.drop_empty_core();
    }

    /// Takes in that a grant is over.
    pub(crate) fn is_over(&mut self, grant: TxnId) {
        self.returning.remove(&grant);
        self.over.insert(grant);
    }

    /// Lets the parts be used for a whole hold from `asked` on.
    pub(crate) fn prolong(&mut self, asked: u64) {
        if let Some(lent) = &mut self.lent {
            lent.until = lent.until.max(asked.saturating_add(HOLD));
        }
    }

    /// Takes in numbers of inodes for a grant, which the shard has given out at a log position.
    pub(crate) fn take_inos(&mut self, grant: TxnId, inos: &[Inos], at: (Epoch, Lsn)) {
        self.inos.insert(grant, (inos.to_vec(), at));
        self.use_durable_inos();
    }

    /// Uses the numbers that the shard cannot give to others any more.
    fn use_durable_inos(&mut self) {
        let (told, lent) = (self.told, &mut self.lent);
        self.inos.retain(|grant, (inos, at)| {
            let is_durable = at.0 == told.epoch && at.1 <= told.durable;
            if let Some(lent) = lent.as_mut().filter(|_| is_durable) {
                lent.core.take_inos(*grant, inos);
            }
            !is_durable
        });
    }
}
