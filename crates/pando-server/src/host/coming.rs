//! A shard comes to this process from another, with its whole store (docs/design/shard-move.md).

use std::path::Path;
use std::sync::Arc;

use pando_core::contract::{Effects, Halt, Now};
use pando_types::ShardIndex;

use crate::common::options::HostOptions;
use crate::folder::superblock::Superblock;
use crate::host::shards::Host;
use crate::host::start::{self, RecoveryError, ShardStart};
use crate::host::threads::syncing::Objects;
use crate::shard::machine::Machine;
use crate::store::open::Opened;
use crate::store::records::Store;

impl Host {
    /// Opens the store of a shard that has come here whole, and runs the shard.
    pub fn take_over(
        &self,
        folder: &Path,
        superblock: &Superblock,
        options: &HostOptions,
        shard: ShardIndex,
    ) -> Result<ShardStart, RecoveryError> {
        let opened = Store::open(folder, superblock.database_id(shard.0), &options.store)?;
        let recover = |now, store: &Store| start::recover(superblock, options, shard, now, store);
        let start = self.admit(shard, opened, options, recover)?;
        self.spawn_syncer(shard).map_err(|error| RecoveryError {
            what: format!("cannot start a thread: {error}"),
            is_damage: false,
        })?;
        self.shared.wake(shard);
        Ok(start)
    }

    /// Recovers a shard that has come here. It runs nothing before [`Shared::wake`].
    pub(crate) fn admit(
        &self,
        shard: ShardIndex,
        (store, opened): (Store, Opened),
        options: &HostOptions,
        recover: impl FnOnce(Now, &Store) -> Result<(Box<dyn Machine>, Effects), Halt>,
    ) -> Result<ShardStart, RecoveryError> {
        let store = (store, opened.last_nanos);
        let cell = Arc::new(start::cell(&self.shared.timer.clock, shard, store, options, recover)?);
        Objects::watch(&self.shared, &cell);
        self.shared.cells[usize::from(shard.0)].store(Some(cell));
        Ok(ShardStart { shard, opened })
    }
}
