//! Failures of calls outside of what is measured.

use std::io;
use std::path::Path;

use crate::output::failure::Failure;

/// Returns a closure for `map_err` that says what failed on which path.
pub fn failed<'a>(what: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> Failure + 'a {
    move |error| Failure::plain(format!("cannot {what} {}: {error}", path.display()))
}
