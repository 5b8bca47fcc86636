//! A service manager, over a socket of its own, and the services that it starts.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The side of the manager.
pub struct Manager {
    pub socket: UnixDatagram,
    pub address: OsString,
}

impl Manager {
    pub fn at_path(folder: &Path) -> Self {
        let path = folder.join("notify");
        Self { socket: UnixDatagram::bind(&path).unwrap(), address: path.into_os_string() }
    }

    /// An abstract socket, whose name no other test has.
    pub fn abstract_of(folder: &Path) -> Self {
        let name = folder.join("notify").into_os_string().into_string().unwrap();
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        Self { socket, address: format!("@{name}").into() }
    }

    /// Starts a program as a service, with a watchdog.
    pub fn start(&self, mut command: Command) -> Service {
        command.env("NOTIFY_SOCKET", &self.address).env("WATCHDOG_USEC", "100000");
        Service(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// The next message.
    pub fn hear(&self) -> String {
        self.socket.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let mut bytes = [0; 4096];
        let length = self.socket.recv(&mut bytes).expect("the service says something");
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    /// The lines of the next message that is no sign of life.
    pub fn hear_news(&self) -> Vec<String> {
        loop {
            let message = self.hear();
            if message != "WATCHDOG=1" {
                return message.lines().map(str::to_owned).collect();
            }
        }
    }

    pub fn hears_nothing(&self) -> bool {
        self.socket.set_nonblocking(true).unwrap();
        let heard = self.socket.recv(&mut [0; 4096]).map_err(|error| error.kind());
        heard == Err(ErrorKind::WouldBlock)
    }
}

/// A process in the foreground. It does not outlive the test.
pub struct Service(Child);

impl Service {
    /// Follows the service from its start to its end at a signal.
    pub fn followed_by(self, manager: &Manager, status: &str) {
        self.begins(manager, status);
        self.ends(manager);
    }

    /// The service becomes usable, and lives.
    pub fn begins(&self, manager: &Manager, status: &str) {
        let pid = self.0.id();
        // A sign of life before it is usable would be for nothing.
        let first = manager.hear();
        let lines: Vec<_> = first.lines().collect();
        assert_eq!((lines[0], lines.len()), ("READY=1", 3), "{first}");
        assert!(lines[1].starts_with("STATUS=") && lines[1].contains(status), "{first}");
        assert_eq!(lines[2], format!("MAINPID={pid}"));
        for _ in 0..3 {
            assert_eq!(manager.hear(), "WATCHDOG=1");
        }
    }

    /// The service ends at a signal.
    pub fn ends(mut self, manager: &Manager) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        let last = manager.hear_news();
        assert_eq!(last[0], "STOPPING=1", "{last:?}");
        assert!(last[1].starts_with("STATUS=") && last[1].contains("storing"), "{last:?}");
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
