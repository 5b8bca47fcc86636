//! Writes a key to standard output so that no other user can read it.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use pando_keys::Bundle;
use rustix::fs::{AtFlags, Mode, OFlags, open, statat};

use crate::failure::Failure;

/// Destination of a key.
pub enum Handing {
    /// A pipe to another program.
    Pipe,
    /// A file that a shell has made (`> ada.pem`), usually readable by all because of its umask. A
    /// process that opened it meanwhile would read the key. So the key goes to a new file of that
    /// owner, which replaces this one.
    File(Place),
}

/// A name in an open folder. Later changes of the path to the folder do not affect it.
pub struct Place {
    folder: File,
    name: OsString,
    is: Metadata,
    /// The file stays open, so that no other file gets its inode number.
    _file: File,
}

impl Place {
    /// The folder and name of an open file. Fails if the file is not there any more.
    fn of(file: &File, is: Metadata) -> io::Result<Self> {
        let number = std::os::fd::AsRawFd::as_raw_fd(file);
        let path = fs::read_link(Path::new("/proc/self/fd").join(number.to_string()))?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return gone() };
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = File::from(open(parent, flags, Mode::empty())?);
        let place = Self { folder, name: name.to_owned(), is, _file: file.try_clone()? };
        place.check()?;
        Ok(place)
    }

    /// Fails unless the name still leads to the file.
    fn check(&self) -> io::Result<()> {
        match statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if (found.st_dev, found.st_ino) == (self.is.dev(), self.is.ino()) => Ok(()),
            _ => gone(),
        }
    }

    fn write(&self, bundle: &Bundle) -> io::Result<()> {
        let owner = (self.is.uid(), self.is.gid());
        bundle.write_in(&self.folder, &self.name, owner, || self.check())
    }
}

fn gone<T>() -> io::Result<T> {
    Err(io::Error::other("its file was removed or renamed"))
}

impl Handing {
    /// Checks standard output before a key is issued. Fails if it is a terminal, or a file that is
    /// not empty.
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
            return Err(io::Error::other("its file is not empty; a key needs a file of its own"));
        }
        Place::of(file, is).map(Self::File)
    }

    pub fn hand_over(self, bundle: &Bundle) -> Result<(), Failure> {
        let written = match self {
            Self::Pipe => {
                let mut stdout = io::stdout();
                let written = stdout.write_all(bundle.to_pem().as_bytes());
                written.and_then(|()| stdout.flush()).map_err(|error| error.to_string())
            }
            Self::File(place) => place.write(bundle).map_err(|error| error.to_string()),
        };
        written.map_err(|error| {
            let name = &bundle.identity.name;
            Failure::plain(format!(
                "the key was issued but could not be written ({error}): `pando auth renew {name}` \
                 issues another"
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
        let named = |name| {
            let handing = Handing::of(&file);
            assert!(matches!(handing, Ok(Handing::File(place)) if place.name == name));
        };
        named("ada.pem");
        fs::rename(&path, temp.path().join("other")).unwrap();
        named("other");
        fs::remove_file(temp.path().join("other")).unwrap();
        assert!(Handing::of(&file).is_err());
        let full = temp.path().join("full");
        fs::write(&full, "x").unwrap();
        assert!(Handing::of(&File::open(&full).unwrap()).is_err());
        assert!(matches!(Handing::of(&File::open("/dev/null").unwrap()), Ok(Handing::Pipe)));
    }

    fn bundle() -> Bundle {
        let wanted = pando_keys::Wanted {
            role: pando_keys::KeyRole::Client,
            name: "ada".to_owned(),
            read_only: false,
            squash: None,
            days: 1,
            addresses: Vec::new(),
        };
        pando_keys::Authority::create([7; 16]).unwrap().issue(&wanted).unwrap()
    }

    #[test]
    fn a_key_goes_where_the_shells_file_was_and_nowhere_else() {
        let temp = tempfile::tempdir().unwrap();
        let [here, moved, trap] = ["here", "moved", "trap"].map(|name| temp.path().join(name));
        [&here, &trap].into_iter().for_each(|path| fs::create_dir(path).unwrap());
        let path = here.join("ada.pem");
        let prepared = || Handing::of(&File::create(&path).unwrap()).unwrap();
        let handing = prepared();
        // Another process replaces the folder by a link before the key is written.
        fs::rename(&here, &moved).unwrap();
        std::os::unix::fs::symlink(&trap, &here).unwrap();
        handing.hand_over(&bundle()).unwrap();
        assert_eq!(fs::read_dir(&trap).unwrap().count(), 0);
        assert_eq!(Bundle::read(&moved.join("ada.pem")).unwrap().identity.name, "ada");
        // Another process replaces the file by a link.
        let handing = prepared();
        fs::remove_file(&path).unwrap();
        let precious = temp.path().join("precious");
        fs::write(&precious, "x").unwrap();
        std::os::unix::fs::symlink(&precious, &path).unwrap();
        assert!(handing.hand_over(&bundle()).unwrap_err().message.contains("removed or renamed"));
        assert_eq!(fs::read(&precious).unwrap(), b"x");
    }
}
