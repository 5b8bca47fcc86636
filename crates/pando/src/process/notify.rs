//! Tells the service manager what becomes of this process, as sd_notify(3) describes it.
//!
//! ```text
//! pando ──datagram──► $NOTIFY_SOCKET     READY=1, then WATCHDOG=1 again and again, then STOPPING=1
//! ```
//!
//! 1. Nothing is told unless the manager asks for it by its environment.
//! 2. Only a process in the foreground tells. One in the background is no process of the manager.
//! 3. `STOPPING=1` is told once the end cannot be taken back: a busy mount may stay.
//! 4. `WATCHDOG=1` is told each time after the service has shown a pulse. A pulse waits for no
//!    other machine. A mount whose servers are away waits, and does so rightly: to kill it would
//!    fail the programs that use it.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;
use std::time::Duration;

use crate::console::output::say;

/// The variables by which a service manager asks.
pub const VARIABLES: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// A manager that takes no message for this long is not waited for.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);

/// Returns if the service is alive, and does not return if it hangs.
pub type Pulse = Box<dyn Fn() + Send>;

/// The service is usable.
pub fn ready(greeting: &str) {
    if let Some(manager) = asking() {
        let status = one_line(greeting);
        manager.tell(&format!("READY=1\nSTATUS={status}\nMAINPID={}", std::process::id()));
    }
}

/// The service is ending, and does this meanwhile.
pub fn stopping(status: &str) {
    if let Some(manager) = asking() {
        manager.tell(&format!("STOPPING=1\nSTATUS={}", one_line(status)));
    }
}

/// Tells the manager from now on that the service is alive, as long as it has a pulse.
pub fn watch(pulse: Pulse) {
    let Some((manager, every)) = asking().and_then(|it| Some((it, it.every?))) else { return };
    let watching = move || {
        loop {
            manager.beat(&pulse);
            std::thread::sleep(every);
        }
    };
    let begun = std::thread::Builder::new().name("pando-watchdog".to_owned()).spawn(watching);
    if let Err(error) = begun {
        say!("cannot start the thread that tells the service manager of life: {error}");
    }
}

/// A service manager.
struct Manager {
    address: SocketAddr,
    /// Time between two signs of life. `None`: it wants none.
    every: Option<Duration>,
}

/// The manager, if one asks to be told.
fn asking() -> Option<&'static Manager> {
    static MANAGER: OnceLock<Option<Manager>> = OnceLock::new();
    let find = || {
        let [address, limit, pid] = VARIABLES.map(std::env::var_os);
        let limit = limit.and_then(|limit| limit.to_str()?.parse().ok());
        let pid = pid.and_then(|pid| pid.to_str()?.parse().ok());
        match Manager::new(&address?, limit, pid) {
            Ok(manager) => Some(manager),
            Err(error) => {
                say!("NOTIFY_SOCKET is not the address of a socket: {error}");
                None
            }
        }
    };
    MANAGER.get_or_init(find).as_ref()
}

impl Manager {
    /// A manager at an address, which is a path, or `@` and a name. It kills process `pid` (any, if
    /// that is not named) after `limit` microseconds without a sign of life.
    fn new(address: &OsStr, limit: Option<u64>, pid: Option<u32>) -> io::Result<Self> {
        let address = match address.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(address)?,
        };
        let is_own = pid.is_none_or(|pid| pid == std::process::id());
        let limit = limit.filter(|limit| *limit > 0 && is_own);
        // Half of the limit, as sd_watchdog_enabled(3) advises.
        Ok(Self { address, every: limit.map(|limit| Duration::from_micros(limit.div_ceil(2))) })
    }

    fn tell(&self, state: &str) {
        let tell = || {
            let socket = UnixDatagram::unbound()?;
            socket.set_write_timeout(Some(TAKEN_WITHIN))?;
            socket.send_to_addr(state.as_bytes(), &self.address)
        };
        if let Err(error) = tell() {
            say!("cannot tell the service manager {}: {error}", one_line(state));
        }
    }

    fn beat(&self, pulse: &Pulse) {
        pulse();
        self.tell("WATCHDOG=1");
    }
}

/// A newline would begin another message to the manager, and names of files may have some.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_service_without_a_pulse_tells_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let socket = UnixDatagram::bind(&path).unwrap();
        let manager = Manager::new(path.as_os_str(), Some(1), None).unwrap();
        let ((ask, asked), (release, held)) = (channel(), channel::<()>());
        let pulse: Pulse = Box::new(move || {
            ask.send(()).unwrap();
            held.recv().unwrap();
        });
        std::thread::scope(|scope| {
            let manager = &manager;
            scope.spawn(move || manager.beat(&pulse));
            asked.recv().unwrap();
            socket.set_nonblocking(true).unwrap();
            let mut bytes = [0; 100];
            let nothing = socket.recv(&mut bytes).unwrap_err();
            assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
            socket.set_nonblocking(false).unwrap();
            release.send(()).unwrap();
            let length = socket.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..length], b"WATCHDOG=1");
        });
    }

    #[test]
    fn signs_of_life_come_at_half_of_the_limit_and_of_the_named_process() {
        let every = |limit, pid| Manager::new("/a".as_ref(), limit, pid).unwrap().every;
        let own = std::process::id();
        assert_eq!(every(Some(3_000_000), None), Some(Duration::from_millis(1_500)));
        assert_eq!(every(Some(3_000_000), Some(own)), Some(Duration::from_millis(1_500)));
        assert_eq!(every(Some(3_000_000), Some(own + 1)), None);
        assert_eq!(every(Some(1), None), Some(Duration::from_micros(1)));
        assert_eq!(every(Some(0), None), None);
        assert_eq!(every(None, Some(own)), None);
    }

    #[test]
    fn a_status_is_one_line() {
        assert_eq!(one_line("a\nMAINPID=1\r\tb"), "a MAINPID=1  b");
    }
}
