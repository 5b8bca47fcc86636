//! What every process with a mount answers, and where the socket of a `pando mount` is.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use pando_fuse::Mounted;
use pando_server::superblock::unhex;
use pando_types::Name;

use crate::failure::Failure;

/// Names as they come in a question: hexadecimal.
pub fn parse_names(names: &[String]) -> Result<Vec<Name>, String> {
    let parse = |digits: &String| {
        let bytes = unhex(digits).ok_or_else(|| format!("`{digits}` is not hexadecimal"))?;
        Name::new(&bytes).map_err(|errno| format!("{:?}: {errno}", OsStr::from_bytes(&bytes)))
    };
    names.iter().map(parse).collect()
}

/// Unmounts; with `force` it is detached if programs use it. `again`: the command that forces it.
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

/// Where this user's mounts keep their sockets and logs.
fn runtime_folder() -> Result<PathBuf, Failure> {
    let folder = if rustix::process::geteuid().is_root() {
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
    Ok(folder)
}

/// The file of a mount, named after where it is.
fn file_of(mountpoint: &Path, ending: &str) -> Result<PathBuf, Failure> {
    let hash = blake3::hash(mountpoint.as_os_str().as_bytes()).to_hex();
    Ok(runtime_folder()?.join(format!("mount-{}.{ending}", &hash[..16])))
}

/// Where the mount at this path, absolute and free of links, answers.
pub fn socket(mountpoint: &Path) -> Result<PathBuf, Failure> {
    file_of(mountpoint, "sock")
}

/// Where its messages go, in the background.
pub fn log(mountpoint: &Path) -> Result<PathBuf, Failure> {
    file_of(mountpoint, "log")
}
