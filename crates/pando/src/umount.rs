//! `pando umount`.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use pando_server::Folder;
use pando_server::admin::{self, Answer, SocketFile};

use crate::cli::{DownArgs, UmountArgs};
use crate::down::is_hanging_up;
use crate::failure::{Failure, IN_USE, NOT_RUNNING};
use crate::mounting::admin::socket;
use crate::protocol::{Query, Told};
use crate::{mounts, output};

/// The process has this long to store what was written, after it has unmounted.
const END_WITHIN: Duration = Duration::from_secs(120);
/// How often it is looked whether the process is alive. Connections that a suspended one does not accept pile up, so not
/// often.
const LOOK: Duration = Duration::from_secs(1);

pub fn run(args: &UmountArgs) -> Result<ExitCode, Failure> {
    let absolute = std::path::absolute(&args.path)
        .map_err(|error| Failure::plain(format!("cannot find {}: {error}", args.path.display())))?;
    // Of a mount whose servers do not answer, nothing may be asked but by name.
    let list = mounts::all()
        .map_err(|error| Failure::plain(format!("cannot read the list of mounts: {error}")))?;
    let is_there = |path: &Path| list.iter().rfind(|mount| mount.path == path).cloned();
    let found = is_there(&absolute).or_else(|| is_there(&absolute.canonicalize().ok()?));
    let Some((mount, volume)) = found.and_then(|mount| Some((mount.clone(), mount.volume()?)))
    else {
        return Err(Failure::new(
            NOT_RUNNING,
            format!("nothing of Pando is mounted at {}", absolute.display()),
        ));
    };
    let (path, shown) = (&mount.path, mount.path.display());
    let socket = socket(path)?;
    let noted = SocketFile::at(&socket).ok();
    match admin::ask::<_, Told>(&socket, &Query::Down { force: args.force }) {
        Ok(Answer::Ok(_)) => {}
        Ok(Answer::Error(error)) => return Err(Failure::new(IN_USE, error)),
        Err(error) if is_hanging_up(&error) => {}
        Err(error) => return other_process(args, path, &volume, &error),
    }
    if let Some(noted) = noted {
        await_end(path, &socket, &noted)?;
    }
    output::line(&format!("{shown} is unmounted, all is stored"));
    Ok(ExitCode::SUCCESS)
}

/// A process that has stored all removes its socket, and only then.
fn await_end(path: &Path, socket: &Path, noted: &SocketFile) -> Result<(), Failure> {
    let shown = path.display();
    let failed = |text| Err(Failure::plain(text));
    let begun = Instant::now();
    let mut looked = begun;
    while noted.is_there() {
        if begun.elapsed() > END_WITHIN {
            return failed(format!(
                "{shown} is unmounted, but its process has not ended: some data may not be stored yet"
            ));
        }
        if looked.elapsed() > LOOK {
            looked = Instant::now();
            if admin::is_dead(socket) && noted.is_there() {
                return failed(format!(
                    "the process of the mount at {shown} ended before it said that all is stored: some data may be lost; see its log"
                ));
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    if socket.exists() {
        return failed(format!(
            "{shown} is unmounted, but another mount took its place before it was seen whether all is stored: see its log"
        ));
    }
    Ok(())
}

/// No `pando mount` answers: it is the mount of a `pando up`, or its process is gone.
fn other_process(
    args: &UmountArgs,
    path: &Path,
    volume: &str,
    error: &io::Error,
) -> Result<ExitCode, Failure> {
    let folder = Folder::new(Path::new(volume))?;
    if folder.is_formatted() && folder.holder()?.is_some() {
        return crate::down::run(&DownArgs { folder: folder.path().to_owned(), force: args.force });
    }
    let flags = if args.force {
        rustix::mount::UnmountFlags::DETACH
    } else {
        rustix::mount::UnmountFlags::empty()
    };
    rustix::mount::unmount(path, flags).map_err(|errno| {
        Failure::plain(format!(
            "the process of the mount at {} does not answer ({error}), and it cannot be unmounted: {errno}",
            path.display()
        ))
    })?;
    output::line(&format!("{} is unmounted; its process was gone", path.display()));
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_a_process_that_removes_its_socket_has_stored_all() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("sock");
        let end = |noted: &SocketFile| await_end(Path::new("/mount"), &path, noted);
        let old = UnixListener::bind(&path).unwrap();
        let noted = SocketFile::at(&path).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| fs::remove_file(&path).unwrap());
            end(&noted).unwrap();
        });
        let new = UnixListener::bind(&path).unwrap();
        let error = end(&noted).unwrap_err().message;
        assert!(error.contains("another mount"), "{error}");
        drop((old, new));
        let error = end(&SocketFile::at(&path).unwrap()).unwrap_err().message;
        assert!(error.contains("ended before"), "{error}");
    }
}
