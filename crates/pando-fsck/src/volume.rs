//! What must be known of a volume before its rows mean anything.

use pando_placement::{ClusterMap, Secrets};
use pando_types::{Name, ShardIndex};

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

    /// Order of a name, ordinal 0.
    pub(crate) fn order(&self, name: &Name) -> u64 {
        self.secrets.order(name.as_bytes()).0
    }
}
