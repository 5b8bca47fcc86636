//! Servers with folders of their own, and a client that works all the time.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use pando_client::net::{Net, NetOptions, Target};
use pando_client::path::Paths;
use pando_client::{Client, IfThere, Volume};
use pando_types::{Credentials, Errno};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::site::until;
use crate::common::{Scratch, TINY, all, pando};

/// Number of directories of the workload.
const DIRS: u64 = 7;

/// A server process with a folder of its own.
pub struct Server {
    pub folder: PathBuf,
    pub address: String,
    pid: Pid,
}

impl Server {
    pub fn start(folder: &Path, extra: &[&str]) -> Self {
        Self::serve(folder, "all", extra)
    }

    pub fn serve(folder: &Path, shards: &str, extra: &[&str]) -> Self {
        let mut command = pando();
        command.arg("server").arg(folder).args(["--shard", shards, "-d", "--json"]);
        let output =
            command.args(TINY).args(["--lease-ms", "600000"]).args(extra).output().unwrap();
        assert!(output.status.success(), "{}\n{}", all(&output), log(folder));
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        let pid = i32::try_from(summary["pid"].as_i64().unwrap()).unwrap();
        let address = summary["addresses"][0].as_str().unwrap().to_owned();
        Self { folder: folder.to_owned(), address, pid: Pid::from_raw(pid).unwrap() }
    }

    pub fn kill(&self) {
        let _ = kill_process(self.pid, Signal::KILL);
        self.is_gone();
    }

    /// Waits until the process has died.
    pub fn is_gone(&self) {
        let stat = format!("/proc/{}/stat", self.pid.as_raw_nonzero());
        until("the process is gone", || match std::fs::read_to_string(&stat) {
            Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")),
            Err(_) => true,
        });
    }

    /// Makes moves wait at this point.
    pub fn hold(&self, point: &str) {
        std::fs::write(self.folder.join("run/hold"), point).unwrap();
    }

    /// Waits until a move waits there.
    pub fn holds(&self) {
        let held = self.folder.join("run/held");
        until("the move is held", || held.exists());
    }

    /// Lets the waiting move go on.
    pub fn release(&self) {
        std::fs::remove_file(self.folder.join("run/hold")).unwrap();
        let held = self.folder.join("run/held");
        until("the move goes on", || !held.exists());
    }

    /// Starts a server of this folder again.
    pub fn restart(&mut self, extra: &[&str]) {
        *self = Self::start(&self.folder.clone(), extra);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", log(&self.folder));
        }
        let _ = kill_process(self.pid, Signal::KILL);
    }
}

pub fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("run/log")).unwrap_or_default()
}

pub fn shard_move(shard: u16, to: &str) -> Output {
    let shard = shard.to_string();
    pando().args(["shard", "move", &shard, "--to", to]).output().unwrap()
}

/// A running command. Dropping it kills the command.
pub struct Running(Option<Child>);

impl Running {
    pub fn of(command: Command) -> Self {
        Self::telling(command, Stdio::piped())
    }

    /// Starts a command with its standard error going to `to`.
    pub fn telling(mut command: Command, to: impl Into<Stdio>) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(to);
        Self(Some(command.spawn().unwrap()))
    }

    /// Starts `pando shard move`.
    pub fn moving(shard: u16, to: &str, extra: &[&str]) -> Self {
        let mut command = pando();
        command.args(["shard", "move", &shard.to_string(), "--to", to]).args(extra);
        Self::of(command)
    }

    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub fn result(mut self) -> Output {
        let child = self.0.as_mut().unwrap();
        until("the command has ended", || child.try_wait().unwrap().is_some());
        self.0.take().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

pub fn shard_add(target: &Path, extra: &[&str]) -> Command {
    let mut command = pando();
    command.args(["shard", "add"]).arg(target).args(extra).arg("--json");
    command
}

/// Number of hash slots of each shard.
pub fn hash_slots(target: &str) -> Vec<u64> {
    let list = list(target);
    list["shards"].as_array().unwrap().iter().map(|row| row["slots"].as_u64().unwrap()).collect()
}

pub fn list(target: &str) -> Value {
    let output = pando().args(["shard", "list", target, "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub fn hosts_of(shard: usize, target: &str) -> Vec<String> {
    let list = list(target);
    let addresses = list["shards"][shard]["addresses"].as_array().unwrap().iter();
    addresses.map(|address| address.as_str().unwrap().to_owned()).collect()
}

pub fn format(folder: &Path, shards: u16) {
    let shards = shards.to_string();
    let made = pando().arg("format").arg(folder).args(["--shards", &shards]).output().unwrap();
    assert!(made.status.success(), "{}", all(&made));
}

/// Two servers: the first has all shards, the second has none.
pub struct Site {
    pub old: Server,
    pub new: Server,
    pub worker: Option<Worker>,
    // Dropped last: the folder is removed after the processes are gone.
    pub scratch: Scratch,
}

impl Site {
    pub fn new(old: &[&str], new: &[&str]) -> Self {
        Self::of(4, old, new)
    }

    /// A site with this many shards.
    pub fn of(shards: u16, old: &[&str], new: &[&str]) -> Self {
        let scratch = Scratch::new();
        let folder = scratch.path().join("old");
        format(&folder, shards);
        let old = Server::start(&folder, old);
        let join = ["--join", &old.address];
        let new = Server::start(&scratch.path().join("new"), &[&join[..], new].concat());
        let worker = Some(Worker::start(&old.folder));
        Self { old, new, worker, scratch }
    }

    pub fn rejoin(&mut self, extra: &[&str]) {
        let old = self.old.address.clone();
        self.new.restart(&[&["--join", &old], extra].concat());
    }

    pub fn goes_on(&self, operations: u64) {
        self.worker.as_ref().unwrap().goes_on(operations);
    }

    /// Checks that all changes of the client exist, and that the volume is whole.
    pub fn end(mut self) {
        self.worker.take().unwrap().end();
        is_whole(&self.new.address);
    }
}

/// Checks with `pando fsck` that a running volume is whole.
pub fn is_whole(target: &str) {
    let output = pando().args(["fsck", target]).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
}

/// A client that works until it is stopped, and knows what must exist.
pub struct Worker {
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
}

impl Worker {
    pub fn start(folder: &Path) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (run, is_over, count) = (folder.join("run"), stop.clone(), done.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(work(run, is_over, count));
        });
        let worker = Self { thread: Some(thread), stop, done };
        worker.goes_on(200);
        worker
    }

    /// Waits until `operations` more operations are done.
    pub fn goes_on(&self, operations: u64) {
        let wanted = self.done.load(Ordering::SeqCst) + operations;
        until("the client goes on", || {
            assert!(!self.thread.as_ref().unwrap().is_finished(), "the client has failed");
            self.done.load(Ordering::SeqCst) >= wanted
        });
    }

    pub fn end(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

async fn work(run: PathBuf, stop: Arc<AtomicBool>, done: Arc<AtomicU64>) {
    let options = NetOptions { notice: |_| {}, ..NetOptions::default() };
    let (net, facts) = Net::connect(&Target::Run(run), options).await.unwrap();
    let client = Client::connect(net, Volume::from(&facts)).await.unwrap();
    let paths = Paths::new(&client, Credentials::ROOT);
    let mut there: BTreeSet<(u64, u64)> = BTreeSet::new();
    for dir in 0..DIRS {
        paths.mkdir(format!("/dir-{dir}").as_bytes(), 0o755).await.unwrap();
    }
    for n in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let dir = n % DIRS;
        let path = |n: u64| format!("/dir-{}/file-{n}", n % DIRS).into_bytes();
        // A missing name is never found, and an existing one never missing, wherever its hash slot
        // or shard is.
        assert_eq!(paths.stat(&path(n)).await.err(), Some(Errno::ENOENT));
        paths.create(&path(n), 0o644, IfThere::Refuse).await.unwrap();
        there.insert((dir, n));
        if let Some((dir, old)) = there.range((dir, n / 3)..).next() {
            paths.stat(format!("/dir-{dir}/file-{old}").as_bytes()).await.unwrap();
        }
        match n % 5 {
            0 if n > 100 => {
                let gone = n - 100;
                paths.unlink(&path(gone)).await.unwrap();
                assert!(there.remove(&(gone % DIRS, gone)));
                assert_eq!(paths.stat(&path(gone)).await.err(), Some(Errno::ENOENT));
            }
            1 => {
                let link = n + (1 << 40);
                paths.link(&path(n), &path(link)).await.unwrap();
                there.insert((link % DIRS, link));
            }
            2 => {
                let sub = format!("/dir-{dir}/sub-{n}").into_bytes();
                paths.mkdir(&sub, 0o755).await.unwrap();
                paths.rmdir(&sub).await.unwrap();
            }
            3 => assert_eq!(paths.stat(&path(n)).await.unwrap().size, 0),
            _ => {}
        }
        done.fetch_add(1, Ordering::SeqCst);
    }
    let mut found = BTreeSet::new();
    for dir in 0..DIRS {
        for entry in paths.readdir(format!("/dir-{dir}").as_bytes()).await.unwrap() {
            let name = String::from_utf8(entry.name.as_bytes().to_vec()).unwrap();
            if let Some(number) = name.strip_prefix("file-") {
                found.insert((dir, number.parse().unwrap()));
            }
        }
    }
    assert_eq!(found, there);
    client.close().await.unwrap();
}
