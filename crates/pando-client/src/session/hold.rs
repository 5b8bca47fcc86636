//! What a client knows of its kernel's memory, and of shard 0 (docs/design/holds.md).

use std::sync::atomic::{AtomicU64, Ordering};

/// The hold of a client's session.
#[derive(Debug)]
pub(crate) struct Hold {
    /// The session whose kernel may remember; 0: none.
    pub(crate) session: AtomicU64,
    /// The start of shard 0 that knows that this client holds nothing, if it does not.
    pub(crate) epoch: AtomicU64,
    numbers: AtomicU64,
}

impl Hold {
    pub(crate) const fn new() -> Self {
        let [session, epoch, numbers] = [const { AtomicU64::new(0) }; 3];
        Self { session, epoch, numbers }
    }

    /// The number of a new statement. Who asks notes the session before, and who says that nothing
    /// is held looks for it afterwards. So nobody ends a hold that is asked for at that moment.
    pub(crate) fn next(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::SeqCst) + 1
    }
}
