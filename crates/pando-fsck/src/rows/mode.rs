//! Whether the volume changes during the check.

/// Whether the volume changes during the check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// No shard runs: all rows are of one moment. Transactions that a crash left unfinished are
    /// still unfinished.
    Stopped,
    /// Shards run.
    Running,
}
