//! Shards that are added to a running volume (GIGA+ §3.4; docs/design/handover.md).
//!
//! ```text
//!   client        shard 0                              the new shard: an empty store, not in any map
//!     AddShard ──►  Prepare(Join) ────────────────────►  logs, syncs
//!                   ◄───────────────────────── Voted ──
//!                   logs one more shard, and which sessions live; syncs
//!     ◄── Done ──   Finish(Join(sessions)) ───────────►  knows them; asks for versions of paths
//! ```
//!
//! 1. Shard 0 alone says that a shard exists, by a record. From then on it tells the new shard of
//!    begins and ends of sessions, and every version of a path waits for the new shard. That
//!    includes versions under way: shards are counted when a version is decided.
//! 2. The decision brings the sessions, as of a position in the sequence of begins and ends. Later
//!    events are told as to any other shard.
//! 3. Only then the new shard asks for versions. The answer has all that shard 0 decided before.
//!    Later versions wait for the new shard.
//! 4. A new shard owns no hash slot, and takes none before it has joined. Others learn that it
//!    exists when it owns one.
//! 5. Shards are numbered in turn. A shard that hears of one shard knows of all below it.

use pando_types::op::{Place, Request};
use pando_types::peer::{Change, Prepare, SessionTable};
use pando_types::reply::Body;
use pando_types::{Errno, SHARDS_MAX, ShardIndex};

use crate::contract::{ClientTag, Halt, SHARD_0};
use crate::records::keys::{self, Table};
use crate::state::ctx::Ctx;
use crate::state::shard::Shard;
use crate::state::stop::{Ran, Stop, bad_key, not_here};
use crate::state::txn::plan::{Join, Plan};
use crate::txn::plan::view::{Decision, Next, View};

impl Shard {
    /// This shard's map of the owners of hash slots, and of the number of shards.
    #[must_use]
    pub fn map(&self) -> &pando_placement::ClusterMap {
        &self.config.map
    }

    /// Whether this shard is one of the volume's shards.
    #[must_use]
    pub fn has_joined(&self) -> bool {
        self.config.shard.0 < self.config.map.shards
    }

    /// All shards except shard 0, as far as this shard knows.
    pub(crate) fn others(&self) -> impl Iterator<Item = ShardIndex> + use<> {
        (0..self.config.map.shards).map(ShardIndex).filter(|shard| *shard != SHARD_0)
    }

    /// Adds a shard that has been made, by a transaction. It must have the next number, else
    /// `EINVAL`. A shard that was added already is answered at once.
    pub(crate) fn add_shard(
        &mut self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: &Request,
        shard: ShardIndex,
    ) -> Result<Ran, Stop> {
        if self.config.shard != SHARD_0 {
            return Err(not_here());
        }
        let next = self.config.map.shards;
        if shard.0 < next {
            return Ok(pando_types::reply::Body::Done.into());
        }
        if shard.0 > next || next >= SHARDS_MAX {
            return Err(Errno::EINVAL.into());
        }
        self.begin(ctx, tag, request, Plan::Join(Join::new(shard)))
    }

    /// Records that there is one more shard.
    pub(crate) fn add(&mut self, ctx: &mut Ctx<'_>, shard: ShardIndex) {
        ctx.put(keys::joined(shard), alloc::vec::Vec::new());
        self.config.map.grow(shard.0 + 1);
    }

    /// Makes this shard one of the volume's shards, with the sessions that live by then.
    pub(crate) fn join(&mut self, ctx: &mut Ctx<'_>, sessions: &SessionTable) -> Result<(), Halt> {
        self.hear_table(ctx, sessions)?;
        self.add(ctx, self.config.shard);
        Ok(())
    }

    /// Loads the shards that were added to those with which the volume was made.
    pub(crate) fn load_joined(&mut self, ctx: &Ctx<'_>) -> Result<(), Halt> {
        let prefix = keys::table(Table::Joined);
        for (key, _) in ctx.rows(&prefix, &keys::after(&prefix))? {
            let shard = keys::joined_of(&key).ok_or_else(|| bad_key(Table::Joined))?;
            self.config.map.grow(shard.0 + 1);
        }
        Ok(())
    }
}

impl Join {
    pub fn new(shard: ShardIndex) -> Self {
        Self { shard }
    }

    pub fn next(&mut self, view: &mut View<'_, '_>) -> Next {
        if view.votes.0.is_empty() {
            return Next::Ask(Place::Shard(self.shard), Prepare::Join);
        }
        // Another join of this shard may have been faster.
        if self.shard.0 < view.shard.config.map.shards {
            return Next::Restart;
        }
        view.shard.add(view.ctx, self.shard);
        let change = Change::Join(view.shard.session_table());
        Next::Decide(Decision {
            changes: alloc::vec![(0, change)],
            then: alloc::vec::Vec::new(),
            body: Body::Done,
        })
    }
}
