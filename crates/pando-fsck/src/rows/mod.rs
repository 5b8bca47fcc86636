//! Rows of shards: the interfaces to them, cursors, keys, and what places them.

pub mod cursor;
pub mod key;
pub mod mode;
pub mod source;
pub mod volume;
