//! Faults that tests plant into the records, to check that they are found. Products contain none.

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
    /// The word that makes a record count is stored first.
    WordFirst,
    /// An old record is freed before the new one of that node counts.
    OldFreedFirst,
    /// A chunk is used before the header names it.
    ChunkUnnamed,
    /// What a text belongs to is not compared.
    TextBelieved,
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
