//! The programs that rows need.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::output::failure::Failure;
use crate::trees::args::TreesArgs;
use crate::trees::row::Row;

/// Every row works on a tree that `tar` extracts, and that `rm` removes.
const ALWAYS: [&str; 3] = ["tar", "rm", "grep"];

const fn of(row: Row) -> &'static [&'static str] {
    match row {
        Row::ExtractFsync => &["xargs", "sync"],
        Row::Find1 | Row::Find2 | Row::ForeignFind => &["find"],
        Row::GitStatus | Row::GitClone => &["git"],
        Row::Make => &["make", "cc"],
        _ => &[],
    }
}

/// Fails with the names of all programs that are missing.
pub fn check(args: &TreesArgs) -> Result<(), Failure> {
    let wanted = args.rows.iter().flat_map(|&row| of(row));
    let mut missing: Vec<_> =
        ALWAYS.iter().chain(wanted).copied().filter(|program| !is_there(program)).collect();
    missing.sort_unstable();
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::plain(format!(
        "these programs are missing in $PATH: {}; install them, or choose other rows by --rows",
        missing.join(", ")
    )))
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| is_program(&folder.join(program)))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
