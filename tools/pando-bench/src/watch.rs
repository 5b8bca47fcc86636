//! Observers of a run, which may interrupt it.

/// Receives the progress of a run, and may interrupt it.
pub trait Watch: Sync {
    /// Part `what` begins, with `total` operations.
    fn begin(&self, what: &str, total: u64);
    /// `done` operations have finished. Called a few times a second.
    fn advance(&self, done: u64);
    /// The present part has ended.
    fn end(&self);
    /// Whether to stop as soon as possible. It is called often, so it should be as cheap as an
    /// atomic load.
    fn is_interrupted(&self) -> bool;
}

/// A watch that shows nothing and never interrupts.
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
