//! Where the directories are that are lent, by parent and name. So one that is to be removed is given
//! back before the request travels, and the transaction finds nobody in its way.

use std::collections::HashMap;
use std::pin::pin;

use pando_client::{Called, Transport};
use pando_types::op::{Op, Request};
use pando_types::{DirId, Name, ShardIndex, TxnId};
use parking_lot::Mutex;

use crate::borrowing::Borrowing;

/// Most places that are remembered. What is forgotten is recalled when it is removed.
const MOST: usize = 16_384;

/// Grants by parent and name of their directories. It may name some that are over.
#[derive(Default)]
pub(crate) struct Places(Mutex<HashMap<(DirId, Name), (ShardIndex, TxnId)>>);

impl Places {
    /// Notes where a directory is that is lent.
    pub(crate) fn note(&self, place: (DirId, Name), grant: (ShardIndex, TxnId)) {
        let mut all = self.0.lock();
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(place, grant);
    }

    fn take(&self, place: (DirId, Name)) -> Option<(ShardIndex, TxnId)> {
        self.0.lock().remove(&place)
    }
}

impl<T: Transport> Borrowing<T> {
    /// The grant of the directory that a request removes, if it is here.
    pub(crate) fn removes(&self, request: &Request) -> Option<(ShardIndex, TxnId)> {
        let Op::Rmdir(dir, name) = &request.op else { return None };
        let (home, grant) = self.places.take((dir.id, name.clone()))?;
        let state = self.side(home).lock();
        state.lent.as_ref()?.uses.contains_key(&grant).then_some((home, grant))
    }

    /// Lets a request travel that removes a directory, once its home has that back.
    pub(crate) async fn remove_lent(
        &self,
        shard: ShardIndex,
        request: Box<Request>,
        (home, grant): (ShardIndex, TxnId),
    ) -> Called {
        let now = self.inner.machine_nanos();
        let side = self.side(home);
        side.lock().give_back(&[grant], now);
        loop {
            let mut changed = pin!(side.changed.notified());
            changed.as_mut().enable();
            if side.lock().queue.is_all_sent(grant) {
                return self.call_later(shard, request).await;
            }
            side.to_send.notify_one();
            changed.await;
        }
    }
}
