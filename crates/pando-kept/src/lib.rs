//! The memory of a mount: records that outlive the process that serves it. A keeper holds it as a
//! descriptor, and hands it to the successor. docs/design/mount-takeover.md has the reasons.
//!
//! ```text
//! header, 64 KiB │ chunk 0 │ chunk 1 │ …      each chunk has records of one area
//! ```
//!
//! [`Nodes`] writes and reads node records. [`Mapped`] is the memory itself. All else takes any
//! [`Memory`], so a test can cut a writer off after each store.
//!
//! Invariants:
//! 1. A record counts by one word, which is stored last. A half-made record is none.
//! 2. Stores stay in the order in which they are made: each one is a `Release` store.
//! 3. A record is used again only after the word that made it count is 0.
//! 4. A reader believes nothing. What cannot be is no record, or refuses the memory as a whole.
//! 5. All room is allocated before it is used, and the file never shrinks.
#![deny(unsafe_code)]

#[macro_use]
mod planted;

mod area;
mod header;
#[allow(unsafe_code, reason = "maps the file that the records are in")]
mod mapped;
mod memory;
mod nodes;
mod record;
mod text;

pub use header::{Identity, Refused};
pub use mapped::Mapped;
pub use memory::{Memory, NoRoom};
pub use nodes::{At, Found, Nodes};
#[cfg(feature = "planted")]
pub use planted::Planted;
pub use record::Node;
pub use text::{NAME_MAX, REST_MAX};
