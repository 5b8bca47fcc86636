//! Repeats figures of published papers and sets the paper's values beside ours. The papers on GIGA+
//! are Patil & Gibson, FAST'11; the poster "Large-scale Evaluation of GIGA+ Scalable Directories";
//! and the report CMU-PDL-08-107.
//!
//! ```text
//!   loadbalance   Figure 7: Monte Carlo, and the real placement rule            ┐
//!   addressing    Figure 9: the real client over a directory that grows         │  computed: one seed, one result
//!   redundant     the poster's table: what splitting moves a second time        │
//!   des           a discrete-event model of shards, fed with measured costs     ┘
//!     scaling     Figure 4     growth   Figure 5     policies   Figures 6 and 8     early   the report's graphs
//!   local         Figure 10: partitions kept as directories of a local file system, measured
//! ```
//!
//! [`infini`] is about another paper, InfiniFS (FAST'22): the real client over servers behind a
//! relay.
//!
//! This crate has no shards. A caller that has them measures the costs of their steps, and passes
//! them in ([`des::Costs`]). All random choices come from one seed. Values that a paper only plots
//! are not quoted.

pub mod addressing;
pub mod charts;
pub mod des;
pub mod directory;
pub mod early;
pub mod figure;
pub mod growth;
pub mod infini;
pub mod loadbalance;
pub mod local;
pub mod policies;
pub mod redundant;
pub mod scaling;
mod stats;

/// How much of a figure is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// The paper's size, as far as this machine allows.
    Full,
    /// All figures together take a minute.
    Quick,
    /// A moment, for tests.
    Tiny,
}

/// Entries beyond which a partition splits (GIGA+ §5: "always 8,000 entries").
pub const THRESHOLD: u64 = 8_000;
/// Files for each server at the end of the concurrent create workload (GIGA+ §5).
pub const FILES_PER_SERVER: u64 = 400_000;
/// Processes of each client (GIGA+ §5). There are as many clients as servers.
pub const PROCESSES: u32 = 8;

#[cfg(test)]
mod tests {
    use super::des::Costs;

    /// Costs of a realistic magnitude, for all tests of the model.
    pub const COSTS: Costs = Costs {
        create: 6_000,
        redirect: 3_000,
        client: 2_000,
        hop: 25_000,
        page_rows: 128,
        page_read: 60_000,
        page_take: 100_000,
        close: 20_000,
        arrive: 10_000,
        decide: 30_000,
        own: 5_000,
        split_here_entry: 200,
        sync: 150_000,
    };
}
