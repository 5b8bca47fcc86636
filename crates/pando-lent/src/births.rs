//! Directories that are lent to this session because it makes them.

use pando_client::Transport;
use pando_types::lend::{Born, HOLD, Part, Standing};
use pando_types::op::{Op, Request, RequestId};
use pando_types::reply::{Body, Reply};
use pando_types::{DirRef, PartitionIndex, SessionId, TxnId};

use crate::borrowing::Borrowing;
use crate::settings::UNKNOWN_FOR;
use crate::side::State;

/// Says in a request that makes a directory that it would be borrowed, if it would.
pub(crate) fn would_borrow(request: &mut Request) {
    let RequestId { session, sequence, .. } = request.head.id;
    let is_its = sequence > 0 && session != SessionId(0) && !session.is_local();
    request.head.borrows = is_its && request.trail.is_none() && matches!(request.op, Op::Mkdir(..));
}

impl<T: Transport> Borrowing<T> {
    /// Takes in what a reply lends, to a request of which the first copy was sent at `asked`. The
    /// client hears of the new directory only.
    pub(crate) fn take_born(&self, session: SessionId, asked: Option<u64>, reply: &mut Reply) {
        let Ok(Body::Born(dir, attr, born)) = &mut reply.result else { return };
        let (dir, attr, born) = (*dir, attr.clone(), (**born).clone());
        reply.result = Ok(Body::Made(dir, attr));
        let is_shard = born.home.0 < self.settings.map.shards;
        if let Some(asked) = asked.filter(|_| is_shard) {
            self.enter_born(session, dir, born, asked);
        }
    }

    fn enter_born(&self, session: SessionId, dir: DirRef, born: Born, asked: u64) {
        let Born { home, loan, page } = born;
        let (grant, side, now) = (loan.grant, self.side(home), self.inner.machine_nanos());
        let part = Part { dir, partition: PartitionIndex(0) };
        {
            let mut state = side.lock();
            state.take_session(session);
            // A grant that was recalled before it was heard of may be over.
            let is_new = state.told_of_others < asked && now < asked.saturating_add(HOLD);
            let is_free = is_new
                && !state.knows(grant)
                && !state.lent.as_ref().is_some_and(|it| it.core.has_dir(dir.id))
                && self.notes_begin(home, &mut state)
                && state.enter(session, (loan, part), asked, || self.config_of(home));
            let has_rows = is_free
                && state.lent.as_mut().is_some_and(|it| it.core.take_page(grant, page).is_ok());
            state.births.insert(grant, None);
            match has_rows {
                true => self.is_lent(&state, (home, grant)),
                false => state.give_back(&[grant], now),
            }
        }
        side.to_attend.notify_one();
        side.to_send.notify_one();
    }
}

impl State {
    /// Whether a grant may not be known yet to its shard: the directory's decision is on its way,
    /// for the first time or after a loss of power there.
    pub(crate) fn is_awaited(&mut self, grant: TxnId, told: Standing, now: u64) -> bool {
        let Some(unknown) = self.births.get_mut(&grant) else { return false };
        match told {
            Standing::Unknown => {
                let since = *unknown.get_or_insert(now);
                now < since.saturating_add(UNKNOWN_FOR)
            }
            _ => {
                *unknown = None;
                told == Standing::Awaited
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pando_types::ShardIndex;

    use super::*;

    #[test]
    fn a_birth_may_be_unknown_for_a_while() {
        let grant = |number| TxnId { shard: ShardIndex(1), number };
        let mut state = State::default();
        state.births.insert(grant(1), None);
        assert!(!state.is_awaited(grant(2), Standing::Unknown, 5));
        assert!(state.is_awaited(grant(1), Standing::Unknown, 5));
        assert!(state.is_awaited(grant(1), Standing::Unknown, 4 + UNKNOWN_FOR));
        assert!(state.is_awaited(grant(1), Standing::Awaited, 4 + UNKNOWN_FOR));
        assert!(state.is_awaited(grant(1), Standing::Unknown, 6 + UNKNOWN_FOR));
        assert!(!state.is_awaited(grant(1), Standing::Unknown, 6 + 2 * UNKNOWN_FOR));
        assert!(!state.is_awaited(grant(1), Standing::Stands, 7));
    }
}
