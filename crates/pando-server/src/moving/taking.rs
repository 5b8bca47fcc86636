//! The thread that drives a target: it asks the source over a connection, waits, and runs the shard
//! in the end.

use std::rc::Rc;
use std::sync::{Arc, Weak};

use pando_types::{Epoch, ShardIndex};
use pando_wire::{Ask, Hosting, MoveAsk, MoveToken};

use crate::common::log::say;
use crate::folder::move_notes::Coming;
use crate::folder::place::Place;
use crate::moving::ask::Asked;
use crate::moving::shared::Shared;
use crate::moving::silent::Silent;
use crate::moving::target::desk::{Heard, Step};
use crate::moving::target::end::Ended;
use crate::moving::target::stepper::Target;
use crate::moving::target::taker::{Pace, Taker};
use crate::store::error::StoreError;
use crate::store::open::StoreOptions;
use crate::store::records::Store;

/// Size of a page of records, bytes. The source serves nothing else of the shard while it reads
/// one.
const PAGE_BYTES: u32 = 64 << 10;

/// Copies the shard and takes it over.
pub(crate) fn adopt(shared: Arc<Shared>, shard: ShardIndex, from: Hosting, rate: u64) {
    let pace = Pace {
        page_bytes: PAGE_BYTES,
        rate,
        checkpoint_bytes: shared.options.checkpoint_bytes,
        #[cfg(feature = "planted")]
        planted: shared.options.planted,
    };
    let taker = Rc::new(Here { shared: shared.clone(), shard });
    drive(&shared, shard, Target::adopt(taker, from, pace));
}

/// Resumes a move with a copy that was complete when the last process of this folder ended.
pub(crate) fn resume(shared: Arc<Shared>, shard: ShardIndex, coming: Coming) {
    if shared.lock.lock().add(&shared.folder, shard.0).is_err() {
        // Another process of this folder works on this move.
        return;
    }
    // That process may have ended it before this one got the lock.
    if !matches!(Coming::read(&shared.folder, shard.0), Ok(Some(now)) if now.token == coming.token)
    {
        shared.lock.lock().release(shard.0);
        return;
    }
    let taker = Rc::new(Here { shared: shared.clone(), shard });
    drive(&shared, shard, Target::resume(taker, coming));
}

fn drive(shared: &Shared, shard: ShardIndex, mut target: Target) {
    let mut asked = Asked::new(shared.superblock.id(), shared.keys.clone(), target.from().clone());
    let mut heard = Heard::Done;
    loop {
        let step = target.next(shared.host.now_nanos(), heard);
        shared.note(shard, |moving| *moving = target.moving());
        heard = match step {
            // A later process of this folder resumes the move.
            Step::Ask(ref ask) if shared.is_stopped() && !is_last(ask) => return,
            Step::Ask(ask) => Heard::Told(match &mut asked {
                Ok(asked) => asked.ask(ask),
                Err(Silent(why)) => Err(Silent(why.clone())),
            }),
            Step::Pause(time) => {
                shared.pause(time);
                Heard::Done
            }
            Step::Pass(point) => {
                shared.pass(point);
                Heard::Done
            }
            Step::Open => Heard::Opened(open(shared, shard)),
            Step::Announce(epoch) => Heard::Announced(announce(shared, shard, epoch)),
            Step::Ended(ended) => return end(shared, shard, ended),
        };
    }
}

/// Whether this process already serves the shard when it asks this.
const fn is_last(ask: &Ask) -> bool {
    matches!(ask, Ask::Move(_, _, MoveAsk::Moved(_)))
}

fn open(shared: &Shared, shard: ShardIndex) -> Result<Epoch, String> {
    let path = shared.folder.shard(shard.0);
    let taken = shared.host.take_over(&path, &shared.superblock, &shared.options, shard);
    taken.map_err(|error| error.what)?;
    shared.host.epoch(shard).ok_or_else(|| "it has stopped".to_owned())
}

fn announce(shared: &Shared, shard: ShardIndex, epoch: Epoch) -> Result<Hosting, String> {
    let server = shared.server.get().and_then(Weak::upgrade);
    let server = server.ok_or("the server is stopping")?;
    server.open_shard(shard, epoch).map_err(|error| error.to_string())?;
    Ok(server.hosts().here(shard, epoch))
}

fn end(shared: &Shared, shard: ShardIndex, ended: Ended) {
    match ended {
        Ended::Served => say(&format!("shard {shard} was moved here, and is served")),
        Ended::Stays(why) => {
            shared.lock.lock().release(shard.0);
            say(&format!("shard {shard} was not moved here: {why}"));
        }
        Ended::Later(why) => say(&format!("shard {shard}: {why}")),
    }
}

/// This process, as a target sees it.
struct Here {
    shared: Arc<Shared>,
    shard: ShardIndex,
}

impl Taker for Here {
    fn place(&self) -> &dyn Place {
        &self.shared.folder
    }

    fn open_copy(&self, shard: ShardIndex, epoch_at_least: u64) -> Result<Store, StoreError> {
        let Shared { folder, superblock, options, .. } = &*self.shared;
        let options = StoreOptions { epoch_at_least, ..options.store };
        let id = superblock.database_id(shard.0);
        Store::open(&folder.coming(shard.0), id, &options).map(|(store, _)| store)
    }

    fn token(&self) -> Result<MoveToken, String> {
        let mut token = MoveToken([0; 16]);
        getrandom::fill(&mut token.0).map_err(|error| error.to_string())?;
        Ok(token)
    }

    fn here(&self, shard: ShardIndex, epoch: Epoch) -> Hosting {
        match self.shared.hosts.get() {
            Some(hosts) => hosts.here(shard, epoch),
            None => Hosting { shard, epoch, host: [0; 16], addresses: Vec::new() },
        }
    }

    fn say(&self, what: &str) {
        say(&format!("shard {}: {what}", self.shard));
    }
}
