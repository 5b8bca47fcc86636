//! Where something is that belongs to a hash slot.

use pando_types::reply::HashSlotNews;

use crate::state::lock_key::LockKey;

/// Where something is that belongs to a hash slot.
pub enum Whereabouts {
    /// On this shard.
    Here,
    /// Here or elsewhere: known once this lock is free.
    Soon(LockKey),
    /// On the shard that owns the hash slot.
    There(HashSlotNews),
    /// It was never here, so this shard has not voted for it.
    Never,
}
