//! What a holder has answered, noted before it answers. The notes outlive the process, and not the
//! machine: they are not synced. Another process sends what is left of them
//! ([`replay`](crate::replay)).
//!
//! ```text
//!  MOUNT/lock                 locked by the process that answers
//!  MOUNT/shard-3              two halves, which are written in turn
//!      half: head, record, record …       a record: length, checksum, the part or the element
//! ```
//!
//! 1. A half is written from its beginning when nothing in it is needed any more, and the other
//!    one is full. Its head has the next number, which is in the checksum of each record. So what
//!    is left of earlier records is none.
//! 2. An element is needed until its shard cannot lose it, or has refused it.
//! 3. That a grant is over is noted before its shard hears that it may forget it. An element of a
//!    grant that no shard knows is lost only if that is not noted.
//! 4. Each half begins with the parts that are here. So the notes name all of them, though nothing
//!    was changed in some.

mod folder;
mod halves;
mod record;

pub use folder::{Found, Mounts, Notes};
pub(crate) use halves::Half;
pub use halves::{Journal, Notebook, Storage};
pub use record::{HALF, Noted, read};
