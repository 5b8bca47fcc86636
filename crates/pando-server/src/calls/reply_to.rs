//! Where the reply to a request goes.

use std::sync::Arc;

use pando_types::KeyId;
use pando_types::reply::Reply;

use crate::calls::reply_cell::ReplyCell;
use crate::host::connection::{Asked, ReplySink};

/// Where the reply to a request goes.
pub(crate) enum ReplyTo {
    /// To the caller that runs the shard right now. If the caller releases the shard before its
    /// reply is ready, it puts a reply cell in this place.
    Runner,
    /// To a caller in this process, by its reply cell.
    Cell(Arc<ReplyCell>),
    /// To a client, by its connection.
    Stream(Arc<dyn ReplySink>, Asked),
}

impl ReplyTo {
    /// Key by which the caller came. A caller in this process has the owner's key.
    pub(crate) fn key(&self) -> KeyId {
        match self {
            Self::Runner | Self::Cell(_) => KeyId::OWNER,
            Self::Stream(sink, _) => sink.key(),
        }
    }

    /// Delivers the reply. Adds the connection to `sinks` if the caller must flush it.
    pub(crate) fn answer(self, reply: Box<Reply>, sinks: &mut Vec<Arc<dyn ReplySink>>) {
        match self {
            Self::Runner => {}
            Self::Cell(cell) => cell.fill(Some(reply)),
            Self::Stream(sink, asked) => {
                if sink.reply(asked, Some(&reply)) {
                    sinks.push(sink);
                }
            }
        }
    }

    /// Ends the call without a reply.
    pub(crate) fn abandon(self) {
        match self {
            Self::Runner => {}
            Self::Cell(cell) => cell.fill(None),
            Self::Stream(sink, asked) => {
                // The sink asks its caller for a flush.
                if sink.reply(asked, None) {
                    sink.flush();
                }
            }
        }
    }
}
