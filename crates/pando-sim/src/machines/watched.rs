//! The core of a shard as the shell runs it, with its watchers.

use std::sync::{Arc, Mutex};

use pando_core::{Effects, Halt, Input, Now, Out, Rows, Shard};
use pando_server::machine::Machine;
use pando_types::op::{ObjectId, Request};
use pando_types::reply::Reply;
use pando_types::watch::{Settled, Watching};
use pando_types::{Errno, KeyId, ShardIndex};

use crate::base::lock::lock;
use crate::judges::applied::Applied;
use crate::judges::locks::Locks;

/// The shard that keeps the list of sessions.
const SESSIONS: ShardIndex = ShardIndex(0);

/// The core as the shell runs it, with its watchers.
pub(super) struct Watched {
    pub(super) shard: ShardIndex,
    pub(super) core: Arc<Mutex<Shard>>,
    pub(super) locks: Option<Arc<Mutex<Locks>>>,
    pub(super) applied: Arc<Mutex<Applied>>,
}

impl Watched {
    /// Tells the judge of locks which sessions are alive, and which requests have run.
    pub(super) fn tell(&self, core: &Shard, repeated: u64, effects: &Effects) {
        let Some(locks) = &self.locks else { return };
        let watch = &mut lock(locks).watch;
        if self.shard == SESSIONS {
            watch.sessions(core.sessions());
        }
        let is_new = core.counters().repeated == repeated;
        for (_, out) in &effects.out {
            if let Out::Reply(_, reply) = out {
                watch.answers(reply, is_new, core.sessions_heard());
            }
        }
    }
}

impl Machine for Watched {
    fn handle(&mut self, now: Now, input: Input, rows: &dyn Rows) -> Result<Effects, Halt> {
        let mut core = lock(&self.core);
        let repeated = core.counters().repeated;
        let effects = core.handle(now, input, rows)?;
        lock(&self.applied).hear(now.seen, &effects);
        self.tell(&core, repeated, &effects);
        match core.counters().bad_messages {
            0 => Ok(effects),
            _ => Err(Halt::Broken(
                "a message of a shard was refused as one that cannot be".to_owned(),
            )),
        }
    }

    fn begin_anew(&mut self, now: Now, refuse: Errno, rows: &dyn Rows) -> Result<Effects, Halt> {
        let mut core = lock(&self.core);
        lock(&self.applied).begin_again(now.seen);
        let repeated = core.counters().repeated;
        let effects = core.begin_anew(now, refuse, rows)?;
        self.tell(&core, repeated, &effects);
        Ok(effects)
    }

    fn answer_at_once(
        &mut self,
        now: Now,
        key: KeyId,
        request: &Request,
        rows: &dyn Rows,
    ) -> Result<Option<Box<Reply>>, Halt> {
        lock(&self.core).answer_at_once(now, key, request, rows)
    }

    fn watch(&mut self, id: u64) -> Option<Watching> {
        lock(&self.core).watch(id)
    }

    fn settle_watch(&mut self, id: u64, first: ObjectId) -> Settled {
        lock(&self.core).settle_watch(id, first)
    }

    fn has_ready(&self) -> bool {
        lock(&self.core).has_ready()
    }

    fn counters(&self) -> Vec<pando_core::Count> {
        Machine::counters(&*lock(&self.core))
    }
}
