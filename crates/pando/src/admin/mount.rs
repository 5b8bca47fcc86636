//! Asks the process of a mount, and says what its silence means.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pando_server::Folder;
use pando_server::admin::Answer;

use super::silent;
use crate::admin::asking::{self, SOON};
use crate::admin::protocol::{MountStatus, Query, Told};
use crate::admin::sockets::socket;
use crate::failure::Failure;
use crate::mounts;

/// Asks the process of a mount, which is a `pando mount` or a `pando up`. [`asking::ask`] explains
/// `limit`.
pub fn ask(
    root: &Path,
    volume: &str,
    query: &Query,
    limit: Option<Duration>,
) -> Result<Answer<Told>, Failure> {
    let error = match asking::ask(&socket(root)?, query, limit) {
        Ok(answer) => return Ok(answer),
        Err(error) => error,
    };
    // A list of server addresses is no folder to ask instead. A process that timed out exists, so
    // the folder's process is not asked instead.
    if !Path::new(volume).is_absolute() || error.kind() == io::ErrorKind::TimedOut {
        return Err(unanswered(root, &error));
    }
    let folder = Folder::new(Path::new(volume))?;
    // A dead `pando mount` leaves its socket behind. That process may have made this mount, while a
    // `pando up` of this volume serves another. So the answer must name this mountpoint.
    if error.kind() == io::ErrorKind::ConnectionRefused {
        let is_other = |told| match told {
            Answer::Ok(Told::Status(status)) => Path::new(&status.mount.path) != root,
            _ => false,
        };
        if asking::ask(&folder.socket(), &Query::Status, limit).is_ok_and(is_other) {
            return Err(unanswered(root, &error));
        }
    }
    asking::ask(&folder.socket(), query, limit).map_err(|error| match folder.holder() {
        Ok(Some(pid)) => silent::not_answering(&folder, &pid, &error),
        _ => unanswered(root, &error),
    })
}

/// The mountpoint and the volume of the mount that `path` is on. The mount itself is not asked,
/// since it may hang. So symbolic links are not followed.
pub fn at(path: &Path) -> Result<(PathBuf, String), Failure> {
    let failed = |error| Failure::plain(format!("cannot read the list of mounts: {error}"));
    let path = std::path::absolute(path)
        .map_err(|error| Failure::plain(format!("cannot look at {}: {error}", path.display())))?;
    let found = mounts::of(&path).map_err(failed)?;
    found.and_then(|mount| Some((mount.path.clone(), mount.volume()?))).ok_or_else(|| {
        Failure::plain(format!(
            "{} is not on a mount of Pando: name the folder at which a volume is mounted",
            path.display()
        ))
    })
}

/// Asks the process of a mount for the mount's own status, which waits for no server.
pub fn status(root: &Path, volume: &str) -> Result<MountStatus, Failure> {
    match ask(root, volume, &Query::Mount, SOON)? {
        Answer::Ok(Told::Mount(status)) => Ok(status),
        Answer::Ok(_) => Err(Failure::unexpected("the process")),
        Answer::Error(error) => Err(Failure::plain(error)),
    }
}

/// The failure to report if the process of this mount is suspended.
pub fn suspended(root: &Path, volume: &str) -> Option<Failure> {
    let mut told = asking::ping(&socket(root).ok()?);
    if told.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::TimedOut)
        && Path::new(volume).is_absolute()
    {
        told = asking::ping(&Folder::new(Path::new(volume)).ok()?.socket());
    }
    let error = told.err().filter(|error| error.kind() == io::ErrorKind::TimedOut)?;
    Some(unanswered(root, &error))
}

/// The failure to report if no process answers for a mount.
fn unanswered(root: &Path, error: &io::Error) -> Failure {
    let root = root.display();
    Failure::plain(match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("the mount at {root} is another user's: run this as that user or as root")
        }
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => format!(
            "no process answers for the mount at {root}: another user mounted it, or another \
             PANDO_RUN, or its process has ended. If it has ended, `pando umount {root}` removes \
             the mount"
        ),
        _ => format!("the process of the mount at {root} does not answer: {error}"),
    })
}
