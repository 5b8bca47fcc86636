//! Asks shards to hand over hash slots, and to add a shard.

use pando_types::op::{Head, Op, Request};
use pando_types::{Credentials, HashSlot, ShardIndex};

use crate::machines::host::Host;
use crate::world::state::world::World;

impl World {
    /// Asks a shard to hand over one of its hash slots that holds something, or asks to add a
    /// shard.
    pub(crate) fn hand_over(&mut self) {
        if self.add_shard() {
            return;
        }
        let Some((from, hash_slot)) = self.locked_hash_slot().or_else(|| self.some_hash_slot())
        else {
            return;
        };
        let to = self.random.below(self.hosts.len() as u64) as u16;
        let (from_shard, to) = (ShardIndex(from as u16), ShardIndex(to));
        let what = format_args!("slot {} is to go from {from} to {to}", hash_slot.0);
        self.trace.note(self.time, &[], what);
        self.ask(from, Op::HandOver(from_shard, hash_slot, to));
    }

    fn some_hash_slot(&mut self) -> Option<(usize, HashSlot)> {
        let from = self.random.below(self.hosts.len() as u64) as usize;
        let hash_slots = self.hosts[from].process.as_ref()?.hash_slots();
        let is_any = !hash_slots.is_empty();
        is_any.then(|| (from, hash_slots[self.random.below(hash_slots.len() as u64) as usize]))
    }

    /// With probability 1/4, asks shard 0 to add a formatted shard that has not joined. Returns
    /// whether it did.
    fn add_shard(&mut self) -> bool {
        let is_new = |host: &Host| host.process.as_ref().is_some_and(|p| !p.core().has_joined());
        let made = usize::from(self.config.shards)..self.hosts.len();
        let Some(new) = made.into_iter().find(|&shard| is_new(&self.hosts[shard])) else {
            return false;
        };
        if !self.random.chance(1, 4) {
            return false;
        }
        self.trace.note(self.time, &[], format_args!("shard {new} is to be added"));
        if self.hosts[0].process.is_some() {
            self.ask(0, Op::AddShard(ShardIndex(new as u16)));
        }
        true
    }

    /// Sends a request without a session to a shard.
    pub(crate) fn ask(&mut self, shard: usize, op: Op) {
        let credentials = Credentials::ROOT;
        let request = Request { head: Head::default(), credentials, op, trail: None };
        self.sequence += 1;
        self.servers[self.server_of(shard)].submit(self.index(shard), self.sequence, request);
        self.plan_turn(shard);
    }
}
