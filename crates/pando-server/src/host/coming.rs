//! A shard comes to this process from another, with its whole store (docs/design/shard-move.md).

use std::path::Path;
use std::sync::Arc;

use pando_core::contract::{Effects, Halt, Now};
use pando_types::ShardIndex;

use super::start::{self, RecoveryError, ShardStart};
use super::syncing::Objects;
use super::{Host, HostOptions, Shared};
use crate::machine::Machine;
use crate::store::{Opened, Store};
use crate::superblock::Superblock;

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
    pub(super) fn admit(
        &self,
        shard: ShardIndex,
        (store, opened): (Store, Opened),
        options: &HostOptions,
        recover: impl FnOnce(Now, &Store) -> Result<(Box<dyn Machine>, Effects), Halt>,
    ) -> Result<ShardStart, RecoveryError> {
        let store = (store, opened.last_nanos);
        let cell = Arc::new(start::cell(&self.shared.clock, shard, store, options, recover)?);
        Objects::watch(&self.shared, &cell);
        self.shared.cells[usize::from(shard.0)].store(Some(cell));
        Ok(ShardStart { shard, opened })
    }
}

impl Shared {
    /// Runs a shard that was just recovered, beginning with a tick: it sends the messages that its
    /// recovery calls for.
    pub(super) fn wake(&self, shard: ShardIndex) {
        if let Some(cell) = self.cell(shard) {
            cell.set_tick();
            self.run(shard);
        }
    }
}
