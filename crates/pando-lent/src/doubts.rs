//! What is known here of births of which the shard may not know: see [`crate::known::births`].

use pando_types::lend::Standing;
use pando_types::{ShardIndex, TxnId};

use crate::known::births::{Birth, Doubt};
use crate::side::State;

impl State {
    /// Whether the shard is yet to hear of a grant, as it says to a batch: its directory's decision
    /// is on its way, for the first time or after a loss of power.
    pub(crate) fn is_awaited(
        &mut self,
        (shard, batch): (ShardIndex, u64),
        grant: TxnId,
        told: Standing,
    ) -> bool {
        let Some(birth) = self.births.get_mut(&grant) else { return false };
        let is_awaited = match told {
            Standing::Awaited => {
                birth.doubt = Doubt::None;
                true
            }
            // A coordinator has none of its own left to tell itself.
            Standing::Unknown if grant.shard == shard => false,
            Standing::Unknown if matches!(birth.doubt, Doubt::Nothing(left) if batch > left) => {
                false
            }
            Standing::Unknown => {
                birth.doubt = Doubt::Asks;
                true
            }
            _ => {
                *birth = Birth { is_known: true, doubt: Doubt::None };
                self.grounds.set_goes_on(grant, true);
                false
            }
        };
        self.queue.keep_back(grant, is_awaited);
        is_awaited
    }

    /// Whether this start of the shard has not said yet that a grant stands.
    pub(crate) fn is_doubtful(&self, grant: TxnId) -> bool {
        self.births.get(&grant).is_some_and(|birth| !birth.is_known)
    }

    /// The shard was started anew: it may have lost what it knew.
    pub(crate) fn doubt_births(&mut self) {
        for (grant, birth) in &mut self.births {
            *birth = Birth::default();
            self.grounds.set_goes_on(*grant, false);
        }
    }

    /// Grants of which the coordinator is to be asked.
    pub(crate) fn doubtful(&self) -> Vec<TxnId> {
        let asks = self.births.iter().filter(|(_, birth)| birth.doubt == Doubt::Asks);
        asks.map(|(grant, _)| *grant).collect()
    }

    /// Whether the coordinator of some grant is to be asked.
    pub(crate) fn has_doubts(&self) -> bool {
        self.births.values().any(|birth| birth.doubt == Doubt::Asks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARD: ShardIndex = ShardIndex(1);

    #[test]
    fn a_birth_is_lost_only_if_coordinator_and_shard_say_so() {
        let grant = TxnId { shard: ShardIndex(0), number: 1 };
        let mut state = State::default();
        assert!(!state.is_awaited((SHARD, 5), grant, Standing::Unknown), "it is no birth");
        state.births.insert(grant, Birth::default());
        for _ in 0..3 {
            assert!(state.is_awaited((SHARD, 5), grant, Standing::Unknown));
            assert!(state.has_doubts() && state.is_doubtful(grant));
        }
        // The decision was on its way.
        state.births.insert(grant, Birth { is_known: false, doubt: Doubt::Nothing(4) });
        assert!(!state.is_awaited((SHARD, 5), grant, Standing::Stands));
        assert!(!state.is_doubtful(grant));
        // Another start of the shard.
        state.doubt_births();
        assert!(state.is_doubtful(grant));
        assert!(state.is_awaited((SHARD, 5), grant, Standing::Unknown));
        state.births.insert(grant, Birth { is_known: false, doubt: Doubt::Nothing(4) });
        // What the shard has said before its coordinator did says nothing.
        assert!(state.is_awaited((SHARD, 4), grant, Standing::Unknown));
        state.births.insert(grant, Birth { is_known: false, doubt: Doubt::Nothing(4) });
        assert!(!state.is_awaited((SHARD, 5), grant, Standing::Unknown));
    }

    #[test]
    fn a_coordinator_that_is_the_shard_knows_at_once() {
        let grant = TxnId { shard: SHARD, number: 1 };
        let mut state = State::default();
        state.births.insert(grant, Birth::default());
        assert!(!state.is_awaited((SHARD, 5), grant, Standing::Unknown));
    }
}
