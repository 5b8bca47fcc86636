//! A key on its way to standard output, for nobody but its reader.

use std::fs::{self, File, Metadata};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pando_keys::Bundle;

use crate::failure::Failure;

/// Where a key goes.
pub enum Handing {
    /// To another program.
    Pipe,
    /// To a file that a shell has made (`> ada.pem`), by its umask as a rule for all to read. Whoever opened it meanwhile reads
    /// the key: so another file of the same owner takes its place.
    File(PathBuf, Metadata),
}

impl Handing {
    /// Refuses what is no place for a key, before there is one.
    pub fn prepare() -> Result<Self, Failure> {
        let stdout = io::stdout();
        if stdout.is_terminal() {
            return Err(Failure::plain(
                "a key is not shown on a terminal: write it to a file (`> NAME.pem`), or to a program",
            ));
        }
        let cannot = |error| Failure::plain(format!("cannot write to standard output: {error}"));
        let file = File::from(stdout.as_fd().try_clone_to_owned().map_err(cannot)?);
        Self::of(&file).map_err(cannot)
    }

    fn of(file: &File) -> io::Result<Self> {
        let is = file.metadata()?;
        if !is.is_file() {
            return Ok(Self::Pipe);
        }
        if is.len() > 0 {
            return Err(io::Error::other("a key has a file of its own, and this is not empty"));
        }
        let same = |other: &Metadata| (other.dev(), other.ino()) == (is.dev(), is.ino());
        let number = std::os::fd::AsRawFd::as_raw_fd(file);
        let path = fs::read_link(Path::new("/proc/self/fd").join(number.to_string()))?;
        match fs::symlink_metadata(&path) {
            Ok(found) if same(&found) => Ok(Self::File(path, found)),
            _ => Err(io::Error::other("its file has been removed or renamed")),
        }
    }

    pub fn hand_over(self, bundle: &Bundle) -> Result<(), Failure> {
        let written = match self {
            Self::Pipe => {
                let mut stdout = io::stdout();
                let written = stdout.write_all(bundle.to_pem().as_bytes());
                written.and_then(|()| stdout.flush()).map_err(|error| error.to_string())
            }
            Self::File(path, was) => {
                let written = bundle.write_for(&path, was.uid(), was.gid());
                written.map_err(|error| error.to_string())
            }
        };
        written.map_err(|error| {
            let name = &bundle.identity.name;
            Failure::plain(format!(
                "the key was issued and could not be written ({error}): `pando auth renew {name}` issues another"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_a_shell_made_is_found() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("ada.pem");
        let file = File::create(&path).unwrap();
        assert!(matches!(Handing::of(&file), Ok(Handing::File(found, _)) if found == path));
        fs::rename(&path, temp.path().join("other")).unwrap();
        assert!(
            matches!(Handing::of(&file), Ok(Handing::File(found, _)) if found.ends_with("other"))
        );
        fs::remove_file(temp.path().join("other")).unwrap();
        assert!(Handing::of(&file).is_err());
        let full = temp.path().join("full");
        fs::write(&full, "x").unwrap();
        assert!(Handing::of(&File::open(&full).unwrap()).is_err());
        assert!(matches!(Handing::of(&File::open("/dev/null").unwrap()), Ok(Handing::Pipe)));
    }
}
