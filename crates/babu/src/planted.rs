//! Faults that tests plant into the store, to see that they are found. Products hold none.

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
    /// A sync of a log does nothing.
    SyncDoesNothing,
    /// A manifest is switched before the files that it names are synced.
    FilesUnsynced,
    /// A block's checksum is not compared.
    BlockUnchecked,
    /// A group's checksum is not compared: what a torn write left is taken for one.
    TornGroupBelieved,
    /// A tombstone is dropped at a level that is not the last.
    TombstoneDropped,
    /// A filter says of one key in sixteen that it is not there.
    FilterDenies,
    /// A snapshot holds what is written after it.
    SnapshotSeesLater,
    /// What goes with each sync does not go with that of a log that ends.
    CheckpointUnaccompanied,
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
