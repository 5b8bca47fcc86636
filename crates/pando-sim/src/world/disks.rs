//! Disks that fail, fill up and slow down, and how shards must behave then.
//!
//! | what happens | what is promised, and judged |
//! |---|---|
//! | a sync or a write of the log fails | the shard stops until a start, and acknowledged changes exist then |
//! | a sync or a write of another file fails | the shard goes on, or stops; nothing is lost |
//! | blocks of index files cannot be read for a while | a request that needs them gets `EIO`, and has changed nothing; other requests succeed; a file that could not be read at a start may stay so until the next one |
//! | the disk is full for a while | a request that gets `ENOSPC` has not run; no shard stops because of it; the shard can start, unless power was lost during an earlier start |
//! | syncs take long for a while | no request gets an error |

use pando_types::Errno;
use pando_types::reply::{Body, Refusal};

use crate::base::lock::lock;
use crate::base::time::MILLISECOND;
use crate::config::parameters::Durability;
use crate::counts::Count as _;
use crate::counts::disks::DiskCounts;
use crate::machines::flawed::Trouble;
use crate::world::faults::Death;
use crate::world::state::event::SimEvent;
use crate::world::state::world::World;

impl World {
    pub(crate) fn plan_disk_troubles(&mut self) {
        for shard in 0..self.hosts.len() {
            self.plan_disk_trouble(shard);
        }
    }

    fn plan_disk_trouble(&mut self, shard: usize) {
        if self.config.disk_interval > 0 {
            let delay = self.disk_random.between(1, 2 * self.config.disk_interval);
            self.after(delay, SimEvent::DiskFails(shard));
        }
    }

    /// Ends the present fault of a shard's disk, and begins a random new one.
    pub(crate) fn disk_fails(&mut self, shard: usize) {
        self.disk_mends(shard, None);
        let Some(flaws) = self.hosts[shard].flaws.clone() else { return };
        let random = &mut self.disk_random;
        let length = random.between(10, 150) * MILLISECOND;
        let host = &mut self.hosts[shard];
        let what = match random.below(6) {
            0 => {
                lock(&flaws).fail_sync = true;
                "the next sync fails"
            }
            1 => {
                host.disk.fail_at(random.between(1, 40));
                "a change fails"
            }
            2 | 3 => {
                lock(&flaws).unreadable = Some(random.draw());
                host.tell_unreadable(shard);
                self.stats.disks.unreadable += 1;
                "blocks cannot be read"
            }
            4 => {
                host.disk.full_after(random.below(24 << 10));
                (host.trouble.is_full, self.stats.disks.filled) =
                    (true, self.stats.disks.filled + 1);
                "it fills"
            }
            _ => {
                (host.trouble.is_slow, self.stats.disks.slow) = (true, self.stats.disks.slow + 1);
                "it is slow"
            }
        };
        let nth = host.trouble.nth;
        self.trace.note(self.time, &[], format_args!("disk of shard {shard}: {what}"));
        self.after(length, SimEvent::DiskMends(shard, nth));
        self.plan_disk_trouble(shard);
    }

    /// Ends the fault of number `nth`, if it is the present one; `None`: any fault.
    pub(crate) fn disk_mends(&mut self, shard: usize, nth: Option<u64>) {
        let host = &mut self.hosts[shard];
        if nth.is_some_and(|nth| nth != host.trouble.nth) {
            return;
        }
        host.trouble = Trouble { nth: host.trouble.nth + 1, ..Trouble::default() };
        if let Some(flaws) = &host.flaws {
            host.disk.unlimited();
            lock(flaws).unreadable = None;
        }
    }

    /// Ends all faults of disks.
    pub(crate) fn mend_disks(&mut self) {
        for shard in 0..self.hosts.len() {
            self.disk_mends(shard, None);
            if let Some(flaws) = &self.hosts[shard].flaws {
                lock(flaws).fail_sync = false;
                self.hosts[shard].disk.fail_at(1 << 60);
            }
        }
        for server in 0..self.servers.len() {
            let may_be_dark = |&shard: &usize| self.hosts[shard].may_be_dark();
            if self.stopped(server).is_some() || self.servers[server].shards.iter().any(may_be_dark)
            {
                self.end(server, Death::Kill);
            }
        }
    }

    /// The first shard of a process that has stopped, if one has.
    fn stopped(&self, server: usize) -> Option<usize> {
        let driven = self.servers[server].driven()?;
        let shards = self.servers[server].shards.iter().copied();
        shards.into_iter().find(|&shard| driven.failure_of(self.index(shard)).is_some())
    }

    /// Plans a restart of a process with a stopped shard, after a while.
    pub(crate) fn heed_stopped(&mut self, server: usize) {
        if self.servers[server].is_replaced_soon || self.stopped(server).is_none() {
            return;
        }
        self.servers[server].is_replaced_soon = true;
        self.stats.disks.stopped += 1;
        let life = self.servers[server].life;
        let delay = self.disk_random.between(1, 60) * MILLISECOND;
        self.after(delay, SimEvent::Replace(server, life));
    }

    pub(crate) fn replace(&mut self, server: usize) {
        let may_lose = self.config.durability != Durability::Os;
        let power = may_lose && self.disk_random.chance(1, 3);
        self.end(server, if power { Death::PowerLoss } else { Death::Kill });
    }

    /// Counts refusals because of a disk. Returns whether it is unknown if the request has run,
    /// because the shard has stopped.
    pub(crate) fn is_doubtful(&mut self, shard: usize, result: &Result<Body, Refusal>) -> bool {
        if !self.may_stop() {
            return false;
        }
        match result {
            Err(Refusal::Errno(Errno::ENOSPC)) => {
                self.stats.disks.no_space += 1;
                false
            }
            Err(Refusal::Errno(Errno::EIO)) => {
                let driven = self.servers[self.server_of(shard)].driven();
                let index = self.index(shard);
                let goes_on = driven.is_some_and(|driven| driven.failure_of(index).is_none());
                self.stats.disks.not_read += u64::from(goes_on);
                !goes_on
            }
            _ => false,
        }
    }

    pub(crate) fn count_disks(&mut self) {
        for host in &self.hosts {
            let Some(flaws) = &host.flaws else { continue };
            let counts = DiskCounts { failed: lock(flaws).counts, ..DiskCounts::default() };
            self.stats.disks.add(&counts);
        }
    }
}
