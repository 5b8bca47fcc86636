//! The source of rows for `pando fsck`: the servers of a running volume, or the stores of a stopped
//! one.

use pando_fsck::{Mode, Repairs, Rows};

use crate::failure::{Failure, IN_USE};
use crate::sources::served::Served;
use crate::sources::stopped::Stopped;

/// The rows to check.
pub enum Source {
    /// The stores of a stopped volume.
    Stopped(Stopped),
    /// The servers of a running volume.
    Served(Served),
}

impl Source {
    /// Whether rows change while they are read.
    pub const fn mode(&self) -> Mode {
        match self {
            Self::Stopped(_) => Mode::Stopped,
            Self::Served(_) => Mode::Running,
        }
    }

    /// Number of shards that can be read here. A shard that was added to a stopped volume is in no
    /// superblock. 0: the servers know the number.
    pub fn shards(&self) -> u16 {
        match self {
            Self::Stopped(stopped) => stopped.shards(),
            Self::Served(_) => 0,
        }
    }

    /// The rows, for reading.
    pub fn rows(&mut self) -> &mut dyn Rows {
        match self {
            Self::Stopped(stopped) => stopped,
            Self::Served(served) => served,
        }
    }

    /// The rows, for repair. `None` if the volume runs.
    pub fn repairs(&mut self) -> Option<&mut dyn Repairs> {
        match self {
            Self::Stopped(stopped) => Some(stopped),
            Self::Served(_) => None,
        }
    }
}

/// The failure for a repair of a running volume.
pub fn running(shown: &str) -> Failure {
    let what = "it is running, and only a stopped volume can be repaired";
    Failure::new(IN_USE, format!("{shown}: {what}: stop it with `pando down FOLDER` first"))
}
