//! Parts of directories that are lent: what the shard remembers of them.

pub mod batch;
pub mod held;
pub mod parts;
pub mod pauses;
pub mod reads;
