//! Versions of directories: which directories have changed for callers that come through them. With
//! versions a client may remember the path to a directory, and a shard sees whether the path has
//! changed (InfiniFS §3.4; docs/design/path-versions.md).
//!
//! ```text
//!   rename, exchange, chmod, chown            shard 0                     every shard
//!     locks its names, then ── Invalidate ──► version, in its list ──────► in its list
//!                                             all know it? ◄────────────── known up to …
//!     decides ◄────────────── Voted ──────────┘ (or No, after a while)
//! ```
//!
//! 1. A version is given out after the names that it concerns are locked. They stay locked until
//!    the change is decided. So a reader on a shard that knows the version reads the result of the
//!    change.
//! 2. A change is decided only when every shard knows its version. So a request by the old path
//!    runs before the change, or is refused.
//! 3. A version that was given up stays in the lists, and is told to all shards. It costs clients a
//!    lookup.
//! 4. All of this is soft state. Versions are numbers of transactions of shard 0, which are never
//!    used twice.
//! 5. A shard that has just started judges no trail until shard 0 has answered a question of this
//!    start.
//! 6. Shard 0 begins its list anew at its start, above all numbers that it may have given out.
//!    Clients with a lower version drop all that they have cached, once. The other shards' lists
//!    begin there, too, so that none stays behind. For judging they need nothing more: they know
//!    every version of shard 0's earlier life under which a change is decided.
//! 7. Lists are bounded. A client drops all that it has cached if its version is below a list's
//!    floor.

mod broadcast;
mod judge;

use crate::state::paths::versions::TrailState;
