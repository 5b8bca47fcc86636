//! What the process of a source does besides its answers: tables, locks, and the removal of the old
//! copy.

use std::io;
use std::sync::Weak;
use std::time::Duration;

use pando_types::ShardIndex;
use pando_wire::{Hosting, MoveStage, Moving};

use crate::common::log::say;
use crate::folder::place::Place;
use crate::host::shards::Host;
use crate::moving::faults::Point;
use crate::moving::shared::Shared;
use crate::moving::source::{self, Giver};

/// How often the thread looks whether the new host is known.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Giver for Shared {
    fn host(&self) -> &Host {
        &self.host
    }

    fn place(&self) -> &dyn Place {
        &self.folder
    }

    fn pass(&self, point: Point) -> io::Result<()> {
        self.fail_at(point)
    }

    fn is_given(&self, to: &Hosting) {
        let shard = to.shard;
        if let Some(server) = self.server.get().and_then(Weak::upgrade) {
            server.close_shard(shard);
            server.hosts().learn(std::slice::from_ref(to));
        }
        self.lock.lock().release(shard.0);
        say(&format!("shard {shard} was moved to the server at {}", to.addresses.join(" or ")));
    }

    fn learn(&self, hosting: &Hosting) {
        if let Some(hosts) = self.hosts.get() {
            hosts.learn(std::slice::from_ref(hosting));
        }
    }

    fn hear(&self, moving: &Moving) {
        self.going.lock().hear(moving.clone());
    }

    fn note(&self, shard: ShardIndex, stage: MoveStage) {
        self.going.lock().note(shard, stage);
    }
}

/// Puts the old copy aside, if the new host serves the shard. Answers whether nothing is left to
/// do. While it holds the shard's lock, no process of this folder takes the shard back.
fn put_aside(shared: &Shared, shard: ShardIndex) -> bool {
    let known = shared.hosts.get().and_then(|hosts| hosts.get(shard));
    let mut lock = shared.lock.lock();
    if shared.host.epoch(shard).is_some() {
        return true;
    }
    if lock.holds(shard.0) || lock.add(&shared.folder, shard.0).is_err() {
        return false;
    }
    let is_clear = source::clear(shared, shard, known.map(|known| known.epoch));
    lock.release(shard.0);
    is_clear
}

/// Removes the old copy of a shard that was given away, once its new host serves it.
pub(crate) fn clear(shared: &Shared, shard: ShardIndex) {
    while !shared.is_stopped() {
        source::sweep(&shared.folder, shard);
        if put_aside(shared, shard) {
            break;
        }
        shared.pause(LOOK_EVERY);
    }
    source::sweep(&shared.folder, shard);
    shared.going.lock().is_over(shard);
}
