//! Syncs objects that an earlier process stored and, since it was killed, did not sync.
//!
//! A shard that is opened makes its log durable, and names objects for deletion. So all objects
//! that its records name must be durable before it is opened. Otherwise `fsync` after the start
//! could promise a file whose object is not on disk. Or an old object could be deleted, and a power
//! loss then takes its replacement.
//!
//! A mark in the volume's folder says that every object is durable. It is removed before the first
//! object is stored that is synced only later. The removal need not be durable: after a power loss,
//! all objects that remain are on disk.

use std::io::ErrorKind;
use std::path::PathBuf;

use pando_data::{LocalStore, ObjectStore};
use pando_server::Folder;

use crate::failure::Failure;

/// Makes the folder's objects durable, then opens its shards by `open`. If the sync fails, the
/// shards are not opened.
pub fn settled<T>(
    folder: &Folder,
    open: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    settle(folder)?;
    open()
}

fn settle(folder: &Folder) -> Result<(), Failure> {
    let path = folder.objects();
    if mark(folder).exists() {
        return Ok(());
    }
    // The folder's shards have their objects elsewhere. Only mounts stored them, and each mount
    // synced an object before a shard learned of it.
    if !folder.has_objects() {
        return Ok(());
    }
    let cannot = |what: &str, error: std::io::Error| {
        Failure::plain(format!("cannot {what} the object store {}: {error}", path.display()))
    };
    let store = LocalStore::open_unsure(&path).map_err(|error| cannot("open", error))?;
    store.sync().map_err(|error| cannot("sync", error))?;
    all_synced(folder);
    Ok(())
}

fn mark(folder: &Folder) -> PathBuf {
    folder.run().join("objects-synced")
}

/// Sets the mark: every object is durable, and new ones will be before a shard learns of them.
pub fn all_synced(folder: &Folder) {
    // Without the mark, the next start syncs the objects once more.
    let _ = std::fs::write(mark(folder), "");
}

/// Removes the mark: from now on a shard may learn of an object before it is durable.
pub fn synced_later(folder: &Folder) -> Result<(), Failure> {
    let path = mark(folder);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Failure::plain(format!("cannot remove {}: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_shard_is_opened_before_its_objects_are_synced() {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::new(&temp.path().join("volume")).unwrap();
        std::fs::create_dir_all(folder.run()).unwrap();
        assert_eq!(settled(&folder, || Ok(1)).unwrap(), 1, "a new one");
        // Objects cannot be synced here, since the folder is a file.
        std::fs::remove_dir(folder.objects()).unwrap();
        std::fs::write(folder.objects(), "").unwrap();
        assert_eq!(settled(&folder, || Ok(2)).unwrap(), 2, "nothing was stored since");
        synced_later(&folder).unwrap();
        synced_later(&folder).unwrap();
        let mut is_opened = false;
        let failed = settled(&folder, || {
            is_opened = true;
            Ok(())
        });
        assert!(failed.unwrap_err().message.contains("object store"));
        assert!(!is_opened);
        all_synced(&folder);
        assert_eq!(settled(&folder, || Ok(3)).unwrap(), 3);
    }
}
