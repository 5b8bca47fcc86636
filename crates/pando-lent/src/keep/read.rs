//! New read grants, of one shard.

use std::pin::pin;

use pando_client::Transport;
use pando_types::lend::{Part, request_number};
use pando_types::op::{KNOWN_MAX, Op};
use pando_types::reply::Body;
use pando_types::{DirId, PartitionIndex, ShardIndex};

use crate::borrowing::Borrowing;

impl<T: Transport> Borrowing<T> {
    /// Asks for read grants of directories that are worth it, until the transport is stopped.
    pub(crate) async fn read(&self, shard: ShardIndex) {
        let side = self.side(shard);
        loop {
            let Some((session, dir)) = self.memory.take_wanted(shard) else {
                side.to_read.notified().await;
                continue;
            };
            let number = {
                let mut state = side.lock();
                state.take_session(session);
                state.asked_to_read += 1;
                let is_free = state.session == session && !state.is_closed;
                is_free.then(|| request_number(state.epoch(), state.asked_to_read))
            };
            let Some(number) = number else {
                self.memory.read_refused(shard);
                continue;
            };
            let part = Part { dir, partition: PartitionIndex(0) };
            let asked = self.inner.machine_nanos();
            let Some(reply) = self.ask(shard, Op::BorrowToRead(session, number, part)).await else {
                return;
            };
            match reply.result {
                // Another start of the shard knows nothing of it.
                Ok(Body::ReadGranted(grant)) if reply.epoch == side.lock().epoch() => {
                    let now = self.inner.machine_nanos();
                    self.memory.read_granted((shard, session), (dir, grant), (asked, now));
                    side.to_attend.notify_one();
                }
                _ => self.memory.read_refused(shard),
            }
        }
    }

    /// Ends all read grants of a shard: it was started anew, or the session is over there.
    pub(crate) fn reads_end_at(&self, shard: ShardIndex) {
        self.memory.ends_at(shard);
        self.to_end.notify_one();
    }

    /// Ends the read grant of a directory that is to be borrowed. Waits until shards were told what
    /// is open in it.
    pub(crate) async fn end_read_of(&self, shard: ShardIndex, dir: DirId) {
        self.memory.borrows(dir);
        self.to_end.notify_one();
        let side = self.side(shard);
        loop {
            let mut changed = pin!(side.changed.notified());
            changed.as_mut().enable();
            if !self.memory.is_ending(dir) {
                return;
            }
            changed.await;
        }
    }

    /// Tells a shard of read grants that are given back, as soon as they are, until the transport
    /// is stopped. A question for news may be waiting there meanwhile.
    pub(crate) async fn give_reads_back(&self, shard: ShardIndex) {
        loop {
            self.side(shard).to_give_reads_back.notified().await;
            self.tell_given_back(shard).await;
        }
    }

    /// Tells a shard which read grants are given back, without waiting for news of others.
    pub(crate) async fn tell_given_back(&self, shard: ShardIndex) {
        let now = self.inner.machine_nanos();
        let told = self.memory.to_tell(shard, now);
        self.to_end.notify_one();
        let Some((session, mut over)) = told else { return };
        over.truncate(KNOWN_MAX);
        if over.is_empty() {
            return;
        }
        let attend = Op::Attend { shard, session, recalled: Vec::new(), over: over.clone() };
        let reply = self.ask(shard, attend).await;
        if reply.is_some_and(|reply| reply.result.is_ok()) {
            self.memory.attended(shard, (&[], false), (&over, now), now);
        }
    }
}
