//! Two mounts. Through one a directory is filled, and in part emptied. Through the other, names
//! that exist and names that do not are looked up all the time.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::site::until;
use crate::common::{all, pando};

/// Every third name is removed when this many more exist.
const AFTER: u64 = 30;

/// A mount with its own process.
pub struct Mounted {
    pub path: PathBuf,
    pid: Pid,
}

impl Mounted {
    /// Mounts the volume of these servers at `path`.
    pub fn new(servers: &str, path: &Path) -> Self {
        let mut command = pando();
        command.args(["mount", servers]).arg(path).args(["-d", "--json", "--log"]);
        let output = command.arg(path.with_extension("log")).output().unwrap();
        assert!(output.status.success(), "{}", all(&output));
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        let pid = i32::try_from(summary["pid"].as_i64().unwrap()).unwrap();
        Self { path: path.to_owned(), pid: Pid::from_raw(pid).unwrap() }
    }

    /// The partitions of a directory that can be found: index, shard.
    pub fn partitions(&self, dir: &str) -> Vec<(u64, u64)> {
        let output = pando().arg("info").arg(self.path.join(dir)).arg("--json").output().unwrap();
        assert!(output.status.success(), "{}", all(&output));
        let info: Value = serde_json::from_slice(&output.stdout).unwrap();
        let number = |value: &Value| value.as_u64().unwrap();
        let list = info["partitions"].as_array().unwrap().iter();
        list.map(|row| (number(&row["index"]), number(&row["shard"]))).collect()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.path.with_extension("log"));
            eprintln!("{}", log.unwrap_or_default());
        }
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}

/// The work on both mounts. A wrong answer ends it.
pub struct Load {
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    /// Number of steps through the first mount, and of questions through the second.
    done: Arc<[AtomicU64; 2]>,
    dirs: [PathBuf; 2],
}

impl Load {
    /// Makes the directory `big`, and starts the work in it through both mounts.
    pub fn start(mounts: [&Mounted; 2]) -> Self {
        let dirs = mounts.map(|mount| mount.path.join("big"));
        fs::create_dir(&dirs[0]).unwrap();
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(Default::default()));
        let mut load = Self { threads: Vec::new(), stop, done, dirs };
        for body in [change, ask] {
            let (stop, done, dirs) = (load.stop.clone(), load.done.clone(), load.dirs.clone());
            load.threads.push(std::thread::spawn(move || body(&dirs, &stop, &done)));
        }
        load.goes_on(100);
        load
    }

    /// Waits until `more` steps are done on each mount.
    pub fn goes_on(&self, more: u64) {
        let count = |mount: usize| self.done[mount].load(Ordering::SeqCst);
        let wanted = [count(0) + more, count(1) + more];
        until("both mounts go on", || {
            self.is_well();
            (0..2).all(|mount| count(mount) >= wanted[mount])
        });
    }

    /// Checks that nothing has failed.
    pub fn is_well(&self) {
        assert!(self.threads.iter().all(|thread| !thread.is_finished()), "a mount's work failed");
    }

    /// Ends the work, and checks on both mounts that exactly the expected names exist.
    pub fn end(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
        let steps = self.done[0].load(Ordering::SeqCst);
        let expected: BTreeSet<String> =
            (0..steps).filter(|&n| !goes(n) || n + AFTER >= steps).map(name).collect();
        for dir in &self.dirs {
            let list = fs::read_dir(dir).unwrap();
            let found = list.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            assert_eq!(found.collect::<BTreeSet<_>>(), expected);
            for name in expected.iter().step_by(7) {
                assert_eq!(&fs::read_to_string(dir.join(name)).unwrap(), name);
            }
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

fn name(n: u64) -> String {
    format!("file-{n}")
}

const fn goes(n: u64) -> bool {
    n.is_multiple_of(3)
}

fn is_there(path: &Path) -> bool {
    match fs::symlink_metadata(path) {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

fn change(dirs: &[PathBuf; 2], stop: &AtomicBool, done: &[AtomicU64; 2]) {
    let path = |n: u64| dirs[0].join(name(n));
    for n in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        assert!(!is_there(&path(n)), "{n} is there before it is made");
        let mut file = File::create_new(path(n)).unwrap();
        file.write_all(name(n).as_bytes()).unwrap();
        drop(file);
        assert!(is_there(&path(n)), "{n} was made");
        if n >= AFTER && goes(n - AFTER) {
            fs::remove_file(path(n - AFTER)).unwrap();
            assert!(!is_there(&path(n - AFTER)), "{} is gone", n - AFTER);
        }
        done[0].fetch_add(1, Ordering::SeqCst);
    }
}

fn ask(dirs: &[PathBuf; 2], stop: &AtomicBool, done: &[AtomicU64; 2]) {
    for question in 0_u64.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        assert!(!is_there(&dirs[1].join(format!("never-{question}"))), "nobody made that");
        let steps = done[0].load(Ordering::SeqCst);
        if let Some(n) = question.wrapping_mul(7_919).checked_rem(steps) {
            let found = is_there(&dirs[1].join(name(n)));
            if !goes(n) {
                assert!(found, "{n} was made, and nobody removed it");
            } else if n + AFTER < steps {
                assert!(!found, "{n} was removed");
            }
        }
        done[1].fetch_add(1, Ordering::SeqCst);
    }
}
