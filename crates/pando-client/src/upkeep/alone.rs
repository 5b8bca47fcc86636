//! Being the only session of a volume (docs/design/alone.md).

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use pando_types::op::{Alone, Op};
use pando_types::reply::Body;
use pando_types::{Errno, Ino};

use crate::client::Client;
use crate::nodes::openers::SYSTEM;

impl Client {
    /// Whether the session is alone until it [says](Client::end_alone) otherwise. That is so if it
    /// ends together with the shards' own process. Any other session is alone for
    /// [`ALONE_HOLD`](pando_types::op::ALONE_HOLD), and has to ask again.
    #[must_use]
    pub fn is_alone_for_good(&self) -> bool {
        self.transport.is_local()
    }

    /// Asks shard 0 to make this session the only one. If the answer is true, no other session
    /// begins before [`Client::end_alone`], or before the time that counts from this call is over.
    pub async fn ask_alone(&self) -> Result<bool, Errno> {
        let session = self.session();
        match self.run_plain(SYSTEM, Op::Alone(session, Alone::Ask)).await? {
            // A grant to a session that is over is worth nothing.
            Body::Alone(is_alone) => Ok(is_alone && session == self.session()),
            _ => Err(Errno::EIO),
        }
    }

    /// Ready when another client wants to begin a session, when this session is over, or when the
    /// request fails.
    pub async fn recalled(&self) {
        let session = self.session();
        let mut gone = pin!(self.sessions.gone(session));
        let mut recalled = pin!(self.run_plain(SYSTEM, Op::Alone(session, Alone::Await)));
        poll_fn(|context| {
            let is_over = gone.as_mut().poll(context).is_ready();
            let is_recalled = recalled.as_mut().poll(context).is_ready();
            if is_over || is_recalled { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Whether another client wants to begin a session, or this one is not alone. For sessions that
    /// are alone for a time: an answer comes at once.
    pub async fn is_recalled(&self) -> Result<bool, Errno> {
        let asked = Op::Alone(self.session(), Alone::Await);
        Ok(!matches!(self.run_plain(SYSTEM, asked).await?, Body::Alone(true)))
    }

    /// Gives up being alone: other clients may begin sessions again.
    pub async fn end_alone(&self) -> Result<(), Errno> {
        self.run_plain(SYSTEM, Op::Alone(self.session(), Alone::End)).await.map(drop)
    }

    /// Whether `ino` is a directory that was looked up.
    #[must_use]
    pub fn is_dir(&self, ino: Ino) -> bool {
        self.nodes.dir(ino).is_ok()
    }

    /// Whether `ino` is the root, or an inode with lookups that are not all forgotten.
    #[must_use]
    pub fn knows(&self, ino: Ino) -> bool {
        self.nodes.find(ino).is_ok()
    }

    /// Inodes that were looked up and not yet forgotten, and the root.
    #[must_use]
    pub fn known(&self) -> Vec<Ino> {
        let mut inos = self.nodes.inos();
        inos.push(Ino::ROOT);
        inos
    }
}
