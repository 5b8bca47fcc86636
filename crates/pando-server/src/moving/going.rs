//! What the source tells of shards that leave it. The target reports its progress to the source,
//! since a server without shards is in no table of hosts. So a tool finds the source, and asks
//! that.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pando_types::ShardIndex;
use pando_wire::{MoveStage, Moving};

/// A target that is silent for this long has given up, unless the shard is its own.
const SILENT_MAX: Duration = Duration::from_secs(10);

/// Shards that leave this process, with the time of the last report.
#[derive(Default)]
pub(crate) struct Going {
    shards: BTreeMap<ShardIndex, (Instant, Moving)>,
}

impl Going {
    /// Notes a report of the target.
    pub(crate) fn hear(&mut self, moving: Moving) {
        self.shards.insert(moving.shard, (Instant::now(), moving));
    }

    /// Notes a stage that the source knows itself: the last groups are sent, or the shard is the
    /// target's. If the shard thaws, the target reports that it copies again.
    pub(crate) fn note(&mut self, shard: ShardIndex, stage: MoveStage) {
        if let Some((heard, moving)) = self.shards.get_mut(&shard) {
            (*heard, moving.stage) = (Instant::now(), stage);
        }
    }

    /// Forgets a move: the new host serves the shard, or the shard has come back.
    pub(crate) fn is_over(&mut self, shard: ShardIndex) {
        self.shards.remove(&shard);
    }

    /// All moves that still go on.
    pub(crate) fn under_way(&mut self, now: Instant) -> Vec<Moving> {
        self.shards.retain(|_, (heard, moving)| {
            let silent = now.saturating_duration_since(*heard);
            moving.stage == MoveStage::Opening || silent < SILENT_MAX
        });
        self.shards.values().map(|(_, moving)| moving.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copying(shard: u16) -> Moving {
        let (from, to) = (Vec::new(), vec!["10.0.0.2:7400".to_owned()]);
        let stage = MoveStage::Copying;
        Moving { shard: ShardIndex(shard), from, to, stage, copied: 5, total: 10 }
    }

    fn stages(going: &mut Going, now: Instant) -> Vec<(u16, &'static str)> {
        going.under_way(now).iter().map(|moving| (moving.shard.0, moving.stage.name())).collect()
    }

    #[test]
    fn a_silent_target_has_given_up_unless_it_owns_the_shard() {
        let mut going = Going::default();
        let now = Instant::now();
        [1, 2, 3].into_iter().for_each(|shard| going.hear(copying(shard)));
        going.note(ShardIndex(2), MoveStage::Exchanging);
        going.note(ShardIndex(3), MoveStage::Opening);
        // A shard without a report is not listed.
        going.note(ShardIndex(4), MoveStage::Opening);
        assert_eq!(stages(&mut going, now), [(1, "copying"), (2, "exchanging"), (3, "opening")]);
        let later = Instant::now() + SILENT_MAX;
        assert_eq!(stages(&mut going, later), [(3, "opening")]);
        going.is_over(ShardIndex(3));
        assert_eq!(stages(&mut going, now), []);
    }
}
