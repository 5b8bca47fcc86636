//! The shared secret's file.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pando_wire::auth::{Secret, TooShort};

/// Longest file, bytes.
const LENGTH_MAX: u64 = 1 << 16;

/// Why there is no secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error("cannot read the secret in {}: {error}", .path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Anybody may read it.
    #[error("{} is readable by others: `chmod 600 {}` first", .0.display(), .0.display())]
    Open(PathBuf),
    /// It is far too long.
    #[error("{} is no secret: it has {length} bytes", .path.display())]
    TooLong {
        /// Which file.
        path: PathBuf,
        /// Its length.
        length: u64,
    },
    /// It is too short.
    #[error("{}: {error}", .path.display())]
    TooShort {
        /// Which file.
        path: PathBuf,
        /// How short.
        error: TooShort,
    },
}

/// Reads a secret from a file that nobody but its owner (and its group) may read.
pub fn read_secret(path: &Path) -> Result<Secret, SecretError> {
    let io = |error| SecretError::Io { path: path.to_owned(), error };
    let metadata = std::fs::metadata(path).map_err(io)?;
    if metadata.mode() & 0o007 != 0 {
        return Err(SecretError::Open(path.to_owned()));
    }
    if metadata.len() > LENGTH_MAX {
        return Err(SecretError::TooLong { path: path.to_owned(), length: metadata.len() });
    }
    let content = std::fs::read(path).map_err(io)?;
    Secret::new(&content).map_err(|error| SecretError::TooShort { path: path.to_owned(), error })
}
