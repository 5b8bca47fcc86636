//! Outcome of the last changing request of each request slot of a session, so that a repetition is
//! answered and does not run again (docs/decisions/outcomes-by-request-slot.md).
//!
//! 1. Outcomes are records: a client repeats requests that a shard which died has not answered.
//! 2. Outcomes of a client in this process (`SessionId::is_local`) are in memory only: the client
//!    dies with the process (docs/decisions/local-sessions-write-no-outcomes.md).

use alloc::vec::Vec;
use pando_types::DirId;

use crate::contract::{Halt, Row};
use crate::records::keys::{self, Table};
use crate::records::record::{Outcome, Record};
use crate::state::ctx::Ctx;
use crate::state::shard::Shard;
use crate::state::stop::bad_key;

impl Shard {
    /// Rows for the target of a move: outcomes of requests in what moves, and floors of all others.
    /// With them, no late repetition runs again at the target.
    pub(crate) fn slots_for(
        &self,
        ctx: &Ctx<'_>,
        moves: impl Fn(Option<(DirId, u64)>) -> bool,
    ) -> Result<Vec<Row>, Halt> {
        let as_moved = |mut outcome: Outcome| {
            if !moves(outcome.at) {
                (outcome.result, outcome.at) = (None, None);
            }
            outcome.encode()
        };
        let prefix = keys::table(Table::Outcome);
        let mut rows = ctx.rows(&prefix, &keys::after(&prefix))?;
        for (_, value) in &mut rows {
            *value = as_moved(Outcome::decode(value)?);
        }
        // A refusal comes after the older record of its slot, so it wins.
        let soft = self.sessions.outcomes.unrecorded();
        rows.extend(
            soft.map(|(slot, outcome)| (keys::outcome(slot.0, slot.1), as_moved(outcome.clone()))),
        );
        #[cfg(feature = "planted")]
        if self.is_planted(crate::Planted::FloorsLeftBehind) {
            rows.retain(|(_, value)| Outcome::decode(value).is_ok_and(|its| its.result.is_some()));
        }
        Ok(rows)
    }

    /// Takes over outcomes and floors from another shard that are newer than this shard's. They
    /// stand even if the move that brings them fails: those requests have run. They must be durable
    /// at the source.
    pub(crate) fn take_slots(&mut self, ctx: &mut Ctx<'_>, slots: Vec<Row>) -> Result<(), Halt> {
        for (key, value) in slots {
            let slot = keys::outcome_of(&key).ok_or_else(|| bad_key(Table::Outcome))?;
            let theirs = Outcome::decode(&value)?;
            let ours = self.sessions.outcomes.newest(slot).unwrap_or(0);
            // An earlier move may have brought only the floor of this request. Its answer comes
            // now.
            let is_answer = theirs.sequence == ours && theirs.result.is_some();
            if theirs.sequence > ours || is_answer {
                self.keep_what_is_left(ctx, slot.0);
                self.sessions.outcomes.take(ctx, slot, theirs);
            }
        }
        Ok(())
    }
}
