//! Making and replacing files and folders, so that they are durable.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    // The folder holds the files of all users, whatever their permissions on the mount say.
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

/// Replaces a file as a whole, and syncs it and its folder.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("new");
    create(&draft, bytes, 0o600)?;
    fs::rename(draft, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// Makes a folder and the missing ones above it. Syncs its name even if it was there: an attempt
/// that was cut off may have made it.
pub(crate) fn make_with_parents(path: &Path) -> io::Result<()> {
    let missing = path.ancestors().take_while(|path| !path.is_dir()).count();
    fs::create_dir_all(path)?;
    for parent in path.ancestors().skip(1).take(missing.max(1)) {
        match File::open(parent).and_then(|parent| parent.sync_all()) {
            // The parent may be entered but not read: only its owner can sync it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            // On a read-only file system folders can be neither synced nor made.
            Err(error) if missing == 0 && is_of_read_only(&error) => {}
            synced => synced?,
        }
    }
    Ok(())
}

fn is_of_read_only(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, ReadOnlyFilesystem, Unsupported};
    matches!(error.kind(), InvalidInput | ReadOnlyFilesystem | Unsupported)
}

pub(crate) fn create(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file =
        OpenOptions::new().create(true).write(true).truncate(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
