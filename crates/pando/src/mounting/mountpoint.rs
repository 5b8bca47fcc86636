//! Prepares a mountpoint: makes the folder if it is missing, and removes a mount that a dead
//! process left there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::console::output::say;
use crate::failure::{Failure, IN_USE};
use crate::mounts;

/// The most dead mounts that may lie on top of each other.
const DEAD_MAX: usize = 64;

/// Returns the mountpoint: an empty directory without a mount, absolute and free of links.
///
/// `folder` is the volume's folder, if it is on this machine.
pub fn prepare(path: &Path, folder: Option<&Path>) -> Result<PathBuf, Failure> {
    let shown = path.display();
    let absolute = std::path::absolute(path)
        .map_err(|error| Failure::plain(format!("cannot find {shown}: {error}")))?;
    clear_dead(&absolute)?;
    match fs::metadata(&absolute) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(&absolute).map_err(|error| {
                Failure::plain(format!("cannot make the directory {shown} to mount at: {error}"))
            })?;
        }
        Err(error) => return Err(Failure::plain(format!("cannot look at {shown}: {error}"))),
        Ok(metadata) if !metadata.is_dir() => {
            return Err(Failure::plain(format!(
                "{shown} is not a directory: name an empty one to mount at"
            )));
        }
        Ok(_) => {}
    }
    let path = absolute
        .canonicalize()
        .map_err(|error| Failure::plain(format!("cannot find {shown}: {error}")))?;
    clear_dead(&path)?;
    check_free(&path)?;
    if let Some(folder) = folder
        && (folder.starts_with(&path) || path.starts_with(folder))
    {
        return Err(Failure::plain(format!(
            "{shown} and the volume's folder {} lie within each other: mount somewhere else",
            folder.display()
        )));
    }
    Ok(path)
}

fn check_free(path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    let list = mounts::all()
        .map_err(|error| Failure::plain(format!("cannot read the list of mounts: {error}")))?;
    if let Some(mount) = list.iter().rfind(|mount| mount.path == path) {
        let what = match mount.volume() {
            Some(volume) => format!("the volume {volume}"),
            None => format!("{} ({})", String::from_utf8_lossy(&mount.source), mount.kind),
        };
        return Err(Failure::new(
            IN_USE,
            format!(
                "{what} is mounted at {shown} already: unmount that, or name another directory"
            ),
        ));
    }
    let mut entries = fs::read_dir(path)
        .map_err(|error| Failure::plain(format!("cannot list {shown}: {error}")))?;
    match entries.next() {
        None => Ok(()),
        Some(entry) => {
            let name = entry.map(|entry| entry.file_name()).unwrap_or_default();
            Err(Failure::new(
                IN_USE,
                format!(
                    "{shown} is not empty (it holds `{}`), and a mount would hide that: name an empty directory",
                    name.to_string_lossy()
                ),
            ))
        }
    }
}

/// Detaches mounts whose process is gone. The kernel reports ENOTCONN for them.
fn clear_dead(path: &Path) -> Result<(), Failure> {
    for _ in 0..DEAD_MAX {
        // The kernel asks the process for `statfs` each time, but may answer `stat` from its cache.
        match rustix::fs::statfs(path).map_err(io::Error::from) {
            Err(error) if is_dead(&error) => {}
            _ => return Ok(()),
        }
        if let Err(error) = pando_fuse::detach_at(path) {
            let shown = path.display();
            return Err(Failure::new(
                IN_USE,
                format!(
                    "a mount whose process has ended is still at {shown}, and cannot be \
                     removed: {error}"
                ),
            ));
        }
        say!("removed a mount whose process had ended at {}", path.display());
    }
    Ok(())
}

fn is_dead(error: &io::Error) -> bool {
    [rustix::io::Errno::NOTCONN, rustix::io::Errno::CONNABORTED]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
