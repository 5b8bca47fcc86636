//! A shard takes back a part that somebody wants and that its holder does not use any more.

use alloc::vec::Vec;

use pando_types::TxnId;
use pando_types::lend::Standing;

use crate::records::keys;
use crate::records::record::{Grant, Record};
use crate::state::ctx::Ctx;
use crate::state::grants::held::{AT_ONCE, Held};
use crate::state::lock_key::LockKey;
use crate::state::shard::Shard;

/// Time after which a grant that is over is forgotten, if its session is over, nanoseconds.
const FORGET_AFTER: u64 = 86_400_000_000_000;
/// Pause until a fence is tried again that a full disk has no room for, nanoseconds.
const SPENT: u64 = 1_000_000_000;

impl Shard {
    /// Fences what is due, and answers holders that have waited long enough for news.
    pub(crate) fn tick_grants(&mut self, ctx: &mut Ctx<'_>) {
        if self.grants.is_empty() {
            return;
        }
        let now = ctx.now.nanos;
        for session in self.grants.take_waited(now) {
            let questions = self.locks.wake(LockKey::Grants(session));
            self.grants.are_due(session, questions.len());
            self.queue.resume(questions);
        }
        // They need no room.
        self.fence_reads(ctx);
        if ctx.now.is_spent {
            self.grants.put_off(now, now.saturating_add(SPENT));
            return;
        }
        for generation in self.grants.to_fence(now) {
            if let Some(held) = self.grants.get(generation) {
                let grant = held.grant.clone();
                self.counters.parts_fenced += 1;
                if self.sessions.is_alive(grant.session) {
                    self.grants.pauses.bar(grant.key, now);
                }
                self.end_grant(ctx, generation, grant, Standing::Fenced);
            }
        }
        if self.grants.is_look_due(now) {
            self.look_for_over(ctx);
        }
    }

    /// Wants parts back of sessions that have been over for a while, and forgets grants that have
    /// been over for long. A journal that is found until then can tell what was applied.
    fn look_for_over(&mut self, ctx: &mut Ctx<'_>) {
        let is_over = |held: &&Held| !self.sessions.is_alive(held.grant.session);
        let over = self.grants.all().filter(|(_, held)| is_over(held));
        let (lent, gone): (Vec<_>, Vec<_>) = over
            .map(|(id, held)| (id, held.grant.is_lent(), held.grant.over_at))
            .partition(|(_, is_lent, _)| *is_lent);
        for (generation, ..) in lent {
            self.recall_grant(ctx.now, generation);
        }
        self.end_reads_of_ended(ctx);
        let now = ctx.now.wall;
        let is_old = |at: u64| at.saturating_add(FORGET_AFTER) <= now;
        let old = gone.into_iter().filter(|(.., at)| is_old(*at)).take(AT_ONCE);
        for (generation, ..) in old {
            ctx.delete(keys::grant(generation));
            self.grants.forget(generation);
        }
    }

    /// Ends a grant, and lets go on what waits for its part.
    pub(crate) fn end_grant(
        &mut self,
        ctx: &mut Ctx<'_>,
        generation: TxnId,
        grant: Grant,
        standing: Standing,
    ) {
        let (part, session) = (grant.part, grant.session);
        let is_wanted = self.grants.get(generation).is_some_and(|held| held.recalled.is_some());
        let over = Grant { standing, over_at: ctx.now.wall, ..grant };
        ctx.put(keys::grant(generation), over.encode());
        self.grants.update(generation, over);
        if is_wanted {
            self.grants.pauses.note((part.dir.id, part.partition), ctx.now.nanos);
        }
        for key in self.locks_of_part(part) {
            self.queue.resume(self.locks.release(key, generation));
        }
        self.queue.resume(self.locks.wake(LockKey::Grants(session)));
    }
}
