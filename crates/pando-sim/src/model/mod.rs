//! The model of Pando, as simple as possible: one tree of inodes in an ordered map, and one
//! operation at a time. Tests compare Pando with it.
//!
//! ```text
//!   Tree ── apply(Call, new ino) ──► Outcome      errno by errno, in Linux' order of precedence
//! ```
//!
//! It knows nothing of shards, partitions, leases or caches, and shares no logic with them. It
//! chooses no inode numbers: the caller of an operation passes the number that the real system
//! chose.
//!
//! 1. A file is named by exactly `nlink` entries, and by none if it is unlinked but open. A
//!    directory other than the root is named by exactly one entry.
//! 2. A directory that is removed is forgotten at once: operations on it are `ESTALE`.
//! 3. A file without names and without opens is forgotten at once: operations on it are `ESTALE`.
//! 4. Times, device numbers and counters are left out.
//! 5. Cloning a tree is cheap, since clones share nodes until these change. Equal trees have equal
//!    fingerprints. A search over histories needs both.

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
pub use tree::Tree;
