//! New grants, of one shard.

use std::collections::BTreeMap;
use std::pin::pin;

use pando_client::Transport;
use pando_core::LentCore;
use pando_core::contract::Config;
use pando_types::lend::{HOLD, LentRows, Loan, Part, request_number};
use pando_types::op::Op;
use pando_types::reply::Body;
use pando_types::{DirId, DirRef, PartitionIndex, SessionId, ShardIndex, TxnId};

use crate::borrowing::{Borrowing, either};
use crate::counts::add;
use crate::settings::{STILL_WITHIN, Settings};
use crate::side::{Lent, State, Use};

impl<T: Transport> Borrowing<T> {
    /// Borrows directories that are worth it, until the transport is stopped.
    pub(crate) async fn borrow(&self, shard: ShardIndex) {
        let side = self.side(shard);
        loop {
            let next = {
                let mut state = side.lock();
                state.eager.take_ready().map(|dir| {
                    let is_free = !state.is_closed
                        && self.notes_begin(shard, &mut state)
                        && !state.lent.as_ref().is_some_and(|it| it.core.has_dir(dir.id));
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
            let Some(is_lent) = self.borrow_one(shard, session, dir).await else { return };
            if !is_lent {
                side.lock().eager.refused(dir.id, self.inner.machine_nanos());
            }
            side.changed.notify_waiters();
            side.to_attend.notify_one();
            side.to_send.notify_one();
        }
    }

    /// Tells that what is answered cannot be noted any more. Nothing more is borrowed, and what is
    /// here is given back.
    pub(crate) fn journal_failed(&self, shard: ShardIndex) {
        self.side(shard).lock().close(self.inner.machine_nanos());
        let what = format!(
            "the journal about shard {shard} cannot be written: its directories are lent to this \
             mount no more"
        );
        self.hears().inspect(|it| it.journal_fails(what));
    }

    /// Begins the journal about a shard, if there is to be one. Returns whether something may be
    /// borrowed.
    fn notes_begin(&self, shard: ShardIndex, state: &mut State) -> bool {
        let Some(notes) = &self.settings.notes else { return true };
        if state.queue.journal.is_none() {
            match notes.open(shard) {
                Ok(journal) => state.queue.journal = Some(journal),
                Err(error) => {
                    state.is_closed = true;
                    let what = format!("nothing of shard {shard} is lent to this mount: {error}");
                    self.hears().inspect(|it| it.journal_fails(what));
                    return false;
                }
            }
        }
        !state.queue.is_broken()
    }

    /// Borrows partition 0 of a directory. Requests about it wait. Returns whether it is here;
    /// `None`: the transport is stopped.
    async fn borrow_one(&self, shard: ShardIndex, session: SessionId, dir: DirRef) -> Option<bool> {
        if !self.side(shard).lock().held_up.insert(dir.id) {
            return Some(false);
        }
        // What was sent before must not run after the grant.
        let is_lent = match self.is_still(shard, dir.id).await {
            true => self.ask_for(shard, session, dir).await,
            false => Some(false),
        };
        let mut state = self.side(shard).lock();
        // Whoever reopens its files lets requests go on.
        if !state.reopening.values().any(|other| *other == dir.id) {
            state.held_up.remove(&dir.id);
        }
        is_lent
    }

    async fn ask_for(&self, shard: ShardIndex, session: SessionId, dir: DirRef) -> Option<bool> {
        let part = Part { dir, partition: PartitionIndex(0) };
        let number = {
            let mut state = self.side(shard).lock();
            state.borrowed += 1;
            request_number(state.epoch(), state.borrowed)
        };
        let asked = self.inner.machine_nanos();
        let reply = self.ask(shard, Op::Borrow(session, number, part)).await?;
        let Ok(Body::Lent(loan)) = reply.result else { return Some(false) };
        let grant = loan.grant;
        let is_lent = match self.enter(shard, session, (loan, part), asked) {
            true => self.get_rows(shard, grant).await,
            false => Some(false),
        };
        if is_lent == Some(false) {
            self.side(shard).lock().give_back(&[grant], self.inner.machine_nanos());
        }
        is_lent
    }

    /// Waits until no request is under way that concerns a directory. New ones wait. False: that
    /// takes too long.
    async fn is_still(&self, shard: ShardIndex, dir: DirId) -> bool {
        let side = self.side(shard);
        let until = self.inner.machine_nanos().saturating_add(STILL_WITHIN);
        loop {
            let mut changed = pin!(side.changed.notified());
            changed.as_mut().enable();
            if !side.lock().requests.concern(dir) {
                return true;
            }
            let left = until.saturating_sub(self.inner.machine_nanos());
            if left == 0 {
                return false;
            }
            either(self.inner.sleep(left), changed).await;
        }
    }

    /// Gets all rows of a part. Returns whether they are here; `None`: the transport is stopped.
    async fn get_rows(&self, shard: ShardIndex, grant: TxnId) -> Option<bool> {
        let side = self.side(shard);
        side.to_attend.notify_one();
        let mut from = Vec::new();
        loop {
            let op = Op::LentRows(shard, grant, LentRows::Part(from));
            let reply = self.ask(shard, op).await?;
            // Otherwise the part was recalled meanwhile.
            let Ok(Body::LentRows(page)) = reply.result else { return Some(false) };
            let mut state = side.lock();
            from = page.next.clone();
            let Some(lent) = &mut state.lent else { return Some(false) };
            if lent.core.take_page(grant, page).is_err() {
                return Some(false);
            }
            if from.is_empty() {
                add(&self.sums.lent, 1);
                return Some(lent.uses.contains_key(&grant));
            }
        }
    }

    /// Enters a part without rows, which may be used for a hold from `asked` on. False: it is void,
    /// or belongs to another session than what is here.
    fn enter(
        &self,
        shard: ShardIndex,
        session: SessionId,
        (loan, part): (Loan, Part),
        asked: u64,
    ) -> bool {
        let mut state = self.side(shard).lock();
        let moment = state.moment(asked);
        if state.is_closed || state.session != session || state.is_void(loan.grant) {
            return false;
        }
        if state.lent.is_none() {
            let Settings { map, secrets, .. } = self.settings.clone();
            let config = Config::new(shard, map, secrets);
            let Ok(core) = LentCore::new(config, session, moment) else { return false };
            #[cfg(feature = "planted")]
            let core = crate::planted::planted_into(core);
            state.lent = Some(Lent { core, until: 0, uses: BTreeMap::new() });
        }
        let grant = loan.grant;
        if let Some(lent) = &mut state.lent {
            lent.core.begin(loan, part);
            lent.uses.insert(grant, Use { last: asked, until: asked.saturating_add(HOLD) });
        }
        if let Some(journal) = &mut state.queue.journal {
            journal.part(grant);
        }
        true
    }
}

impl State {
    /// Whether a grant that comes now is void: the shard wanted its part back before that, and has
    /// it, or will.
    fn is_void(&self, grant: TxnId) -> bool {
        self.returning.contains(&grant) || self.over.contains(&grant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_that_was_recalled_before_it_came_is_void() {
        let grant = TxnId { shard: ShardIndex(0), number: 7 };
        let mut state = State::default();
        assert!(!state.is_void(grant));
        state.give_back(&[grant], 5);
        assert!(state.is_void(grant));
        state.is_returned(grant, 1);
        assert!(state.is_void(grant));
    }
}
