//! Faults that tests plant into file contents, to see that they are found. Products hold none.

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
    /// A truncation leaves what was written up to the next boundary of 4 KiB.
    TruncationLeavesBytes,
    /// What was written before a hole was punched is stored after it.
    PunchBeforeFlush,
    /// An append goes where the shards say that the file ends.
    AppendAtStaleSize,
    /// A file that grows out of the metadata leaves what was inline behind.
    InlineForgotten,
    /// Where bytes are is believed whatever became of the file.
    LayoutOfAnyVersion,
    /// Garbage is taken off the list, and not deleted.
    GarbageForgotten,
    /// What a flush stored and could not name is not deleted.
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
