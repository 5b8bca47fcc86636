//! Prints to standard output. A closed pipe is no failure: a reader like `head` may have seen
//! enough.

use std::io::Write;

use serde::Serialize;

/// Prints one JSON object on a line.
pub fn json(value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => line(&text),
        Err(error) => eprintln!("pando-bench: cannot write JSON: {error}"),
    }
}

/// Prints a line of text.
pub fn line(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
