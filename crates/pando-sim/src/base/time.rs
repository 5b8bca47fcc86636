//! Units of time, in nanoseconds.

/// One millisecond.
pub const MILLISECOND: u64 = 1_000_000;

/// One second.
pub const SECOND: u64 = 1_000 * MILLISECOND;
