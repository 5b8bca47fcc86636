//! How long the command waits for what may not answer.

use std::time::Duration;

use super::args::UmountArgs;

/// Time that the process has to store data after it has unmounted.
pub const END_WITHIN: Duration = Duration::from_secs(120);

/// Time limits for what may not answer. With `--force` they add up to less than 5 s.
pub struct Patience {
    /// To resolve the path. A longer wait means that a mount on the path does not answer.
    pub found: Duration,
    /// For a ping. A process that is not suspended answers by then, even if its servers do not.
    pub awake: Duration,
    /// For the process to unmount.
    pub unmounted: Duration,
}

const PATIENT: Patience = Patience {
    found: Duration::from_secs(4),
    awake: Duration::from_secs(4),
    unmounted: END_WITHIN,
};
pub const FORCED: Patience = Patience {
    found: Duration::from_secs(1),
    awake: Duration::from_secs(1),
    unmounted: Duration::from_secs(1),
};

impl Patience {
    /// The limits that the user asks for.
    pub const fn of(args: &UmountArgs) -> &'static Self {
        if args.force { &FORCED } else { &PATIENT }
    }
}
