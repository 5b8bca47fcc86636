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

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_that_others_may_read_or_write_has_no_secret() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("secret");
        fs::write(&path, "correct horse battery\n").unwrap();
        for mode in [0o604, 0o602, 0o601, 0o644, 0o666] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let error = read_secret(&path).unwrap_err();
            assert!(matches!(&error, SecretError::Open(at) if *at == path), "{mode:o}: {error}");
            assert!(error.to_string().contains("chmod 600"), "{error}");
        }
        // White space around it does not count.
        let expected = Secret::new(b"correct horse battery").unwrap();
        for mode in [0o600, 0o400, 0o640] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert!(read_secret(&path).unwrap() == expected, "{mode:o}");
        }
    }

    #[test]
    fn what_is_too_short_too_long_or_not_there_is_told_with_its_path() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("secret");
        let read = |content: &[u8]| {
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            read_secret(&path)
        };
        assert!(read(&[b'x'; 16]).is_ok() && read(&[b'x'; 1 << 16]).is_ok());
        let short = [&[b'x'; 15][..], b"", b"  \n\n            \n   \n"].map(read);
        for (result, length) in short.into_iter().zip([15, 0, 0]) {
            let error = result.unwrap_err();
            let is_so = |error: &TooShort| error.0 == length;
            assert!(
                matches!(&error, SecretError::TooShort { error, .. } if is_so(error)),
                "{error}"
            );
            assert!(error.to_string().contains("too short"), "{error}");
        }
        let long = read(&[b'x'; (1 << 16) + 1]).unwrap_err();
        assert!(matches!(long, SecretError::TooLong { length: 65_537, .. }), "{long}");
        fs::remove_file(&path).unwrap();
        let missing = read_secret(&path).unwrap_err();
        assert!(matches!(missing, SecretError::Io { .. }), "{missing}");
        let folder = read_secret(temp.path());
        assert!(folder.is_err());
        for error in [long, missing] {
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
    }
}
