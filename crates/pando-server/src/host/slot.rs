//! Where a caller finds its reply: filled by whichever thread ran the shard.

use std::task::Waker;

use pando_types::reply::Reply;
use parking_lot::Mutex;

/// One call's place. Filled at most once.
#[derive(Default)]
pub(crate) struct Slot(Mutex<Content>);

#[derive(Default)]
enum Content {
    #[default]
    Empty,
    Waited(Waker),
    /// `None`: the process stops; whether the request ran is unknown.
    Filled(Option<Reply>),
}

impl Slot {
    pub(crate) fn fill(&self, reply: Option<Reply>) {
        let before = std::mem::replace(&mut *self.0.lock(), Content::Filled(reply));
        if let Content::Waited(waker) = before {
            waker.wake();
        }
    }

    /// What came, or a promise to wake.
    pub(crate) fn take(&self, waker: &Waker) -> Option<Option<Reply>> {
        let mut content = self.0.lock();
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
