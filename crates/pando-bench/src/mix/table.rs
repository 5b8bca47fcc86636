//! Table 1 of InfiniFS, and how an operation is drawn by it.

use std::fmt;

use serde::Serialize;

/// A kind of operation, as the table has them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MixOp {
    /// Opens a file for reading, and closes it: one operation, as in the table. As everything that
    /// needs a file: if the hand has none left, a create in its place.
    OpenClose,
    /// Attributes of a file.
    Stat,
    /// A new file.
    Create,
    /// Removes a file.
    Delete,
    /// A new name for a file: half in the same directory, half in another of the hand's.
    Rename,
    /// Changes the mode of a file.
    SetPermission,
    /// Lists a directory.
    Readdir,
    /// Attributes of a directory.
    StatDir,
    /// A new directory.
    Mkdir,
    /// Removes an empty directory; if there is none, a mkdir in its place.
    Rmdir,
    /// A new name for a directory with files, within the same parent.
    RenameDir,
    /// Changes the mode of a directory with files.
    SetPermissionDir,
}

impl MixOp {
    /// In the order of their numbers.
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

    /// Its name, as the table has it.
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

    /// The one whose part of the table's whole has `draw` in it.
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

/// Table 1, in parts of [`TABLE_1_PARTS`]: file operations are 95.8 % and directory operations 4.2
/// % of all, and the table has each kind's share of these. Renames and mode changes of directories,
/// 0.0 % there, are "only ~0.0083 % of all" (§2.3): half each.
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

/// All of them: ten million, and what the table's own rounding adds.
pub const TABLE_1_PARTS: u32 = {
    let (mut sum, mut at) = (0, 0);
    while at < TABLE_1.len() {
        sum += TABLE_1[at].1;
        at += 1;
    }
    sum
};

/// A share in thousandths of the file operations.
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
