//! Where a caller finds its reply: filled by whichever thread ran the shard.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use pando_types::reply::Reply;
use parking_lot::Mutex;

/// One call's place. Filled at most once.
#[derive(Default)]
pub(crate) struct Slot {
    content: Mutex<Content>,
    is_filled: AtomicBool,
}

#[derive(Default)]
enum Content {
    #[default]
    Empty,
    Waited(Waker),
    /// `None`: the process stops; whether the request ran is unknown.
    Filled(Option<Box<Reply>>),
}

impl Slot {
    pub(crate) fn fill(&self, reply: Option<Box<Reply>>) {
        let before = std::mem::replace(&mut *self.content.lock(), Content::Filled(reply));
        self.is_filled.store(true, Ordering::Release);
        if let Content::Waited(waker) = before {
            waker.wake();
        }
    }

    /// Whether something came; takes no lock.
    pub(crate) fn is_filled(&self) -> bool {
        self.is_filled.load(Ordering::Acquire)
    }

    /// What came, or a promise to wake.
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
