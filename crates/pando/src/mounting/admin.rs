//! Answers that every process with a mount gives on its admin socket, and the path of a `pando
//! mount`'s socket.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use pando_client::Client;
use pando_data::DataFs;
use pando_fuse::Mounted;
use pando_server::superblock::unhex;
use pando_types::Name;

use super::losses;
use crate::failure::Failure;
use crate::protocol::{MountStatus, Told};

/// Parses names of a query, which are hexadecimal.
pub fn parse_names(names: &[String]) -> Result<Vec<Name>, String> {
    let parse = |digits: &String| {
        let bytes = unhex(digits).ok_or_else(|| format!("`{digits}` is not hexadecimal"))?;
        Name::new(&bytes).map_err(|errno| format!("{:?}: {errno}", OsStr::from_bytes(&bytes)))
    };
    names.iter().map(parse).collect()
}

impl MountStatus {
    /// The status of a mount at this path.
    pub fn of(path: &str, client: &Client, data: &DataFs, mounted: &Mounted) -> Self {
        let named = |counts: Vec<(&'static str, u64)>| {
            counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
        };
        let (requests, counters) = mounted.counters();
        Self {
            path: path.to_owned(),
            known_inodes: client.known_inodes() as u64,
            dirty_bytes: data.dirty_bytes(),
            lost_bytes: data.lost_bytes(),
            losses: losses::of(path, data),
            requests: named(requests),
            messages: named(client.counters().requests_by_op()),
            counters: named(counters),
        }
    }
}

/// The answer to a ping.
pub fn pong(data: &DataFs) -> Told {
    Told::Pong { pid: std::process::id(), unstored: data.dirty_bytes() + data.lost_bytes() }
}

/// Makes durable what programs wrote through the mount, and all changes of the volume.
pub fn sync(client: &Client, data: &DataFs) -> Result<Told, String> {
    let stored = data.store_all();
    stored.map_err(|errno| {
        format!(
            "cannot store all that programs wrote ({errno}): their next fsync or close says so, too"
        )
    })?;
    let synced = data.store().sync();
    synced.map_err(|error| format!("cannot sync the objects with file data: {error}"))?;
    pando_client::block_on(client.sync_all()).map_err(|errno| {
        format!("some shard has not synced ({errno}): `pando status` of the volume tells which")
    })?;
    Ok(Told::Synced)
}

/// Unmounts. If programs use the mount, `force` detaches it. Else the error names `again`, the
/// command that forces it.
pub fn unmount(mounted: &Mounted, force: bool, again: &str) -> Result<(), String> {
    let Err(error) = mounted.request_unmount() else { return Ok(()) };
    let shown = mounted.mountpoint().display();
    if !force {
        return Err(format!(
            "{error}: programs have files open or work within {shown}. End them (`fuser -m {shown}` lists them), or `{again}`"
        ));
    }
    mounted.detach().map_err(|error| format!("cannot detach the mount at {shown}: {error}"))
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

/// The path of a mount's file. The name holds a hash of the mountpoint.
fn file_of(mountpoint: &Path, ending: &str) -> Result<PathBuf, Failure> {
    let hash = blake3::hash(mountpoint.as_os_str().as_bytes()).to_hex();
    Ok(runtime_folder()?.join(format!("mount-{}.{ending}", &hash[..16])))
}

/// The admin socket of the mount at this path, which must be absolute and free of links.
pub fn socket(mountpoint: &Path) -> Result<PathBuf, Failure> {
    file_of(mountpoint, "sock")
}

/// The log of the mount at this path, when it runs in the background.
pub fn log(mountpoint: &Path) -> Result<PathBuf, Failure> {
    file_of(mountpoint, "log")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_a_folder_that_nobody_else_may_enter_will_do() {
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
