//! The subcommands.

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand};

use crate::bench::args::{FloorArgs, GrowthArgs, MetadataArgs, MixArgs, PairsArgs, PartsArgs};
use crate::bench::null::NullArgs;
use crate::repro::args::{GigaArgs, InfiniArgs};
use crate::trees::args::TreesArgs;
use crate::trees::pass::PassArgs;

const LONG: &str = "\
Examples:
  pando-bench metadata --in-flight 64        the library and one shard in this process
  pando-bench mount-pairs                    a mount of Pando beside the null file system
  pando-bench trees                          tar, find, grep, git and make on several file systems
  pando-bench giga --quick                   the figures of GIGA+, in small

What serves and mounts volumes is the program `pando`: the one beside this program, else the one in
$PATH. docs/BENCHMARKS.md and docs/REPRODUCTION.md say how the figures are read.";

/// Measures Pando, what it could cost at best, and figures of published papers, ours beside theirs
#[derive(Parser, Debug)]
#[command(version, about, max_term_width = 100, after_long_help = LONG)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    Metadata(MetadataArgs),
    Mix(MixArgs),
    Floor(FloorArgs),
    Parts(PartsArgs),
    MountPairs(PairsArgs),
    Trees(TreesArgs),
    Growth(GrowthArgs),
    Giga(GigaArgs),
    Infini(InfiniArgs),
    /// Does one client's part of a run, told on standard input
    #[command(hide = true)]
    Worker,
    Null(NullArgs),
    Pass(PassArgs),
    Leashed(LeashedArgs),
}

impl Command {
    pub const fn is_json(&self) -> bool {
        match self {
            Self::Metadata(args) => args.json,
            Self::Mix(args) => args.json,
            Self::Floor(args) => args.json,
            Self::Parts(args) => args.json,
            Self::MountPairs(args) => args.json,
            Self::Trees(args) => args.json,
            Self::Growth(args) => args.json,
            Self::Giga(args) => args.json,
            Self::Infini(args) => args.json,
            Self::Worker | Self::Null(_) | Self::Pass(_) | Self::Leashed(_) => false,
        }
    }
}

/// Run a program that ends when its parent dies
#[derive(Args, Debug)]
#[command(hide = true)]
pub struct LeashedArgs {
    /// The program, and its arguments
    #[arg(last = true, required = true)]
    pub words: Vec<OsString>,
}
