//! What Pando must do, said as simply as possible: one tree of inodes in an ordered map, one
//! operation at a time.
//!
//! ```text
//!   Tree ── apply(Call, new ino) ──► Outcome      errno by errno, in Linux' order of precedence
//! ```
//!
//! It knows nothing of shards, partitions, sessions or caches, and shares no logic with them. Inode
//! numbers are not its business either: whoever applies an operation tells which number the real
//! system chose.
//!
//! 1. Every node but the root and the unlinked-but-open is named by exactly `nlink` entries (files)
//!    or one (directories).
//! 2. A directory that is removed is forgotten at once: operations on it are `ESTALE`.
//! 3. A file without names and without opens is forgotten at once: operations on it are `ESTALE`.
//! 4. Times, device numbers and counters are left out.
//! 5. Cloning a tree is cheap (nodes are shared until changed), and equal trees have equal
//!    fingerprints: what a search over histories needs.

mod attrs;
mod call;
mod files;
mod names;
mod node;
mod objections;
mod path;
mod permission;
mod rename;
mod tree;

#[cfg(test)]
mod tests;

pub use call::{Call, Op, Outcome, Stat, Value, Who};
pub use node::Node;
pub use permission::{READ, SEARCH, WRITE};
pub use tree::Tree;
