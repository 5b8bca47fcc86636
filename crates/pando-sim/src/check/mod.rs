//! Was the system one tree, whatever happened to it? Judges the history of a run.
//!
//! ```text
//!   History ──► search: some order of all operations, true to real time, that the model answers alike
//!           └─► listing: each listing against that order
//! ```
//!
//! Atomic are all operations but these (DESIGN §14): a listing, and size and link count of a directory, which several
//! partitions answer for. A lookup is two reads: where the name leads, and what the inode looks like; a change of a
//! directory's attributes is a change and a read.

mod agree;
mod history;
mod listing;
mod report;
mod search;

#[cfg(test)]
mod tests;

pub use agree::file_of;
pub use history::{Event, EventIndex, History};
pub use listing::check_listings;
pub use report::Failure;
pub use search::{Order, linearize};
