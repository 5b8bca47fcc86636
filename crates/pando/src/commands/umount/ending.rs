//! Waits until the process of a mount that is gone has stored all data.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use pando_server::admin::{self, Answer, SocketFile};

use super::patience::{END_WITHIN, FORCED};
use crate::admin::protocol::{Query, Told};
use crate::console::output;
use crate::failure::Failure;

/// With `--force`, time after which the command leaves the process behind, if its unstored data
/// does not shrink.
const FORCED_WITHIN: Duration = Duration::from_millis(3_500);
/// The process makes no progress if its unstored data does not shrink for this long.
const STALLED_AFTER: Duration = Duration::from_secs(2);
/// Interval of checks whether the process is alive. Each check leaves a connection that a suspended
/// process does not accept, so checks are rare.
const LOOK: Duration = Duration::from_secs(1);

/// A process that goes on after its mount is gone.
pub struct Left {
    pid: u32,
    /// Bytes that programs wrote and that are not stored.
    unstored: u64,
}

/// Waits while a process stores what programs wrote. `None`: it has ended. `Some`: it makes no
/// progress, or it has stored all and only its session is still open.
pub fn await_stored(
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
                        "{} is unmounted, but its process does not answer any more ({error}): \
                         it stores what is left if it resumes",
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
pub fn left_behind(path: &Path, Left { pid, unstored }: &Left) -> Result<ExitCode, Failure> {
    let shown = path.display();
    if *unstored > 0 {
        return Err(Failure::plain(format!(
            "{shown} is unmounted; its servers do not answer, and {unstored} bytes that programs \
             wrote are not stored. Process {pid} goes on until they are stored, or its log names \
             the loss; `kill {pid}` gives them up"
        )));
    }
    output::line(&format!(
        "{shown} is unmounted, all is stored; its servers do not answer. Process {pid} goes on \
         until they have ended its session or its --timeout is over; `kill {pid}` ends it now"
    ));
    Ok(ExitCode::SUCCESS)
}

/// Waits for the end of the process. It removes its socket only after it has stored all data.
pub fn await_end(path: &Path, socket: &Path, noted: &SocketFile) -> Result<(), Failure> {
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
                    "the process of the mount at {shown} ended before it reported that all is \
                     stored: some data may be lost; see its log"
                ));
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    if socket.exists() {
        return failed(format!(
            "{shown} is unmounted, but another mount took its place; whether all is stored is \
             unknown: see the log of the first mount"
        ));
    }
    Ok(())
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
