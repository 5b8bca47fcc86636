//! Rows, systems, and which of them go together.

use clap::ValueEnum;
use serde::Serialize;

/// What programs work on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// `pando server` and `pando mount` over TCP
    Tcp,
    /// The same over the server's Unix socket
    Unix,
    /// `pando up`: all in one process
    Up,
    /// A folder on the local disk
    Local,
    /// A FUSE that passes reads through to a local folder, and remembers nothing
    Pass,
    /// A FUSE that takes everything, and keeps names
    Null,
}

impl System {
    pub const ALL: [Self; 6] =
        [Self::Tcp, Self::Unix, Self::Up, Self::Local, Self::Pass, Self::Null];

    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Unix => "unix",
            Self::Up => "up",
            Self::Local => "local",
            Self::Pass => "pass",
            Self::Null => "null",
        }
    }

    pub const fn is_pando(self) -> bool {
        matches!(self, Self::Tcp | Self::Unix | Self::Up)
    }
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Row {
    /// `tar -xf` of the tree
    Extract,
    /// The same, and fsync of every file
    ExtractFsync,
    /// `find -size +0`, first after a mount
    Find1,
    /// The same once more
    Find2,
    /// `grep -r`, first after a mount
    Grep1,
    /// The same once more
    Grep2,
    /// `git status`, the second
    GitStatus,
    /// `git clone --no-hardlinks` of a local bare repository
    GitClone,
    /// `rm -r` of what was just extracted
    Rm,
    /// `make -j2` of a small C project
    Make,
    /// `fstat`, a call
    Fstat,
    /// `lseek` to the end, a call
    LseekEnd,
    /// `open` and `close`, both
    OpenClose,
    /// Reading a large file, the second time
    Reread,
    /// The first call of a second mount in a directory that is lent to the first
    Recall,
    /// Rates of a mount beside an idle one, in parts of its rates alone
    SecondMountIdle,
    /// Rates of a mount beside one that works elsewhere, in parts of its rates alone
    SecondMountBusy,
    /// Creates of a mount while another runs `find` over them, in parts of those without
    ForeignFind,
}

impl Row {
    pub const ALL: [Self; 18] = [
        Self::Extract,
        Self::ExtractFsync,
        Self::Find1,
        Self::Find2,
        Self::Grep1,
        Self::Grep2,
        Self::GitStatus,
        Self::GitClone,
        Self::Rm,
        Self::Make,
        Self::Fstat,
        Self::LseekEnd,
        Self::OpenClose,
        Self::Reread,
        Self::Recall,
        Self::SecondMountIdle,
        Self::SecondMountBusy,
        Self::ForeignFind,
    ];

    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether the row is measured on this system.
    pub const fn is_for(self, system: System) -> bool {
        match self {
            Self::Extract => !matches!(system, System::Pass),
            Self::Find1 | Self::Find2 | Self::Grep1 | Self::Grep2 => {
                !matches!(system, System::Null)
            }
            Self::Recall | Self::SecondMountIdle | Self::SecondMountBusy | Self::ForeignFind => {
                matches!(system, System::Tcp | System::Unix)
            }
            _ => !matches!(system, System::Pass | System::Null),
        }
    }

    pub const fn unit(self) -> &'static str {
        match self {
            Self::Fstat | Self::LseekEnd | Self::OpenClose => "µs",
            Self::SecondMountIdle | Self::SecondMountBusy | Self::ForeignFind => "ratio",
            _ => "ms",
        }
    }
}

/// One figure of a row. A row of several figures names each.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figure {
    pub row: Row,
    pub part: Option<&'static str>,
    pub value: f64,
}

impl Figure {
    /// A time in seconds becomes a figure in the row's unit.
    pub fn time(row: Row, seconds: f64) -> Self {
        let parts = if row.unit() == "µs" { 1e6 } else { 1e3 };
        Self { row, part: None, value: seconds * parts }
    }

    pub const fn part(row: Row, part: &'static str, value: f64) -> Self {
        Self { row, part: Some(part), value }
    }
}
