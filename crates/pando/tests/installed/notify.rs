//! What a service manager hears of a process in the foreground, over a socket of its own.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::site::{Site, until};
use crate::common::{Volume, all, is_mounted, pando};

/// The side of the manager.
struct Manager {
    socket: UnixDatagram,
    address: OsString,
}

impl Manager {
    fn at_path(folder: &Path) -> Self {
        let path = folder.join("notify");
        Self { socket: UnixDatagram::bind(&path).unwrap(), address: path.into_os_string() }
    }

    /// An abstract socket, whose name no other test has.
    fn abstract_of(folder: &Path) -> Self {
        let name = folder.join("notify").into_os_string().into_string().unwrap();
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        Self { socket, address: format!("@{name}").into() }
    }

    /// Starts a program as a service, with a watchdog.
    fn start(&self, mut command: Command) -> Service {
        command.env("NOTIFY_SOCKET", &self.address).env("WATCHDOG_USEC", "100000");
        Service(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// The next message.
    fn hear(&self) -> String {
        self.socket.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let mut bytes = [0; 4096];
        let length = self.socket.recv(&mut bytes).expect("the service says something");
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    /// The lines of the next message that is no sign of life.
    fn hear_news(&self) -> Vec<String> {
        loop {
            let message = self.hear();
            if message != "WATCHDOG=1" {
                return message.lines().map(str::to_owned).collect();
            }
        }
    }

    fn hears_nothing(&self) -> bool {
        self.socket.set_nonblocking(true).unwrap();
        let heard = self.socket.recv(&mut [0; 4096]).map_err(|error| error.kind());
        heard == Err(ErrorKind::WouldBlock)
    }
}

/// A process in the foreground. It does not outlive the test.
struct Service(Child);

impl Service {
    /// Follows the service from its start to its end at a signal.
    fn followed_by(mut self, manager: &Manager, status: &str) {
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
        let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
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

#[test]
fn a_server_says_when_it_is_ready_alive_and_stopping() {
    let site = Site::new(&[], &[]);
    let manager = Manager::at_path(site.scratch());
    let mut command = pando();
    command.arg("server").arg(&site.folder).args(["--shard", "all"]);
    manager.start(command).followed_by(&manager, "shards 0,1,2,3 of");
}

#[test]
fn a_mount_says_so_over_an_abstract_socket_and_is_usable_when_it_does() {
    let mut site = Site::new(&["all"], &[]);
    let manager = Manager::abstract_of(site.scratch());
    // Each line of a message is one for the manager, so the path's newline must not be told.
    let path = site.scratch().join("tree\nMAINPID=1");
    site.mounts.push(path.clone());
    let mut command = pando();
    command.arg("mount").arg(&site.folder).arg(&path);
    let service = manager.start(command);
    service.followed_by(&manager, "tree MAINPID=1");
    assert!(!is_mounted(&path));
}

#[test]
fn a_volume_in_one_process_says_so_too() {
    let volume = Volume::down();
    let manager = Manager::at_path(volume.scratch());
    let mut command = pando();
    command.arg("up").arg(&volume.folder).arg("--mount").arg(&volume.mount);
    manager.start(command).followed_by(&manager, "is mounted at");
    assert!(!is_mounted(&volume.mount));
}

#[test]
fn a_mount_whose_servers_are_away_is_alive() {
    let mut site = Site::new(&["all"], &[]);
    let manager = Manager::at_path(site.scratch());
    let path = site.scratch().join("tree");
    site.mounts.push(path.clone());
    let mut command = pando();
    command.arg("mount").arg(&site.folder).arg(&path).args([
        "--timeout",
        "never",
        "--sync-metadata",
    ]);
    let service = manager.start(command);
    assert_eq!(manager.hear_news()[0], "READY=1");
    kill_process(site.processes[0], Signal::KILL).unwrap();
    // This waits for the servers, so it is ended by the end of the mount.
    let waiting = std::thread::spawn(move || std::fs::create_dir(path.join("dir")));
    let pending = || {
        let mut command = pando();
        let output = command.arg("status").arg(&site.mounts[0]).arg("--json").output().unwrap();
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        told["counters"]["pending"].as_u64().unwrap()
    };
    until("a program waits", || pending() > 0);
    // What was told before that does not count.
    while !manager.hears_nothing() {}
    manager.socket.set_nonblocking(false).unwrap();
    for _ in 0..3 {
        assert_eq!(manager.hear(), "WATCHDOG=1");
    }
    drop(service);
    assert!(waiting.join().unwrap().is_err());
}

#[test]
fn a_process_in_the_background_tells_no_manager() {
    let mut site = Site::new(&["all"], &[]);
    let manager = Manager::at_path(site.scratch());
    let path = site.scratch().join("tree");
    site.mounts.push(path.clone());
    let mut command = pando();
    command.arg("mount").arg(&site.folder).arg(&path).arg("-d");
    command.env("NOTIFY_SOCKET", &manager.address).env("WATCHDOG_USEC", "1000");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    let output = pando().arg("umount").arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    assert!(manager.hears_nothing());
}
