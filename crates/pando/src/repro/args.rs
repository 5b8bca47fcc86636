//! Arguments of `pando repro`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Make figures of published papers again, ours beside theirs
#[derive(Args, Debug)]
pub struct ReproArgs {
    #[command(subcommand)]
    pub command: ReproCommand,
}

impl ReproArgs {
    pub const fn is_json(&self) -> bool {
        match &self.command {
            ReproCommand::Giga(args) => args.json,
        }
    }
}

#[derive(Subcommand, Debug)]
pub enum ReproCommand {
    Giga(GigaArgs),
}

/// The figures of GIGA+ (FAST'11), its poster and its first report
///
/// Each says whether its values are measured on this machine, computed by the real placement and client code, or come from a
/// model, which is fed with costs that are measured first; what the paper's text says stands beside them. What is computed is
/// the same for the same seed. In temporary folders, which are removed. See docs/REPRODUCTION.md.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando repro giga                              all of it, in less than ten minutes
  pando repro giga --quick                      in less than one
  pando repro giga --only balance,addressing    Figures 7 and 9
  pando repro giga --charts docs/giga           and pictures")]
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
