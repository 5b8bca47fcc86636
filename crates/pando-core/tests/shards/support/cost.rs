//! Costs of an operation: messages between shards before and after its answer, and what they wait
//! for.

use pando_core::Need;
use pando_types::ShardIndex;
use pando_types::op::Op;
use pando_types::peer::{Peer, PeerMessage, Prepare};
use pando_types::reply::{Body, Refusal};

use super::Cluster;

/// Costs of one operation.
#[derive(Debug)]
pub struct Cost {
    /// The answer.
    pub answer: Result<Body, Refusal>,
    /// What the answer waited for.
    pub need: Need,
    /// Messages that the answer needs.
    pub before: Vec<(Need, ShardIndex, Peer)>,
    /// Messages sent after the answer.
    pub after: Vec<(Need, ShardIndex, Peer)>,
}

impl Cost {
    /// Numbers of messages before and after the answer.
    pub fn counts(&self) -> (usize, usize) {
        (self.before.len(), self.after.len())
    }

    /// Number of messages about versions, with the request for one. Those concern all shards.
    pub fn about_versions(&self) -> usize {
        let is_such = |(_, _, peer): &&(Need, ShardIndex, Peer)| {
            matches!(
                peer.message,
                PeerMessage::Versions { .. }
                    | PeerMessage::VersionsKnown(_)
                    | PeerMessage::Prepare(_, Prepare::Invalidate { .. })
            )
        };
        self.before.iter().chain(&self.after).filter(is_such).count()
    }
}

impl Cluster {
    /// Runs a request while nothing else is on its way, and counts messages. They are delivered one
    /// by one. So those before the answer are those that it needs.
    pub fn cost(&mut self, shard: ShardIndex, op: Op) -> Cost {
        assert_eq!(self.messages().count(), 0, "something else is under way");
        self.take_sent();
        let tag = self.send(shard, op);
        let (mut delivered, mut answer) = (0, None);
        loop {
            let told = self.answer(tag).map(|answer| (answer, self.last_need, delivered));
            answer = answer.or(told);
            if !self.step() {
                break;
            }
            delivered += 1;
        }
        let (answer, need, needed) = answer.expect("an answer");
        let mut before = self.take_sent();
        let after = before.split_off(needed);
        Cost { answer, need: need.expect("it waited for something"), before, after }
    }
}
