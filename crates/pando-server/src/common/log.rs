//! Lines of the process's log.

/// Writes a line to the log.
pub(crate) fn say(what: &str) {
    eprintln!("pando: {what}");
}
