//! Changing requests that travel: a copy of each may run until it is answered.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use pando_types::op::{Head, Op, Request, RequestId};
use pando_types::{Credentials, DirId, SessionId};

use crate::known::reach::Reach;

/// A request of this side itself.
pub(crate) fn own(op: Op) -> Box<Request> {
    Box::new(Request { head: Head::default(), credentials: Credentials::ROOT, op, trail: None })
}

/// Changing requests that were sent and are not answered.
#[derive(Default, Debug)]
pub(crate) struct Requests {
    open: HashMap<(SessionId, u16), (u64, Vec<Reach>)>,
    by_dir: HashMap<DirId, u32>,
    /// Those of which a copy has left this process.
    left: HashSet<RequestId>,
}

impl Requests {
    /// Notes that a request is sent that is about this. A request slot has one at a time.
    pub(crate) fn sent(&mut self, id: RequestId, reach: Vec<Reach>) {
        if id.sequence == 0 {
            return;
        }
        let has_left = self.has_left(id);
        self.end((id.session, id.slot));
        if has_left {
            self.left.insert(id);
        }
        for it in &reach {
            *self.by_dir.entry(it.dir).or_default() += 1;
        }
        self.open.insert((id.session, id.slot), (id.sequence, reach));
    }

    /// Notes that a request is answered.
    pub(crate) fn answered(&mut self, id: RequestId) {
        if self.was_sent(id) {
            self.end((id.session, id.slot));
        }
    }

    fn end(&mut self, slot: (SessionId, u16)) {
        let Some((sequence, reach)) = self.open.remove(&slot) else { return };
        self.left.remove(&RequestId { session: slot.0, slot: slot.1, sequence });
        for it in reach {
            if let Some(count) = self.by_dir.get_mut(&it.dir) {
                *count -= 1;
                if *count == 0 {
                    self.by_dir.remove(&it.dir);
                }
            }
        }
    }

    /// Notes that a request leaves, of which it was noted that it is sent.
    pub(crate) fn leaves(&mut self, id: RequestId) {
        if self.was_sent(id) {
            self.left.insert(id);
        }
    }

    /// Whether a copy of this request has left, and is not answered.
    pub(crate) fn has_left(&self, id: RequestId) -> bool {
        self.left.contains(&id)
    }

    /// Whether a copy of this request was sent, and is not answered.
    pub(crate) fn was_sent(&self, id: RequestId) -> bool {
        id.sequence > 0
            && self
                .open
                .get(&(id.session, id.slot))
                .is_some_and(|(sequence, _)| *sequence == id.sequence)
    }

    /// Whether a request that is not answered is about something in a range of orders of a
    /// directory.
    pub(crate) fn concern(&self, dir: DirId, orders: &Range<u64>) -> bool {
        let is_in = |(_, reach): &(u64, Vec<Reach>)| reach.iter().any(|it| it.is_in(dir, orders));
        self.by_dir.contains_key(&dir) && self.open.values().any(is_in)
    }
}
