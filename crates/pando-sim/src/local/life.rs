//! Starts and deaths of the process that hosts all shards, and of the clients in it.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use crate::model::Call;
use pando_client::{Client, Transport as _};
use pando_types::Errno;
use pando_types::op::Op as Wire;

use super::{Running, SERVER};
use crate::client_run::{ClientRun, lock};
use crate::execute::{Executed, execute};
use crate::host::Process;
use crate::run::Run;
use crate::world::World;

impl ClientRun {
    /// Runs a call. The program may be interrupted meanwhile, and then does not wait for the
    /// result.
    pub(crate) async fn execute(&self, client: &Arc<Client>, call: &Call, page: u32) -> Executed {
        let mut executing = pin!(execute(client, call, page));
        let here = self.shared.here.as_ref();
        let Some(after) = here.and_then(|here| here.interrupts(&call.op)) else {
            return executing.await;
        };
        let mut signal = self.shared.mail.sleep(after);
        let executed = std::future::poll_fn(|context| match executing.as_mut().poll(context) {
            Poll::Ready(executed) => Poll::Ready(Some(executed)),
            Poll::Pending => signal.as_mut().poll(context).map(|()| None),
        });
        executed.await.unwrap_or_else(|| {
            here.into_iter().for_each(|here| lock(&here.inner).counts.interrupted += 1);
            Executed { outcome: Err(Errno::EINTR), is_loose: false, attr: None }
        })
    }
}

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

impl Run {
    /// Replaces clients that have died with their process. The new clients do the operations that
    /// are left.
    pub(crate) fn heed_local_deaths(&mut self) {
        let Some(here) = self.world.here.clone() else { return };
        if !std::mem::take(&mut lock(&here.inner).has_died) {
            return;
        }
        let is_done = |task: &_| self.world.executor.is_over(*task);
        let (dead, others) = std::mem::take(&mut self.clients)
            .into_iter()
            .partition(|it| it.run.shared.here.is_some() && !it.tasks.iter().all(is_done));
        let dead: Vec<_> = dead;
        self.clients = others;
        for client in dead {
            lock(&here.inner).counts.died += 1;
            let left = client.run.left.load(Ordering::Relaxed);
            self.bury_client(client);
            self.begin_client(Some(&here), left.div_ceil(self.world.config.lanes as u64).max(3));
        }
    }
}
