//! New read grants, of one shard.

use pando_client::Transport;
use pando_types::lend::{Part, request_number};
use pando_types::op::Op;
use pando_types::reply::Body;
use pando_types::{PartitionIndex, ShardIndex};

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
                state.borrowed += 1;
                let is_free = state.session == session && !state.is_closed;
                is_free.then(|| request_number(state.epoch(), state.borrowed))
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
                Ok(Body::ReadGranted(grant)) => {
                    self.memory.read_granted((shard, session), (dir.id, grant), asked);
                    side.to_attend.notify_one();
                }
                _ => self.memory.read_refused(shard),
            }
        }
    }

    /// Tells a shard which read grants are given back, without waiting for news of others.
    pub(crate) async fn tell_given_back(&self, shard: ShardIndex) {
        let now = self.inner.machine_nanos();
        let Some((session, over)) = self.memory.to_tell(shard, now) else { return };
        if over.is_empty() {
            return;
        }
        let attend = Op::Attend { shard, session, recalled: Vec::new(), over: over.clone() };
        if self.ask(shard, attend).await.is_some() {
            self.memory.attended(shard, (&[], false), (&over, now));
        }
    }
}
