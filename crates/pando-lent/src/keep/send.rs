//! Elements on their way to one shard: one batch at a time.

use pando_client::Transport;
use pando_types::lend::{Element, GrantState, Standing};
use pando_types::op::{ELEMENTS_MAX, Op};
use pando_types::reply::{Body, Reply};
use pando_types::{ShardIndex, TxnId};

use crate::borrowing::{Borrowing, either};
use crate::settings::{AGAIN, BATCH, LINGER};
use crate::side::State;

impl<T: Transport> Borrowing<T> {
    /// Sends what is queued for a shard, until the transport is stopped.
    pub(crate) async fn send(&self, shard: ShardIndex) {
        let side = self.side(shard);
        let mut pause = LINGER;
        loop {
            let (count, is_urgent) = {
                let state = side.lock();
                (state.queue.to_send(), state.is_urgent)
            };
            if count == 0 {
                side.to_send.notified().await;
                continue;
            }
            if count < BATCH && !is_urgent {
                either(self.inner.sleep(LINGER), self.is_full(shard)).await;
            }
            let (elements, batch) = side.lock().next_batch();
            let stream = Op::Stream { shard, elements, synced: false };
            let Some(reply) = self.ask(shard, stream).await else { return };
            match &reply.result {
                Ok(Body::Streamed(states)) => {
                    let went_on = side.lock().take_states(
                        states,
                        (&reply, batch),
                        self.inner.machine_nanos(),
                    );
                    if went_on {
                        pause = LINGER;
                    } else {
                        // What it waits for takes a while.
                        self.inner.sleep(pause).await;
                        pause = (2 * pause).min(AGAIN);
                    }
                }
                // The disk is full, or the request was refused in another way: later.
                _ => self.inner.sleep(AGAIN).await,
            }
            self.tell_set_aside(shard);
            if side.lock().wants_durable() {
                side.to_sync.notify_one();
            }
            if side.lock().has_doubts() {
                side.to_doubt.notify_one();
            }
            side.changed.notify_waiters();
            side.to_attend.notify_one();
        }
    }

    /// Has the shard make durable what it has, when the journal needs room, until the transport is
    /// stopped.
    pub(crate) async fn sync(&self, shard: ShardIndex) {
        loop {
            self.side(shard).to_sync.notified().await;
            if self.ask(shard, Op::Sync(shard)).await.is_none() {
                return;
            }
            self.side(shard).changed.notify_waiters();
        }
    }

    /// Ready when a batch is full, or somebody waits for it.
    async fn is_full(&self, shard: ShardIndex) {
        let side = self.side(shard);
        loop {
            {
                let state = side.lock();
                if state.queue.unsent() >= BATCH || state.is_urgent {
                    return;
                }
            }
            side.to_send.notified().await;
        }
    }
}

impl State {
    /// The elements that leave now, and the number of their batch.
    fn next_batch(&mut self) -> (Vec<Element>, u64) {
        self.batches += 1;
        (self.queue.batch(ELEMENTS_MAX), self.batches)
    }

    /// Takes in how far grants have come. Returns whether one has come further.
    fn take_states(
        &mut self,
        states: &[(TxnId, GrantState)],
        answer: (&Reply, u64),
        now: u64,
    ) -> bool {
        let before = self.queue.unsent();
        for (grant, told) in states {
            self.streamed(*grant, told, answer, now);
        }
        if !self.queue.has_more() {
            self.is_urgent = false;
        }
        self.queue.unsent() != before
    }

    /// Takes in how far a grant has come.
    fn streamed(
        &mut self,
        grant: TxnId,
        told: &GrantState,
        (reply, batch): (&Reply, u64),
        now: u64,
    ) {
        // A later start of the shard may not have what it tells of.
        if reply.epoch < self.epoch() {
            return;
        }
        self.queue.applied(grant, told.applied, (reply.epoch, reply.seen));
        if self.is_awaited((reply.shard, batch), grant, told.standing) {
            return;
        }
        match told.standing {
            Standing::Awaited => {}
            Standing::Stands => self.take_inos(grant, &told.inos, (reply.epoch, reply.seen)),
            Standing::Returned => self.is_returned(grant, told.applied),
            Standing::Refused => self.lose(grant, told, now),
            Standing::Fenced if self.reopening.contains_key(&grant) => {}
            Standing::Fenced | Standing::Unknown => {
                self.lose(grant, told, now);
                if !self.reopening.contains_key(&grant) {
                    self.is_over(grant);
                }
            }
        }
    }
}
