//! Requests that change a name in a part by a transaction of its shard, while the part stays here
//! (docs/design/under-a-loan.md).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use pando_client::{Called, Transport};
use pando_types::lend::UnderLoan;
use pando_types::op::Request;
use pando_types::reply::{Refusal, Reply};
use pando_types::{ShardIndex, TxnId};

use crate::borrowing::Borrowing;
use crate::settings::MILLIS;
use crate::side::State;

/// How long requests about the directory wait for the answer, nanoseconds. Then the part is given
/// back.
const ANSWER_WITHIN: u64 = 250 * MILLIS;

/// A request is under way, and its directory is held up. If it is given up, the part is given back:
/// the shard may run it.
struct Pending<'a, T: Transport> {
    borrowing: &'a Borrowing<T>,
    shard: ShardIndex,
    grant: TxnId,
}

impl<T: Transport> Pending<'_, T> {
    /// Gives the part back, unless the answer is here. Requests about the directory go on.
    fn give_back(&self) {
        let side = self.borrowing.side(self.shard);
        let now = self.borrowing.inner.machine_nanos();
        let mut state = side.lock();
        if state.is_under(self.grant) {
            state.give_back(&[self.grant], now);
        }
        drop(state);
        side.changed.notify_waiters();
        side.to_send.notify_one();
    }
}

impl<T: Transport> Drop for Pending<'_, T> {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl<T: Transport> Borrowing<T> {
    /// Lets a request travel under a loan. The directory is held up already.
    pub(crate) async fn travel_under(
        &self,
        shard: ShardIndex,
        request: Box<Request>,
        under: UnderLoan,
    ) -> Called {
        let pending = Pending { borrowing: self, shard, grant: under.grant };
        let mut goes = pin!(self.go_under(shard, request, under));
        let mut waited = pin!(self.inner.sleep(ANSWER_WITHIN));
        let mut has_waited = false;
        let mut called = poll_fn(|context| {
            if let Poll::Ready(called) = goes.as_mut().poll(context) {
                return Poll::Ready(called);
            }
            if !has_waited && waited.as_mut().poll(context).is_ready() {
                has_waited = true;
                pending.give_back();
            }
            Poll::Pending
        })
        .await;
        if let Ok(reply) = &mut called {
            self.side(shard).lock().take_amendment(under.grant, reply);
        }
        drop(pending);
        called
    }

    /// Sends a request once its shard has all that was answered before in that part.
    async fn go_under(
        &self,
        shard: ShardIndex,
        mut request: Box<Request>,
        under: UnderLoan,
    ) -> Called {
        let beside = self.beside(shard, &request);
        for (at, grant) in &beside {
            self.side(*at).lock().give_back(&[*grant], self.inner.machine_nanos());
            self.side(*at).to_send.notify_one();
        }
        for (at, grant) in beside {
            self.flush_of(at, Some(&[grant])).await;
        }
        self.flush_of(shard, Some(&[under.grant])).await;
        // A part that was given back meanwhile is the shard's as any other.
        let is_here = self.side(shard).lock().is_under(under.grant);
        request.head.under = is_here.then_some(under);
        self.travel(shard, request).await
    }
}

impl State {
    /// Whether the shard is changing a name in the part of this grant, which is here.
    fn is_under(&self, grant: TxnId) -> bool {
        self.under.values().any(|of| *of == grant)
    }

    /// Takes in what the shard has changed in a part. Then the part goes on being used. If the
    /// reply does not tell, the part is as before, and is given back.
    fn take_amendment(&mut self, grant: TxnId, reply: &mut Reply) {
        let amendment = reply.amendment.take().filter(|it| it.grant == grant);
        // The shard may have lost what an earlier start of it tells.
        let is_new = reply.epoch == self.epoch();
        let knows = match (&reply.result, amendment, &mut self.lent) {
            (Ok(_), Some(amendment), Some(lent))
                if is_new && self.under.values().any(|of| *of == grant) =>
            {
                self.amended.insert(grant, (reply.epoch, reply.seen));
                lent.core.amend(*amendment).is_ok()
            }
            (Err(Refusal::Errno(_)), None, Some(_)) => true,
            _ => false,
        };
        if knows {
            self.under.retain(|_, of| *of != grant);
        }
    }
}
