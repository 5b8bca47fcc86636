//! Why a run came to nothing.

use std::io;
use std::path::{Path, PathBuf};

use pando_types::Errno;

use crate::Phase;

/// A run that was not finished. What it had made is removed as far as possible.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The workload cannot be.
    #[error("{0}")]
    Workload(String),
    /// The system refused something around the run.
    #[error("cannot {what} {}: {source}", .path.display())]
    Io {
        /// A verb.
        what: &'static str,
        /// Which path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An operation failed.
    #[error("{what} {name}: {errno} ({})", .errno.symbol())]
    Operation {
        /// Which.
        what: &'static str,
        /// On what.
        name: String,
        /// Its error.
        errno: Errno,
    },
    /// A system call failed.
    #[error("{what} {}: {source}", .path.display())]
    Call {
        /// Which.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Its error.
        source: io::Error,
    },
    /// An answer came that is not true.
    #[error("WRONG ANSWER in {phase}: {what}")]
    Wrong {
        /// When.
        phase: Phase,
        /// What was answered, and what should have been.
        what: String,
    },
    /// The same, in a mix of operations.
    #[error("WRONG ANSWER to {operation}: {what}")]
    WrongReply {
        /// Which operation.
        operation: &'static str,
        /// What was answered, and what should have been.
        what: String,
    },
    /// A worker did not do its part.
    #[error("client {client}: {what}")]
    Worker {
        /// Which.
        client: u32,
        /// What it said, or that it said nothing.
        what: String,
    },
    /// A run that came to nothing could not be cleaned up either.
    #[error("{cause}; {left} was left behind and can be removed")]
    LeftBehind {
        /// Why the run, or else the cleaning, came to nothing.
        cause: Box<BenchError>,
        /// Where its files are.
        left: String,
    },
    /// Somebody does not want to wait for the end.
    #[error("interrupted")]
    Interrupted,
}

impl BenchError {
    /// For `map_err`.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }

    /// For `map_err`.
    pub(crate) fn operation(what: &'static str, name: &[u8]) -> impl FnOnce(Errno) -> Self {
        let name = name.escape_ascii().to_string();
        move |errno| Self::Operation { what, name, errno }
    }
}
