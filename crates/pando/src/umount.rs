//! `pando umount`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use pando_server::Folder;
use pando_server::admin::{self, Answer, SocketFile};

use crate::cli::{DownArgs, UmountArgs};
use crate::down::is_hanging_up;
use crate::failure::{Failure, IN_USE, NOT_RUNNING};
use crate::mounting::admin::socket;
use crate::mounts::Mount;
use crate::protocol::{Query, Told};
use crate::{mounts, output};

/// The process has this long to store what was written, after it has unmounted.
const END_WITHIN: Duration = Duration::from_secs(120);
/// With `--force` it is left to itself after this time, if what it has to store does not become
/// less.
const FORCED_WITHIN: Duration = Duration::from_millis(3_500);
/// So long it may take to store a part of that.
const STALLED_AFTER: Duration = Duration::from_secs(2);
/// How often it is looked whether the process is alive. Connections that a suspended one does not
/// accept pile up, so not often.
const LOOK: Duration = Duration::from_secs(1);

/// What may not answer is waited for so long: with `--force` for less than 5 s, all of it together.
struct Patience {
    /// Where a path leads is known by then, unless a mount on the way does not answer.
    found: Duration,
    /// A process that is not suspended says so by then, whatever its servers do.
    awake: Duration,
    /// And has unmounted by then.
    unmounted: Duration,
}

const PATIENT: Patience = Patience {
    found: Duration::from_secs(4),
    awake: Duration::from_secs(4),
    unmounted: END_WITHIN,
};
const FORCED: Patience = Patience {
    found: Duration::from_secs(1),
    awake: Duration::from_secs(1),
    unmounted: Duration::from_secs(1),
};

impl Patience {
    const fn of(args: &UmountArgs) -> &'static Self {
        if args.force { &FORCED } else { &PATIENT }
    }
}

pub fn run(args: &UmountArgs) -> Result<ExitCode, Failure> {
    let (begun, patience) = (Instant::now(), Patience::of(args));
    let (mount, volume) = find(&args.path, patience.found)?;
    let (path, shown) = (&mount.path, mount.path.display());
    let socket = socket(path)?;
    let noted = SocketFile::at(&socket).ok();
    // What a suspended process is told to do, it would do when nobody expects it any more.
    let told = admin::ask_within::<_, Told>(&socket, &Query::Ping, patience.awake).and_then(|_| {
        let down = Query::Down { force: args.force };
        admin::ask_within::<_, Told>(&socket, &down, patience.unmounted)
    });
    match told {
        Ok(Answer::Ok(_)) => {}
        Ok(Answer::Error(error)) => return Err(Failure::new(IN_USE, error)),
        Err(error) if is_hanging_up(&error) => {}
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            return suspended(args, path, &error);
        }
        Err(error) => return other_process(args, path, &volume, &error),
    }
    if let Some(noted) = noted {
        if args.force
            && let Some(left) = await_stored(path, &socket, &noted, begun)?
        {
            return left_behind(path, &left);
        }
        await_end(path, &socket, &noted)?;
    }
    output::line(&format!("{shown} is unmounted, all is stored"));
    Ok(ExitCode::SUCCESS)
}

/// The mount of Pando at a path, and its volume.
fn find(path: &Path, limit: Duration) -> Result<(Mount, String), Failure> {
    let absolute = std::path::absolute(path)
        .map_err(|error| Failure::plain(format!("cannot find {}: {error}", path.display())))?;
    // Of a mount whose servers do not answer, nothing may be asked but by name.
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

/// Free of links; `None` if it leads nowhere.
fn resolved(path: &Path, limit: Duration) -> Result<Option<PathBuf>, Failure> {
    let (tell, told) = channel();
    let asked = path.to_owned();
    let resolve = move || drop(tell.send(asked.canonicalize()));
    // If it cannot begin, it is as if it led nowhere.
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

/// A process that goes on after its mount.
struct Left {
    pid: u32,
    /// Bytes.
    unstored: u64,
}

/// Waits while a process stores what was written. Returns one that does not get on with it, or has
/// stored all and waits for the end of its session; nothing if it has ended.
fn await_stored(
    path: &Path,
    socket: &Path,
    noted: &SocketFile,
    begun: Instant,
) -> Result<Option<Left>, Failure> {
    let (mut least, mut since, mut looked) = (u64::MAX, begun, begun);
    while noted.is_there() {
        if looked.elapsed() > LOOK / 2 {
            looked = Instant::now();
            match admin::ask_within(socket, &Query::Ping, FORCED.awake) {
                Ok(Answer::Ok(Told::Pong { pid, unstored })) => {
                    if unstored < least {
                        (least, since) = (unstored, looked);
                    }
                    let is_stalled = unstored == 0 || since.elapsed() > STALLED_AFTER;
                    if begun.elapsed() > FORCED_WITHIN && is_stalled {
                        return Ok(Some(Left { pid, unstored }));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Err(Failure::plain(format!(
                        "{} is unmounted, but its process does not answer any more ({error}): it stores what is left if it goes on",
                        path.display()
                    )));
                }
                // Whether it has ended, and how, is for the caller to see.
                _ => return Ok(None),
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(None)
}

/// It is unmounted, and its process waits for servers.
fn left_behind(path: &Path, Left { pid, unstored }: &Left) -> Result<ExitCode, Failure> {
    let shown = path.display();
    if *unstored > 0 {
        return Err(Failure::plain(format!(
            "{shown} is unmounted; its servers do not answer, and {unstored} bytes that programs wrote are not stored: \
             process {pid} goes on until they are, or says in its log which are lost (`kill {pid}` gives them up)"
        )));
    }
    output::line(&format!(
        "{shown} is unmounted, all is stored; its servers do not answer, and process {pid} goes on until they have ended its \
         session or its --timeout is over (`kill {pid}` ends it now)"
    ));
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

/// There is a process, but it says nothing.
fn suspended(args: &UmountArgs, path: &Path, error: &io::Error) -> Result<ExitCode, Failure> {
    let shown = path.display();
    if !args.force {
        return Err(Failure::plain(format!(
            "the process of the mount at {shown} does not answer ({error}), perhaps it is suspended: let it go on, or \
             `pando umount --force {shown}`, which leaves to it what is not stored yet"
        )));
    }
    pando_fuse::unmount_at(path, true)
        .map_err(|error| Failure::plain(format!("cannot detach the mount at {shown}: {error}")))?;
    output::line(&format!(
        "{shown} is detached; its process does not answer, and stores what is left if it goes on"
    ));
    Ok(ExitCode::SUCCESS)
}

/// No `pando mount` answers: it is the mount of a `pando up`, or its process is gone.
fn other_process(
    args: &UmountArgs,
    path: &Path,
    volume: &str,
    error: &io::Error,
) -> Result<ExitCode, Failure> {
    if let Some(folder) = up_at(args, path, volume)? {
        return crate::down::run(&DownArgs { folder: folder.path().to_owned(), force: args.force });
    }
    let shown = path.display();
    if args.force && error.kind() == io::ErrorKind::ConnectionRefused {
        pando_fuse::abort_at(path);
    }
    pando_fuse::unmount_at(path, args.force).map_err(|refused| match refused.kind() {
        io::ErrorKind::ResourceBusy => Failure::new(
            IN_USE,
            format!(
                "the process of the mount at {shown} does not answer ({error}), and programs have files open or work \
                 within: end them, or `pando umount --force {shown}`"
            ),
        ),
        _ => Failure::plain(format!(
            "the process of the mount at {shown} does not answer ({error}), and it cannot be unmounted: {refused}"
        )),
    })?;
    let process = match error.kind() {
        io::ErrorKind::ConnectionRefused => "its process was gone",
        // Of another user's mount, or with another PANDO_RUN.
        _ => "its process was not found: if there is one, it stores what is left by itself",
    };
    output::line(&format!("{shown} is unmounted; {process}"));
    Ok(ExitCode::SUCCESS)
}

/// The folder of the volume, if it is up and this is its own mount: a dead one of `pando mount` may
/// be of the same volume.
fn up_at(args: &UmountArgs, path: &Path, volume: &str) -> Result<Option<Folder>, Failure> {
    let folder = Path::new(volume);
    // Servers' addresses are none.
    if !folder.is_absolute() {
        return Ok(None);
    }
    let folder = Folder::new(folder)?;
    let holder = if folder.is_formatted() { folder.holder()? } else { None };
    let Some(pid) = holder else { return Ok(None) };
    match admin::ask_within(&folder.socket(), &Query::Status, Patience::of(args).awake) {
        Ok(Answer::Ok(Told::Status(status))) => {
            Ok((status.mount.path == path.display().to_string()).then_some(folder))
        }
        // It is ending, or nothing of the kind.
        Ok(_) => Ok(Some(folder)),
        Err(_) if args.force => Ok(None),
        Err(error) => Err(crate::down::not_answering(&folder, &pid, &error)),
    }
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
