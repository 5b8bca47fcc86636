//! Faults that tests plant into a holder, to see that they are found. A product has none of them.

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
    /// A hold is counted from the answer.
    HoldFromAnswer,
    /// What could not be applied is forgotten, and not set aside.
    ForgetsLost,
    /// Changes are answered without a note in the journal.
    ChangeNotNoted,
    /// That a grant is over is not noted before its shard forgets it.
    EndNotNoted,
    /// What was read is remembered when another session wants to write.
    RemembersAfterRecall,
    /// What was read is remembered when a read grant was recalled.
    ReadsAfterRecall,
    /// What was read is remembered though this session changes it.
    RemembersChanged,
    /// What names objects leaves before these are synced.
    SentBeforeSync,
    /// A fault of the lent core.
    Core(pando_core::Planted),
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

/// Plants the fault of the lent core into a new one, if there is one.
#[cfg(feature = "planted")]
pub(crate) fn planted_into(mut core: pando_core::LentCore) -> pando_core::LentCore {
    if let Some(Planted::Core(fault)) = PLANTED.get() {
        core.plant(fault);
    }
    core
}
