//! The admin socket: one JSON object a line each way, over a Unix socket that only the owner may
//! open.
//!
//! ```text
//! → {"command":"status"}            ← {"ok":{…}}
//! → {"command":"nonsense"}          ← {"error":"…"}
//! ```
//!
//! The caller defines the commands.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pando_net::{check_server, listen_at, short_path};
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Longest request, bytes.
const REQUEST_MAX: u64 = 1 << 20;
/// Time after which an idle connection is closed.
const IDLE: Duration = Duration::from_secs(30);

/// A process that accepts no connection within this time is alive, but does not run.
const LOOK: Duration = Duration::from_secs(1);

/// A line that the server answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Answer<T> {
    /// The answer to the question.
    #[serde(rename = "ok")]
    Ok(T),
    /// Why the question was refused.
    #[serde(rename = "error")]
    Error(String),
}

/// Listens at `path`, and replaces a socket that a dead process left there. Threads of its own
/// answer each line by `handle`. The caller holds the volume's lock.
pub fn serve<Q, A>(
    path: &Path,
    handle: impl Fn(Q) -> Result<A, String> + Send + Sync + 'static,
) -> io::Result<()>
where
    Q: DeserializeOwned,
    A: Serialize,
{
    let listener = listen_at(path)?;
    let handle = Arc::new(handle);
    let accept = move || {
        for stream in listener.incoming().flatten() {
            let handle = handle.clone();
            let talk = move || {
                // A client that hangs up in the middle harms only itself.
                let _ = talk(&stream, &*handle);
            };
            let _ = std::thread::Builder::new().name("pando-admin".to_owned()).spawn(talk);
        }
    };
    std::thread::Builder::new().name("pando-admin".to_owned()).spawn(accept)?;
    Ok(())
}

fn talk<Q: DeserializeOwned, A: Serialize>(
    stream: &UnixStream,
    handle: &impl Fn(Q) -> Result<A, String>,
) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if reader.by_ref().take(REQUEST_MAX).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let answer = match serde_json::from_str(&line) {
            Err(error) => Answer::Error(format!("not a request this version knows: {error}")),
            Ok(request) => match handle(request) {
                Ok(answer) => Answer::Ok(answer),
                Err(error) => Answer::Error(error),
            },
        };
        let mut bytes = serde_json::to_vec(&answer)?;
        bytes.push(b'\n');
        (&*stream).write_all(&bytes)?;
    }
}

/// Asks one question, and waits for the answer as long as it takes.
pub fn ask<Q: Serialize, A: DeserializeOwned>(path: &Path, request: &Q) -> io::Result<Answer<A>> {
    ask_for(path, request, None, &mut None)
}

/// Asks a process that may be suspended. Fails with `TimedOut` if no answer comes within `limit`.
pub fn ask_within<Q: Serialize, A: DeserializeOwned>(
    path: &Path,
    request: &Q,
    limit: Duration,
) -> io::Result<Answer<A>> {
    let mut asked = None;
    ask_for(path, request, Some(limit), &mut asked).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            let why = asked.and_then(suspended).map(|why| format!("; {why}")).unwrap_or_default();
            let text = format!("no answer within {} s{why}", limit.as_secs_f64());
            io::Error::new(io::ErrorKind::TimedOut, text)
        }
        _ => error,
    })
}

/// Says that a process is suspended, and what to do. `None`: it is not.
#[must_use]
pub fn suspended(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The state follows the name in parentheses.
    let state = stat.rsplit_once(") ")?.1;
    state
        .starts_with(['T', 't'])
        .then(|| format!("process {pid} is suspended: `kill -CONT {pid}` lets it go on"))
}

fn ask_for<Q: Serialize, A: DeserializeOwned>(
    path: &Path,
    request: &Q,
    limit: Option<Duration>,
    asked: &mut Option<u32>,
) -> io::Result<Answer<A>> {
    let stream = connect(path, limit)?;
    let other = socket_peercred(&stream)?;
    *asked = u32::try_from(other.pid.as_raw_nonzero().get()).ok();
    // The caller gives commands such as `down` and `umount`, and believes the answer.
    check_server(path, other.uid.as_raw())?;
    stream.set_read_timeout(limit)?;
    let mut bytes = serde_json::to_vec(request)?;
    bytes.push(b'\n');
    (&stream).write_all(&bytes)?;
    let mut line = String::new();
    if BufReader::new(&stream).read_line(&mut line)? == 0 {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "it closed the connection without an answer",
        ));
    }
    Ok(serde_json::from_str(&line)?)
}

/// Connects to the socket at `path`. Fails with `WouldBlock` if the queue of connections stays full
/// for `limit`: then the process is suspended.
fn connect(path: &Path, limit: Option<Duration>) -> io::Result<UnixStream> {
    let (_folder, short) = short_path(path)?;
    let socket: OwnedFd = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // This timeout counts for connecting as well as for writing.
    set_socket_timeout(&socket, Timeout::Send, limit)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(short)?)?;
    Ok(socket.into())
}

/// Whether the socket at `path` is dead: its process has ended without removing it.
#[must_use]
pub fn is_dead(path: &Path) -> bool {
    connect(path, Some(LOOK)).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Identity of the socket file at a path, which tells it from a later one at that path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    /// The socket that is at `path` now.
    pub fn at(path: &Path) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(path)?;
        Ok(Self { path: path.to_owned(), device: metadata.dev(), inode: metadata.ino() })
    }

    /// Whether the socket is still there.
    #[must_use]
    pub fn is_there(&self) -> bool {
        Self::at(&self.path).is_ok_and(|found| found == *self)
    }

    /// Removes the socket, unless another one has taken its place.
    pub fn remove(&self) {
        if self.is_there() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn no_socket_is_ever_open_to_other_users() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("admin.sock");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let mut modes = std::collections::BTreeSet::new();
                while !is_over.load(Ordering::Relaxed) {
                    modes.extend(fs::metadata(&path).map(|is| is.permissions().mode() & 0o777));
                }
                modes
            });
            for _ in 0..300 {
                serve(&path, |n: u64| Ok(n)).unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
            let modes = watch.join().unwrap();
            assert!(modes.iter().all(|mode| *mode == 0o600), "{modes:?}");
        });
        let names = fs::read_dir(temp.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["admin.sock"]);
    }

    #[test]
    fn a_question_is_answered_even_below_a_very_long_path_and_over_a_dead_socket() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("x".repeat(200));
        fs::create_dir(&folder).unwrap();
        for path in [folder.join("admin.sock"), temp.path().join("admin.sock")] {
            drop(UnixListener::bind(temp.path().join("admin.sock")));
            serve(&path, |n: u64| if n > 9 { Err("too many".to_owned()) } else { Ok(n + 1) })
                .unwrap();
            assert_eq!(ask::<_, u64>(&path, &4).unwrap(), Answer::Ok(5));
            assert_eq!(ask::<_, u64>(&path, &10).unwrap(), Answer::Error("too many".to_owned()));
            let Answer::Error(error) = ask::<_, u64>(&path, &"x").unwrap() else { panic!() };
            assert!(error.contains("not a request"), "{error}");
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            let _ = fs::remove_file(temp.path().join("admin.sock"));
        }
    }

    #[test]
    fn a_process_that_does_not_answer_is_waited_for_no_longer_than_wanted() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("admin.sock");
        let _suspended = UnixListener::bind(&path).unwrap();
        let error = ask_within::<_, u64>(&path, &4, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        assert!(error.to_string().contains("no answer"), "{error}");
    }

    #[test]
    fn nor_is_one_that_lets_no_caller_in_any_more() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("admin.sock");
        let _suspended = UnixListener::bind(&path).unwrap();
        let short = Duration::from_millis(20);
        let full = std::iter::from_fn(|| connect(&path, Some(short)).ok()).take(1_000_000);
        let _waiting: Vec<_> = full.collect();
        let error = ask_within::<_, u64>(&path, &4, short).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        assert!(!is_dead(&path));
    }

    #[test]
    fn a_suspended_process_is_known_as_such() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        assert_eq!(suspended(child.id()), None);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        let begun = std::time::Instant::now();
        while suspended(child.id()).is_none() && begun.elapsed() < Duration::from_secs(30) {
            std::thread::yield_now();
        }
        let said = suspended(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(said.is_some_and(|said| said.contains("kill -CONT")));
        assert_eq!(suspended(child.id()), None);
    }

    #[test]
    fn a_socket_is_told_from_its_successor_and_a_dead_one_from_one_alive() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("admin.sock");
        assert!(SocketFile::at(&path).is_err() && !is_dead(&path));
        let old = UnixListener::bind(&path).unwrap();
        let noted = SocketFile::at(&path).unwrap();
        assert!(noted.is_there() && !is_dead(&path));
        fs::remove_file(&path).unwrap();
        let new = UnixListener::bind(&path).unwrap();
        noted.remove();
        assert!(path.exists() && !noted.is_there());
        drop((old, new));
        assert!(is_dead(&path));
        SocketFile::at(&path).unwrap().remove();
        assert!(!path.exists());
    }
}
