//! Writers wait while the store is behind them: docs/design/backpressure.md.
//!
//! ```text
//!   call ─► judge ─► the machine
//!             ├────► slowed ── timer ────────────────────► resume ─► the machine
//!             └────► stopped ─ a checkpoint has ended ───► resume ─► the machine
//! ```
//!
//! 1. A batch that leaves a stopped request has a checkpoint under way, or a thread is freeing
//!    trees, or the shard runs again at once.
//! 2. A request that leaves has been judged for good: it is neither slowed nor stopped again.

mod judge;
mod resume;

use babu::Pressure;

/// How far a store is behind, and what its shard does about that.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Pressed {
    pub(crate) pressure: Pressure,
    /// No checkpoint could be made.
    pub(crate) refuses: bool,
}

impl Pressed {
    /// 0: writers go on. Up to 1: they are slowed. 2: they are stopped.
    pub(crate) const fn gauge(self) -> f64 {
        match self.pressure {
            Pressure::None => 0.0,
            Pressure::Soft(fraction, _) => fraction,
            Pressure::Hard(_) => 2.0,
        }
    }

    /// What writers meet, and why, in words. `None`: they go on.
    pub(crate) fn reason(self) -> Option<String> {
        match self.pressure {
            Pressure::None => None,
            Pressure::Soft(_, behind) => Some(format!("writers are slowed: {behind}")),
            Pressure::Hard(behind) if self.refuses => {
                Some(format!("writers get ENOSPC: {behind}, and the last checkpoint failed"))
            }
            Pressure::Hard(behind) => {
                Some(format!("writers wait until a checkpoint ends: {behind}"))
            }
        }
    }
}
