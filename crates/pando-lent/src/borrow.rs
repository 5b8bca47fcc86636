//! New grants, of one shard.

use std::collections::BTreeMap;

use pando_client::Transport;
use pando_core::LentCore;
use pando_core::contract::Config;
use pando_types::lend::{HOLD, LentRows, Part};
use pando_types::op::Op;
use pando_types::reply::Body;
use pando_types::{DirRef, PartitionIndex, SessionId, ShardIndex};

use crate::borrowing::Borrowing;
use crate::side::Lent;

impl<T: Transport> Borrowing<T> {
    /// Borrows directories that are worth it, until the transport is stopped.
    pub(crate) async fn borrow(&self, shard: ShardIndex) {
        let side = self.side(shard);
        loop {
            let next = {
                let mut state = side.lock();
                state.eager.take_ready().map(|dir| {
                    let is_free = !state.is_closed
                        && !state.requests.concern(dir.id)
                        && !state.lent.as_ref().is_some_and(|it| it.core.has_dir(dir.id));
                    if is_free {
                        state.borrowing.insert(dir.id);
                    }
                    (dir, state.session, is_free)
                })
            };
            let Some((dir, session, is_free)) = next else {
                side.to_borrow.notified().await;
                continue;
            };
            if !is_free {
                continue;
            }
            let is_lent = self.borrow_one(shard, session, dir).await;
            let mut state = side.lock();
            state.borrowing.remove(&dir.id);
            match is_lent {
                Some(true) => {}
                Some(false) => state.eager.refused(dir.id, self.inner.machine_nanos()),
                None => return,
            }
            drop(state);
            side.changed.notify_waiters();
            side.to_attend.notify_one();
            side.to_send.notify_one();
        }
    }

    /// Borrows partition 0 of a directory. Returns whether it is here; `None`: the transport is
    /// stopped.
    async fn borrow_one(&self, shard: ShardIndex, session: SessionId, dir: DirRef) -> Option<bool> {
        let part = Part { dir, partition: PartitionIndex(0) };
        let asked = self.inner.machine_nanos();
        let nth = {
            let mut state = self.side(shard).lock();
            state.borrowed += 1;
            state.borrowed
        };
        let reply = self.ask(shard, Op::Borrow(session, nth, part)).await?;
        let Ok(Body::Lent(grant, inos)) = reply.result else { return Some(false) };
        {
            let mut state = self.side(shard).lock();
            let moment = state.moment(asked);
            if state.lent.is_none() {
                let config = Config {
                    split_threshold: self.settings.split_threshold,
                    ..Config::new(shard, self.settings.map.clone(), self.settings.secrets.clone())
                };
                let Ok(core) = LentCore::new(config, session, moment) else { return Some(false) };
                #[cfg(feature = "planted")]
                let core = {
                    let mut core = core;
                    crate::planted::plant_into(&mut core);
                    core
                };
                state.lent = Some(Lent { core, until: 0, used: BTreeMap::new() });
                state.session = session;
            }
            if let Some(lent) = &mut state.lent {
                lent.core.begin(grant, part, inos);
                lent.used.insert(grant, asked);
                lent.until = lent.until.max(asked.saturating_add(HOLD));
            }
        }
        self.side(shard).to_attend.notify_one();
        let mut from = Vec::new();
        loop {
            let op = Op::LentRows(shard, grant, LentRows::Part(from));
            let reply = self.ask(shard, op).await?;
            let mut state = self.side(shard).lock();
            let now = self.inner.machine_nanos();
            let page = match reply.result {
                Ok(Body::LentRows(page)) => page,
                // It was recalled meanwhile.
                _ => {
                    state.give_back(&[grant], now);
                    return Some(false);
                }
            };
            from = page.next.clone();
            let Some(lent) = &mut state.lent else { return Some(false) };
            if lent.core.take_page(grant, page).is_err() {
                state.give_back(&[grant], now);
                return Some(false);
            }
            if from.is_empty() {
                return Some(lent.used.contains_key(&grant));
            }
        }
    }
}
