//! Objects that an earlier process stored, and was killed before it synced them.
//!
//! A shard that is opened makes its log durable, and tells which objects nobody needs any more. So
//! what its records name has to be durable before: else an `fsync` after the start says that a file
//! is on disk whose object is not, or an old object is deleted whose replacement a loss of power
//! takes away.
//!
//! A mark in the volume's folder says that there are none. It is taken away before the first is
//! stored that is synced only later, and need not be durable itself: after a loss of power whatever
//! is there is on disk.

use std::io::ErrorKind;
use std::path::PathBuf;

use pando_data::{LocalStore, ObjectStore};
use pando_server::Folder;

use crate::failure::Failure;

/// Opens shards of a folder by `open`, when what was put into its objects is durable. If it cannot
/// be made so, they are not opened.
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
    // Of shards whose objects are elsewhere, mounts alone have stored any, and synced each before a
    // shard heard of it.
    if folder.told_objects() != path {
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

/// Every object is durable, and will be before a shard hears of it.
pub fn all_synced(folder: &Folder) {
    // Without the mark they are synced once more.
    let _ = std::fs::write(mark(folder), "");
}

/// From now on objects are stored that shards may hear of before they are durable.
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
        // Nothing can be synced here.
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
