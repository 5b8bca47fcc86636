//! A shard that was made becomes one of the volume's: it says that it is there, then all that lives
//! is told to it with the decision.

use pando_types::ShardIndex;
use pando_types::op::Place;
use pando_types::peer::{Change, Prepare};
use pando_types::reply::Body;

use super::{Decision, Next, View};

/// See the module.
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
        // Another such transaction may have been faster.
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
