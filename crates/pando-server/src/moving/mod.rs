//! Moves of shards from and to this process, each to a folder of its own. The messages are those of
//! `pando_wire::MoveAsk`. The protocol is in docs/design/shard-move.md.
//!
//! The target copies the shard's records page by page while the source serves the shard. Pages are
//! read at different times. The target also takes each insert group that the source has applied
//! since the copy began. It applies these groups in order on top of the pages. A group says what a
//! key's value is, not how it differs, so the copy is right in the end. When little is left, the
//! source freezes and tells the last groups. Then it gives the shard away, or thaws after some
//! seconds.
//!
//! ```text
//!            FOLDER/coming-K   shard-K.coming   shard-K        source: shard-K   given-K
//!  copying         –              partial          –                 served         –
//!  ready         ready            complete         –                 frozen         –
//!  given         ready            complete         –                  dead         there      ◄ the one moment that counts
//!  taken         taken            complete         –                  dead         there
//!  opened          –                 –           served            dead, removed   there
//! ```
//!
//! 1. At any moment at most one process may serve the shard: the source until its `given-K` is
//!    durable, the target after it has heard `Given`. Each can tell from its own folder.
//! 2. A target that finds a complete copy at its start asks the source until the source answers. A
//!    copy that is not complete is removed.
//! 3. A repeated `GiveAway` with an equal token is answered from `given-K`, for ever.
//! 4. The copy's epoch is later than the source's from the beginning. So every process takes its
//!    host for the newer one.
//! 5. The source removes its old copy once it knows a host of a later epoch. The target tells it,
//!    or the table of hosts does.

mod ask;
mod faults;
mod giving;
mod going;
mod moves;
mod points;
mod shared;
mod silent;
pub mod source;
mod taking;
pub mod target;

pub use crate::folder::move_notes::{Coming, Given};
pub use crate::folder::place;
pub use crate::folder::taken::finish_taken;
pub use faults::{Faults, Point};
pub use moves::{Moves, Parts};
pub use silent::Silent;
