//! Who looks on while a run goes on, and may end it.

/// Told how far it is; asked whether to go on.
pub trait Watch: Sync {
    /// `what` begins: this many operations.
    fn begin(&self, what: &str, total: u64);
    /// So many of them are done. Called a few times a second.
    fn advance(&self, done: u64);
    /// It is over.
    fn end(&self);
    /// Whether to stop as soon as possible. Asked often: an atomic load.
    fn is_interrupted(&self) -> bool;
}

/// Looks away, and never interrupts.
#[derive(Clone, Copy, Default, Debug)]
pub struct Silent;

impl Watch for Silent {
    fn begin(&self, _what: &str, _total: u64) {}
    fn advance(&self, _done: u64) {}
    fn end(&self) {}
    fn is_interrupted(&self) -> bool {
        false
    }
}
