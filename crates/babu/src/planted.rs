//! Faults that tests plant into the store, to check that they are found. Products contain none.

/// True if the fault is planted.
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

/// A fault that can be planted.
#[cfg(feature = "planted")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// A sync of a log does nothing.
    SyncDoesNothing,
    /// A manifest is switched before the files that it names are synced.
    FilesUnsynced,
    /// A block's checksum is not compared.
    BlockUnchecked,
    /// A group's checksum is not compared, so the remains of a torn write are taken for a group.
    TornGroupBelieved,
    /// A tombstone is dropped at a level that is not the lowest.
    TombstoneDropped,
    /// A flush leaves out all tombstones, also of keys that files below have.
    FlushForgetsTombstones,
    /// A merge is published with the levels that it began with, without flushes since.
    MergeForgetsFlush,
    /// A filter denies one in sixteen keys that are there.
    FilterDenies,
    /// A snapshot holds what is written after it.
    SnapshotSeesLater,
    /// Trees that are being flushed do not count as memory.
    FrozenUncounted,
    /// Each step of a scrub passes over the first block of the next one.
    ScrubLeaps,
    /// A sync that covers the end of a log runs without [`crate::Around::before`].
    CheckpointUnaccompanied,
    /// An export is published before the files that it has copied or made are synced.
    ExportUnsynced,
    /// An export has whole files only, without what is in trees.
    ExportForgetsTrees,
}

#[cfg(feature = "planted")]
impl Planted {
    /// Plants a fault, or none, into all code that this thread runs.
    pub fn plant(fault: Option<Self>) {
        PLANTED.set(fault);
    }

    pub(crate) fn is_planted(self) -> bool {
        PLANTED.get() == Some(self)
    }
}
