//! What a batch of a shard lets out.

use std::sync::Arc;

use pando_types::ShardIndex;
use pando_types::peer::Peer;
use pando_types::reply::Reply;

use crate::calls::connection::ReplySink;
use crate::calls::reply_to::ReplyTo;
use crate::store::work::Work;

/// What leaves a shard. The holder delivers it after it has released the shard.
#[derive(Default)]
pub(crate) struct Outbox {
    pub(crate) replies: Vec<(ReplyTo, Box<Reply>)>,
    /// The reply to the caller that runs the shard.
    pub(crate) own: Option<Box<Reply>>,
    /// Connections with something to flush. Empty between deliveries.
    pub(crate) sinks: Vec<Arc<dyn ReplySink>>,
    pub(crate) peers: Vec<(ShardIndex, Box<Peer>)>,
    pub(crate) retired: Vec<babu::Retired>,
    pub(crate) jobs: Vec<Work>,
}

impl Outbox {
    pub(crate) fn answer(&mut self, to: ReplyTo, reply: Box<Reply>) {
        match to {
            ReplyTo::Runner => self.own = Some(reply),
            to => self.replies.push((to, reply)),
        }
    }
}
