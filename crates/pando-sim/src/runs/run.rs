//! A run from start to end, and its verdict.
//!
//! ```text
//!   format, start ─► clients work while things break ─► heal ─► clients end ─► drain ─► walk ─► drain
//!                        ▲ is the structure whole now?   │ and if everything died?
//!                                            ─► is there an order? are the listings right? is the structure whole?
//! ```

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::base::executor::TaskIndex;
use crate::base::lock::lock;
use crate::base::time::{MILLISECOND, SECOND};
use crate::clients::client::ClientRun;
use crate::clients::programs::walk::walk;
use crate::config::parameters::SimConfig;
use crate::machines::bucket::Bucket;
use crate::machines::host::Host;
use crate::runs::fsck;
use crate::runs::state::Run;
use crate::runs::verdict::{Verdict, at_rest};
use crate::world::state::world::ToClient;

/// The structure is checked once in the running cluster, at a random time before this, nanoseconds.
const CHECK_MAX: u64 = 800 * MILLISECOND;
/// Time in which the shards come to rest after the last client has ended, nanoseconds.
const DRAIN: u64 = 5 * SECOND;

/// Runs `config` and judges the run.
#[must_use]
pub fn run(config: SimConfig) -> Verdict {
    let mut run = Run::new(config);
    // A panic anywhere is a verdict, too. The trace shows what led to it.
    let fault = match catch_unwind(AssertUnwindSafe(|| run.work())) {
        Ok(worked) => worked.err(),
        Err(panic) => Some(format!("panic: {}", said(&*panic))),
    };
    run.verdict(fault)
}

impl Run {
    fn work(&mut self) -> Result<(), String> {
        let SimConfig { clients, locals, operations, .. } = self.world.config;
        let here = self.world.here.clone();
        for nth in 0..clients {
            self.begin_client(here.as_ref().filter(|_| nth < locals), operations);
        }
        let check_at = self.random.below(CHECK_MAX);
        let mut is_checked = false;
        while !self.is_idle() && self.world.time < self.world.config.faulty_max {
            if self.world.time >= check_at && !is_checked {
                is_checked = true;
                // A shard may die during the collection, so its errors are ignored.
                let _ = self.collect_objects();
                let (faults, given_up) = fsck::while_running(self);
                self.world.stats.suspicions += given_up;
                self.seen.take().map_or(Ok(()), Err)?;
                if !faults.is_empty() {
                    return Err(format!("structure, while running:\n{}", faults.join("\n")));
                }
            }
            self.step();
            self.seen.take().map_or(Ok(()), Err)?;
        }
        self.if_all_died()?;
        self.world.heal();
        self.until_idle("the clients")?;
        self.drain();
        self.shared.patience = None;
        self.who += 1;
        let walker = ClientRun::new(self.who, self.shared.of(self.who), 1, 0);
        self.others.push(self.world.executor.spawn(walk(walker)));
        self.until_idle("the last look")?;
        if self.world.config.keeping > 0 {
            self.who += 1;
            let looker = ClientRun::new(self.who, self.shared.of(self.who), 1, 0);
            self.others.push(self.world.executor.spawn(looker.look_at_all()));
            self.until_idle("the look at what was fsynced")?;
        }
        if self.world.config.objects > 0 {
            self.who += 1;
            let mut shared = self.shared.of(self.who);
            // Garbage of an added shard must be deleted, too.
            for process in self.world.hosts.iter().filter_map(|host| host.process.as_ref()) {
                shared.volume.map.merge(process.core().map());
            }
            let looker = ClientRun::new(self.who, shared, 1, 0);
            self.others.push(self.world.executor.spawn(looker.look_at_objects()));
            self.until_idle("the look at objects")?;
        }
        if self.world.config.locking > 0 {
            self.who += 1;
            let looker = ClientRun::new(self.who, self.shared.of(self.who), 1, 0);
            self.others.push(self.world.executor.spawn(looker.look_at_locks()));
            self.until_idle("the look at what was locked")?;
        }
        self.drain();
        if self.world.can_collect() {
            self.collect_objects()?;
            // The collection took time, in which a shard may have begun to retry something.
            self.rest();
        }
        Ok(())
    }

    fn if_all_died(&self) -> Result<(), String> {
        let faults = fsck::if_all_died(&self.world.hosts, fsck::Live::bucket(self));
        if faults.is_empty() {
            return Ok(());
        }
        Err(format!("structure, if all died:\n{}", faults.join("\n")))
    }

    pub(crate) fn step(&mut self) {
        match self.world.step() {
            Some(ToClient::Dies) => self.client_dies(),
            Some(ToClient::Pauses) => self.client_pauses(),
            Some(ToClient::IsAway) => self.client_is_away(),
            Some(ToClient::SessionEnds) => self.session_ends(),
            Some(ToClient::Resumes(who)) => self.client_resumes(who),
            None => {}
        }
        self.heed_local_deaths();
        self.world.judge_moves();
        self.seen = self.seen.take().or_else(|| self.world.broken_moves());
        if self.world.time >= self.world.config.watched_from && self.seen.is_none() {
            let at = |fault| format!("{} ns: {fault}", self.world.time);
            self.seen = self.if_all_died().err().map(at);
        }
    }

    fn is_idle(&self) -> bool {
        let clients = self.clients.iter().flat_map(|client| &client.tasks);
        clients.chain(&self.others).all(|task| self.world.executor.is_over(*task))
    }

    fn until_idle(&mut self, who: &str) -> Result<(), String> {
        let deadline = self.world.time + self.world.config.end_within;
        while !self.is_idle() {
            if self.world.time > deadline {
                return Err(format!("{who} did not come to an end:\n{}", self.stuck()));
            }
            self.step();
            self.seen.take().map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    fn stuck(&self) -> String {
        let history = lock(&self.shared.history);
        let open = history.events().iter().filter(|event| event.returned.is_none());
        let open = open.map(|event| format!("  client {}: {:?}\n", event.call.who, event.call.op));
        let tasks = self.clients.iter().map(|client| {
            let left = |task: &&TaskIndex| !self.world.executor.is_over(**task);
            let left = client.tasks.iter().filter(left).count();
            format!("  client {} has {left} tasks left\n", client.run.who)
        });
        tasks.chain(open).collect()
    }

    fn drain(&mut self) {
        let deadline = self.world.time + DRAIN;
        while self.world.time < deadline {
            self.step();
        }
        self.rest();
    }

    /// Waits until no shard retries something just now. Shards retry for ever, at growing
    /// intervals.
    fn rest(&mut self) {
        // The session of a client that has died ends with its lease.
        let deadline = self.world.time + DRAIN.max(2 * self.world.config.lease);
        while self.world.time < deadline && at_rest(&self.world).is_err() {
            self.step();
        }
    }
}
impl fsck::Live for Run {
    fn is_broken(&self) -> bool {
        self.seen.is_some()
    }

    fn step(&mut self) {
        Self::step(self);
    }

    fn time(&self) -> u64 {
        self.world.time
    }

    fn hosts(&self) -> &[Host] {
        &self.world.hosts
    }

    fn bucket(&self) -> Option<Bucket> {
        let objects = self.shared.objects.as_ref();
        objects.filter(|it| !it.may_lose).map(|it| it.bucket.clone())
    }
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}
