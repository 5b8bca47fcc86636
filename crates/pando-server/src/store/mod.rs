//! A shard's store: `babu` in the words of the shard's contract. Only this module reads and writes
//! records with `babu`.

pub mod error;
pub mod group;
pub mod open;
pub(crate) mod pace;
pub mod page;
pub mod records;
pub mod scrub;
pub(crate) mod work;

pub use babu::Priority;
pub use error::{Room, StoreError};
pub use group::weigh;
pub use open::{Opened, StoreOptions};
pub use page::{Gap, Page};
pub use records::Store;
pub use scrub::Scrubbing;
