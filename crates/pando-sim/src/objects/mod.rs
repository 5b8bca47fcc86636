//! Files whose contents are objects: clients write them by the code that mounts do (`pando-data`),
//! over a store that forgets with its power what was not synced.
//!
//! ```text
//!   lane ─► desk: DataFs on a thread of its own ─┬─► the client: pieces that name objects
//!                                                └─► the store: objects, synced by the client, or by the shards before their logs
//! ```
//!
//! Judged: what is read is what was stored ([`contents`]); no durable row names an object that is
//! not durable, whenever power is lost ([`judge`]); no row names one that is missing; in the end,
//! when garbage was collected, no object is left that nobody names.

pub mod baton;
pub mod contents;
pub mod counts;
mod desk;
mod judge;
mod metadata;
pub mod store;
mod writer;

use std::sync::{Arc, Mutex};

use pando_data::{ObjectStore as _, SyncObjects};
use pando_server::host::BeforeSync;
use pando_types::Name;

use crate::config::{Durability, SimConfig};
use crate::random::Random;
use contents::Contents;
pub use desk::Desk;
use store::{Bucket, PROCESS};

/// Faults that tests plant here.
#[cfg(feature = "planted")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// The shards sync their logs and not the objects that these name.
    ObjectsUnsynced,
    /// Clients store objects as if the shards synced them.
    RowBeforeSync,
}

/// What all who have to do with objects share.
pub struct Objects {
    /// The store.
    pub bucket: Bucket,
    /// What has to be in files.
    pub contents: Mutex<Contents>,
    /// Operations of a lane, on average, between two times that it uses such a file.
    pub every: u64,
    /// Mode `os`, and power is lost: what was not synced may be gone.
    pub may_lose: bool,
    durability: Durability,
    #[cfg(feature = "planted")]
    planted: Option<Planted>,
}

impl Objects {
    /// Of a run with such files.
    #[must_use]
    pub fn of(config: &SimConfig) -> Option<Arc<Self>> {
        let objects = Self {
            bucket: Bucket::new(Random::new(config.seed ^ 0x0B1E_C700)),
            contents: Mutex::new(Contents::new(config.durability == Durability::Disk)),
            every: config.objects,
            may_lose: config.durability == Durability::OsWithPowerLoss,
            durability: config.durability,
            #[cfg(feature = "planted")]
            planted: config.planted_in_objects,
        };
        (config.objects > 0).then(|| Arc::new(objects))
    }

    /// Who syncs what a client stores: as `pando up` has it for its own, and `pando mount`.
    fn synced_by(&self, is_local: bool) -> SyncObjects {
        #[cfg(feature = "planted")]
        if self.planted == Some(Planted::RowBeforeSync) {
            return SyncObjects::ByServer;
        }
        match self.durability {
            Durability::Disk => SyncObjects::BeforeCommit,
            _ if is_local => SyncObjects::ByServer,
            _ => SyncObjects::BeforeCommit,
        }
    }

    /// A process starts: what an earlier one has left is synced, and so is what its clients store,
    /// before each sync of a log.
    pub(crate) fn before_sync(&self) -> BeforeSync {
        self.bucket.begin(PROCESS);
        #[cfg(feature = "planted")]
        if self.planted == Some(Planted::ObjectsUnsynced) {
            return Box::new(|| Ok(()));
        }
        let door = self.bucket.door(PROCESS);
        Box::new(move || door.sync())
    }
}

/// Whether a name is one of these files'.
#[must_use]
pub fn has_objects(name: &Name) -> bool {
    name.as_bytes().starts_with(b"object")
}
