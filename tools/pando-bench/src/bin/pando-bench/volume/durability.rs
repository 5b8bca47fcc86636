//! When a change is acknowledged, as an argument.

use clap::ValueEnum;
use pando_server::Durability;

/// See docs/SEMANTICS.md.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DurabilityArg {
    /// With the kernel: survives kill -9; loss of power takes at most the last second
    Os,
    /// Fsynced: survives loss of power
    Disk,
}

impl From<DurabilityArg> for Durability {
    fn from(durability: DurabilityArg) -> Self {
        match durability {
            DurabilityArg::Os => Self::Os,
            DurabilityArg::Disk => Self::Disk,
        }
    }
}

impl DurabilityArg {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Os => "os",
            Self::Disk => "disk",
        }
    }
}
