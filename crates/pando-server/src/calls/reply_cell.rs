//! The reply cell: the thread that ran the shard leaves the reply there, and the caller takes it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use pando_types::reply::Reply;
use parking_lot::Mutex;

/// The reply cell of one call. It is filled at most once.
#[derive(Default)]
pub(crate) struct ReplyCell {
    content: Mutex<Content>,
    is_filled: AtomicBool,
}

#[derive(Default)]
enum Content {
    #[default]
    Empty,
    Waited(Waker),
    /// The reply. `None`: the call ended without one, and whether the request ran is unknown.
    Filled(Option<Box<Reply>>),
}

impl ReplyCell {
    pub(crate) fn fill(&self, reply: Option<Box<Reply>>) {
        let before = std::mem::replace(&mut *self.content.lock(), Content::Filled(reply));
        self.is_filled.store(true, Ordering::Release);
        if let Content::Waited(waker) = before {
            waker.wake();
        }
    }

    /// Whether the call has ended. Takes no lock.
    pub(crate) fn is_filled(&self) -> bool {
        self.is_filled.load(Ordering::Acquire)
    }

    /// The reply, if the call has ended. Otherwise the cell will wake `waker`.
    pub(crate) fn take(&self, waker: &Waker) -> Option<Option<Box<Reply>>> {
        let mut content = self.content.lock();
        match std::mem::take(&mut *content) {
            Content::Filled(reply) => Some(reply),
            Content::Empty => {
                *content = Content::Waited(waker.clone());
                None
            }
            Content::Waited(old) => {
                *content = Content::Waited(if old.will_wake(waker) { old } else { waker.clone() });
                None
            }
        }
    }
}
