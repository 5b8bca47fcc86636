//! Faults that tests plant into the keeper, to check that they are found. Products contain none.

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
    /// RESEND is written when a server process closes its socket. It may still read then.
    ResendBeforeDeath,
    /// Nothing is resent after a second crash.
    SecondCrashNotResent,
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
