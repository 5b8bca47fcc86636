//! New grants, of one shard.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::Ordering;

use pando_client::Transport;
use pando_core::contract::Config;
use pando_core::{Counted, LentCore};
use pando_types::lend::{HOLD, LentPage, LentRows, Loan, request_number};
use pando_types::op::Op;
use pando_types::reply::{Body, Refusal};
use pando_types::{DirId, DirRef, Order, SessionId, ShardIndex, TxnId};

use crate::borrowing::{Borrowing, either};
use crate::counts::add;
use crate::known::eager::Wanted;
use crate::settings::{ROWS_MAX, STILL_WITHIN, Settings};
use crate::side::{Borrowed, Lent, Side, State, Use};

impl<T: Transport> Borrowing<T> {
    /// Borrows parts that are worth it, until the transport is stopped.
    pub(crate) async fn borrow(&self, shard: ShardIndex) {
        let side = self.side(shard);
        loop {
            let has_room = self.has_room();
            let next = {
                let mut state = side.lock();
                state.eager.take_ready().map(|wanted| {
                    let is_free = has_room
                        && !state.is_closed
                        && self.notes_begin(shard, &mut state)
                        && !state.lent.as_ref().is_some_and(|it| wanted.is_at(&it.core));
                    (wanted, state.session, is_free)
                })
            };
            let Some((wanted, session, is_free)) = next else {
                side.to_borrow.notified().await;
                continue;
            };
            if !is_free {
                continue;
            }
            let Some(wanted) = self.with_content_first(shard, wanted) else { continue };
            let Some(is_lent) = self.borrow_one(shard, session, &wanted).await else { return };
            if !is_lent {
                side.lock().eager.refused(&wanted, self.inner.machine_nanos());
            }
            side.changed.notify_waiters();
            side.to_attend.notify_one();
            side.to_send.notify_one();
        }
    }

    /// Whether there is room for the rows of one more part.
    fn has_room(&self) -> bool {
        let bytes = |side: &Side| side.lock().lent.as_ref().map_or(0, |lent| lent.core.bytes());
        self.begun().map(bytes).sum::<usize>() < ROWS_MAX
    }

    /// What is to be borrowed first: at the home of a directory, the part with its content. Whoever
    /// asks for attributes there would else want all its parts back. `None`: that is not lent now.
    fn with_content_first(&self, shard: ShardIndex, wanted: Wanted) -> Option<Wanted> {
        let (dir, now) = (wanted.dir.id, self.inner.machine_nanos());
        let mut state = self.side(shard).lock();
        let first = state.lent.as_ref().and_then(|lent| lent.core.grant_at(dir, Order(0)));
        // What is known since this mount began counts before its map.
        let is_home = state.eager.is_home(dir);
        let is_home = is_home.unwrap_or_else(|| self.settings.map.home(dir) == shard);
        match is_home && wanted.orders.start > 0 && first.is_none() {
            true => state.eager.first_of(&wanted, (now, self.settings.eager_after)),
            false => Some(wanted),
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

    /// Borrows a part. Requests about it wait. Returns whether it is here; `None`: the transport is
    /// stopped.
    async fn borrow_one(
        &self,
        shard: ShardIndex,
        session: SessionId,
        wanted: &Wanted,
    ) -> Option<bool> {
        let (dir, side) = (wanted.dir.id, self.side(shard));
        // Before requests wait: shards are told what is open.
        self.end_read_of(shard, dir).await;
        let is_free = {
            let mut state = side.lock();
            let is_free = !state.held_up.contains(&dir);
            let (orders, secrets) = (wanted.orders.clone(), self.settings.secrets.clone());
            state.borrowing = is_free.then_some(Borrowed { dir, orders, secrets });
            is_free
        };
        // What was sent before would meet the grant, and want it back.
        let is_lent = match is_free && self.is_still(shard, wanted).await {
            true => self.ask_for(shard, session, wanted).await,
            false => Some(false),
        };
        self.memory.has_borrowed(dir);
        side.lock().borrowing = None;
        is_lent
    }

    async fn ask_for(
        &self,
        shard: ShardIndex,
        session: SessionId,
        wanted: &Wanted,
    ) -> Option<bool> {
        let number = {
            let mut state = self.side(shard).lock();
            state.borrowed += 1;
            request_number(state.epoch(), state.borrowed)
        };
        let asked = self.inner.machine_nanos();
        let borrow = Op::Borrow(session, number, wanted.dir, wanted.order);
        let reply = self.ask(shard, borrow).await?;
        let (loan, page) = match reply.result {
            Ok(Body::Lent(loan, page)) => (loan, page),
            Err(Refusal::Redirect(_) | Refusal::HashSlot(_)) if wanted.order == Order(0) => {
                self.side(shard).lock().eager.is_not_home(wanted.dir.id);
                return Some(false);
            }
            _ => return Some(false),
        };
        let grant = loan.grant;
        self.side(shard).lock().lies_at(wanted.dir.id, &page);
        let is_lent = match self.enter(shard, session, (loan, wanted.dir), asked) {
            true => self.get_rows(shard, grant, page).await?,
            false => false,
        };
        if !is_lent {
            self.side(shard).lock().give_back(&[grant], self.inner.machine_nanos());
        }
        Some(is_lent)
    }

    /// Notes that all rows of a part are here.
    pub(crate) fn is_lent(&self, state: &State, (shard, grant): (ShardIndex, TxnId)) {
        add(&self.sums.lent, 1);
        let Some(lent) = &state.lent else { return };
        // By a part of a directory its kernel may not remember the rest.
        if lent.core.is_all(grant) {
            state.stand(shard, grant);
        }
        let first = lent.core.dir_of(grant).filter(|dir| {
            // Beside the directory's content.
            lent.core.grant_at(*dir, Order(0)) == Some(grant)
        });
        if let (Some(dir), Some(place)) = (first, lent.core.place_of(grant)) {
            self.places.note(dir, place, (shard, grant));
        }
    }

    /// Waits until no request is under way that is about a part. New ones wait. False: that takes
    /// too long.
    async fn is_still(&self, shard: ShardIndex, wanted: &Wanted) -> bool {
        let side = self.side(shard);
        let until = self.inner.machine_nanos().saturating_add(STILL_WITHIN);
        loop {
            let mut changed = pin!(side.changed.notified());
            changed.as_mut().enable();
            if !side.lock().requests.concern(wanted.dir.id, &wanted.orders) {
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
    async fn get_rows(&self, shard: ShardIndex, grant: TxnId, first: LentPage) -> Option<bool> {
        let side = self.side(shard);
        side.to_attend.notify_one();
        let mut page = first;
        loop {
            let from = page.next.clone();
            {
                let mut state = side.lock();
                if !state.take_page(grant, page) {
                    return Some(false);
                }
                if from.is_empty() {
                    self.is_lent(&state, (shard, grant));
                    return Some(true);
                }
            }
            let op = Op::LentRows(shard, grant, LentRows::Part(from));
            // Otherwise the part was recalled meanwhile.
            let Ok(Body::LentRows(next)) = self.ask(shard, op).await?.result else {
                return Some(false);
            };
            page = next;
        }
    }

    /// Enters a part without rows, which may be used for a hold from `asked` on. False: it belongs
    /// to another session than what is here.
    fn enter(
        &self,
        shard: ShardIndex,
        session: SessionId,
        lent: (Loan, DirRef),
        asked: u64,
    ) -> bool {
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
        (loan, dir): (Loan, DirRef),
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
            lent.core.begin(loan, dir);
            let until = asked.saturating_add(HOLD);
            lent.uses.insert(grant, Use { last: asked, until, answered: 0 });
        }
        if let Some(journal) = &mut self.queue.journal {
            journal.part(grant);
        }
        true
    }

    /// Takes in a page of a part's rows. False: it is not here any more, or the rows cannot be
    /// decoded.
    fn take_page(&mut self, grant: TxnId, page: LentPage) -> bool {
        let Some(lent) = self.lent.as_mut().filter(|it| it.uses.contains_key(&grant)) else {
            return false;
        };
        lent.core.take_page(grant, page).is_ok()
    }

    /// Notes where the part lies that is being borrowed, also if it was wanted back before it came.
    fn lies_at(&mut self, dir: DirId, first: &LentPage) {
        let Some(part) = Counted::of(dir, first) else { return };
        if let Some(borrowing) = &mut self.borrowing {
            borrowing.orders = part.orders.clone();
        }
        self.eager.learn(part);
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
