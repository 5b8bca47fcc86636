//! Standard output that may go away: a reader like `head` that has seen enough is no failure.

use std::io::Write;

use serde::Serialize;

/// One JSON object on a line.
pub fn json(value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => line(&text),
        Err(error) => eprintln!("pando: cannot write JSON: {error}"),
    }
}

/// A line of text.
pub fn line(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
