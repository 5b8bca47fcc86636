//! The first pass over all rows, shard by shard, in key order. Rows that lie together are judged at
//! once. What must agree with rows elsewhere is noted.
//!
//! ```text
//!  shard 0: │d dir A: content headers entries ┊ xattrs ┊ inline ┊ slices│d dir B …│l inodes …│s tables …│
//!                                     │ joined by order, each by a cursor of its own │
//! ```
//!
//! Of a file with one name, only a bit of its number is kept.

pub mod cold;
pub mod dirs;
pub mod inode;
pub mod links;
pub mod names;
pub mod pass;
pub mod run;
pub mod table_row;
pub mod table_txns;
pub mod tables;
