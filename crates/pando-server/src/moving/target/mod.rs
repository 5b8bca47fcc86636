//! The target of a move, without threads, sockets and clocks. It tells its driver the next step,
//! and the driver reports the result.
//!
//! ```text
//!   adopt ─► attempt: Follow, pages and changes ─► exchange: Freeze, the rest, sync, coming-K ─► obtain: GiveAway … ─► serve
//!              ▲ again, with a new copy                ▲ again, with the same copy                   ▲ resume
//! ```

mod copy;
mod course;
pub(crate) mod desk;
pub(crate) mod end;
pub(crate) mod stepper;
pub(crate) mod taker;
mod work;

pub use desk::{Heard, Step};
pub use end::Ended;
pub use stepper::Target;
pub use taker::{Pace, Taker};
