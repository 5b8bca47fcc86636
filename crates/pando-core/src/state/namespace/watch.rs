//! A collection of unused objects under way.

use alloc::collections::BTreeSet;
use pando_types::TxnId;
use pando_types::op::ObjectId;

/// A collection of unused objects. It is in memory only: a shard that begins anew has forgotten it,
/// and says so.
pub struct Watch {
    pub(crate) id: u64,
    /// Objects of ended sessions that became part of slices since the collection began.
    pub(crate) seen: BTreeSet<ObjectId>,
    /// Steps that were prepared when this shard was first asked to settle, and still are.
    pub(crate) before: Option<BTreeSet<(TxnId, u16)>>,
}
