//! Grants that are given back when the kernel has forgotten what it was told by them.

use pando_client::Transport;

use crate::borrowing::{Borrowing, either};

impl<T: Transport> Borrowing<T> {
    /// Gives back what has fallen, until the transport is stopped.
    pub(crate) async fn keep_fallen(&self) {
        loop {
            let count = self.grounds.count();
            let now = self.inner.machine_nanos();
            self.give_fallen_reads_back();
            for side in self.begun() {
                if side.lock().push_fallen(now) {
                    side.to_send.notify_one();
                    side.changed.notify_waiters();
                }
            }
            let changed = self.grounds.changed(count);
            match self.grounds.next_end() {
                None => changed.await,
                Some(left) => either(self.inner.sleep(left), changed).await,
            }
        }
    }

    /// Gives back read grants that have fallen, and in whose directories shards were told what is
    /// open.
    pub(crate) fn give_fallen_reads_back(&self) {
        for shard in self.memory.take_fallen() {
            self.side(shard).to_give_reads_back.notify_one();
            self.side(shard).changed.notify_waiters();
        }
    }
}
