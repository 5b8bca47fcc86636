//! What breaks, and how it comes back: deaths, restarts, checkpoints, syncs that nobody hurries.

use crate::config::{Durability, MILLISECOND};
use crate::happening::Happening;
use crate::network::End;
use crate::world::World;

impl World {
    pub(crate) fn background_sync(&mut self, shard: usize) {
        let host = &self.hosts[shard];
        if host.process.as_ref().is_some_and(|process| process.is_waiting()) {
            self.after(10_000, Happening::Sync(shard, host.life));
        }
        self.after(self.config.sync_interval, Happening::BackgroundSync(shard));
    }

    pub(crate) fn checkpoint(&mut self, shard: usize) {
        let mut delay = self.random.between(1, 2 * self.config.checkpoint_interval);
        if self.hosts[shard].process.is_some() {
            match self.hosts[shard].checkpoint() {
                Ok(true) => delay = self.random.between(100_000, 10 * MILLISECOND),
                Ok(false) => self.stats.checkpoints += 1,
                Err(_) => {
                    self.stats.checkpoint_crashes += 1;
                    self.crash(shard);
                }
            }
        }
        self.after(delay, Happening::Checkpoint(shard));
    }

    /// The disk stops at one of its next changes.
    pub(crate) fn arm_crash(&mut self, shard: usize) {
        let changes = self.random.between(1, 30);
        self.hosts[shard].disk.crash_at(changes);
        self.plan_crash(shard);
    }

    /// The process that hosts `shard` dies, with all its shards.
    pub(crate) fn crash(&mut self, shard: usize) {
        let power = self.config.durability != Durability::Os && self.random.chance(1, 2);
        self.trace.note(self.time, &[], format_args!("shard {shard} dies, power lost: {power}"));
        let shards: Vec<usize> = self.housemates(shard).collect();
        let running = shards.iter().filter(|s| self.hosts[**s].process.is_some()).count();
        self.stats.crashed_together += u64::from(running > 1);
        // What has left the process, the kernel sends.
        if !power && self.random.chance(1, 2) {
            for &shard in &shards {
                self.say_all(End::Shard(shard));
            }
        }
        for &shard in &shards {
            if self.hosts[shard].process.is_some() || shards.len() == 1 {
                self.stats.crash(&self.hosts[shard], power);
            }
            self.inboxes[shard].clear();
            self.hosts[shard].die(power);
        }
        for &shard in &shards {
            for other in self.network.neighbours(End::Shard(shard)) {
                self.break_off(End::Shard(shard), other);
            }
        }
        let delay = self.random.between(1, 40) * MILLISECOND;
        self.after(delay, Happening::Restart(shard));
    }

    /// Starts the process that hosts `shard`: those of its shards that do not run.
    pub(crate) fn restart(&mut self, shard: usize) {
        let shards: Vec<usize> = self.housemates(shard).collect();
        for shard in shards {
            if self.hosts[shard].process.is_some() {
                continue;
            }
            self.trace.note(self.time, &[], format_args!("shard {shard} starts"));
            if self.is_faulty && self.time > 0 && self.random.chance(1, 8) {
                let changes = self.random.between(1, 12);
                self.hosts[shard].disk.crash_at(changes);
            }
            let started = self.hosts[shard].start(self.time);
            let died = started.is_err();
            self.dispatch(shard, started);
            if died {
                return;
            }
        }
    }

    /// The shards of one process.
    fn housemates(&self, shard: usize) -> impl Iterator<Item = usize> + use<> {
        let processes = self.config.processes;
        (0..self.hosts.len()).filter(move |other| other % processes == shard % processes)
    }

    pub(crate) fn plan_faults(&mut self, shard: usize) {
        let sync = self.random.between(1, 1 + self.config.sync_interval);
        self.after(sync, Happening::BackgroundSync(shard));
        let checkpoint = self.random.between(1, 2 * self.config.checkpoint_interval);
        self.after(checkpoint, Happening::Checkpoint(shard));
        self.plan_crash(shard);
    }

    fn plan_crash(&mut self, shard: usize) {
        if self.config.crash_interval == 0 {
            return;
        }
        let delay = self.random.between(1, 2 * self.config.crash_interval);
        self.after(delay, Happening::ArmCrash(shard));
        if self.random.chance(1, 3) {
            self.after(delay / 2, Happening::Crash(shard, self.hosts[shard].life));
        }
    }
}
