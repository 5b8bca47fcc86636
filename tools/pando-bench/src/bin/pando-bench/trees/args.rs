//! Arguments of `pando-bench trees`, and their help.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::row::{Row, System};
use crate::output::number::number;
use crate::volume::durability::DurabilityArg;

/// Measure the work of real programs on trees: tar, find, grep, git, make, rm; and single calls
///
/// Each round measures each row on all systems, one after the other, in another order each time.
/// So ratios hold while the machine's speed drifts. Volumes are new, and all that is made is
/// removed. What is asked of each row stands beside it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando-bench trees                                            all rows on all systems
  pando-bench trees --systems tcp,local --rows find1,find2,git-status --tree ~/linux
  pando-bench trees --rows git-clone --clone-files 50000 --rounds 3 --json")]
pub struct TreesArgs {
    /// What programs work on
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = System::ALL)]
    pub systems: Vec<System>,
    /// What is measured
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Row::ALL, hide_default_value = true)]
    pub rows: Vec<Row>,
    /// How often everything is measured
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number::<u32>(1..=1000))]
    pub rounds: u32,
    /// A source tree, without what is in `.git` [default: one that is made, equal each time]
    #[arg(long, value_name = "FOLDER")]
    pub tree: Option<PathBuf>,
    /// Files of the tree that is made
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = number::<u32>(20..=1_000_000))]
    pub tree_files: u32,
    /// What `grep` looks for
    #[arg(long, default_value = "return")]
    pub word: String,
    /// Files of the repository that is cloned
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = number::<u32>(1..=1_000_000))]
    pub clone_files: u32,
    /// Size of the file that is read twice
    #[arg(long, value_name = "MIB", default_value_t = 1_024, value_parser = number::<u32>(1..=65_536))]
    pub reread_mib: u32,
    /// Calls of each kind in a run; each kind has five runs, and their median counts
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = number::<u32>(100..=10_000_000))]
    pub calls: u32,
    /// Directories that a second mount enters while they are lent, in each round
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = number::<u32>(1..=100_000))]
    pub recalls: u32,
    /// Files of a mount whose rates are compared beside another mount
    #[arg(long, value_name = "N", default_value_t = 3_000, value_parser = number::<u32>(10..=1_000_000))]
    pub files: u32,
    /// Time after which a program is ended that is not done
    #[arg(long, value_name = "SECONDS", default_value = "900", value_parser = crate::bench::args::seconds)]
    pub limit: Duration,
    /// Shards of the volumes
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = number::<u16>(1..=256))]
    pub shards: u16,
    /// When a change in the volumes is acknowledged
    #[arg(long, value_enum, default_value_t = DurabilityArg::Os)]
    pub durability: DurabilityArg,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
