//! Waits until shards have what was answered.

use std::pin::pin;
use std::sync::atomic::Ordering;

use pando_client::Transport;
use pando_types::{ShardIndex, TxnId};

use crate::borrowing::Borrowing;

impl<T: Transport> Borrowing<T> {
    /// Gives all parts and read grants back, waits until their shards have them, and borrows no
    /// more.
    pub(crate) async fn give_all_back(&self) {
        self.is_barren.store(true, Ordering::Relaxed);
        for shard in self.shards() {
            let side = self.side(shard);
            loop {
                let mut changed = pin!(side.changed.notified());
                changed.as_mut().enable();
                let now = self.inner.machine_nanos();
                let is_closed = {
                    let mut state = side.lock();
                    state.close(now) && {
                        state.push_fallen(now);
                        !state.is_falling()
                    }
                };
                if is_closed {
                    break;
                }
                changed.await;
            }
            self.flush(shard).await;
            self.memory.close();
            self.give_fallen_reads_back();
            self.tell_given_back(shard).await;
        }
    }

    /// Waits until shards have applied all that was answered.
    pub(crate) async fn flush_all(&self) {
        for shard in self.shards() {
            self.flush(shard).await;
        }
    }

    /// Waits until a shard has applied all that was answered by now.
    pub(crate) async fn flush(&self, shard: ShardIndex) {
        self.flush_of(shard, None).await;
    }

    /// Waits until a shard has applied what was answered by now: of these grants, or all.
    pub(crate) async fn flush_of(&self, shard: ShardIndex, grants: Option<&[TxnId]>) {
        let side = self.side(shard);
        let answered = side.lock().answered_of(grants);
        loop {
            let mut changed = pin!(side.changed.notified());
            changed.as_mut().enable();
            {
                let mut state = side.lock();
                let is_sent = match grants {
                    Some(grants) => state.is_sent_of(grants, answered),
                    None => state.queue.is_sent(answered),
                };
                if is_sent {
                    return;
                }
                state.is_urgent = true;
            }
            side.to_send.notify_one();
            changed.await;
        }
    }
}
