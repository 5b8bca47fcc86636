//! Faults that tests plant into the client, to see that they are found. A product has none of them.

/// Whether a fault is planted.
#[cfg(feature = "planted")]
macro_rules! is_planted {
    ($fault:ident) => {
        $crate::Planted::$fault.is_planted()
    };
}
#[cfg(not(feature = "planted"))]
macro_rules! is_planted {
    ($fault:ident) => {
        false
    };
}

#[cfg(feature = "planted")]
std::thread_local! {
    static PLANTED: std::cell::Cell<Option<Planted>> = const { std::cell::Cell::new(None) };
}

/// A fault that disables one guard.
#[cfg(feature = "planted")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// A lost request is sent again under a new identity.
    RetryRenumbered,
    /// A lost request is sent again to the shard beside the one that may have run it.
    RetryAstray,
    /// A slot is used again while its last request is in doubt.
    SlotFreedInDoubt,
    /// A request may change what a request in doubt changes.
    DoubtIgnored,
    /// After a redirect the request goes to the same shard again.
    RedirectNotLearned,
    /// A slot gives its next request the sequence of the last one.
    SequenceReused,
    /// Open files are not opened in the next session.
    OpensNotClaimed,
    /// After a lost copy and the session's end, a request counts as one that never ran.
    LostSaysNotRun,
    /// A quiet session changes things without a word to shard 0.
    ChangesAsleep,
    /// A grant is given back before the kernel has forgotten what it was told by it.
    GivenBackBeforeForgotten,
    /// The kernel may remember an answer from before its ground stood.
    ToldOfBefore,
}

#[cfg(feature = "planted")]
impl Planted {
    /// Plants a fault, or none, into what this thread runs.
    pub fn plant(fault: Option<Self>) {
        PLANTED.set(fault);
    }

    pub(crate) fn is_planted(self) -> bool {
        PLANTED.get() == Some(self)
    }
}
