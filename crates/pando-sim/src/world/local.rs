//! Starts and deaths of the process that hosts all shards, and of the clients in it.

use pando_types::op::Op as Wire;

use crate::base::lock::lock;
use crate::clients::local::{Running, SERVER};
use crate::machines::host::Process;
use crate::world::state::world::World;

impl World {
    /// Sets the process's clocks, which its clients read.
    pub(crate) fn set_clocks_here(&self) {
        if self.here.is_some() {
            self.servers[SERVER].clocks.set(self.time);
        }
    }

    /// Carries out what the calls of these clients have led to.
    pub(crate) fn settle_here(&mut self) {
        let Some(here) = self.here.clone() else { return };
        let Some(Running { driven, .. }) = here.running() else { return };
        let (turns, goes_on) = {
            let inner = &mut *lock(&here.inner);
            (std::mem::take(&mut inner.turns), inner.random.chance(3, 4))
        };
        if turns.is_empty() {
            return;
        }
        if goes_on {
            driven.host().settle();
        }
        drop(driven);
        turns.iter().for_each(|shard| self.plan_turn(usize::from(shard.0)));
        self.settle(SERVER);
    }

    /// The process has started. It ends the sessions that clients of the last process have left.
    pub(crate) fn begin_here(&mut self) {
        let (Some(here), Some(driven)) = (self.here.clone(), self.servers[SERVER].driven()) else {
            return;
        };
        let post = self.servers[SERVER].post();
        let known = |process: &Process| process.core().sessions().collect::<Vec<_>>();
        let known = self.hosts[0].process.as_ref().map(known).unwrap_or_default();
        let noted = {
            let inner = &mut *lock(&here.inner);
            // A session that shard 0 does not know has ended, too.
            inner.noted.retain(|session| known.contains(session));
            inner.running = Some(Running { driven, post });
            inner.counts.ended += inner.noted.len() as u64;
            inner.noted.clone()
        };
        noted.into_iter().for_each(|session| self.ask(SERVER, Wire::EndSession(session)));
    }

    /// The process ends.
    pub(crate) fn end_here(&self) {
        if let Some(here) = &self.here {
            let inner = &mut *lock(&here.inner);
            (inner.running, inner.has_died) = (None, true);
        }
    }

    /// Copies the counts of these clients into the run's statistics.
    pub(crate) fn count_here(&mut self) {
        if let Some(here) = &self.here {
            self.stats.local = lock(&here.inner).counts;
        }
    }
}
