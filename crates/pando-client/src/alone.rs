//! Being the only session of a volume: see docs/design/alone.md.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use pando_types::op::{Alone, Op};
use pando_types::reply::Body;
use pando_types::{Errno, Ino};

use crate::client::{Client, SYSTEM};

impl Client {
    /// Whether the session may ever be alone: if it ends with the shards' own process.
    #[must_use]
    pub fn may_be_alone(&self) -> bool {
        self.transport.is_local()
    }

    /// Asks to be alone. If so, no other session begins before [`Client::end_alone`].
    pub async fn ask_alone(&self) -> Result<bool, Errno> {
        let session = self.session();
        match self.run_plain(SYSTEM, Op::Alone(session, Alone::Ask)).await? {
            // What was granted to a session that is over is worth nothing.
            Body::Alone(is_alone) => Ok(is_alone && session == self.session()),
            _ => Err(Errno::EIO),
        }
    }

    /// Ready when another session wants to begin, or this one is over, or that cannot be known.
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

    /// Is not alone any more: whoever wants to begin a session may.
    pub async fn end_alone(&self) -> Result<(), Errno> {
        self.run_plain(SYSTEM, Op::Alone(self.session(), Alone::End)).await.map(drop)
    }

    /// Whether an inode that was looked up is a directory.
    #[must_use]
    pub fn is_dir(&self, ino: Ino) -> bool {
        self.nodes.dir(ino).is_ok()
    }

    /// Inodes that were looked up and not yet forgotten, the root among them.
    #[must_use]
    pub fn known(&self) -> Vec<Ino> {
        let mut inos = self.nodes.inos();
        inos.push(Ino::ROOT);
        inos
    }
}
