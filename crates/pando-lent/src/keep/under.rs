//! Requests that change a part by a transaction of its shard, while the part stays here
//! (docs/design/under-a-loan.md).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use futures_util::future::join;
use pando_client::{Called, Transport};
use pando_types::lend::UnderLoan;
use pando_types::op::{Op, Request};
use pando_types::reply::{Access, Body, Refusal, Reply};
use pando_types::{DirId, DirRef, Name, ShardIndex, TxnId};

use crate::borrowing::{Borrowing, either};
use crate::counts::add;
use crate::keep::beside::is_in_entry;
use crate::settings::MILLIS;
use crate::side::{Lent, State};

/// How long requests about the directory wait for the answer, nanoseconds. Then the part is given
/// back.
const ANSWER_WITHIN: u64 = 250 * MILLIS;

/// A request is under way that changes an entry of a part here. If it is given up, the part is
/// given back: the shard may run it.
struct Pending<'a, T: Transport> {
    borrowing: &'a Borrowing<T>,
    /// The shard that has lent the part.
    shard: ShardIndex,
    /// The directory about which requests wait.
    dir: DirId,
    grant: TxnId,
    /// The answer is here.
    is_over: bool,
}

impl<T: Transport> Pending<'_, T> {
    /// Gives the part back, unless the answer is here. Requests about the directory go on.
    fn give_back(&self) {
        let side = self.borrowing.side(self.shard);
        let now = self.borrowing.inner.machine_nanos();
        let mut state = side.lock();
        if !self.is_over && state.is_under(self.dir, self.grant) {
            state.give_back(&[self.grant], now);
        }
        drop(state);
        side.changed.notify_waiters();
        side.to_send.notify_one();
    }

    /// Waits for the answer. Gives the part back if that takes long.
    async fn answer(&self, goes: impl Future<Output = Called>) -> Called {
        let mut goes = pin!(goes);
        let mut waited = pin!(self.borrowing.inner.sleep(ANSWER_WITHIN));
        let mut has_waited = false;
        poll_fn(|context| {
            if let Poll::Ready(called) = goes.as_mut().poll(context) {
                return Poll::Ready(called);
            }
            if !has_waited && waited.as_mut().poll(context).is_ready() {
                has_waited = true;
                self.give_back();
            }
            Poll::Pending
        })
        .await
    }
}

impl<T: Transport> Drop for Pending<'_, T> {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// The entry of a directory, in a part that is here. The part is given back if this is dropped.
pub(crate) struct EntryHere<'a, T: Transport> {
    pending: Pending<'a, T>,
    dir: DirRef,
    name: Name,
}

/// What the answer to a request told of the part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Taken {
    /// Nothing has changed there.
    Nothing,
    /// What has changed is taken in.
    Change,
}

impl<T: Transport> Borrowing<T> {
    /// A request begins to travel for which `dir` is held up at the shard that has lent the part.
    fn pending(&self, shard: ShardIndex, dir: DirId, grant: TxnId) -> Pending<'_, T> {
        Pending { borrowing: self, shard, dir, grant, is_over: false }
    }

    /// Lets a request travel under a loan. The directory `dir`, whose part it changes, is held up
    /// already. The part is given back also if what this returns is never polled.
    pub(crate) fn travel_under(
        &self,
        shard: ShardIndex,
        request: Box<Request>,
        (dir, under): (DirId, UnderLoan),
    ) -> impl Future<Output = Called> + Send + '_ {
        let mut pending = self.pending(shard, dir, under.grant);
        let entry = self.entry_of(&request);
        async move {
            let goes = self.go_under(shard, request, (dir, under), entry);
            let mut called = pending.answer(goes).await;
            if let Ok(reply) = &mut called {
                let taken = self.side(shard).lock().take_amendment(dir, under.grant, reply);
                pending.is_over = taken.is_some();
                add(&self.sums.amended, usize::from(taken == Some(Taken::Change)));
            }
            drop(pending);
            called
        }
    }

    /// The entry whose owner and mode a request changes that travels for the first time, if its
    /// part may stay here meanwhile. Requests about the directory at the shard of that part are
    /// held up then.
    pub(crate) fn entry_here(
        &self,
        home: ShardIndex,
        request: &Request,
    ) -> Option<EntryHere<'_, T>> {
        let Op::DirSetAttr(..) = request.op else { return None };
        // A repetition may be answered by what was so before.
        let was_sent = self.side(home).lock().requests.was_sent(request.head.id);
        (!was_sent).then(|| self.entry_of(request)).flatten()
    }

    fn entry_of(&self, request: &Request) -> Option<EntryHere<'_, T>> {
        let (Op::DirSetAttr(dir, set), id) = (&request.op, request.head.id) else { return None };
        if !is_in_entry(set) || id.sequence == 0 || request.trail.is_some() {
            return None;
        }
        let (parent, name) = self.places.place(dir.id)?;
        let (shard, grant) = self.part_of(parent, &name)?;
        let mut state = self.side(shard).lock();
        let moment = state.moment(self.inner.machine_nanos());
        let is_free = !state.is_closed && !state.is_under(dir.id, grant);
        let has_it = |lent: &Lent| lent.core.has_entry(moment, grant, &name, *dir);
        (is_free && state.lent.as_ref().is_some_and(has_it)).then(|| {
            state.under.insert((dir.id, grant));
            EntryHere { pending: self.pending(shard, dir.id, grant), dir: *dir, name }
        })
    }

    /// Lets a request travel that changes owner or mode in an entry that is here.
    pub(crate) fn travel_beside<'a>(
        &'a self,
        shard: ShardIndex,
        mut request: Box<Request>,
        entry: EntryHere<'a, T>,
    ) -> impl Future<Output = Called> + Send + 'a {
        let EntryHere { mut pending, dir, name } = entry;
        let (at, grant) = (pending.shard, pending.grant);
        request.head.entry = Some(grant);
        async move {
            let called = pending.answer(self.travel(shard, request)).await;
            if let Ok(reply) = &called {
                let now = self.inner.machine_nanos();
                let mut state = self.side(at).lock();
                let taken = state.take_access((dir, &name), grant, reply, (at == shard, now));
                drop(state);
                pending.is_over = taken.is_some();
                add(&self.sums.amended, usize::from(taken == Some(Taken::Change)));
            }
            drop(pending);
            called
        }
    }

    /// Sends a request once its shard has all that was answered before in that part, or the part
    /// is given back.
    async fn go_under(
        &self,
        shard: ShardIndex,
        mut request: Box<Request>,
        (dir, under): (DirId, UnderLoan),
        entry: Option<EntryHere<'_, T>>,
    ) -> Called {
        let beside = match entry {
            Some(_) => Vec::new(),
            None => self.beside(shard, &request),
        };
        let grants = [under.grant];
        let flush = self.flush_of(shard, Some(&grants));
        let flushed = async {
            match request.op {
                // The step that seals the directory waits for its part, which is on its way.
                Op::Rmdir(..) => {
                    self.give_back_to(&beside);
                    flush.await;
                }
                _ => {
                    join(self.hand_back(beside), flush).await;
                }
            }
        };
        // A shard that is away, or has no room, applies nothing. The request itself is answered.
        either(flushed, self.is_given_back(shard, dir, under.grant)).await;
        // A part that was given back meanwhile is the shard's as any other.
        let is_here = self.side(shard).lock().is_under(dir, under.grant);
        request.head.under = is_here.then_some(under);
        match entry {
            Some(entry) => self.travel_beside(shard, request, entry).await,
            None => self.travel(shard, request).await,
        }
    }

    /// Ready when the part of a request under way is given back.
    async fn is_given_back(&self, shard: ShardIndex, dir: DirId, grant: TxnId) {
        let side = self.side(shard);
        loop {
            let mut changed = pin!(side.changed.notified());
            changed.as_mut().enable();
            if !side.lock().is_under(dir, grant) {
                return;
            }
            changed.await;
        }
    }
}

impl State {
    /// Whether a shard is changing something in the part of this grant, which is here, by a request
    /// for which `dir` is held up.
    fn is_under(&self, dir: DirId, grant: TxnId) -> bool {
        self.under.contains(&(dir, grant))
    }

    /// Whether requests about a directory wait for an answer.
    pub(crate) fn is_any_under(&self, dir: DirId) -> bool {
        self.under.iter().any(|(held_up, _)| *held_up == dir)
    }

    /// Takes in what the shard has changed in a part. Then the part goes on being used. `None`: the
    /// reply does not tell. The part is as before, and is to be given back.
    fn take_amendment(&mut self, dir: DirId, grant: TxnId, reply: &mut Reply) -> Option<Taken> {
        let amendment = reply.amendment.take().filter(|it| it.grant == grant);
        // The shard may have lost what an earlier start of it tells.
        let is_new = reply.epoch == self.epoch();
        if !self.is_under(dir, grant) {
            return None;
        }
        let taken = match (&reply.result, amendment, &mut self.lent) {
            (Ok(_), Some(amendment), Some(lent)) if is_new => {
                self.amended.insert(grant, (reply.epoch, reply.seen));
                lent.core.amend(*amendment).is_ok().then_some(Taken::Change)
            }
            (Err(Refusal::Errno(_)), None, Some(_)) => Some(Taken::Nothing),
            _ => None,
        }?;
        self.under.remove(&(dir, grant));
        Some(taken)
    }

    /// Takes in the owner and mode of a directory whose entry is in a part. Then the part goes on
    /// being used. `is_its`: the part is of the shard that has answered, so both may be lost at
    /// once. `None`: the reply does not tell, and the part is to be given back.
    fn take_access(
        &mut self,
        (dir, name): (DirRef, &Name),
        grant: TxnId,
        reply: &Reply,
        (is_its, now): (bool, u64),
    ) -> Option<Taken> {
        if !self.is_under(dir.id, grant) {
            return None;
        }
        let moment = self.moment(now);
        let is_new = !is_its || reply.epoch == self.epoch();
        // A repetition may be answered by what was so before.
        let has_run = reply.amendment.is_some();
        let taken = match (&reply.result, &mut self.lent) {
            (Ok(Body::Dir(attr)), Some(lent)) if is_new && has_run => {
                if is_its {
                    self.amended.insert(grant, (reply.epoch, reply.seen));
                }
                let base = &attr.base;
                let access = Access { dir, mode: base.mode, uid: base.uid, gid: base.gid };
                let is_set = lent.core.set_access(moment, grant, name, access);
                matches!(is_set, Ok(true)).then_some(Taken::Change)
            }
            (Err(Refusal::Errno(_)), Some(_)) => Some(Taken::Nothing),
            _ => None,
        }?;
        self.under.remove(&(dir.id, grant));
        Some(taken)
    }
}
