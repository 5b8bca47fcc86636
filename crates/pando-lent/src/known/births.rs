//! Directories that are lent to this session because it makes them.
//!
//! Such a grant comes from the transaction's coordinator. Its shard hears of it a moment later, and
//! again if it has lost power since. Until it says that the grant stands, the grant is *doubtful*:
//!
//! 1. It may be used for a hold from when the first copy of the request was sent. What the shard
//!    answers to other questions does not prolong that.
//! 2. Its elements keep no others back.
//! 3. If the shard does not know it, its coordinator is asked. It is lost only if both say so, the
//!    shard last.

use std::collections::HashMap;

use pando_types::lend::{Act, Element, Standing};
use pando_types::op::RequestId;
use pando_types::reply::{Body, Reply};
use pando_types::{SessionId, ShardIndex, TxnId};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// A grant that came with its directory, and of which something may have to be sent again.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Birth {
    /// Whether this start of the shard has said that the grant stands.
    pub(crate) is_known: bool,
    pub(crate) doubt: Doubt,
}

/// What follows if the shard does not know the grant.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Doubt {
    #[default]
    None,
    /// Its coordinator is to be asked.
    Asks,
    /// Its coordinator says that there is nothing to come. So many batches had left by then. If the
    /// shard says to a later one that it does not know the grant, it is lost.
    Nothing(u64),
}

/// Requests that make directories which would be borrowed.
#[derive(Default)]
pub(crate) struct Asked {
    /// By request slot, the sequence, and when the first copy was sent.
    open: Mutex<HashMap<(SessionId, u16), (u64, u64)>>,
    /// Loans of shards that are not known: they are returned unused.
    pub(crate) strays: Mutex<Vec<(ShardIndex, TxnId)>>,
    pub(crate) has_strays: Notify,
}

impl Asked {
    /// Notes that a copy is sent at `now`.
    pub(crate) fn sent(&self, id: RequestId, now: u64) {
        let mut open = self.open.lock();
        let known = open.entry((id.session, id.slot)).or_insert((id.sequence, now));
        if known.0 != id.sequence {
            *known = (id.sequence, now);
        }
    }

    /// Takes when the first copy of a request was sent, which is answered for good.
    pub(crate) fn take(&self, id: RequestId) -> Option<u64> {
        let mut open = self.open.lock();
        let (_, asked) =
            open.get(&(id.session, id.slot)).copied().filter(|its| its.0 == id.sequence)?;
        open.remove(&(id.session, id.slot));
        Some(asked)
    }
}

/// The element that changes nothing, and asks how far its grant has come.
pub(crate) const fn probe(grant: TxnId) -> Element {
    Element { grant, number: 0, act: Act::Return(None) }
}

/// What a reply tells of a grant.
pub(crate) fn standing_of(reply: &Reply, grant: TxnId) -> Option<Standing> {
    let Ok(Body::Streamed(states)) = &reply.result else { return None };
    states.iter().find(|(id, _)| *id == grant).map(|(_, told)| told.standing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_counts_from_the_first_copy_whichever_shard_answers() {
        let asked = Asked::default();
        let id = |sequence| RequestId { session: SessionId(5), slot: 3, sequence };
        asked.sent(id(7), 10);
        asked.sent(id(7), 20);
        assert_eq!(asked.take(id(8)), None);
        assert_eq!(asked.take(id(7)), Some(10));
        assert_eq!(asked.take(id(7)), None);
        asked.sent(id(7), 30);
        asked.sent(id(9), 40);
        assert_eq!(asked.take(id(9)), Some(40));
    }
}
