//! Lines of the process's log.

use std::io::Write;

/// Writes a line to the log. This cannot fail: the server goes on though the disk with its log is
/// full.
pub(crate) fn say(what: &str) {
    // One write, so that lines of several threads stay whole.
    let _ = std::io::stderr().write_all(format!("pando: {what}\n").as_bytes());
}
