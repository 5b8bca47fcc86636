//! Faults that make locks hard to keep. Sessions are ended while their clients work, shards hear of
//! that late, and hash slots take locks along to other shards.
//!
//! ```text
//!   a session ends at shard 0 ─► one shard does not hear of it for a while; requests of the session are on their way to it
//!                             ─► the shard of the lock hears at once, and gives it to another session
//! ```

use std::collections::BTreeSet;

use pando_core::keys::Table;
use pando_core::{Rows, keys};
use pando_types::HashSlot;

use crate::base::lock::lock;
use crate::base::time::MILLISECOND;
use crate::machines::host::Process;
use crate::network::cuts::Cut;
use crate::network::end::End;
use crate::world::state::event::SimEvent;
use crate::world::state::world::World;

impl World {
    /// Plans the times at which sessions are ended.
    pub(crate) fn plan_session_ends(&mut self) {
        for _ in 0..self.config.session_ends {
            let at = self.random.between(20, 1_200) * MILLISECOND;
            self.after(at, SimEvent::SessionEnds);
        }
    }

    /// Looks whether sessions have ended. Often some shard is then kept from hearing of it for a
    /// while.
    pub(crate) fn heed_ended_sessions(&mut self) {
        let Some(locks) = &self.ear.locks else { return };
        let ended = lock(locks).watch.take_ended();
        if ended == 0 || !self.is_faulty || !self.random.chance(1, 2) {
            return;
        }
        let shard = self.random.below(self.hosts.len() as u64) as usize;
        let until = self.time + self.random.between(5, 80) * MILLISECOND;
        let cut = Cut::one_way(End::Shard(0), End::Shard(shard), until);
        self.trace.note(self.time, &[], format_args!("a session ended: {cut:?}"));
        self.network.cuts.add(cut, self.time);
    }

    /// A hash slot with locked files that is to be handed over, and the shard that owns it.
    pub(crate) fn locked_hash_slot(&mut self) -> Option<(usize, HashSlot)> {
        if self.config.locking == 0 || !self.random.chance(1, 2) {
            return None;
        }
        let hash_slots = |(shard, process): (usize, &Process)| {
            process
                .locked_hash_slots()
                .into_iter()
                .map(|hash_slot| (shard, hash_slot))
                .collect::<Vec<_>>()
        };
        let hosts = self.hosts.iter().enumerate();
        let running = hosts.filter_map(|(shard, host)| Some((shard, host.process.as_ref()?)));
        let hash_slots: Vec<_> = running.flat_map(hash_slots).collect();
        if hash_slots.is_empty() {
            return None;
        }
        if let Some(locks) = &self.ear.locks {
            lock(locks).counts.hash_slots_moved += 1;
        }
        Some(*self.random.pick(&hash_slots))
    }
}

impl Process {
    /// Hash slots of the shard in which there are locks of programs.
    fn locked_hash_slots(&self) -> BTreeSet<HashSlot> {
        let mut hash_slots = BTreeSet::new();
        let prefix = keys::table(Table::Lock);
        // If the disk has stopped, only the rows read so far count.
        let _ = self.look(|store| {
            store.scan(&prefix, &keys::after(&prefix), &mut |key, _| {
                hash_slots.extend(keys::hash_slot_of_row(key));
                true
            })
        });
        let core = self.core();
        hash_slots.retain(|hash_slot| core.owns(*hash_slot));
        hash_slots
    }
}
