//! A holder asks for news of its grants.

use alloc::vec::Vec;

use pando_types::lend::{GrantNews, GrantState, HOLD, Standing};
use pando_types::op::ATTEND_FOR;
use pando_types::reply::Body;
use pando_types::{KeyId, SessionId, TxnId};

use crate::contract::Need;
use crate::records::keys;
use crate::state::ctx::Ctx;
use crate::state::grants::held::{Held, Recall};
use crate::state::grants::reads::Read;
use crate::state::lock_key::LockKey;
use crate::state::shard::Shard;
use crate::state::stop::{Ran, Stop};

/// Most news of one kind in an answer.
const NEWS_MAX: usize = 1_024;

impl Shard {
    /// Runs [`pando_types::op::Op::Attend`].
    pub(crate) fn attend(
        &mut self,
        ctx: &mut Ctx<'_>,
        key: KeyId,
        session: SessionId,
        (recalled, over): (&[TxnId], &[TxnId]),
    ) -> Result<Ran, Stop> {
        let now = ctx.now.nanos;
        let has_forgotten = self.forget_known(ctx, key, over);
        let news = self.news_of_grants(now, key, session, recalled);
        let is_news = !news.recalled.is_empty()
            || !news.reads.is_empty()
            || !news.over.is_empty()
            || !news.prolongs;
        // A wait would undo what was forgotten.
        let waits = !is_news && !has_forgotten && !self.grants.take_due(session);
        if waits && self.grants.wait(session, now.saturating_add(ATTEND_FOR)) {
            return Err(Stop::Wait(LockKey::Grants(session)));
        }
        if news.prolongs {
            self.grants.prolong(session, now);
        }
        // What the holder acts on must not be undone by a loss of power. What it has returned it
        // knows: recalls are not to wait for that.
        let is_fenced = |(_, state): &(TxnId, GrantState)| state.standing == Standing::Fenced;
        let need = if news.over.iter().any(is_fenced) { Need::Durable } else { Need::Committed };
        Ok(Ran::Answer(Body::Attended(news), need))
    }

    /// Forgets grants of which the holder knows that they are over, and takes read grants back.
    /// Returns whether there is one. A full disk has no room for the former.
    fn forget_known(&mut self, ctx: &mut Ctx<'_>, key: KeyId, known: &[TxnId]) -> bool {
        let mut is_any = false;
        for generation in known {
            is_any |= self.give_read_back(ctx, key, *generation);
            if ctx.now.is_spent {
                continue;
            }
            let held = self.grants.get(*generation);
            if held.is_some_and(|held| held.grant.key == key && !held.grant.is_lent()) {
                ctx.delete(keys::grant(*generation));
                self.grants.forget(*generation);
                is_any = true;
            }
        }
        is_any
    }

    fn news_of_grants(
        &self,
        now: u64,
        key: KeyId,
        session: SessionId,
        known: &[TxnId],
    ) -> GrantNews {
        let its = || self.grants.of_session(session).filter(|(_, held)| held.grant.key == key);
        let is_wanted = |held: &Held| held.grant.is_lent() && held.is_wanted();
        let mut known = known.to_vec();
        known.sort_unstable();
        let is_known = |id: TxnId| known.binary_search(&id).is_ok();
        let recalled: Vec<_> = its()
            .filter(|(id, held)| is_wanted(held) && !is_known(*id))
            .map(|(id, _)| id)
            .take(NEWS_MAX + 1)
            .collect();
        let over = its().filter(|(_, held)| !held.grant.is_lent());
        let is_late = |(_, held): (TxnId, &Held)| {
            let recall = held.recalled.filter(|_| held.grant.is_lent());
            recall.is_some_and(|recall| recall.at.saturating_add(HOLD) <= now)
        };
        let reads = || {
            let its = self.grants.reads().of_session(session);
            its.filter(|(_, read)| read.key == key && read.recalled.is_some())
        };
        let is_overdue = |(_, read): (TxnId, &Read)| {
            let is_late = |recall: Recall| recall.at.saturating_add(HOLD) <= now;
            read.at.is_some() && read.recalled.is_some_and(is_late)
        };
        let is_alive = self.sessions.is_alive(session);
        #[cfg(feature = "planted")]
        let is_alive = is_alive || self.is_planted(crate::Planted::HoldOutlivesSession);
        let mut news = GrantNews {
            recalled: Vec::new(),
            over: over.take(NEWS_MAX).map(|(id, held)| (id, state(held))).collect(),
            // A holder that does not return what is wanted back is not to keep the rest. Nor is
            // one that was not told of all recalls.
            prolongs: is_alive
                && recalled.len() <= NEWS_MAX
                && reads().count() <= NEWS_MAX
                && !reads().any(is_overdue)
                && !self.grants.of_session(session).any(is_late),
            reads: reads().take(NEWS_MAX).map(|(id, _)| id).collect(),
        };
        news.recalled = recalled;
        news.recalled.truncate(NEWS_MAX);
        news
    }
}

/// How far a grant has come, as its holder is told.
pub fn state(held: &Held) -> GrantState {
    let grant = &held.grant;
    GrantState { applied: grant.applied, standing: grant.standing, inos: grant.inos.clone() }
}
