//! A mountpoint, the keeper of what is mounted there, and programs that use it.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};

use crate::diary::{Diary, Line};

/// Far more time than anything here needs.
const LIMIT: Duration = Duration::from_secs(60);

static SITES: AtomicU32 = AtomicU32::new(0);

pub struct Site {
    pub dir: PathBuf,
    pub mountpoint: PathBuf,
    pub diary: Diary,
    pub keeper: Child,
}

/// How a site is set up.
#[derive(Clone, Copy)]
pub struct Setup {
    pub mode: &'static str,
    pub threads: &'static str,
    pub lease: &'static str,
    pub fault: &'static str,
}

impl Setup {
    /// With a lease that no test waits for, and without a fault.
    pub const fn new(mode: &'static str, threads: &'static str) -> Self {
        Self { mode, threads, lease: "60000", fault: "none" }
    }

    /// Starts a keeper, and waits until something is mounted and served.
    pub fn start(self) -> Site {
        let number = SITES.fetch_add(1, Ordering::Relaxed);
        let name = format!("pando-kept-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().canonicalize().unwrap().join(name);
        let mountpoint = dir.join("mount");
        fs::create_dir_all(&mountpoint).unwrap();
        let keeper = self.keeper(&mountpoint, &dir);
        let site = Site { diary: Diary::of(&dir), dir, mountpoint, keeper };
        site.until_served(0);
        site
    }

    pub fn keeper(self, mountpoint: &Path, dir: &Path) -> Child {
        let mut command = own();
        command.args(["keep", self.lease, self.fault]).args([mountpoint, dir]);
        command.args([self.mode, self.threads]).spawn().unwrap()
    }
}

/// This program.
fn own() -> Command {
    Command::new(std::env::current_exe().unwrap())
}

pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < LIMIT, "{what}: it takes too long");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn wait(child: &mut Child) -> i32 {
    let mut code = None;
    until("a process ends", || {
        let ended = child.try_wait().unwrap();
        code = ended.map(|status| status.code().unwrap_or(-status.signal().unwrap_or(0)));
        code.is_some()
    });
    code.unwrap()
}

pub fn signal(pid: u64, signal: Signal) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).unwrap();
}

/// A program: does one thing in the mount. The exit code is the errno.
pub fn act(operation: &str, path: &Path) -> i32 {
    let done = match operation {
        "open" => File::open(path).map(drop),
        "create" => OpenOptions::new().write(true).create_new(true).open(path).map(drop),
        "read" => {
            let mut text = String::new();
            let read = File::open(path).and_then(|mut file| file.read_to_string(&mut text));
            assert!(read.is_err() || text == "hello", "{text:?} was read");
            read.map(drop)
        }
        "write" => {
            let file = OpenOptions::new().write(true).open(path);
            file.and_then(|mut file| file.write_all(b"bytes"))
        }
        "stat" => fs::metadata(path).map(drop),
        _ => panic!("there is no operation {operation}"),
    };
    done.map_or_else(|error| error.raw_os_error().unwrap_or(-1), |()| 0)
}

impl Site {
    /// Starts a program.
    pub fn begin(&self, operation: &str, name: &str) -> Child {
        let mut command = own();
        command.args(["act", operation]).arg(self.mountpoint.join(name));
        command.stdin(Stdio::null()).spawn().unwrap()
    }

    /// Runs a program, and returns its errno.
    pub fn act(&self, operation: &str, name: &str) -> i32 {
        wait(&mut self.begin(operation, name))
    }

    pub fn put(&self, name: &str) {
        fs::write(self.dir.join(name), "").unwrap();
    }

    pub fn remove(&self, name: &str) {
        fs::remove_file(self.dir.join(name)).unwrap();
    }

    /// Waits for a line of the diary.
    pub fn until_noted(&self, generation: u64, what: &str, about: &str) -> Line {
        let mut found = None;
        until(&format!("{generation} {what} {about}"), || {
            let lines = self.diary.of_kind(what, about);
            found = lines.into_iter().find(|line| line.generation == generation);
            found.is_some()
        });
        found.unwrap()
    }

    /// Waits until this server process serves, and returns its number.
    pub fn until_served(&self, generation: u64) -> u64 {
        self.until_noted(generation, "serves", "server").number
    }

    /// Kills the server process of this generation.
    pub fn kill(&self, generation: u64) {
        signal(self.until_noted(generation, "began", "server").number, Signal::KILL);
    }

    pub fn keeper_pid(&self) -> u64 {
        self.keeper.id().into()
    }

    /// Unmounts as `umount` does.
    pub fn unmount(&self) {
        // A program that has just ended may still be closing.
        until("it can be unmounted", || unmount(&self.mountpoint, UnmountFlags::empty()).is_ok());
    }
}

/// Whether a process has ended. Its parent may not have noticed.
pub fn has_ended(pid: u64) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = (self.keeper.kill(), self.keeper.wait());
        let _ = unmount(&self.mountpoint, UnmountFlags::FORCE);
        let _ = unmount(&self.mountpoint, UnmountFlags::DETACH);
        for line in self.diary.of_kind("began", "server") {
            if !has_ended(line.number) {
                signal(line.number, Signal::KILL);
            }
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}
