//! Was the system one tree, whatever happened to it? Judges the history of a run.
//!
//! ```text
//!   History ──► with what listings saw of each name ──► search: some order of all of it, true to real time, that the
//!                                                       model answers alike
//! ```
//!
//! Of an operation whose caller never heard, it is taken into account what shards said of it; of
//! most, that is known.
//!
//! Atomic are all operations but these (DESIGN §14): a listing, and size and link count of a
//! directory, which several partitions answer for; and calls by path that shards have refused too
//! often ([`loose`]). A lookup is two reads: where the name leads, and what the inode looks like; a
//! change of a directory's attributes is a change and a read.

mod agree;
mod closely;
mod excuse;
mod footprint;
mod history;
mod loose;
mod marks;
mod report;
mod search;

#[cfg(test)]
mod tests;

pub use agree::file_of;
#[cfg(feature = "planted")]
pub use agree::forgive_all;
pub use excuse::{Excuse, Excuses};
pub use history::{Event, EventIndex, Fate, History, Sight};
pub use marks::go_forward;
pub use report::Failure;
pub use search::{Order, linearize};
