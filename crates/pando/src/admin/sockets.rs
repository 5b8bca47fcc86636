//! The paths of a `pando mount`'s admin socket and log.

use std::fs::{self, DirBuilder};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The admin socket of the mount at this path, which must be absolute and free of links.
pub fn socket(mountpoint: &Path) -> Result<PathBuf, Failure> {
    file_of(mountpoint, "sock")
}

/// The log of the mount at this path, when it runs in the background.
pub fn log(mountpoint: &Path) -> Result<PathBuf, Failure> {
    file_of(mountpoint, "log")
}

/// The folder of the journals of this user's mounts.
pub fn journals() -> Result<PathBuf, Failure> {
    Ok(runtime_folder()?.join("journals"))
}

/// The path of a mount's file. The name holds a hash of the mountpoint.
fn file_of(mountpoint: &Path, ending: &str) -> Result<PathBuf, Failure> {
    let hash = blake3::hash(mountpoint.as_os_str().as_bytes()).to_hex();
    Ok(runtime_folder()?.join(format!("mount-{}.{ending}", &hash[..16])))
}

/// The folder of this user's sockets and logs of mounts. The variable `PANDO_RUN` overrides it;
/// `pando umount` and `pando info` must then have it, too.
fn runtime_folder() -> Result<PathBuf, Failure> {
    let folder = if let Some(folder) = std::env::var_os("PANDO_RUN") {
        PathBuf::from(folder)
    } else if rustix::process::geteuid().is_root() {
        PathBuf::from("/run/pando")
    } else {
        match std::env::var_os("XDG_RUNTIME_DIR") {
            Some(folder) => PathBuf::from(folder).join("pando"),
            None => {
                std::env::temp_dir().join(format!("pando-{}", rustix::process::geteuid().as_raw()))
            }
        }
    };
    let made = DirBuilder::new().mode(0o700).recursive(true).create(&folder);
    made.map_err(|error| {
        Failure::plain(format!("cannot make the folder {}: {error}", folder.display()))
    })?;
    check_private(&folder)?;
    Ok(folder)
}

/// Fails if other users may write to the folder. They could replace a socket or a log.
fn check_private(folder: &Path) -> Result<(), Failure> {
    let shown = folder.display();
    let metadata = fs::symlink_metadata(folder)
        .map_err(|error| Failure::plain(format!("cannot look at {shown}: {error}")))?;
    let own = rustix::process::geteuid().as_raw();
    let mode = metadata.mode() & 0o7777;
    let wrong = if !metadata.is_dir() {
        format!("{shown} is not a directory: move it away")
    } else if metadata.uid() != own {
        let owner = metadata.uid();
        format!("{shown} belongs to user {owner}, not to this one, {own}: have it moved away")
    } else if mode & 0o077 != 0 {
        format!("others may enter {shown} (its mode is {mode:o}): `chmod 700 {shown}`")
    } else {
        return Ok(());
    };
    Err(Failure::plain(format!("sockets and logs of mounts need a folder of their own; {wrong}")))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_a_folder_that_no_other_user_may_enter_will_do() {
        let temp = tempfile::tempdir().unwrap();
        let (folder, link) = (temp.path().join("folder"), temp.path().join("link"));
        DirBuilder::new().mode(0o700).create(&folder).unwrap();
        check_private(&folder).unwrap();
        symlink(&folder, &link).unwrap();
        let error = check_private(&link).unwrap_err().message;
        assert!(error.contains("not a directory"), "{error}");
        for mode in [0o710, 0o702] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            let error = check_private(&folder).unwrap_err().message;
            assert!(error.contains(&format!("{mode:o}")), "{error}");
        }
    }
}
