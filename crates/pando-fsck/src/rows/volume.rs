//! What must be known of a volume before its rows can be read.

use pando_core::keys::{self, Table};
use pando_placement::{ClusterMap, Secrets};
use pando_types::{Name, SHARDS_MAX, ShardIndex};

use crate::rows::cursor;
use crate::rows::source::Rows;

/// Placement of a volume.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Owners of the hash slots.
    pub map: ClusterMap,
    /// Secrets of the hashes of names and directories.
    pub secrets: Secrets,
}

impl Volume {
    /// All shards of the volume.
    pub fn shards(&self) -> impl Iterator<Item = ShardIndex> + use<> {
        (0..self.map.shards).map(ShardIndex)
    }

    /// The volume with the shards that were added to it, as shard 0 records them.
    pub(crate) fn grown(&self, rows: &mut dyn Rows) -> Result<Self, String> {
        let prefix = keys::table(Table::Joined);
        let mut volume = self.clone();
        cursor::scan(rows, ShardIndex(0), (&prefix, &keys::after(&prefix)), &mut |key, _| {
            if let Some(shard) = keys::joined_of(key).filter(|shard| shard.0 < SHARDS_MAX) {
                volume.map.grow(shard.0 + 1);
            }
            true
        })?;
        Ok(volume)
    }

    /// The order of a name, with ordinal 0.
    pub(crate) fn order(&self, name: &Name) -> u64 {
        self.secrets.order(name.as_bytes()).0
    }
}
