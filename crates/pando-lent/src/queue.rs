//! Elements that are not known to be durable at their shard.

use std::collections::{BTreeSet, VecDeque};

use pando_types::lend::{Act, Element, PartOpen};
use pando_types::{Epoch, Lsn, TxnId};

use crate::journal::{Half, Journal};

/// Most bytes of a batch.
const BATCH_BYTES: usize = 512 << 10;

/// About how many bytes an element has on its way.
fn bytes_of(element: &Element) -> usize {
    64 + match &element.act {
        Act::Change(change) => change.asked.len(),
        Act::Return(opens) => opens.as_ref().map_or(0, Vec::len) * size_of::<PartOpen>(),
    }
}

/// An element that is kept.
#[derive(Debug)]
struct Kept {
    element: Element,
    /// Its place among all that were answered.
    place: u64,
    /// Where the journal has it.
    half: Option<Half>,
    /// Whether it names objects that may not be durable.
    is_unsynced: bool,
}

/// Elements in the order in which they were answered.
#[derive(Default, Debug)]
pub(crate) struct Queue {
    /// Not known to be applied, each with the moment of its answer.
    unsent: VecDeque<(Kept, u64)>,
    /// Applied, each with the log position that has it.
    applied: VecDeque<(Kept, (Epoch, Lsn))>,
    /// Grants that their shard does not know yet. One element of each is sent at a time, to ask.
    /// They keep no others back.
    kept_back: BTreeSet<TxnId>,
    /// How many were answered so far.
    places: u64,
    /// Where elements are noted, if they are.
    pub(crate) journal: Option<Journal>,
}

impl Queue {
    /// Adds an element that is answered at `now`.
    pub(crate) fn push(&mut self, element: Element, now: u64) {
        self.push_with(element, now, false);
    }

    /// Adds an element that may name objects which are not durable.
    pub(crate) fn push_with(&mut self, element: Element, now: u64, is_unsynced: bool) {
        let half = match (&element.act, &mut self.journal) {
            (Act::Change(_), _) if is_planted!(ChangeNotNoted) => None,
            (Act::Change(_), Some(journal)) => Some(journal.element(&element)),
            (Act::Return(_), Some(journal)) => {
                journal.part_ends(element.grant);
                None
            }
            _ => None,
        };
        self.places += 1;
        let kept = Kept { element, place: self.places, half, is_unsynced };
        self.unsent.push_back((kept, now));
    }

    /// How many elements were answered so far.
    pub(crate) const fn places(&self) -> u64 {
        self.places
    }

    /// Whether all of the first so many are applied.
    pub(crate) fn is_sent(&self, places: u64) -> bool {
        self.unsent.iter().all(|(kept, _)| kept.place > places)
    }

    /// Whether an element names objects that may not be durable.
    pub(crate) fn names_unsynced(&self) -> bool {
        self.unsent.iter().any(|(kept, _)| kept.is_unsynced)
    }

    /// Notes that the objects are durable which the first so many elements name.
    pub(crate) fn synced(&mut self, places: u64) {
        let first = self.unsent.iter_mut().filter(|(kept, _)| kept.place <= places);
        first.for_each(|(kept, _)| kept.is_unsynced = false);
    }

    /// Drops of each grant what names objects that may not be durable, and all that comes after it.
    pub(crate) fn drop_unsynced(&mut self) -> Vec<Element> {
        let mut grants = BTreeSet::new();
        let mut is_lost = |kept: &Kept| {
            if kept.is_unsynced {
                grants.insert(kept.element.grant);
            }
            grants.contains(&kept.element.grant)
        };
        let (lost, left): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.unsent).into_iter().partition(|(kept, _)| is_lost(kept));
        self.unsent = left;
        lost.iter().for_each(|(kept, _)| self.forget(kept));
        lost.into_iter().map(|(kept, _)| kept.element).collect()
    }

    /// Drops the elements of a grant that are not applied, from this number on.
    pub(crate) fn drop_from(&mut self, grant: TxnId, number: u64) -> Vec<Element> {
        let is_it = |it: &Element| it.grant == grant && it.number >= number;
        let (lost, left): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.unsent).into_iter().partition(|(it, _)| is_it(&it.element));
        self.unsent = left;
        lost.into_iter().map(|(kept, _)| kept.element).collect()
    }

    /// Notes that a grant is over.
    pub(crate) fn over(&mut self, grant: TxnId) {
        if let Some(journal) = self.journal.as_mut().filter(|_| !is_planted!(EndNotNoted)) {
            journal.over(grant);
        }
    }

    /// Whether the journal takes another element.
    pub(crate) fn has_room(&self) -> bool {
        self.journal.as_ref().is_none_or(Journal::has_room)
    }

    /// Whether the shard should soon make durable what it has, so that there is room.
    pub(crate) fn wants_room(&self) -> bool {
        self.journal.as_ref().is_some_and(Journal::wants_room)
    }

    /// Whether the journal has failed.
    pub(crate) fn is_broken(&self) -> bool {
        self.journal.as_ref().is_some_and(Journal::is_broken)
    }

    /// The oldest elements that are not known to be applied: so many at most, and as many bytes,
    /// but one in any case.
    pub(crate) fn batch(&self, most: usize) -> Vec<Element> {
        let mut bytes = 0;
        let fits = |element: &&Element| {
            let is_first = bytes == 0;
            bytes += bytes_of(element);
            is_first || bytes <= BATCH_BYTES
        };
        let mut asked = BTreeSet::new();
        let mut goes = |element: &&Element| {
            !self.kept_back.contains(&element.grant) || asked.insert(element.grant)
        };
        self.synced_ones().filter(&mut goes).take(most).take_while(fits).cloned().collect()
    }

    /// Elements that are not known to be applied, but of each grant only those before the first
    /// that names objects which may not be durable.
    fn synced_ones(&self) -> impl Iterator<Item = &Element> {
        let mut held = BTreeSet::new();
        self.unsent.iter().filter_map(move |(kept, _)| {
            let grant = kept.element.grant;
            if kept.is_unsynced {
                held.insert(grant);
            }
            (!held.contains(&grant)).then_some(&kept.element)
        })
    }

    /// Number of elements that may be sent.
    pub(crate) fn to_send(&self) -> usize {
        match self.names_unsynced() {
            true => self.synced_ones().count(),
            false => self.unsent.len(),
        }
    }

    /// Whether so many elements are not known to be applied, or one was answered by `before`. Of
    /// grants that their shard does not know only `its` count.
    pub(crate) fn is_late(
        &self,
        (most, before): (usize, u64),
        its: impl FnOnce() -> Vec<TxnId>,
    ) -> bool {
        if self.kept_back.is_empty() {
            return self.unsent.len() >= most || self.oldest().is_some_and(|at| at <= before);
        }
        let its = its();
        let counts = |grant| !self.kept_back.contains(grant) || its.contains(grant);
        let counted = || self.unsent.iter().filter(|(it, _)| counts(&it.element.grant));
        counted().count() >= most || counted().next().is_some_and(|(_, at)| *at <= before)
    }

    /// Notes whether the shard of a grant does not know it yet.
    pub(crate) fn keep_back(&mut self, grant: TxnId, is_kept: bool) {
        match is_kept {
            true => self.kept_back.insert(grant),
            false => self.kept_back.remove(&grant),
        };
    }

    /// Whether elements are unsent that are not kept back.
    pub(crate) fn has_more(&self) -> bool {
        self.unsent.iter().any(|(kept, _)| !self.kept_back.contains(&kept.element.grant))
    }

    /// Whether all of the first so many elements are applied that are of these grants.
    pub(crate) fn is_sent_of(&self, grants: &[TxnId], places: u64) -> bool {
        let is_its = |kept: &Kept| kept.place <= places && grants.contains(&kept.element.grant);
        !self.unsent.iter().any(|(kept, _)| is_its(kept))
    }

    /// Grants of which elements are kept.
    pub(crate) fn grants(&self) -> BTreeSet<TxnId> {
        self.all().map(|element| element.grant).collect()
    }

    /// Whether all elements of a grant are applied.
    pub(crate) fn is_all_sent(&self, grant: TxnId) -> bool {
        self.unsent.iter().all(|(kept, _)| kept.element.grant != grant)
    }

    /// All elements that are kept.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Element> {
        let applied = self.applied.iter().map(|(kept, _)| &kept.element);
        applied.chain(self.unsent.iter().map(|(kept, _)| &kept.element))
    }

    /// Number of elements that are not known to be applied.
    pub(crate) fn unsent(&self) -> usize {
        self.unsent.len()
    }

    /// When the oldest of these was answered.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.unsent.front().map(|(_, at)| *at)
    }

    /// Whether nothing is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.unsent.is_empty() && self.applied.is_empty()
    }

    /// Notes that elements of a grant up to this number are in the log up to a position.
    pub(crate) fn applied(&mut self, grant: TxnId, number: u64, at: (Epoch, Lsn)) {
        let is_it = |it: &Element| it.grant == grant && it.number <= number;
        let (done, left): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.unsent).into_iter().partition(|(it, _)| is_it(&it.element));
        self.unsent = left;
        self.applied.extend(done.into_iter().map(|(kept, _)| (kept, at)));
    }

    /// Forgets what is durable by now.
    pub(crate) fn durable(&mut self, epoch: Epoch, lsn: Lsn) {
        while self.applied.front().is_some_and(|(_, at)| at.0 == epoch && at.1 <= lsn) {
            if let Some((kept, _)) = self.applied.pop_front() {
                self.forget(&kept);
            }
        }
    }

    fn forget(&mut self, kept: &Kept) {
        if let (Some(half), Some(journal)) = (kept.half, &mut self.journal) {
            journal.forget(half);
        }
    }

    /// The shard was started anew, and may have lost what was not durable: all is sent again. What
    /// it has it does not apply twice.
    pub(crate) fn started_anew(&mut self, now: u64) {
        for (kept, _) in std::mem::take(&mut self.applied).into_iter().rev() {
            self.unsent.push_front((kept, now));
        }
    }

    /// Drops what is left of a grant. Returns the elements that are not applied.
    pub(crate) fn drop_grant(&mut self, grant: TxnId) -> Vec<Element> {
        let (gone, left): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.applied)
            .into_iter()
            .partition(|(it, _)| it.element.grant == grant);
        self.applied = left;
        gone.iter().for_each(|(kept, _)| self.forget(kept));
        self.drop_unsent(grant)
    }

    /// Drops the elements of a grant that are not applied.
    pub(crate) fn drop_unsent(&mut self, grant: TxnId) -> Vec<Element> {
        let (lost, left): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.unsent)
            .into_iter()
            .partition(|(it, _)| it.element.grant == grant);
        self.unsent = left;
        lost.iter().for_each(|(kept, _)| self.forget(kept));
        lost.into_iter().map(|(kept, _)| kept.element).collect()
    }
}

#[cfg(test)]
mod tests {
    use pando_types::ShardIndex;

    use super::*;

    fn grant(number: u64) -> TxnId {
        TxnId { shard: ShardIndex(0), number }
    }

    fn element(of: u64, number: u64) -> Element {
        Element { grant: grant(of), number, act: Act::Return(None) }
    }

    fn numbers(queue: &Queue) -> Vec<(u64, u64)> {
        queue.batch(99).iter().map(|it| (it.grant.number, it.number)).collect()
    }

    #[test]
    fn what_is_not_durable_is_sent_again_in_order_after_a_start() {
        let mut queue = Queue::default();
        for (of, number) in [(1, 1), (2, 1), (1, 2), (1, 3)] {
            queue.push(element(of, number), 5);
        }
        queue.applied(grant(1), 2, (Epoch(1), Lsn(10)));
        assert_eq!(numbers(&queue), [(2, 1), (1, 3)]);
        queue.applied(grant(2), 1, (Epoch(1), Lsn(12)));
        queue.durable(Epoch(1), Lsn(11));
        queue.started_anew(6);
        assert_eq!(numbers(&queue), [(2, 1), (1, 3)]);
        queue.applied(grant(2), 1, (Epoch(2), Lsn(13)));
        // A position of another epoch says nothing.
        queue.durable(Epoch(1), Lsn(99));
        assert!(!queue.is_empty());
        assert_eq!(queue.drop_grant(grant(1)).len(), 1);
        queue.durable(Epoch(2), Lsn(13));
        assert!(queue.is_empty());
    }

    #[test]
    fn what_names_unsynced_objects_is_dropped_with_all_that_follows_in_its_part() {
        let mut queue = Queue::default();
        for (of, number, is_unsynced) in
            [(1, 1, true), (1, 2, false), (2, 1, false), (1, 3, true), (2, 2, false), (1, 4, false)]
        {
            if number == 3 {
                assert!(queue.names_unsynced());
                queue.synced(queue.places());
                assert!(!queue.names_unsynced());
            }
            queue.push_with(element(of, number), 5, is_unsynced);
        }
        let lost: Vec<_> =
            queue.drop_unsynced().iter().map(|it| (it.grant.number, it.number)).collect();
        assert_eq!(lost, [(1, 3), (1, 4)]);
        assert_eq!(numbers(&queue), [(1, 1), (1, 2), (2, 1), (2, 2)]);
    }
}
