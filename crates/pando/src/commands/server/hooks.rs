//! Hooks for tests of `pando server`: faults at points of a shard's move. A release build has none,
//! unless the feature `hooks` is on.

use clap::Args;
use pando_server::moving::Faults;
#[cfg(any(debug_assertions, feature = "hooks"))]
use pando_server::moving::Point;

/// Faults that a test asks for.
#[cfg(any(debug_assertions, feature = "hooks"))]
#[derive(Args, Debug, Clone)]
pub struct HookArgs {
    /// Die at this point of a move
    #[arg(long, value_name = "POINT", hide = true)]
    die_at: Option<Point>,
    /// Fail at this point of a move
    #[arg(long, value_name = "POINT", hide = true)]
    fail_at: Option<Point>,
    /// Wait at the point of a move that FOLDER/run/hold names
    #[arg(long, hide = true)]
    may_be_held: bool,
}

/// No faults: a shipped server has no hooks.
#[cfg(not(any(debug_assertions, feature = "hooks")))]
#[derive(Args, Debug, Clone)]
pub struct HookArgs {}

#[cfg(any(debug_assertions, feature = "hooks"))]
impl HookArgs {
    pub const fn faults(&self) -> Faults {
        Faults { die_at: self.die_at, fail_at: self.fail_at, may_be_held: self.may_be_held }
    }
}

#[cfg(not(any(debug_assertions, feature = "hooks")))]
impl HookArgs {
    pub const fn faults(&self) -> Faults {
        Faults { die_at: None, fail_at: None, may_be_held: false }
    }
}
