//! What must be known of a volume before its rows mean anything.

use pando_core::keys::{self, Table};
use pando_placement::{ClusterMap, Secrets};
use pando_types::{Name, SHARDS_MAX, ShardIndex};

use crate::cursor;
use crate::source::Rows;

/// Placement of a volume.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Who owns which slot.
    pub map: ClusterMap,
    /// Hash secrets.
    pub secrets: Secrets,
}

impl Volume {
    /// All its shards.
    pub fn shards(&self) -> impl Iterator<Item = ShardIndex> + use<> {
        (0..self.map.shards).map(ShardIndex)
    }

    /// The volume with the shards that were added to it, which shard 0 knows.
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

    /// Order of a name, ordinal 0.
    pub(crate) fn order(&self, name: &Name) -> u64 {
        self.secrets.order(name.as_bytes()).0
    }
}
