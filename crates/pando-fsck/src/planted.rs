//! Faults that tests plant into the check, to see that tests find them. Released builds have none.

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

/// A fault that tests can plant.
#[cfg(feature = "planted")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// An inode without a name is never reported.
    OrphanUnreported,
    /// The names of an inode are not compared with its link count.
    NamesUncounted,
    /// An object that is needed and listed as garbage is deleted, with its place in the list.
    ObjectRepaired,
    /// Data that does not fit its inode is not seen.
    MisfitUnseen,
}

#[cfg(feature = "planted")]
impl Planted {
    /// Plants a fault, or none, into the current thread.
    pub fn plant(fault: Option<Self>) {
        PLANTED.set(fault);
    }

    pub(crate) fn is_planted(self) -> bool {
        PLANTED.get() == Some(self)
    }
}
