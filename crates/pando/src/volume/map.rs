//! What the servers of a volume know together: the owners of hash slots, and the superblock.

use pando_placement::ClusterMap;
use pando_server::Superblock;
use pando_types::ShardIndex;
use pando_wire::{Ask, Told};

use super::questioner::Questioner;
use crate::failure::Failure;

/// The owners of all hash slots, merged from every server that answers.
pub fn whole_map(questioner: &mut Questioner) -> ClusterMap {
    let mut map = questioner.facts().map.clone();
    for (addresses, _) in questioner.processes() {
        if let Ok(Told::Volume(facts)) = questioner.ask(&addresses, Ask::Volume) {
            map.merge(&facts.map);
        }
    }
    map
}

pub fn superblock(questioner: &mut Questioner) -> Result<Superblock, Failure> {
    match questioner.ask_shard(ShardIndex(0), Ask::Superblock).map_err(Failure::plain)? {
        Told::Superblock { file, .. } => Superblock::decode(&file).map_err(Failure::plain),
        Told::Failed(why) => Err(Failure::plain(why)),
        _ => Err(Failure::unexpected("the server of shard 0")),
    }
}
