//! A failed command and its message.

use std::fmt::Display;
use std::process::ExitCode;

use pando_bench::BenchError;
use pando_server::FolderError;
use pando_server::host::RecoveryError;
use serde_json::json;

use super::print;

/// A command's failure, with the message for the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    message: String,
}

impl Failure {
    pub fn plain(message: impl Display) -> Self {
        Self { message: message.to_string() }
    }

    /// Prints the message on standard error, and with `--json` also a JSON object on standard
    /// output.
    pub fn report(&self, as_json: bool) -> ExitCode {
        eprintln!("pando-bench: {}", self.message);
        if as_json {
            print::json(&json!({ "error": { "message": self.message } }));
        }
        ExitCode::FAILURE
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Self {
        Self::plain(error)
    }
}

impl From<RecoveryError> for Failure {
    fn from(error: RecoveryError) -> Self {
        Self::plain(error)
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Interrupted => Self::plain("interrupted; what was made is removed again"),
            error => Self::plain(error),
        }
    }
}
