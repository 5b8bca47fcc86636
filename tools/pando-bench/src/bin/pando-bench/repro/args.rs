//! Arguments of the subcommands that repeat figures, and their help.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// The figures of GIGA+ (FAST'11), its poster and its first report
///
/// Each says whether its values are measured on this machine, computed by the real placement and
/// client code, or come from a model, which is fed with costs that are measured first; what the
/// paper's text says stands beside them. What is computed is the same for the same seed. In
/// temporary folders, which are removed. See docs/REPRODUCTION.md.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando-bench giga                              all of it, in less than ten minutes
  pando-bench giga --quick                      in less than one
  pando-bench giga --only balance,addressing    Figures 7 and 9
  pando-bench giga --charts docs/giga           and pictures")]
pub struct GigaArgs {
    /// Only these
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    pub only: Vec<Part>,
    /// With far fewer files
    #[arg(long)]
    pub quick: bool,
    /// Also draw charts, as SVG, into this folder
    #[arg(long, value_name = "FOLDER")]
    pub charts: Option<PathBuf>,
    /// Of everything drawn at random
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// In an instant, for tests; the figures mean nothing
    #[arg(long, hide = true)]
    pub tiny: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Part {
    /// What each step of shards costs: the model's input
    Steps,
    /// Figure 4: creates by number of servers
    Scaling,
    /// Figure 5: one directory that grows
    Growth,
    /// Figures 6 and 8: how far to split
    Policies,
    /// Figure 7: load balance against consistent hashing
    Balance,
    /// Figure 9: requests to wrong servers
    Addressing,
    /// Figure 10 and Table 1: what keeps the partitions
    Backend,
    /// The poster's table: what splitting does twice
    Redundant,
    /// The first report's graphs
    Early,
}

/// The figures of InfiniFS (FAST'22), over servers behind a relay that makes round trips long
///
/// A server process for each shard of a temporary volume, and between them and everybody a relay
/// that delays each message, so that round trips decide what is fast, as between machines. What the
/// paper's text says stands beside. In temporary folders, which are removed. See
/// docs/REPRODUCTION.md.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando-bench infini                            all of it, in some ten minutes
  pando-bench infini --quick                    in one
  pando-bench infini --only depth,bars          Figure 1b, and what was to be reached
  pando-bench infini --charts docs/infini       and pictures")]
pub struct InfiniArgs {
    /// Only these
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    pub only: Vec<InfiniPart>,
    /// With far fewer calls
    #[arg(long)]
    pub quick: bool,
    /// Also draw charts, as SVG, into this folder
    #[arg(long, value_name = "FOLDER")]
    pub charts: Option<PathBuf>,
    /// What is added to each round trip, 0 to 100
    #[arg(long, value_name = "MILLISECONDS", default_value = "1", value_parser = round_trip)]
    pub round_trip: f64,
    /// Of everything drawn at random
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// In an instant, for tests; the figures mean nothing
    #[arg(long, hide = true)]
    pub tiny: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum InfiniPart {
    /// Figure 1b: latency by depth
    Depth,
    /// Figure 11: what each idea contributes
    Factors,
    /// Figure 13: lazy invalidation against leases
    Leases,
    /// Figure 14: renames, phase by phase
    Renames,
    /// Renames of directories with 32 shards, modelled
    Model,
    /// Figure 15: wrong guesses
    Mispredicted,
    /// What was to be reached
    Bars,
}

fn round_trip(text: &str) -> Result<f64, String> {
    let millis: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=100.0).contains(&millis) {
        return Ok(millis);
    }
    Err("from 0 to 100 are possible".to_owned())
}
