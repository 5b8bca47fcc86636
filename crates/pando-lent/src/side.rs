//! What a holder knows of one shard, and holds of it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::sync::Arc;

use pando_client::Grounds;
use pando_client::grounds::Kind;
use pando_core::LentCore;
use pando_core::contract::Now;
use pando_placement::Secrets;
use pando_types::lend::{Act, Element, GrantState, HOLD, Inos, Standing};
use pando_types::op::Op;
use pando_types::reply::Reply;
use pando_types::{DirId, Epoch, Lsn, Name, SessionId, ShardIndex, TxnId};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::known::births::Birth;
use crate::known::clock::Clock;
use crate::known::eager::Eager;
use crate::known::reach::{Reach, dirs_of};
use crate::known::requests::Requests;
use crate::queue::Queue;

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
    /// Told when a read grant is to be asked for.
    pub(crate) to_read: Notify,
    /// Told when the shard is to be told of read grants that are given back.
    pub(crate) to_give_reads_back: Notify,
    /// Told when coordinators are to be asked about grants.
    pub(crate) to_doubt: Notify,
    /// Told when the shard should make durable what it has.
    pub(crate) to_sync: Notify,
}

#[derive(Default)]
pub(crate) struct State {
    /// Parts that are here, and the session that has them. None while there are none.
    pub(crate) lent: Option<Lent>,
    pub(crate) requests: Requests,
    pub(crate) eager: Eager,
    pub(crate) queue: Queue,
    /// The part that is being borrowed. Requests about it wait.
    pub(crate) borrowing: Option<Borrowed>,
    /// Directories about which requests wait. A part was fenced, and the shard is yet to hear what
    /// is open in it.
    pub(crate) held_up: HashSet<DirId>,
    /// Directories about which requests wait: shards change something in the part of this grant, or
    /// the directory's entry there.
    pub(crate) under: BTreeSet<(DirId, TxnId)>,
    /// Where the last amendments are in the shard's log that it may lose.
    pub(crate) amended: BTreeMap<TxnId, (Epoch, Lsn)>,
    /// Fenced parts of which the shard is yet to hear what is open.
    pub(crate) reopening: BTreeMap<TxnId, DirId>,
    /// Grants that came with their directories.
    pub(crate) births: BTreeMap<TxnId, Birth>,
    /// How many batches of elements have left.
    pub(crate) batches: u64,
    /// When the shard last told of a grant that is not here.
    pub(crate) told_of_others: u64,
    /// Grants that are returned, and of which the shard has not said that they are over.
    pub(crate) returning: BTreeSet<TxnId>,
    /// The last elements of grants that the kernel may yet remember something by: they are not
    /// queued.
    falling: BTreeMap<TxnId, Element>,
    /// What the kernel may remember.
    pub(crate) grounds: Arc<Grounds>,
    /// Grants of which the shard is to be told that this holder knows that they are over.
    pub(crate) over: BTreeSet<TxnId>,
    /// The session to which all of these belong.
    pub(crate) session: SessionId,
    /// Whether nothing is to be borrowed any more.
    pub(crate) is_closed: bool,
    /// Number of the last request for a part.
    pub(crate) borrowed: u64,
    /// Number of the last request for a read grant.
    pub(crate) asked_to_read: u64,
    /// Whether somebody waits for elements to be applied.
    pub(crate) is_urgent: bool,
    /// Elements that were answered and could not be applied, with what became of their grant.
    pub(crate) set_aside: Vec<(Element, Standing)>,
    /// Numbers of inodes that count once the shard is durable up to a position.
    inos: BTreeMap<TxnId, (Vec<Inos>, (Epoch, Lsn))>,
    told: Told,
}

/// A part that is being borrowed, as far as is known where it lies.
pub(crate) struct Borrowed {
    pub(crate) dir: DirId,
    pub(crate) orders: Range<u64>,
    pub(crate) secrets: Secrets,
}

impl Borrowed {
    /// Whether an operation is about the part.
    fn concerns(&self, op: &Op) -> bool {
        let order = |name: &Name| self.secrets.order(name.as_bytes());
        Reach::of(op, order).iter().any(|it| it.is_in(self.dir, &self.orders))
    }
}

/// Parts that are here.
pub(crate) struct Lent {
    pub(crate) core: LentCore,
    /// Until when they may be used, by the clock that goes on while the machine sleeps.
    pub(crate) until: u64,
    pub(crate) uses: BTreeMap<TxnId, Use>,
}

/// How a part is used: when last, and until when it may be used whatever becomes of the hold. That
/// counts from when it was asked for, and prolongs no other part: the shard may want those back
/// without this holder knowing.
#[derive(Clone, Copy)]
pub(crate) struct Use {
    pub(crate) last: u64,
    pub(crate) until: u64,
    /// How many requests it has answered.
    pub(crate) answered: u32,
}

impl Lent {
    /// Whether what a request is about may be used at `now`. A hold goes on for none of the births
    /// that `is_doubtful`.
    pub(crate) fn is_held(&self, op: &Op, now: u64, is_doubtful: impl Fn(TxnId) -> bool) -> bool {
        let is_new = |grant: &TxnId| self.uses.get(grant).is_some_and(|its| now < its.until);
        let goes_on = |grant: &TxnId| now < self.until && !is_doubtful(*grant);
        self.core.grants_of(op).iter().all(|grant| goes_on(grant) || is_new(grant))
    }
}

/// What the shard's last replies told.
#[derive(Clone, Copy, Default)]
struct Told {
    epoch: Epoch,
    durable: Lsn,
    version: u64,
    clock: Clock,
}

impl Side {
    /// A shard of which nothing is known.
    pub(crate) fn new(grounds: &Arc<Grounds>) -> Self {
        let state = State { grounds: Arc::clone(grounds), ..State::default() };
        Self { state: Mutex::new(state), ..Self::default() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// Notes what a reply tells besides its result. The shard was asked and has answered at these
    /// moments. Returns whether it was started anew.
    pub(crate) fn heard(&mut self, reply: &Reply, moments: (u64, u64)) -> bool {
        if reply.epoch < self.told.epoch {
            return false;
        }
        let is_new = reply.epoch > self.told.epoch;
        if is_new {
            self.lose_amendments(moments.1);
            self.queue.started_anew(moments.1);
            self.doubt_births();
            self.inos.clear();
            self.told.durable = Lsn(0);
        }
        let told = &mut self.told;
        told.epoch = reply.epoch;
        told.durable = told.durable.max(reply.durable);
        told.version = told.version.max(reply.version);
        told.clock.heard(reply.clock, moments);
        self.queue.durable(told.epoch, told.durable);
        self.use_durable_inos();
        is_new
    }

    /// The shard was started anew, and may have lost amendments: those parts are given back.
    fn lose_amendments(&mut self, now: u64) {
        let (epoch, durable) = (self.told.epoch, self.told.durable);
        let is_lost = |at: &(Epoch, Lsn)| at.0 != epoch || at.1 > durable;
        let amended = std::mem::take(&mut self.amended);
        let lost: Vec<_> = amended.iter().filter(|(_, at)| is_lost(at)).map(|it| *it.0).collect();
        self.give_back(&lost, now);
    }

    /// Whether an operation waits: a part is on its way here that it is about, or a shard changes
    /// something there, or is yet to hear what is open.
    pub(crate) fn holds_up(&self, op: &Op) -> bool {
        let is_any = !self.held_up.is_empty() || !self.under.is_empty();
        let is_held = |dir: &DirId| self.held_up.contains(dir) || self.is_any_under(*dir);
        is_any && dirs_of(op).iter().any(is_held)
            || self.borrowing.as_ref().is_some_and(|it| it.concerns(op))
    }

    /// The start of the shard that has answered last.
    pub(crate) const fn epoch(&self) -> Epoch {
        self.told.epoch
    }

    /// Notes another shard's time of day.
    pub(crate) const fn heard_beside(&mut self, time: u64, now: u64) {
        self.told.clock.heard_beside(time, now);
    }

    /// The moment for a run of the lent core.
    pub(crate) fn moment(&self, now: u64) -> Now {
        Now { wall: self.told.clock.at(now), ..Now::at(now, self.told.epoch, Lsn(0), Lsn(0)) }
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
            clock: self.told.clock.at(now),
            result,
            news: None,
            amendment: None,
        })
    }

    /// Whether there is something to ask the shard for news about.
    pub(crate) fn attends(&self) -> bool {
        self.lent.is_some()
            || !self.returning.is_empty()
            || !self.over.is_empty() && !self.queue.is_broken()
            || !self.queue.is_empty()
    }

    /// Gives parts back: drops them, and queues their returns. A grant that is not here was never
    /// used.
    pub(crate) fn give_back(&mut self, grants: &[TxnId], now: u64) {
        for grant in grants {
            if self.returning.contains(grant) || self.over.contains(grant) {
                continue;
            }
            let last = self.take_out(*grant);
            let never = Element { grant: *grant, number: 1, act: Act::Return(None) };
            self.returning.insert(*grant);
            self.push_last(last.unwrap_or(never), now);
        }
        self.drop_empty_core();
    }

    /// Queues the last element of a grant, once the kernel remembers nothing by it.
    fn push_last(&mut self, last: Element, now: u64) {
        if self.grounds.is_falling(last.grant) {
            self.falling.insert(last.grant, last);
            return;
        }
        self.queue.push(last, now);
        self.is_urgent = true;
    }

    /// Queues the last elements of grants by which the kernel remembers nothing any more. Returns
    /// whether there were any.
    pub(crate) fn push_fallen(&mut self, now: u64) -> bool {
        let falling = std::mem::take(&mut self.falling);
        let before = falling.len();
        falling.into_values().for_each(|last| self.push_last(last, now));
        self.falling.len() < before
    }

    /// Elements that are not known to be durable, with those that wait for the kernel.
    pub(crate) fn not_durable(&self) -> Vec<Element> {
        self.queue.all().chain(self.falling.values()).cloned().collect()
    }

    /// Whether last elements wait for the kernel.
    pub(crate) fn is_falling(&self) -> bool {
        !self.falling.is_empty()
    }

    fn any_falls(&self, grants: &[TxnId]) -> bool {
        grants.iter().any(|grant| self.falling.contains_key(grant))
    }

    /// How many elements were answered so far, with those that wait for the kernel.
    pub(crate) fn answered_of(&self, grants: Option<&[TxnId]>) -> u64 {
        let falls = grants.is_some_and(|grants| self.any_falls(grants));
        if falls { u64::MAX } else { self.queue.places() }
    }

    /// Whether of these grants all elements are applied among the first so many.
    pub(crate) fn is_sent_of(&self, grants: &[TxnId], places: u64) -> bool {
        !self.any_falls(grants) && self.queue.is_sent_of(grants, places)
    }

    /// Whether all elements of a grant are applied.
    pub(crate) fn is_all_sent(&self, grant: TxnId) -> bool {
        !self.falling.contains_key(&grant) && self.queue.is_all_sent(grant)
    }

    /// Lets a part that was asked for be a ground for the kernel.
    pub(crate) fn stand(&self, side: ShardIndex, grant: TxnId) {
        let Some(lent) = &self.lent else { return };
        if let (Some(dir), Some(its)) = (lent.core.dir_ref_of(grant), lent.uses.get(&grant)) {
            let goes_on = !self.is_doubtful(grant);
            self.grounds.stand(((side, Kind::Loan), grant), dir.ino, its.until, goes_on);
        }
    }

    /// Drops a part. Returns the element that gives it back, if the part was here.
    pub(crate) fn take_out(&mut self, grant: TxnId) -> Option<Element> {
        self.grounds.fall(grant);
        if let Some(part) = self.lent.as_ref().and_then(|lent| lent.core.counted(grant)) {
            self.eager.returned(part);
        }
        self.under.retain(|(_, of)| *of != grant);
        self.amended.remove(&grant);
        let lent = self.lent.as_mut()?;
        lent.uses.remove(&grant);
        lent.core.end(grant)
    }

    /// Borrows no more, and gives all parts back. False: a part is being borrowed, so not yet.
    pub(crate) fn close(&mut self, now: u64) -> bool {
        self.is_closed = true;
        if self.borrowing.is_some() || !self.held_up.is_empty() {
            return false;
        }
        let parts = self.lent.iter().flat_map(|lent| lent.core.parts());
        let grants: Vec<_> = parts.map(|(grant, _)| grant).collect();
        self.give_back(&grants, now);
        true
    }

    pub(crate) fn drop_empty_core(&mut self) {
        if self.lent.as_ref().is_some_and(|lent| lent.core.parts().next().is_none()) {
            self.lent = None;
        }
    }

    /// The shard takes no more elements of a grant: what is left of it is set aside. If the shard
    /// still knows the grant, it hears what is open in the part. Requests about a part that was
    /// fenced wait for that: they may close files.
    pub(crate) fn lose(&mut self, grant: TxnId, told: &GrantState, now: u64) {
        self.falling.remove(&grant);
        let lost = self.queue.drop_grant(grant);
        self.set_aside(lost, told.applied, told.standing);
        let dir = self.lent.as_ref().and_then(|lent| lent.core.dir_of(grant));
        let last = self.take_out(grant);
        self.drop_empty_core();
        let is_fenced = told.standing == Standing::Fenced;
        // Of a part that never answered, the shard knows what is open.
        let knows_opens = last.as_ref().is_some_and(|it| it.act != Act::Return(None));
        let is_to_tell = match told.standing {
            Standing::Refused => true,
            Standing::Fenced => knows_opens,
            _ => false,
        };
        if !is_to_tell || self.over.contains(&grant) {
            return;
        }
        let act = last.map_or(Act::Return(None), |last| last.act);
        self.returning.insert(grant);
        self.push_last(Element { grant, number: told.applied + 1, act }, now);
        if let Some(dir) = dir.filter(|_| is_fenced) {
            self.held_up.insert(dir);
            self.reopening.insert(grant, dir);
        }
    }

    /// The shard has a part back, and takes no element of it beyond those applied.
    pub(crate) fn is_returned(&mut self, grant: TxnId, applied: u64) {
        let left = self.queue.drop_unsent(grant);
        self.set_aside(left, applied, Standing::Returned);
        self.is_over(grant);
    }

    pub(crate) fn set_aside(&mut self, lost: Vec<Element>, applied: u64, why: Standing) {
        let is_lost = |it: &Element| matches!(it.act, Act::Change(_)) && it.number > applied;
        let changes = lost.into_iter().filter(is_lost).filter(|_| !is_planted!(ForgetsLost));
        self.set_aside.extend(changes.map(|it| (it, why)));
    }

    /// Takes in that a grant is over.
    pub(crate) fn is_over(&mut self, grant: TxnId) {
        self.returning.remove(&grant);
        self.falling.remove(&grant);
        self.queue.keep_back(grant, false);
        if let Some(dir) = self.reopening.remove(&grant)
            && !self.reopening.values().any(|other| *other == dir)
        {
            self.held_up.remove(&dir);
        }
        self.inos.remove(&grant);
        self.over.insert(grant);
    }

    /// Whose parts are here from now on, unless there are any of another session.
    pub(crate) fn take_session(&mut self, session: SessionId) {
        if self.lent.is_none() && self.returning.is_empty() {
            self.session = session;
        }
    }

    /// Whether a grant was heard of before.
    pub(crate) fn knows(&self, grant: TxnId) -> bool {
        self.returning.contains(&grant)
            || self.over.contains(&grant)
            || self.lent.as_ref().is_some_and(|lent| lent.uses.contains_key(&grant))
    }

    /// Takes what was set aside.
    pub(crate) fn take_set_aside(&mut self) -> Vec<(Element, Standing)> {
        std::mem::take(&mut self.set_aside)
    }

    /// Lets the parts be used for a whole hold from `asked` on.
    pub(crate) fn prolong(&mut self, shard: ShardIndex, asked: u64) {
        if let Some(lent) = &mut self.lent {
            lent.until = lent.until.max(asked.saturating_add(HOLD));
            self.grounds.prolong((shard, Kind::Loan), lent.until);
        }
    }

    /// Takes in numbers of inodes for a grant, which the shard has given out at a log position.
    pub(crate) fn take_inos(&mut self, grant: TxnId, inos: &[Inos], at: (Epoch, Lsn)) {
        let Some(end) = inos.last().map(|range| range.end) else { return };
        let is_known = self.lent.as_ref().is_none_or(|lent| lent.core.has_inos(grant, end));
        // Told again they count from when they were told first.
        let is_told = self.inos.get(&grant).is_some_and(|(told, since)| {
            since.0 == at.0 && told.last().is_some_and(|range| range.end == end)
        });
        if !is_known && !is_told {
            self.inos.insert(grant, (inos.to_vec(), at));
            self.use_durable_inos();
        }
    }

    /// Whether the shard should soon make durable what it has: the journal needs room, or there are
    /// numbers of inodes that count only then.
    pub(crate) fn wants_durable(&self) -> bool {
        self.queue.wants_room() || !self.inos.is_empty()
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
