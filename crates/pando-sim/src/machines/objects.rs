//! Files that have objects as their contents. Clients write them with the code of mounts
//! (`pando-data`), over a store that loses unsynced objects with its power.
//!
//! ```text
//!   lane ─► desk: DataFs on a thread of its own ─┬─► the client: pieces that name objects
//!                                                └─► the store: objects, synced by the client, or by the shards before their logs
//! ```
//!
//! Judged: a read finds what was stored (`judges/contents.rs`). Whenever power is lost, no durable
//! row names an object that is not durable (`world/objects.rs`). No row names a missing object. At
//! the end, after garbage was collected, no object is left that no row names.

#[cfg(feature = "planted")]
use crate::config::planted::Planted;

use std::collections::BTreeSet;
use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, Mutex};

use pando_client::BoxFuture;
use pando_data::{ObjectStore as _, SyncObjects};
use pando_server::host::BeforeSync;
use pando_types::Errno;
use pando_types::op::{ObjectId, ObjectRange};

use crate::base::random::Random;
use crate::config::parameters::{Durability, SimConfig};
use crate::judges::contents::Contents;
use crate::machines::bucket::{Bucket, Door, PROCESS};

/// Where disks fail, one sync of objects in this number fails.
const SYNC_FAILS_OF: u64 = 200;

/// What clients, shards and judges share about objects.
pub struct Objects {
    /// The store of objects.
    pub bucket: Bucket,
    /// The contents that files must have.
    pub contents: Mutex<Contents>,
    /// Mean number of operations of a lane between two uses of such a file.
    pub every: u64,
    /// Whether the run is in mode `os` and loses power, so that unsynced objects may be lost.
    pub may_lose: bool,
    durability: Durability,
    lends: bool,
    #[cfg(feature = "planted")]
    planted: Option<Planted>,
}

/// The objects of a client, as its transport syncs them.
struct Synced(Arc<Door>);

impl Debug for Synced {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Synced")
    }
}

impl pando_lent::Objects for Synced {
    fn sync<'a>(&'a self) -> BoxFuture<'a, Result<(), Errno>> {
        Box::pin(std::future::ready(self.0.sync().map_err(|_| Errno::EIO)))
    }

    fn adopt<'a>(
        &'a self,
        objects: Vec<ObjectRange>,
    ) -> BoxFuture<'a, Result<BTreeSet<ObjectId>, Errno>> {
        let ids: Vec<_> = objects.iter().map(|it| it.object).collect();
        self.0.note_unsynced(&ids);
        let is_there = |id: &ObjectId| self.0.get_range(*id, 0..1).is_ok();
        let synced = self.0.sync().map_err(|_| Errno::EIO);
        let gone = synced.map(|()| ids.into_iter().filter(|id| !is_there(id)).collect());
        Box::pin(std::future::ready(gone))
    }
}

impl Objects {
    /// The objects of a run; `None`: its files have none.
    #[must_use]
    pub fn of(config: &SimConfig) -> Option<Arc<Self>> {
        let fails_of = if config.disk_interval > 0 { SYNC_FAILS_OF } else { 0 };
        let objects = Self {
            bucket: Bucket::new(Random::new(config.seed ^ 0x0B1E_C700), fails_of),
            contents: Mutex::new(Contents::new(
                config.durability == Durability::Disk && !config.lends,
            )),
            every: config.objects,
            may_lose: config.durability == Durability::OsWithPowerLoss,
            durability: config.durability,
            lends: config.lends,
            #[cfg(feature = "planted")]
            planted: config.planted_in_objects,
        };
        (config.objects > 0).then(|| Arc::new(objects))
    }

    /// Which side syncs the objects that a client stores: as in `pando up` for a local client, as
    /// in `pando mount` for others.
    pub(crate) fn synced_by(&self, is_local: bool) -> SyncObjects {
        #[cfg(feature = "planted")]
        if self.planted == Some(Planted::RowBeforeSync) {
            return SyncObjects::ByServer;
        }
        match self.durability {
            Durability::Disk => SyncObjects::BeforeCommit,
            _ if is_local => SyncObjects::ByServer,
            _ if self.lends => SyncObjects::ByTransport,
            _ => SyncObjects::BeforeCommit,
        }
    }

    /// What syncs the objects of client `who` before its transport names them.
    pub(crate) fn synced_by_transport(&self, who: u32) -> Arc<dyn pando_lent::Objects> {
        Arc::new(Synced(self.bucket.door(who)))
    }

    /// A process starts: what an earlier process has left is synced. The function that is returned
    /// syncs what its clients store, through the door, before each sync of a log.
    pub(crate) fn before_sync(&self) -> (BeforeSync, Arc<Door>) {
        self.bucket.begin(PROCESS);
        let door = self.bucket.door(PROCESS);
        #[cfg(feature = "planted")]
        if self.planted == Some(Planted::ObjectsUnsynced) {
            return (Box::new(|| Ok(())), door);
        }
        let synced = Arc::clone(&door);
        (Box::new(move || synced.sync()), door)
    }
}
