//! News of grants, from one shard.

use pando_client::Transport;
use pando_types::lend::{GrantNews, Standing};
use pando_types::op::Op;
use pando_types::reply::{Body, Refusal};
use pando_types::{SessionId, ShardIndex, TxnId};

use crate::borrowing::Borrowing;
use crate::settings::{AGAIN, IDLE};
use crate::side::{State, Use};

impl<T: Transport> Borrowing<T> {
    /// Asks a shard for news while something of it is held, until the transport is stopped.
    pub(crate) async fn attend(&self, shard: ShardIndex) {
        let side = self.side(shard);
        loop {
            let Some((session, recalled, over)) = self.to_ask(shard) else {
                side.to_attend.notified().await;
                continue;
            };
            let asked = self.inner.machine_nanos();
            let attend = Op::Attend { shard, session, recalled, over: over.clone() };
            let Some(reply) = self.ask(shard, attend).await else { return };
            match &reply.result {
                Ok(Body::Attended(news)) => {
                    self.attended(shard, news, &over, asked);
                    // Whoever waits for what is lost hears of it.
                    self.tell_set_aside(shard);
                    side.changed.notify_waiters();
                    side.to_send.notify_one();
                    if !news.prolongs {
                        // Such an answer does not wait.
                        self.inner.sleep(AGAIN).await;
                    }
                }
                Err(Refusal::NoSession) => {
                    side.lock().end_session(self.inner.machine_nanos());
                    self.inner.sleep(AGAIN).await;
                }
                _ => self.inner.sleep(AGAIN).await,
            }
            side.changed.notify_waiters();
            side.to_send.notify_one();
        }
    }
}

impl<T: Transport> Borrowing<T> {
    /// Takes in the answer to a question that was asked at `asked`, and told these to be over.
    fn attended(&self, shard: ShardIndex, news: &GrantNews, told: &[TxnId], asked: u64) {
        let mut state = self.side(shard).lock();
        for grant in told {
            state.over.remove(grant);
        }
        state.take_news(news, asked, self.inner.machine_nanos());
    }

    /// The session, and what it knows of recalls and of grants that are over. `None`: nothing of
    /// the shard is held.
    fn to_ask(&self, shard: ShardIndex) -> Option<(SessionId, Vec<TxnId>, Vec<TxnId>)> {
        let now = self.inner.machine_nanos();
        let mut state = self.side(shard).lock();
        state.return_idle(now);
        if state.queue.unsent() > 0 {
            self.side(shard).to_send.notify_one();
        }
        let recalled = state.returning.iter().copied().collect();
        let over = state.over.iter().copied().collect();
        state.attends().then_some((state.session, recalled, over))
    }
}

impl State {
    fn take_news(&mut self, news: &GrantNews, asked: u64, now: u64) {
        self.give_back(&news.recalled, now);
        for (grant, told) in &news.over {
            // It is not over before the shard has heard what is open.
            match told.standing {
                Standing::Fenced if self.reopening.contains_key(grant) => {}
                Standing::Fenced => {
                    self.lose(*grant, told, now);
                    if !self.reopening.contains_key(grant) {
                        self.is_over(*grant);
                    }
                }
                _ => self.is_returned(*grant, told.applied),
            }
        }
        if news.prolongs {
            self.prolong(asked);
        }
    }

    /// Gives back what has not been used for a while.
    fn return_idle(&mut self, now: u64) {
        let Some(lent) = &self.lent else { return };
        let is_idle = |its: &Use| its.last.saturating_add(IDLE) <= now;
        let idle: Vec<_> =
            lent.uses.iter().filter(|(_, its)| is_idle(its)).map(|(grant, _)| *grant).collect();
        self.give_back(&idle, now);
    }

    /// The session is over at the shard: what it has is given back.
    fn end_session(&mut self, now: u64) {
        let Some(lent) = &self.lent else { return };
        let all: Vec<_> = lent.core.parts().map(|(grant, _)| grant).collect();
        self.give_back(&all, now);
    }
}
