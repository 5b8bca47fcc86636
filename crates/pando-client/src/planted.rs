//! Faults that tests plant into the client, to see that they are found. Products hold none.

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

/// A fault.
#[cfg(feature = "planted")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// A request that was lost is sent again under a new identity.
    RetryRenumbered,
    /// A request that was lost is sent again to the shard beside the one that may have run it.
    RetryAstray,
    /// A slot is used again while it is in doubt whether its last request ran.
    SlotFreedInDoubt,
    /// What a request in doubt changes is changed by another meanwhile.
    DoubtIgnored,
    /// A redirect is followed by asking the same shard.
    RedirectNotLearned,
    /// A slot gives its next request the same sequence.
    SequenceReused,
    /// What is open is not opened in the next session.
    OpensNotClaimed,
    /// A request whose copy was lost is taken for one that never ran, when its session is over.
    LostSaysNotRun,
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
