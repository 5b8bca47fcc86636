//! The memory of a shard: its parts, each with a state of its own. Nothing here acts on a whole
//! shard.

pub mod concerned;
pub mod ctx;
pub mod grants;
pub mod lock_key;
pub mod locks;
pub mod lookup_cache;
pub mod migration;
pub mod namespace;
pub mod numbers;
pub mod outcomes;
pub mod paths;
pub mod queue;
pub mod sessions;
pub mod shard;
pub mod stop;
pub mod txn;
