//! A new shard joins the volume. It votes that it is there, and gets the table of living sessions
//! with the decision.

use pando_types::ShardIndex;
use pando_types::op::Place;
use pando_types::peer::{Change, Prepare};
use pando_types::reply::Body;

use super::{Decision, Next, View};

/// Plan of a join.
#[derive(Debug)]
pub struct Join {
    shard: ShardIndex,
}

impl Join {
    pub fn new(shard: ShardIndex) -> Self {
        Self { shard }
    }

    pub fn next(&mut self, view: &mut View<'_, '_>) -> Next {
        if view.votes.0.is_empty() {
            return Next::Ask(Place::Shard(self.shard), Prepare::Join);
        }
        // Another join of this shard may have been faster.
        if self.shard.0 < view.shard.config.map.shards {
            return Next::Restart;
        }
        view.shard.add(view.ctx, self.shard);
        let change = Change::Join(view.shard.session_table());
        Next::Decide(Decision {
            changes: alloc::vec![(0, change)],
            then: alloc::vec::Vec::new(),
            body: Body::Done,
        })
    }
}
