//! Shards that are added to a running volume (GIGA+ §3.4, DESIGN §4).
//!
//! ```text
//!   client        shard 0                              the new shard: an empty store, known to nobody
//!     AddShard ──►  Prepare(Join) ────────────────────►  logs, syncs
//!                   ◄───────────────────────── Voted ──
//!                   logs: one shard more, and the sessions there are; syncs
//!     ◄── Done ──   Finish(Join(sessions)) ───────────►  knows them; asks which versions of paths there are
//! ```
//!
//! 1. Whether there is such a shard is shard 0's to say, by a record. From that very moment it is
//!    told which sessions begin and end, and every version of paths waits for it, also what was
//!    begun before: that counts shards when it is decided.
//! 2. Sessions are told with the decision, as of a position in the sequence of begins and ends.
//!    What follows is told as to any other shard.
//! 3. It asks for versions only then; whatever shard 0 had decided before is in the answer, and
//!    what comes after waits for it.
//! 4. It has no slot, and takes none before. Others learn that it is there when it owns one.
//! 5. Shards are numbered in turn, so who hears of one knows of all below it.

use pando_types::op::Request;
use pando_types::peer::SessionTable;
use pando_types::{Errno, SHARDS_MAX, ShardIndex};

use crate::client::{Ran, not_here};
use crate::contract::{ClientTag, Halt};
use crate::ctx::{Ctx, Stop, broken};
use crate::keys::{self, Table};
use crate::sessions::COORDINATOR;
use crate::shard::Shard;
use crate::txn::plan::{Join, Plan};

impl Shard {
    /// What this shard knows of who owns which slot, and of how many shards there are.
    #[must_use]
    pub fn map(&self) -> &pando_placement::ClusterMap {
        &self.config.map
    }

    /// Whether this is one of the volume's shards already.
    #[must_use]
    pub fn has_joined(&self) -> bool {
        self.config.shard.0 < self.config.map.shards
    }

    /// All shards but shard 0, as far as is known here.
    pub(crate) fn others(&self) -> impl Iterator<Item = ShardIndex> + use<> {
        (0..self.config.map.shards).map(ShardIndex).filter(|shard| *shard != COORDINATOR)
    }

    /// Somebody has made a shard.
    pub(crate) fn add_shard(
        &mut self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: &Request,
        shard: ShardIndex,
    ) -> Result<Ran, Stop> {
        if self.config.shard != COORDINATOR {
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

    /// There is one shard more.
    pub(crate) fn add(&mut self, ctx: &mut Ctx<'_>, shard: ShardIndex) {
        ctx.put(keys::joined(shard), alloc::vec::Vec::new());
        self.config.map.grow(shard.0 + 1);
    }

    /// This is one of the volume's shards from now on.
    pub(crate) fn join(&mut self, ctx: &mut Ctx<'_>, sessions: &SessionTable) -> Result<(), Halt> {
        self.hear_table(ctx, sessions)?;
        self.add(ctx, self.config.shard);
        Ok(())
    }

    /// What shards there are on record beyond those that the volume was made with.
    pub(crate) fn load_joined(&mut self, ctx: &Ctx<'_>) -> Result<(), Halt> {
        let prefix = keys::table(Table::Joined);
        for (key, _) in ctx.rows(&prefix, &keys::after(&prefix))? {
            let shard = keys::joined_of(&key).ok_or_else(|| broken("the key of an added shard"))?;
            self.config.map.grow(shard.0 + 1);
        }
        Ok(())
    }
}
