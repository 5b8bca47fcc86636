//! Calls that a shard has taken and not answered.
//!
//! A tag is a place in a table, with the number of times that the place was used. So a second reply
//! to an old tag reaches no call.
//!
//! A repetition of a request that still waits keeps the request's tag. The reply goes to where the
//! repetition came from, and the earlier call ends without a reply: a shard answers such a request
//! once. Only a repetition by the same key counts. A request of another key with the same id has a
//! tag of its own, and the machine refuses it.

use std::collections::HashMap;
use std::time::Instant;

use pando_core::contract::ClientTag;
use pando_types::KeyId;
use pando_types::op::{Request, RequestId};

use crate::calls::reply_to::ReplyTo;
use crate::common::metrics::OpKind;

pub(crate) struct Pending {
    pub(crate) to: ReplyTo,
    pub(crate) id: RequestId,
    pub(crate) trace: u64,
    pub(crate) kind: OpKind,
    pub(crate) begun: Instant,
}

impl Pending {
    pub(crate) fn new(to: ReplyTo, request: &Request, begun: Instant) -> Self {
        let (id, trace) = (request.head.id, request.head.trace);
        Self { to, id, trace, kind: OpKind::of(&request.op), begun }
    }
}

#[derive(Default)]
pub(crate) struct PendingCalls {
    places: Vec<(u32, Option<Pending>)>,
    free: Vec<u32>,
    /// Tags of requests that change something.
    by_id: HashMap<(KeyId, RequestId), ClientTag, foldhash::fast::RandomState>,
}

impl PendingCalls {
    pub(crate) fn insert(&mut self, pending: Pending) -> ClientTag {
        let id = (pending.to.key(), pending.id);
        if pending.id.sequence == 0 {
            return self.place(pending);
        }
        if let Some(&tag) = self.by_id.get(&id)
            && let Some((_, Some(earlier))) = self.places.get_mut(tag.0 as u32 as usize)
        {
            std::mem::replace(earlier, pending).to.abandon();
            return tag;
        }
        let tag = self.place(pending);
        self.by_id.insert(id, tag);
        tag
    }

    fn place(&mut self, pending: Pending) -> ClientTag {
        let key = pending.to.key();
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            (self.places.len() - 1) as u32
        });
        let (generation, place) = &mut self.places[index as usize];
        *place = Some(pending);
        tag(index, *generation, key)
    }

    /// Whether the reply to `wanted` is still to come.
    pub(crate) fn has(&self, wanted: ClientTag) -> bool {
        let index = wanted.0 as u32;
        matches!(self.places.get(index as usize), Some((generation, Some(_)))
            if tag(index, *generation, wanted.1) == wanted)
    }

    /// The reply to `wanted` goes to `to` from now on, if it is still to come.
    pub(crate) fn send_to(&mut self, wanted: ClientTag, to: ReplyTo) {
        if let Some((generation, Some(pending))) = self.places.get_mut(wanted.0 as u32 as usize)
            && tag(wanted.0 as u32, *generation, wanted.1) == wanted
        {
            pending.to = to;
        }
    }

    pub(crate) fn remove(&mut self, wanted: ClientTag) -> Option<Pending> {
        let index = wanted.0 as u32;
        let (generation, place) = self.places.get_mut(index as usize)?;
        if tag(index, *generation, wanted.1) != wanted {
            return None;
        }
        let pending = place.take()?;
        if pending.id.sequence > 0 {
            self.by_id.remove(&(wanted.1, pending.id));
        }
        *generation = generation.wrapping_add(1);
        self.free.push(index);
        Some(pending)
    }

    pub(crate) fn drain(&mut self) -> Vec<Pending> {
        self.free.clear();
        self.by_id.clear();
        let places = std::mem::take(&mut self.places);
        places.into_iter().filter_map(|(_, place)| place).collect()
    }
}

/// Makes a tag. Only [`PendingCalls`] reads the parts of a tag.
const fn tag(index: u32, generation: u32, key: KeyId) -> ClientTag {
    ClientTag((generation as u64) << 32 | index as u64, key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::connection::Asked;
    use pando_types::op::{Head, Op};

    #[test]
    fn a_repetition_takes_the_place_of_what_it_repeats() {
        let mut request = Request {
            head: Head::default(),
            credentials: Default::default(),
            op: Op::OpenSession,
            trail: None,
        };
        request.head.id.sequence = 7;
        let mut calls = PendingCalls::default();
        let cells =
            [(); 2].map(|()| std::sync::Arc::<crate::calls::reply_cell::ReplyCell>::default());
        let tags = cells
            .clone()
            .map(|cell| calls.insert(Pending::new(ReplyTo::Cell(cell), &request, Instant::now())));
        assert_eq!(tags[0], tags[1]);
        assert!(cells[0].is_filled() && !cells[1].is_filled());
        assert!(calls.remove(tags[0]).is_some());
        assert!(calls.remove(tags[1]).is_none());
        assert!(calls.by_id.is_empty());
    }

    /// A connection of a client with this key, and the number of replies that it took.
    struct By(KeyId, std::sync::atomic::AtomicUsize);

    impl crate::calls::connection::ReplySink for By {
        fn key(&self) -> KeyId {
            self.0
        }

        fn reply(&self, _: Asked, _: Option<&pando_types::reply::Reply>) -> bool {
            self.1.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            false
        }

        fn flush(&self) {}
    }

    #[test]
    fn another_key_takes_no_callers_place() {
        let mut request = Request {
            head: Head::default(),
            credentials: Default::default(),
            op: Op::OpenSession,
            trail: None,
        };
        request.head.id.sequence = 7;
        let sinks = [1, 2].map(|key| std::sync::Arc::new(By(KeyId(key), Default::default())));
        let mut calls = PendingCalls::default();
        let tags = sinks.clone().map(|sink| {
            let to = ReplyTo::Stream(sink, Asked { stream: 1, bytes: 1, reply: 1 });
            calls.insert(Pending::new(to, &request, Instant::now()))
        });
        assert_ne!(tags[0], tags[1]);
        assert_eq!((tags[0].1, tags[1].1), (KeyId(1), KeyId(2)));
        let told = |sink: &By| sink.1.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(told(&sinks[0]), 0, "nothing was given up");
        assert!(calls.remove(tags[1]).is_some() && calls.remove(tags[0]).is_some());
        assert!(calls.by_id.is_empty());
    }

    #[test]
    fn a_second_answer_reaches_no_caller() {
        let request = Request {
            head: Head::default(),
            credentials: Default::default(),
            op: Op::OpenSession,
            trail: None,
        };
        let pending = || Pending::new(ReplyTo::Cell(Default::default()), &request, Instant::now());
        let mut calls = PendingCalls::default();
        let first = calls.insert(pending());
        assert!(calls.remove(first).is_some());
        let second = calls.insert(pending());
        assert!(calls.remove(first).is_none());
        assert!(calls.remove(second).is_some());
        assert!(calls.drain().is_empty());
    }
}
