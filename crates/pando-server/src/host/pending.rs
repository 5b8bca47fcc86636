//! Calls a shard has taken and not answered. A tag is a place in a table, and how often that place was used, so that a
//! second answer to an old tag reaches nobody.

use std::time::Instant;

use pando_core::contract::ClientTag;
use pando_types::op::{Request, RequestId};

use super::connection::ReplyTo;
use super::state::tag;
use crate::metrics::OpKind;

pub(crate) struct Pending {
    pub(crate) to: ReplyTo,
    pub(crate) id: RequestId,
    pub(crate) kind: OpKind,
    pub(crate) begun: Instant,
}

impl Pending {
    pub(crate) fn new(to: ReplyTo, request: &Request, begun: Instant) -> Self {
        Self { to, id: request.head.id, kind: OpKind::of(&request.op), begun }
    }
}

#[derive(Default)]
pub(crate) struct PendingCalls {
    places: Vec<(u32, Option<Pending>)>,
    free: Vec<u32>,
}

impl PendingCalls {
    pub(crate) fn insert(&mut self, pending: Pending) -> ClientTag {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            (self.places.len() - 1) as u32
        });
        let (generation, place) = &mut self.places[index as usize];
        *place = Some(pending);
        tag(index, *generation)
    }

    pub(crate) fn remove(&mut self, wanted: ClientTag) -> Option<Pending> {
        let index = wanted.0 as u32;
        let (generation, place) = self.places.get_mut(index as usize)?;
        if tag(index, *generation) != wanted {
            return None;
        }
        let pending = place.take()?;
        *generation = generation.wrapping_add(1);
        self.free.push(index);
        Some(pending)
    }

    pub(crate) fn drain(&mut self) -> Vec<Pending> {
        self.free.clear();
        let places = std::mem::take(&mut self.places);
        places.into_iter().filter_map(|(_, place)| place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pando_types::op::{Head, Op};

    #[test]
    fn a_second_answer_reaches_nobody() {
        let request =
            Request { head: Head::default(), credentials: Default::default(), op: Op::OpenSession };
        let pending = || Pending::new(ReplyTo::Slot(Default::default()), &request, Instant::now());
        let mut calls = PendingCalls::default();
        let first = calls.insert(pending());
        assert!(calls.remove(first).is_some());
        let second = calls.insert(pending());
        assert!(calls.remove(first).is_none());
        assert!(calls.remove(second).is_some());
        assert!(calls.drain().is_empty());
    }
}
