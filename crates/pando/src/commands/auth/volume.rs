//! The volume whose keys a command is about.

use std::path::Path;

use pando_keys::{KeyError, KeysFolder};
use pando_server::Folder;

use super::args::VolumeArgs;
use crate::failure::Failure;

/// The volume's folder, and its folder of keys.
pub fn open(volume: &VolumeArgs) -> Result<(Folder, KeysFolder), Failure> {
    let folder = Folder::new(&volume.folder)?;
    if volume.folder == Path::new(".") && !folder.is_formatted() {
        return Err(Failure::plain(format!(
            "{} holds no Pando volume: name its folder with --volume FOLDER",
            folder.path().display()
        )));
    }
    let superblock = folder.read()?;
    if folder.keys().exists() && !KeysFolder::is_owners(&folder.keys()) {
        return Err(Failure::plain(format!(
            "{} has the keys of one server only: do this in the folder that the volume was made in",
            folder.path().display()
        )));
    }
    let keys = KeysFolder::open(&folder.keys(), superblock.id()).map_err(|error| match error {
        KeyError::NoKeys(path) => Failure::plain(format!(
            "the volume has no keys yet ({} is missing): `pando auth init {}` makes them",
            path.display(),
            folder.path().display()
        )),
        error => Failure::plain(error),
    })?;
    Ok((folder, keys))
}
