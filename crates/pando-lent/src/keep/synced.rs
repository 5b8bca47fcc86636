//! Objects are durable before anything that names them leaves this process
//! (docs/design/objects.md, "Objects before the log").
//!
//! A write is answered when its object is stored. The sync comes later, beside all else: before the
//! batch that has the write, or before the request that travels. Elements of other parts are sent
//! meanwhile.

use std::collections::BTreeMap;

use pando_client::{Called, Transport};
use pando_types::lend::{Act, Element, Standing};
use pando_types::op::{Request, RequestId};
use pando_types::reply::{Refusal, Reply};
use pando_types::{Errno, ShardIndex, TxnId};

use crate::borrowing::Borrowing;
use crate::known::eager::Watched;
use crate::memory::Asked as Read;
use crate::side::State;

/// A request that travels: its shard, its number and when it was sent; what is noted of it.
pub(crate) type Sent = ((ShardIndex, RequestId, u64), (Option<Watched>, Read));

impl<T: Transport> Borrowing<T> {
    /// Makes durable all that was stored. If that fails, the journal says so before anybody hears:
    /// whoever sends it would be told nothing by the kernel.
    async fn sync_objects(&self) -> Result<(), Errno> {
        let Some(objects) = self.settings.objects.as_ref().filter(|_| !is_planted!(SentBeforeSync))
        else {
            return Ok(());
        };
        let synced = objects.sync().await;
        if synced.is_err()
            && let Some(notes) = &self.settings.notes
            && let Err(error) = notes.objects_are_lost()
            && let Some(hears) = self.hears()
        {
            hears.journal_fails(format!("it cannot be noted that file data is lost: {error}"));
        }
        synced
    }

    /// Makes durable what elements name, until the transport is stopped.
    pub(crate) async fn keep_synced(&self) {
        loop {
            let places: Vec<_> =
                self.shards().filter_map(|it| Some((it, self.unsynced(it)?))).collect();
            if places.is_empty() {
                self.to_sync_objects.notified().await;
                continue;
            }
            let synced = self.sync_objects().await;
            let now = self.inner.machine_nanos();
            for (shard, places) in places {
                let side = self.side(shard);
                match synced {
                    Ok(()) => side.lock().queue.synced(places),
                    Err(_) => side.lock().lose_unsynced(now),
                }
                if synced.is_err() {
                    self.tell_set_aside(shard);
                    side.changed.notify_waiters();
                }
                side.to_send.notify_one();
            }
        }
    }

    /// How many elements there are for a shard, if one of them names objects that may not be
    /// durable.
    fn unsynced(&self, shard: ShardIndex) -> Option<u64> {
        let state = self.side(shard).lock();
        state.queue.names_unsynced().then(|| state.queue.places())
    }

    /// Sends a request that names objects. Those of a copy that has left are durable: an error now
    /// would say that the request does not run.
    pub(crate) async fn travel_synced(&self, request: Box<Request>, sent: Sent) -> Called {
        let ((shard, id, since), (watched, asked)) = sent;
        let has_left = self.side(shard).lock().requests.has_left(id);
        if !has_left && let Err(errno) = self.sync_objects().await {
            let reply = self.refused(shard, &request, errno);
            self.memory.heard(asked, id, &reply, self.inner.machine_nanos());
            return Ok(reply);
        }
        self.side(shard).lock().requests.leaves(id);
        let mut called = self.inner.call(shard, request).await;
        if let Ok(reply) = &mut called {
            self.answered((shard, id, since), (watched, asked), reply);
        }
        called
    }

    /// The answer to a request that is not sent.
    fn refused(&self, shard: ShardIndex, request: &Request, errno: Errno) -> Box<Reply> {
        let side = self.side(shard);
        let now = self.inner.machine_nanos();
        let mut state = side.lock();
        state.requests.answered(request.head.id);
        let reply = state.reply_of(request, shard, now, Err(Refusal::Errno(errno)));
        drop(state);
        side.changed.notify_waiters();
        reply
    }
}

impl State {
    /// The store has failed. What names its objects was answered, and is lost with all that was
    /// done after it in its part. These parts are given back.
    fn lose_unsynced(&mut self, now: u64) {
        let mut lost: BTreeMap<TxnId, Vec<Element>> = BTreeMap::new();
        for element in self.queue.drop_unsynced() {
            lost.entry(element.grant).or_default().push(element);
        }
        for (grant, mut elements) in lost {
            let applied = elements[0].number - 1;
            let was_returned = matches!(elements.last(), Some(Element { act: Act::Return(_), .. }));
            let last = match was_returned {
                true => elements.pop(),
                false => self.take_out(grant),
            };
            self.set_aside(elements, applied, Standing::Refused);
            let act = last.map_or(Act::Return(None), |last| last.act);
            self.queue.push(Element { grant, number: applied + 1, act }, now);
            self.returning.insert(grant);
            self.is_urgent = true;
        }
        self.drop_empty_core();
    }
}

#[cfg(test)]
mod tests {
    use pando_types::lend::{Change, PartOpen};
    use pando_types::{Ino, Order};

    use super::*;

    const fn grant(number: u64) -> TxnId {
        TxnId { shard: ShardIndex(0), number }
    }

    fn change(of: u64, number: u64) -> Element {
        let change = Change { asked: Vec::new(), stamp: 0, ino: Ino(0), digest: 0, after: 0 };
        Element { grant: grant(of), number, act: Act::Change(change) }
    }

    #[test]
    fn what_names_lost_objects_is_set_aside_and_the_parts_go_back() {
        let mut state = State::default();
        for (of, number, is_unsynced) in
            [(1, 1, false), (1, 2, true), (2, 1, false), (1, 3, false), (3, 1, true)]
        {
            state.queue.push_with(change(of, number), 5, is_unsynced);
        }
        let opens = Act::Return(Some(vec![PartOpen { ino: Ino(7), order: Order(1), count: 1 }]));
        let returned = |number| Element { grant: grant(3), number, act: opens.clone() };
        state.queue.push(returned(2), 5);
        let numbers = |state: &State| {
            let batch = state.queue.batch(99);
            batch.iter().map(|it| (it.grant.number, it.number)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(&state), [(1, 1), (2, 1)], "the others wait for their objects");
        state.lose_unsynced(6);
        let lost = state.take_set_aside();
        let lost: Vec<_> = lost.iter().map(|(it, _)| (it.grant.number, it.number)).collect();
        assert_eq!(lost, [(1, 2), (1, 3), (3, 1)]);
        assert_eq!(numbers(&state), [(1, 1), (2, 1), (1, 2), (3, 1)]);
        let batch = state.queue.batch(99);
        assert_eq!(batch[2].act, Act::Return(None));
        assert_eq!(batch[3], returned(1), "what is open is told all the same");
        assert!(state.returning.contains(&grant(1)) && state.returning.contains(&grant(3)));
    }
}
