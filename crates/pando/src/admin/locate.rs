//! Finds the mount of Pando that a path is on.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

use super::mount;
use crate::failure::Failure;
use crate::mounts::of;

/// Time limit for resolving a path. A longer wait means that a mount on the path does not answer.
const LOOK: Duration = Duration::from_secs(4);

/// An object on a mount of Pando.
#[derive(Debug)]
pub struct Located {
    /// Absolute path. Only its last component may be a symbolic link, which is not followed.
    pub path: PathBuf,
    /// The mountpoint.
    pub root: PathBuf,
    /// The volume's folder, or its servers' addresses.
    pub volume: String,
    /// Names from the mountpoint to the object. Empty for the mountpoint itself.
    pub names: Vec<OsString>,
}

/// Finds the mount that `path` is on, and the names that lead to it. The path must exist.
pub fn locate(path: &Path) -> Result<Located, Failure> {
    // Reports a suspended mount first. To resolve the path would wait for that mount.
    if let Some(failure) = std::path::absolute(path).ok().and_then(|path| {
        let mount = of(&path).ok().flatten()?;
        mount::suspended(&mount.path, &mount.volume()?)
    }) {
        return Err(failure);
    }
    let asked = path.to_owned();
    let resolved = in_time(LOOK, move || resolve(&asked)).ok_or_else(|| {
        Failure::plain(format!(
            "cannot look at {}: the mount that it is on does not answer; see whether its servers run (`pando status`)",
            path.display()
        ))
    })?;
    let path = resolved
        .map_err(|error| Failure::plain(format!("cannot look at {}: {error}", path.display())))?;
    let mount = of(&path)
        .map_err(|error| Failure::plain(format!("cannot read the list of mounts: {error}")))?;
    let Some((volume, root)) = mount.and_then(|mount| Some((mount.volume()?, mount.path))) else {
        return Err(Failure::plain(format!(
            "{} is not on a mount of Pando: name a path below one",
            path.display()
        )));
    };
    let relative = path.strip_prefix(&root).unwrap_or(Path::new(""));
    let names = relative.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        _ => None,
    });
    let names = names.collect();
    Ok(Located { path, root, volume, names })
}

/// Runs a function that may hang on a thread of its own. `None` if it has no result within `limit`.
pub fn in_time<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tell, told) = channel();
    // If the thread cannot start, there is no result either.
    let working = move || drop(tell.send(work()));
    let _ = std::thread::Builder::new().name("pando-path".to_owned()).spawn(working);
    told.recv_timeout(limit).ok()
}

/// The absolute path, with all links followed except a last one.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    path.symlink_metadata()?;
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            Ok(parent.canonicalize()?.join(name))
        }
        _ => path.canonicalize(),
    }
}
