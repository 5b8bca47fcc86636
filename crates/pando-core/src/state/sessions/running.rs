//! Requests of undecided transactions.

use alloc::collections::BTreeMap;
use pando_types::SessionId;
use pando_types::op::RequestId;

use crate::state::outcomes::RequestSlot;

/// Requests of undecided transactions, by session and request slot.
#[derive(Default, Debug)]
pub struct Running(BTreeMap<RequestSlot, (u64, Option<u64>)>);

impl Running {
    /// Notes that a transaction runs a request. One without a sequence is not noted.
    pub(crate) fn begin(&mut self, request: RequestId, txn: u64) {
        self.note(request, Some(txn));
    }

    /// Notes that a request waits to begin again, after its transaction was undone.
    pub(crate) fn wait(&mut self, request: RequestId) {
        self.note(request, None);
    }

    fn note(&mut self, request: RequestId, txn: Option<u64>) {
        if request.sequence > 0 {
            self.0.insert((request.session, request.slot), (request.sequence, txn));
        }
    }

    /// Notes that no request of a slot runs any more.
    pub(crate) fn end(&mut self, slot: RequestSlot) {
        self.0.remove(&slot);
    }

    /// Notes that a session is over.
    pub(crate) fn end_session(&mut self, session: SessionId) {
        self.0.retain(|(owner, _), _| *owner != session);
    }

    /// The sequence that runs in a request slot, and its transaction; `None` instead of that: the
    /// request waits to begin again.
    pub(crate) fn get(&self, slot: RequestSlot) -> Option<(u64, Option<u64>)> {
        self.0.get(&slot).copied()
    }

    /// Takes over from `old`, when the shard begins anew, the requests of sessions of which `lives`
    /// is true. All of them begin again.
    pub(crate) fn keep(&mut self, old: &mut Self, lives: impl Fn(SessionId) -> bool) {
        let running = core::mem::take(&mut old.0).into_iter();
        let running = running.filter(|((session, _), _)| lives(*session));
        self.0 = running.map(|(slot, (sequence, _))| (slot, (sequence, None))).collect();
    }
}
