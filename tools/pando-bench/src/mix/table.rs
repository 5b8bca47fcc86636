//! Table 1 of InfiniFS, and the random choice of an operation by it.

use std::fmt;

use serde::Serialize;

/// A kind of operation of the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MixOp {
    /// Opens a file for reading and closes it, which is one operation in the table. If the hand has
    /// no files, a create replaces this and all other file operations.
    OpenClose,
    /// Reads the attributes of a file.
    Stat,
    /// Makes a new file.
    Create,
    /// Removes a file.
    Delete,
    /// Renames a file: half of them within its directory, half to another directory of the hand.
    Rename,
    /// Changes the mode of a file.
    SetPermission,
    /// Lists a directory.
    Readdir,
    /// Reads the attributes of a directory.
    StatDir,
    /// Makes a new directory.
    Mkdir,
    /// Removes an empty directory. If there is none, a mkdir replaces it.
    Rmdir,
    /// Renames a directory with files, within its parent.
    RenameDir,
    /// Changes the mode of a directory with files.
    SetPermissionDir,
}

impl MixOp {
    /// All kinds in the order of their numbers.
    pub const ALL: [Self; 12] = [
        Self::OpenClose,
        Self::Stat,
        Self::Create,
        Self::Delete,
        Self::Rename,
        Self::SetPermission,
        Self::Readdir,
        Self::StatDir,
        Self::Mkdir,
        Self::Rmdir,
        Self::RenameDir,
        Self::SetPermissionDir,
    ];

    /// The name that the table uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenClose => "open/close",
            Self::Stat => "stat",
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Rename => "rename",
            Self::SetPermission => "set_permission",
            Self::Readdir => "readdir",
            Self::StatDir => "statdir",
            Self::Mkdir => "mkdir",
            Self::Rmdir => "rmdir",
            Self::RenameDir => "rename of a directory",
            Self::SetPermissionDir => "set_permission of a directory",
        }
    }

    /// The kind of operation whose range in the table contains `draw`.
    pub(super) fn drawn(mut draw: u32) -> Self {
        for (op, parts) in TABLE_1 {
            match draw.checked_sub(parts) {
                Some(rest) => draw = rest,
                None => return op,
            }
        }
        Self::OpenClose
    }
}

impl fmt::Display for MixOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Table 1, in parts of [`TABLE_1_PARTS`]. File operations are 95.8 % and directory operations 4.2
/// % of all; the table gives each kind's share of these. Renames and mode changes of directories
/// have 0.0 % there and are "only ~0.0083 % of all" (§2.3): half each.
pub const TABLE_1: [(MixOp, u32); 12] = [
    (MixOp::OpenClose, of_files(549)),
    (MixOp::Stat, of_files(129)),
    (MixOp::Create, of_files(100)),
    (MixOp::Delete, of_files(124)),
    (MixOp::Rename, of_files(97)),
    (MixOp::SetPermission, of_files(1)),
    (MixOp::Readdir, of_directories(933)),
    (MixOp::StatDir, of_directories(66)),
    (MixOp::Mkdir, of_directories(1)),
    (MixOp::Rmdir, of_directories(1)),
    (MixOp::RenameDir, 415),
    (MixOp::SetPermissionDir, 415),
];

/// The sum of all parts: ten million, and what the table's rounding adds.
pub const TABLE_1_PARTS: u32 = {
    let (mut sum, mut at) = (0, 0);
    while at < TABLE_1.len() {
        sum += TABLE_1[at].1;
        at += 1;
    }
    sum
};

/// The parts of a kind whose share of the file operations is given in thousandths.
const fn of_files(share: u32) -> u32 {
    9_580 * share
}

const fn of_directories(share: u32) -> u32 {
    420 * share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_the_papers() {
        let parts = |op| TABLE_1.iter().find(|(other, _)| *other == op).unwrap().1;
        let files: u32 = MixOp::ALL[..6].iter().map(|op| parts(*op)).sum();
        assert_eq!(files, 9_580_000);
        assert_eq!(TABLE_1_PARTS, 10_001_250);
        assert_eq!(parts(MixOp::OpenClose), 5_259_420);
        assert_eq!(parts(MixOp::Readdir), 391_860);
        assert!(MixOp::ALL.iter().enumerate().all(|(at, op)| *op as usize == at));
    }

    #[test]
    fn each_kind_is_drawn_as_often_as_it_has_parts() {
        let mut from = 0;
        for (op, parts) in TABLE_1 {
            assert_eq!(MixOp::drawn(from), op);
            assert_eq!(MixOp::drawn(from + parts - 1), op);
            from += parts;
        }
        assert_eq!(from, TABLE_1_PARTS);
    }
}
