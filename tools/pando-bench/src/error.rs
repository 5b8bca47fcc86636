//! Errors that end a run.

use std::io;
use std::path::{Path, PathBuf};

use pando_types::Errno;

use crate::Phase;

/// The error of a run that did not finish. The run has removed its files as far as possible.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The workload is impossible.
    #[error("{0}")]
    Workload(String),
    /// A system call outside the measured operations failed.
    #[error("cannot {what} {}: {source}", .path.display())]
    Io {
        /// What the call was for, as a verb.
        what: &'static str,
        /// The path that it was for.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A measured operation of the client library failed.
    #[error("{what} {name}: {errno} ({})", .errno.symbol())]
    Operation {
        /// Name of the operation.
        what: &'static str,
        /// The path or name that it was for.
        name: String,
        /// The error that it returned.
        errno: Errno,
    },
    /// A measured system call failed.
    #[error("{what} {}: {source}", .path.display())]
    Call {
        /// Name of the call.
        what: &'static str,
        /// The path that it was for.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An operation succeeded with a wrong result.
    #[error("WRONG ANSWER in {phase}: {what}")]
    Wrong {
        /// The phase in which it came.
        phase: Phase,
        /// The result, and the expected one.
        what: String,
    },
    /// An operation of a mix succeeded with a wrong result.
    #[error("WRONG ANSWER to {operation}: {what}")]
    WrongReply {
        /// Name of the operation.
        operation: &'static str,
        /// The result, and the expected one.
        what: String,
    },
    /// A worker failed.
    #[error("client {client}: {what}")]
    Worker {
        /// The worker's client number.
        client: u32,
        /// The worker's message, or the fact that it ended without one.
        what: String,
    },
    /// The run failed, and its files could not be removed.
    #[error("{cause}; {left} was left behind and can be removed")]
    LeftBehind {
        /// The error of the run, or else of the removal.
        cause: Box<BenchError>,
        /// Where the files are.
        left: String,
    },
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted,
}

impl BenchError {
    /// Returns a closure for `map_err` that makes a [`BenchError::Io`].
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }

    /// Returns a closure for `map_err` that makes a [`BenchError::Operation`].
    pub(crate) fn operation(what: &'static str, name: &[u8]) -> impl FnOnce(Errno) -> Self {
        let name = name.escape_ascii().to_string();
        move |errno| Self::Operation { what, name, errno }
    }
}
