//! Where a process keeps what a move must not forget: a folder of files and of stores, by name.
//!
//! The real one is the volume's [`Folder`]; a simulation has one in memory, that loses what was not
//! synced.

use std::fs;
use std::io;

use crate::{Folder, folder};

/// See the module. Names are those of [`crate::folder`].
pub trait Place {
    /// A file's text; `None`: there is no such file.
    fn read(&self, name: &str) -> io::Result<Option<String>>;
    /// Makes or replaces a file whose text is durable; its name may not be.
    fn write(&self, name: &str, text: &str) -> io::Result<()>;
    /// Renames a file or a store. A file takes the place of an earlier one.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file, or a store with all that is in it. One that is not there is no fault.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Whether there is a file or a store.
    fn exists(&self, name: &str) -> bool;
    /// Names that were made, changed and removed are durable.
    fn sync(&self) -> io::Result<()>;
}

/// A shard's store.
#[must_use]
pub fn store_name(shard: u16) -> String {
    format!("shard-{shard:04}")
}

/// The store of a shard that comes here.
#[must_use]
pub fn copy_name(shard: u16) -> String {
    format!("shard-{shard:04}.coming")
}

impl Place for Folder {
    fn read(&self, name: &str) -> io::Result<Option<String>> {
        match fs::read_to_string(self.path().join(name)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        folder::create(&self.path().join(name), text.as_bytes(), 0o600)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path().join(from), self.path().join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.path().join(name);
        let removed = match path.is_dir() {
            true => fs::remove_dir_all(path),
            false => fs::remove_file(path),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn exists(&self, name: &str) -> bool {
        self.path().join(name).exists()
    }

    fn sync(&self) -> io::Result<()> {
        Self::sync(self)
    }
}
