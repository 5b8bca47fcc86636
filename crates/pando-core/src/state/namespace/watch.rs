//! A collection of unused objects under way.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use pando_types::TxnId;
use pando_types::op::ObjectId;

/// Most objects that are remembered. A collection that needs more fails.
const SEEN_MAX: usize = 1 << 20;
/// Objects in one answer.
const PAGE: usize = 8192;

/// A collection of unused objects. It is in memory only: a shard that begins anew has forgotten it,
/// and says so.
pub struct Watch {
    id: u64,
    /// Objects of ended sessions that became part of slices since the collection began.
    seen: BTreeSet<ObjectId>,
    /// Steps that were prepared when this shard was first asked to settle, and still are.
    before: Option<BTreeSet<(TxnId, u16)>>,
}

impl Watch {
    /// Begins to watch for a collection.
    pub(crate) fn new(id: u64) -> Self {
        Self { id, seen: BTreeSet::new(), before: None }
    }

    /// Whether it watches for this collection.
    pub(crate) fn is_for(&self, id: u64) -> bool {
        self.id == id
    }

    /// Whether more objects were seen than are remembered.
    pub(crate) fn is_too_much(&self) -> bool {
        self.seen.len() > SEEN_MAX
    }

    /// Notes an object that became part of a slice.
    pub(crate) fn note(&mut self, object: ObjectId) {
        self.seen.insert(object);
    }

    /// Whether a step is still prepared that was when this was first asked. `prepared` are the
    /// steps that are prepared now.
    pub(crate) fn awaits_steps<I: Iterator<Item = (TxnId, u16)>>(
        &mut self,
        prepared: impl FnOnce() -> I,
        is_prepared: impl Fn((TxnId, u16)) -> bool,
    ) -> bool {
        let before = self.before.get_or_insert_with(|| prepared().collect());
        before.retain(|step| is_prepared(*step));
        !before.is_empty()
    }

    /// A page of the objects from `first` on, and whether it is the last.
    pub(crate) fn page(&self, first: ObjectId) -> (Vec<ObjectId>, bool) {
        let mut objects = self.seen.range(first..);
        let page = objects.by_ref().take(PAGE).copied().collect();
        (page, objects.next().is_none())
    }
}
