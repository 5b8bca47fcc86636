//! `pando umount`: unmounts a tree, and waits until its process has stored all data.

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

/// Time that the process has to store data after it has unmounted.
const END_WITHIN: Duration = Duration::from_secs(120);
/// With `--force`, time after which the command leaves the process behind, if its unstored data
/// does not shrink.
const FORCED_WITHIN: Duration = Duration::from_millis(3_500);
/// The process makes no progress if its unstored data does not shrink for this long.
const STALLED_AFTER: Duration = Duration::from_secs(2);
/// Interval of checks whether the process is alive. Each check leaves a connection that a suspended
/// process does not accept, so checks are rare.
const LOOK: Duration = Duration::from_secs(1);

/// Time limits for what may not answer. With `--force` they add up to less than 5 s.
struct Patience {
    /// To resolve the path. A longer wait means that a mount on the path does not answer.
    found: Duration,
    /// For a ping. A process that is not suspended answers by then, even if its servers do not.
    awake: Duration,
    /// For the process to unmount.
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
    // A suspended process would unmount when it resumes, after the user has given up. So a ping
    // comes first.
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

/// A process that goes on after its mount is gone.
struct Left {
    pid: u32,
    /// Bytes that programs wrote and that are not stored.
    unstored: u64,
}

/// Waits while a process stores what programs wrote. `None`: it has ended. `Some`: it makes no
/// progress, or it has stored all and only its session is still open.
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
                // The caller finds out whether and how the process ended.
                _ => return Ok(None),
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(None)
}

/// The result when the tree is unmounted and its process still waits for servers.
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

/// Waits for the end of the process. It removes its socket only after it has stored all data.
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

/// The process exists, but does not answer.
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

/// No `pando mount` answers: a `pando up` made the mount, or its process is gone.
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
        // The mount is another user's, or its process uses another `PANDO_RUN`.
        _ => "its process was not found: if there is one, it stores what is left by itself",
    };
    output::line(&format!("{shown} is unmounted; {process}"));
    Ok(ExitCode::SUCCESS)
}

/// The volume's folder, if a `pando up` serves it and this mount is its own. A dead `pando mount`
/// may have left a mount of this volume, too.
fn up_at(args: &UmountArgs, path: &Path, volume: &str) -> Result<Option<Folder>, Failure> {
    let folder = Path::new(volume);
    // A list of server addresses is no folder.
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
        // The process is ending, or gives an unexpected answer.
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
