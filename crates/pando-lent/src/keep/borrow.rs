//! New grants, of one shard.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::Ordering;

use pando_client::Transport;
use pando_core::LentCore;
use pando_core::contract::Config;
use pando_types::lend::{HOLD, LentPage, LentRows, Loan, Part, request_number};
use pando_types::op::Op;
use pando_types::reply::Body;
use pando_types::{DirId, DirRef, PartitionIndex, SessionId, ShardIndex, TxnId};

use crate::borrowing::{Borrowing, either};
use crate::counts::add;
use crate::settings::{STILL_WITHIN, Settings};
use crate::side::{Lent, State, Use};

/// What became of a request for a part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Lent,
    Refused,
    /// Refused, because the directory has several partitions.
    Split,
}

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
            let Some(answer) = self.borrow_one(shard, session, dir).await else { return };
            if answer != Answer::Lent {
                let is_split = answer == Answer::Split;
                side.lock().eager.refused(dir.id, is_split, self.inner.machine_nanos());
            }
            side.changed.notify_waiters();
            side.to_attend.notify_one();
            side.to_send.notify_one();
        }
    }

    /// Tells that what is answered cannot be noted any more. Nothing more is borrowed, and what is
    /// here is given back.
    pub(crate) fn journal_failed(&self, shard: ShardIndex) {
        self.is_barren.store(true, Ordering::Relaxed);
        self.side(shard).lock().close(self.inner.machine_nanos());
        let what = format!(
            "the journal about shard {shard} cannot be written: its directories are lent to this \
             mount no more"
        );
        self.hears().inspect(|it| it.journal_fails(what));
    }

    /// Begins the journal about a shard, if there is to be one. Returns whether something may be
    /// borrowed.
    pub(crate) fn notes_begin(&self, shard: ShardIndex, state: &mut State) -> bool {
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

    /// Borrows partition 0 of a directory. Requests about it wait. `None`: the transport is
    /// stopped.
    async fn borrow_one(
        &self,
        shard: ShardIndex,
        session: SessionId,
        dir: DirRef,
    ) -> Option<Answer> {
        // Before requests wait: shards are told what is open.
        self.end_read_of(shard, dir.id).await;
        if !self.side(shard).lock().held_up.insert(dir.id) {
            self.memory.has_borrowed(dir.id);
            return Some(Answer::Refused);
        }
        // What was sent before must not run after the grant.
        let answer = match self.is_still(shard, dir.id).await {
            true => self.ask_for(shard, session, dir).await,
            false => Some(Answer::Refused),
        };
        self.memory.has_borrowed(dir.id);
        let mut state = self.side(shard).lock();
        // Whoever reopens its files lets requests go on.
        if !state.reopening.values().any(|other| *other == dir.id) {
            state.held_up.remove(&dir.id);
        }
        answer
    }

    async fn ask_for(&self, shard: ShardIndex, session: SessionId, dir: DirRef) -> Option<Answer> {
        let part = Part { dir, partition: PartitionIndex(0) };
        let number = {
            let mut state = self.side(shard).lock();
            state.borrowed += 1;
            request_number(state.epoch(), state.borrowed)
        };
        let asked = self.inner.machine_nanos();
        let reply = self.ask(shard, Op::Borrow(session, number, part)).await?;
        let Ok(Body::Lent(loan, page)) = reply.result else { return Some(Answer::Refused) };
        let grant = loan.grant;
        let answer = match self.enter(shard, session, (loan, part), asked) {
            true => self.get_rows(shard, grant, page).await?,
            false => Answer::Refused,
        };
        if answer != Answer::Lent {
            self.side(shard).lock().give_back(&[grant], self.inner.machine_nanos());
        }
        Some(answer)
    }

    /// Notes that all rows of a part are here.
    pub(crate) fn is_lent(&self, state: &State, (shard, grant): (ShardIndex, TxnId)) {
        add(&self.sums.lent, 1);
        state.stand(shard, grant);
        let Some(lent) = &state.lent else { return };
        if let (Some(dir), Some(place)) = (lent.core.dir_of(grant), lent.core.place_of(grant)) {
            self.places.note(dir, place, (shard, grant));
        }
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

    /// Gets all rows of a part, unless its directory has others: its attributes need all of them.
    /// `None`: the transport is stopped.
    async fn get_rows(&self, shard: ShardIndex, grant: TxnId, first: LentPage) -> Option<Answer> {
        let side = self.side(shard);
        side.to_attend.notify_one();
        let mut page = first;
        loop {
            let from = page.next.clone();
            {
                let mut state = side.lock();
                let Some(lent) = &mut state.lent else { return Some(Answer::Refused) };
                if lent.core.take_page(grant, page).is_err() || !lent.uses.contains_key(&grant) {
                    return Some(Answer::Refused);
                }
                if !lent.core.is_all(grant) {
                    return Some(Answer::Split);
                }
                if from.is_empty() {
                    self.is_lent(&state, (shard, grant));
                    return Some(Answer::Lent);
                }
            }
            let op = Op::LentRows(shard, grant, LentRows::Part(from));
            // Otherwise the part was recalled meanwhile.
            let Ok(Body::LentRows(next)) = self.ask(shard, op).await?.result else {
                return Some(Answer::Refused);
            };
            page = next;
        }
    }

    /// Enters a part without rows, which may be used for a hold from `asked` on. False: it belongs
    /// to another session than what is here.
    fn enter(&self, shard: ShardIndex, session: SessionId, lent: (Loan, Part), asked: u64) -> bool {
        let config = || self.config_of(shard);
        self.side(shard).lock().enter(session, lent, asked, config)
    }

    /// What the core over lent parts of a shard must know.
    pub(crate) fn config_of(&self, shard: ShardIndex) -> Config {
        let Settings { map, secrets, .. } = self.settings.clone();
        Config::new(shard, map, secrets)
    }
}

impl State {
    /// Enters a part without rows, which may be used for a hold from `asked` on. False: it is void,
    /// or belongs to another session than what is here.
    pub(crate) fn enter(
        &mut self,
        session: SessionId,
        (loan, part): (Loan, Part),
        asked: u64,
        config: impl FnOnce() -> Config,
    ) -> bool {
        let moment = self.moment(asked);
        if self.is_closed || self.session != session || self.is_void(loan.grant) {
            return false;
        }
        if self.lent.is_none() {
            let Ok(core) = LentCore::new(config(), session, moment) else { return false };
            #[cfg(feature = "planted")]
            let core = crate::planted::planted_into(core);
            self.lent = Some(Lent { core, until: 0, uses: BTreeMap::new() });
        }
        let grant = loan.grant;
        if let Some(lent) = &mut self.lent {
            lent.core.begin(loan, part);
            let until = asked.saturating_add(HOLD);
            lent.uses.insert(grant, Use { last: asked, until, answered: 0 });
        }
        if let Some(journal) = &mut self.queue.journal {
            journal.part(grant);
        }
        true
    }

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
