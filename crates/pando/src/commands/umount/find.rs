//! Finds the mount that the user means, though it may hang.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::failure::{Failure, NOT_RUNNING};
use crate::mounts::{self, Mount};

/// The mount of Pando at a path, and its volume.
pub fn find(path: &Path, limit: Duration) -> Result<(Mount, String), Failure> {
    let absolute = std::path::absolute(path)
        .map_err(|error| Failure::plain(format!("cannot find {}: {error}", path.display())))?;
    // If the mount's servers do not answer, any access to the path hangs. So the list is searched
    // by name first.
    let list = mounts::all()
        .map_err(|error| Failure::plain(format!("cannot read the list of mounts: {error}")))?;
    let is_there = |path: &Path| list.iter().rfind(|mount| mount.path == path).cloned();
    let found = match is_there(&absolute) {
        Some(found) => Some(found),
        None => resolved(&absolute, limit)?.and_then(|path| is_there(&path)),
    };
    found.and_then(|mount| Some((mount.clone(), mount.volume()?))).ok_or_else(|| {
        let text = format!("nothing of Pando is mounted at {}", absolute.display());
        Failure::new(NOT_RUNNING, text)
    })
}

/// The path with all links followed. `None` if it does not exist.
fn resolved(path: &Path, limit: Duration) -> Result<Option<PathBuf>, Failure> {
    let (tell, told) = channel();
    let asked = path.to_owned();
    let resolve = move || drop(tell.send(asked.canonicalize()));
    // If the thread cannot start, the path counts as missing.
    let _ = std::thread::Builder::new().name("pando-path".to_owned()).spawn(resolve);
    match told.recv_timeout(limit) {
        Ok(resolved) => Ok(resolved.ok()),
        Err(RecvTimeoutError::Disconnected) => Ok(None),
        Err(RecvTimeoutError::Timeout) => Err(Failure::plain(format!(
            "cannot find out where {} leads: something on the way does not answer. Name the mount by its own path",
            path.display()
        ))),
    }
}
