//! Prints to standard output and standard error. Neither can fail: a reader like `head` may have
//! seen enough, and the disk with the log of a server may be full.

use std::fmt;
use std::io::Write;

use serde::Serialize;

/// Prints one JSON object on a line.
pub fn json(value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => line(&text),
        Err(error) => say!("cannot write JSON: {error}"),
    }
}

/// Prints a line of text.
pub fn line(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Prints one JSON object on a line. Returns as [`line_to_reader`] does.
pub fn json_to_reader(value: &impl Serialize) -> bool {
    match serde_json::to_string(value) {
        Ok(text) => line_to_reader(&text),
        Err(error) => {
            say!("cannot write JSON: {error}");
            false
        }
    }
}

/// Prints a line of text. Returns whether more may be read: a reader like `head` may be gone.
pub fn line_to_reader(text: &str) -> bool {
    let printed = writeln!(std::io::stdout(), "{text}");
    !printed.is_err_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Prints a line of text to standard error.
pub fn aside(text: fmt::Arguments<'_>) {
    // One write, so that lines of several threads and processes stay whole.
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Tells the user, or the log, what this process has to say. Takes what `format!` takes.
macro_rules! say {
    ($($told:tt)*) => {
        $crate::console::output::aside(format_args!("pando: {}", format_args!($($told)*)))
    };
}
pub(crate) use say;
