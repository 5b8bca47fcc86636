//! Faults that tests plant into file contents, to see that they are found. A product has none of
//! them.

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
    /// A truncation leaves unflushed bytes up to the next boundary of 4 KiB.
    TruncationLeavesBytes,
    /// Bytes written before a hole was punched are stored after it.
    PunchBeforeFlush,
    /// An append goes to the end of the file as the shards know it.
    AppendAtStaleSize,
    /// A file that outgrows the metadata loses its inline bytes.
    InlineForgotten,
    /// A layout counts as valid at every data version.
    LayoutOfAnyVersion,
    /// Garbage is taken off the list, but not deleted.
    GarbageForgotten,
    /// Objects that a flush stored and could not name are not deleted.
    ReplacedKept,
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
