//! What several folders use: options, clocks, counters, lines of the log, waiting for a future.

pub mod clock;
pub mod log;
pub mod metrics;
pub mod options;
#[cfg(feature = "planted")]
pub mod planted;
pub mod wait;
