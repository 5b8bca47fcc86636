//! Lets processes work, and carries out the results.

use pando_server::host::driven::{Driven, SyncFor};
use pando_types::ShardIndex;
use pando_types::op::Request;
use pando_wire::Message;

use crate::base::time::MILLISECOND;
use crate::machines::post::Leaving;
use crate::network::end::End;
use crate::world::state::event::SimEvent;
use crate::world::state::world::{Asked, World};

impl World {
    /// Lets a process do something, if it runs.
    pub(crate) fn act(&mut self, server: usize, what: impl FnOnce(&Driven)) {
        let Some(driven) = self.servers[server].driven() else { return };
        self.servers[server].clocks.set(self.time);
        what(&driven);
        drop(driven);
        self.settle(server);
    }

    /// Gives a request to a shard that runs. Mostly the request waits in the shard's inbox.
    /// Sometimes the calling thread runs the shard with it at once.
    pub(crate) fn hear(&mut self, shard: usize, number: u64, request: Request) {
        let (server, index) = (self.server_of(shard), self.index(shard));
        if self.random.chance(1, 6) {
            self.stats.at_once += 1;
            self.servers[server].clocks.set(self.time);
            self.servers[server].call(index, number, request);
            self.settle(server);
        } else {
            self.servers[server].submit(index, number, request);
            self.plan_turn(shard);
        }
    }

    /// Plans that a shard soon handles its inbox, unless that is planned already.
    pub(crate) fn plan_turn(&mut self, shard: usize) {
        if !self.hosts[shard].is_turn_planned {
            self.hosts[shard].is_turn_planned = true;
            let delay = self.random.below(40_000);
            let life = self.servers[self.server_of(shard)].life;
            self.after(delay, SimEvent::Turn(shard, life));
        }
    }

    /// Runs a shard, sometimes while other threads have other shards of its process.
    pub(crate) fn turn(&mut self, shard: usize) {
        self.hosts[shard].is_turn_planned = false;
        let server = self.server_of(shard);
        let mut busy = Vec::new();
        if self.servers[server].shards.len() > 1 && self.random.chance(1, 3) {
            for other in self.servers[server].shards.clone() {
                if other != shard && self.random.chance(1, 2) {
                    busy.push(other);
                }
            }
            self.stats.beside += u64::from(!busy.is_empty());
        }
        let indices: Vec<ShardIndex> = busy.iter().map(|&other| self.index(other)).collect();
        let index = self.index(shard);
        self.act(server, |driven| driven.run_beside(&indices, index));
        if self.hosts[shard].process.is_some() {
            busy.into_iter().for_each(|other| self.plan_turn(other));
        }
    }

    pub(crate) fn sync(&mut self, shard: usize, why: SyncFor) {
        let index = self.index(shard);
        self.stats.syncs += 1;
        if self.hosts[shard].process.is_none() {
            return;
        }
        self.act(self.server_of(shard), |driven| driven.sync(index, why));
    }

    /// Carries out the results of a process's work. Messages leave, the process dies if a disk has
    /// stopped, and syncs, checkpoint steps and timers are planned.
    pub(crate) fn settle(&mut self, server: usize) {
        let (left, result) = self.servers[server].leaving(&self.hosts);
        for leaving in left {
            self.send(leaving);
        }
        if result.is_err() {
            self.crash(server);
            return;
        }
        self.heed_stopped(server);
        let Some(driven) = self.servers[server].driven() else { return };
        let life = self.servers[server].life;
        for shard in self.servers[server].shards.clone() {
            let index = self.index(shard);
            if !self.hosts[shard].is_sync_planned && driven.wants_sync(index) {
                self.hosts[shard].is_sync_planned = true;
                let is_slow = self.is_faulty && self.random.chance(1, 100);
                let delay = match is_slow || self.hosts[shard].trouble.is_slow {
                    true => self.random.between(2, 100) * MILLISECOND,
                    false => self.random.between(50_000, 800_000),
                };
                self.after(delay, SimEvent::Sync(shard, life));
            }
        }
        if !self.servers[server].is_checkpoint_planned && driven.checkpoint().is_some() {
            self.servers[server].is_checkpoint_planned = true;
            let delay = self.random.between(100_000, 10 * MILLISECOND);
            self.after(delay, SimEvent::CheckpointStep(server, life));
        }
        let planned = self.servers[server].timer_planned;
        let due = driven.next_due().map(|due| self.servers[server].clocks.when(due));
        if let Some(due) = due.filter(|due| planned.is_none_or(|planned| *due < planned)) {
            // The process's timer thread must wake up for this time.
            self.servers[server].timer_planned = Some(due);
            let at = due.max(self.time) + self.random.between(1_000, 20_000);
            self.at(at, SimEvent::Timer(server, life));
        }
    }

    fn send(&mut self, leaving: Leaving) {
        match leaving {
            Leaving::Reply(number, reply) => {
                let Some(asked) = self.asked.remove(&number) else { return };
                let Some(reply) = reply else { return };
                self.overhear(&asked, &reply.result);
                let Asked { way, stream, .. } = asked;
                // A reply goes back on its request's connection, if that connection still exists.
                if self.is_connected(way) {
                    self.put(way.to, way.from, stream.0, &Message::Reply(*reply));
                }
            }
            Leaving::Peer(to, peer) => {
                self.stats.peers += 1;
                let (from, to) = (usize::from(peer.from.0), usize::from(to.0));
                if self.hosts[to].process.is_some() {
                    self.put(End::Shard(from), End::Shard(to), 0, &Message::Peer(*peer));
                }
            }
        }
    }
}
