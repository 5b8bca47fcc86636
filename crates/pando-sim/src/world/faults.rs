//! Deaths and restarts of processes, losses of power, checkpoints, background syncs, and clocks
//! that are set.

use pando_server::host::driven::SyncFor;

use crate::base::lock::lock;
use crate::base::time::{MILLISECOND, SECOND};
use crate::config::parameters::Durability;
use crate::network::end::End;
use crate::world::state::event::SimEvent;
use crate::world::state::world::World;

const HOUR: u64 = 3_600 * SECOND;

/// How a process dies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    Kill,
    PowerLoss,
}

impl World {
    pub(crate) fn background_sync(&mut self, shard: usize) {
        // The syncer's thread begins no second sync while one runs.
        if !self.hosts[shard].is_sync_planned {
            self.sync(shard, SyncFor::Interval);
        }
        self.after(self.config.sync_interval, SimEvent::BackgroundSync(shard));
    }

    pub(crate) fn want_checkpoint(&mut self, shard: usize) {
        let index = self.index(shard);
        if self.hosts[shard].process.is_some() {
            self.act(self.server_of(shard), |driven| driven.want_checkpoint(index));
        }
        let delay = self.random.between(1, 2 * self.config.checkpoint_interval);
        self.after(delay, SimEvent::Checkpoint(shard));
    }

    /// Makes the shard's disk stop at one of its next changes.
    pub(crate) fn arm_crash(&mut self, shard: usize) {
        let changes = self.random.between(1, 30);
        self.hosts[shard].disk.crash_at(changes);
        self.plan_crash(shard);
    }

    /// A process dies, with all its shards.
    pub(crate) fn crash(&mut self, server: usize) {
        let power = self.config.durability != Durability::Os && self.random.chance(1, 2);
        self.end(server, if power { Death::PowerLoss } else { Death::Kill });
    }

    /// Some machine loses its power now, if its process runs.
    pub(crate) fn lose_power(&mut self) {
        let server = self.random.below(self.servers.len() as u64) as usize;
        if self.is_faulty && self.servers[server].driven().is_some() {
            self.end(server, Death::PowerLoss);
        }
    }

    pub(crate) fn end(&mut self, server: usize, death: Death) {
        let power = death == Death::PowerLoss;
        if power {
            self.mail.power_lost();
            if let (Some(locks), Durability::OsWithPowerLoss) =
                (&self.ear.locks, self.config.durability)
            {
                lock(locks).lose_power();
            }
        }
        if power {
            self.judge_durable(server);
        }
        self.trace.note(self.time, &[], format_args!("process {server} dies, power lost: {power}"));
        let shards = self.servers[server].shards.clone();
        let running = shards.iter().filter(|s| self.hosts[**s].process.is_some()).count();
        self.stats.crashed_together += u64::from(running > 1);
        // The kernel may still send what has left the process.
        if !power && self.random.chance(1, 2) {
            for &shard in &shards {
                self.say_all(End::Shard(shard));
            }
        }
        for &shard in &shards {
            if self.hosts[shard].process.is_some() || shards.len() == 1 {
                self.stats.crash(&self.hosts[shard], power);
            }
        }
        self.end_here();
        self.servers[server].may_lack_room |= power && self.servers[server].driven().is_none();
        self.servers[server].die();
        match self.moves.is_some() {
            true => shards.iter().for_each(|&shard| self.hosts[shard].ends()),
            false => shards.iter().for_each(|&shard| self.hosts[shard].died(power)),
        }
        if power {
            self.objects_lose_power(server);
        }
        self.moves_die(server, power);
        for &shard in &shards {
            for other in self.network.neighbours(End::Shard(shard)) {
                self.break_off(End::Shard(shard), other);
            }
        }
        let delay = self.random.between(1, 40) * MILLISECOND;
        self.after(delay, SimEvent::Restart(server));
    }

    /// Starts a process, unless it runs.
    pub(crate) fn restart(&mut self, server: usize) {
        if self.servers[server].driven().is_some() {
            return;
        }
        self.trace.note(self.time, &[], format_args!("process {server} starts"));
        if self.read_folder(server).is_err() {
            return self.crash(server);
        }
        for shard in self.servers[server].shards.clone() {
            if self.is_faulty && self.time > 0 && self.random.chance(1, 8) {
                let changes = self.random.between(1, 12);
                self.hosts[shard].disk.crash_at(changes);
            }
        }
        let is_full = |&shard: &usize| self.hosts[shard].trouble.is_full;
        let is_full = self.servers[server].shards.iter().any(is_full);
        self.stats.disks.full_starts += u64::from(is_full);
        self.servers[server].clocks.set(self.time);
        let Self { servers, hosts, .. } = self;
        match servers[server].start(hosts) {
            Ok(()) => {
                self.servers[server].may_lack_room = false;
                self.begin_here();
                self.settle(server);
                if self.servers[server].driven().is_some() {
                    self.resume_moves(server);
                }
            }
            Err(_) => {
                let has_failed = |&shard: &usize| self.hosts[shard].has_failed();
                let has_failed = self.servers[server].shards.iter().any(has_failed);
                self.stats.disks.failed_starts += u64::from(has_failed);
                let lacked_room = std::mem::take(&mut self.servers[server].lacked_room);
                self.stats.disks.roomless_starts += u64::from(lacked_room);
                self.crash(server);
            }
        }
    }

    /// Sets the time of day of some machine, by up to two seconds or up to an hour.
    pub(crate) fn set_clock(&mut self) {
        let server = self.random.below(self.servers.len() as u64) as usize;
        let most = if self.random.chance(1, 2) { HOUR } else { 2 * SECOND };
        let by = self.random.below(2 * most) as i64 - most as i64;
        self.trace.note(
            self.time,
            &by.to_le_bytes(),
            format_args!("clock {server} is set by {by}"),
        );
        self.stats.clocks_set += 1;
        self.servers[server].clocks.jump(by);
        self.after(self.config.clock_interval, SimEvent::SetClock);
    }

    pub(crate) fn plan_faults(&mut self, shard: usize) {
        let sync = self.random.between(1, 1 + self.config.sync_interval);
        self.after(sync, SimEvent::BackgroundSync(shard));
        let checkpoint = self.random.between(1, 2 * self.config.checkpoint_interval);
        self.after(checkpoint, SimEvent::Checkpoint(shard));
        self.plan_crash(shard);
    }

    fn plan_crash(&mut self, shard: usize) {
        if self.config.crash_interval == 0 {
            return;
        }
        let delay = self.random.between(1, 2 * self.config.crash_interval);
        self.after(delay, SimEvent::ArmCrash(shard));
        if self.random.chance(1, 3) {
            let server = self.server_of(shard);
            self.after(delay / 2, SimEvent::Crash(server, self.servers[server].life));
        }
    }
}
