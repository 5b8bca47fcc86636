//! Where a process keeps what a move must not forget: files and stores, by name.
//!
//! A server uses the volume's [`Folder`](crate::Folder). A simulation has a place in memory, which
//! loses what was not synced.

use std::io;

/// Files and stores of a process, under the names of [`crate::folder`].
pub trait Place {
    /// Text of a file. `None`: there is no such file.
    fn read(&self, name: &str) -> io::Result<Option<String>>;
    /// Makes or replaces a file, and syncs its text. Its name may not be durable yet.
    fn write(&self, name: &str, text: &str) -> io::Result<()>;
    /// Renames a file or a store. A file replaces one of the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file, or a store with all its files. A missing one is no error.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Whether there is a file or a store of this name.
    fn exists(&self, name: &str) -> io::Result<bool>;
    /// Makes all names durable that were made, changed or removed.
    fn sync(&self) -> io::Result<()>;
}

/// Name of a shard's store.
#[must_use]
pub fn store_name(shard: u16) -> String {
    format!("shard-{shard:04}")
}

/// Name of the copy of a shard that is being moved here.
#[must_use]
pub fn copy_name(shard: u16) -> String {
    format!("shard-{shard:04}.coming")
}
