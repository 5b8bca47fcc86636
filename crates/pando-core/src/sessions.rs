//! Sessions: issued and ended by the coordinator shard, known to all (DESIGN §6). Who does not end his own is taken for
//! dead when its lease is over: see [`crate::leases`].

use pando_types::ShardIndex;
use pando_types::op::{Op, Request};

use crate::client::{Ran, not_here};
use crate::contract::ClientTag;
use crate::ctx::{Ctx, Stop};
use crate::shard::Shard;
use crate::txn::plan::{Plan, Session};

/// The shard that issues sessions and lets directories move.
pub const COORDINATOR: ShardIndex = ShardIndex(0);

impl Shard {
    pub(crate) fn session_request(
        &mut self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: &Request,
    ) -> Result<Ran, Stop> {
        if self.config.shard != COORDINATOR {
            return Err(not_here());
        }
        let session = match &request.op {
            Op::EndSession(session) => Session::Ends(*session),
            op => Session::Begins { is_local: matches!(op, Op::OpenLocalSession) },
        };
        self.begin(ctx, tag, request, Plan::Session(session))
    }
}
