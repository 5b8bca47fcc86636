//! Judges the history of a run: whether the system behaved as one tree.
//!
//! ```text
//!   History ──► with what listings saw of each name ──► search: an order of all operations that respects real time, and in
//!                                                       which the model gives the same answers
//! ```
//!
//! If a client got no answer to an operation, the judge uses what shards said of the operation. Of
//! most operations, that is known.
//!
//! All operations are atomic except these. A listing, and a directory's size and link count, come
//! from several partitions. Calls by path that shards have refused too often are not atomic either
//! ([`loose`]). A lookup is two reads: where the name leads, and the inode's attributes. A change
//! of a directory's attributes is a change and a read.

mod agree;
mod event;
mod excuse;
pub mod file_names;
mod history;
mod lent;
mod loose;
mod marks;
mod report;
mod search;
mod sight;

#[cfg(test)]
mod tests;

pub use agree::file_of;
#[cfg(feature = "planted")]
pub use agree::forgive_all;
pub use event::{Event, EventIndex, Fate, reads};
pub use excuse::{Excuse, Excuses};
pub use history::History;
pub use lent::{ElementOf, Ended, Loss};
pub use marks::go_forward;
pub use report::{Failure, Why};
pub use search::simple::linearize;
