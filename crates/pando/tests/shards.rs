//! `pando shard`: shards move between processes with folders of their own, while a client works and processes die.

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use common::site::until;
use common::{Scratch, TINY, Volume as Up, all, pando, shell};
use pando_client::net::{Net, NetOptions, Target};
use pando_client::path::Paths;
use pando_client::{Client, Volume};
use pando_types::{Credentials, Errno};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Directories of the workload.
const DIRS: u64 = 7;

/// A server process with a folder of its own.
struct Server {
    folder: PathBuf,
    address: String,
    pid: Pid,
}

impl Server {
    fn start(folder: &Path, extra: &[&str]) -> Self {
        Self::serve(folder, "all", extra)
    }

    fn serve(folder: &Path, shards: &str, extra: &[&str]) -> Self {
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

    fn kill(&self) {
        let _ = kill_process(self.pid, Signal::KILL);
        self.is_gone();
    }

    /// Waits until it has died.
    fn is_gone(&self) {
        let stat = format!("/proc/{}/stat", self.pid.as_raw_nonzero());
        until("the process is gone", || match std::fs::read_to_string(&stat) {
            Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")),
            Err(_) => true,
        });
    }

    /// The same folder, served again.
    fn restart(&mut self, extra: &[&str]) {
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

fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("run/log")).unwrap_or_default()
}

fn shard_move(shard: u16, to: &str) -> Output {
    let shard = shard.to_string();
    pando().args(["shard", "move", &shard, "--to", to]).output().unwrap()
}

fn shard_add(target: &Path, extra: &[&str]) -> Command {
    let mut command = pando();
    command.args(["shard", "add"]).arg(target).args(extra).arg("--json");
    command
}

/// Slots of each shard.
fn slots(target: &str) -> Vec<u64> {
    let list = list(target);
    list["shards"].as_array().unwrap().iter().map(|row| row["slots"].as_u64().unwrap()).collect()
}

fn list(target: &str) -> Value {
    let output = pando().args(["shard", "list", target, "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn hosts_of(shard: usize, target: &str) -> Vec<String> {
    let list = list(target);
    let addresses = list["shards"][shard]["addresses"].as_array().unwrap().iter();
    addresses.map(|address| address.as_str().unwrap().to_owned()).collect()
}

/// Two servers: the first has all shards, the second none.
struct Site {
    old: Server,
    new: Server,
    worker: Option<Worker>,
    // Last: it is removed after the processes are gone.
    _scratch: Scratch,
}

impl Site {
    fn new(old: &[&str], new: &[&str]) -> Self {
        let scratch = Scratch::new();
        let folder = scratch.path().join("old");
        let made = pando().arg("format").arg(&folder).args(["--shards", "4"]).output().unwrap();
        assert!(made.status.success(), "{}", all(&made));
        let old = Server::start(&folder, old);
        let join = ["--join", &old.address];
        let new = Server::start(&scratch.path().join("new"), &[&join[..], new].concat());
        let worker = Some(Worker::start(&old.folder));
        Self { old, new, worker, _scratch: scratch }
    }

    fn rejoin(&mut self, extra: &[&str]) {
        let old = self.old.address.clone();
        self.new.restart(&[&["--join", &old], extra].concat());
    }

    /// All that the client has done is there, and the volume is whole.
    fn end(mut self) {
        self.worker.take().unwrap().end();
        let output = pando().args(["fsck", &self.new.address]).output().unwrap();
        assert!(output.status.success(), "{}", all(&output));
    }
}

/// A client that works until it is told to stop, and knows what must be there.
struct Worker {
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
}

impl Worker {
    fn start(folder: &Path) -> Self {
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

    /// Returns once so many operations more are done.
    fn goes_on(&self, operations: u64) {
        let wanted = self.done.load(Ordering::SeqCst) + operations;
        until("the client goes on", || {
            assert!(!self.thread.as_ref().unwrap().is_finished(), "the client has failed");
            self.done.load(Ordering::SeqCst) >= wanted
        });
    }

    fn end(mut self) {
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
        // What is not there is never said to be, and the other way round, wherever its slot or shard is by now.
        assert_eq!(paths.stat(&path(n)).await.err(), Some(Errno::ENOENT));
        paths.create(&path(n), 0o644, true).await.unwrap();
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

#[test]
fn shards_move_while_a_client_works_and_come_back() {
    let mut site = Site::new(&[], &[]);
    let listed = list(site.old.folder.to_str().unwrap());
    let shards = listed["shards"].as_array().unwrap();
    let slots: u64 = shards.iter().map(|shard| shard["slots"].as_u64().unwrap()).sum();
    assert_eq!((shards.len(), slots), (4, 1 << 16));
    // Where a directory is, is by chance.
    let partitions: u64 = shards.iter().map(|shard| shard["partitions"].as_u64().unwrap()).sum();
    assert!(partitions > 1, "{listed}");
    for shard in [1, 0] {
        let moved = shard_move(shard, &site.new.address);
        assert!(moved.status.success(), "{}", all(&moved));
        site.worker.as_ref().unwrap().goes_on(100);
        let kept = site.old.folder.join(format!("shard-{shard:04}"));
        until("the old copy is removed", || !kept.exists());
    }
    for target in [site.old.folder.to_str().unwrap(), &site.new.address] {
        assert_eq!(hosts_of(1, target)[0], site.new.address);
        assert_eq!(hosts_of(2, target)[0], site.old.address);
    }
    // Again: it is there.
    let again = shard_move(1, &site.new.address);
    assert!(again.status.success(), "{}", all(&again));
    // Both processes begin again, each with what is its own now.
    site.old.kill();
    site.old.restart(&[]);
    site.new.kill();
    site.rejoin(&[]);
    site.worker.as_ref().unwrap().goes_on(100);
    let back = shard_move(1, &site.old.address);
    assert!(back.status.success(), "{}", all(&back));
    site.worker.as_ref().unwrap().goes_on(100);
    assert_eq!(hosts_of(1, &site.new.address)[0], site.old.address);
    site.end();
}

/// The process of which side dies, at which point of a move.
fn dies(is_target: bool, point: &str) {
    let die = ["--die-at", point];
    let none: &[&str] = &[];
    let mut site = if is_target { Site::new(none, &die) } else { Site::new(&die, none) };
    let to = site.new.address.clone();
    let first = std::thread::spawn(move || shard_move(2, &to));
    if is_target {
        let died = first.join().unwrap();
        assert!(!died.status.success(), "{}", all(&died));
        site.new.is_gone();
        site.rejoin(&[]);
    } else {
        // The target asks until it is answered.
        site.old.is_gone();
        site.old.restart(&[]);
        let moved = first.join().unwrap();
        assert!(moved.status.success(), "{}", all(&moved));
    }
    site.worker.as_ref().unwrap().goes_on(100);
    let moved = shard_move(2, &site.new.address);
    assert!(moved.status.success(), "{}", all(&moved));
    assert_eq!(hosts_of(2, &site.old.address)[0], site.new.address);
    site.worker.as_ref().unwrap().goes_on(100);
    let kept = site.old.folder.join("shard-0002");
    until("the old copy is removed", || !kept.exists());
    site.end();
}

#[test]
fn a_target_that_dies_while_it_copies_copies_anew() {
    dies(true, "copying");
}

#[test]
fn a_target_that_dies_with_a_whole_copy_asks_for_it() {
    dies(true, "ready");
}

#[test]
fn a_source_that_dies_when_it_has_given_the_shard_away_has_given_it_away() {
    dies(false, "given");
}

#[test]
fn a_target_that_dies_with_what_is_its_own_serves_it_when_it_is_back() {
    dies(true, "taken");
}

#[test]
fn a_target_that_dies_before_it_could_tell_serves_all_the_same() {
    dies(true, "opened");
}

#[test]
fn what_cannot_be_moved_is_said() {
    let site = Site::new(&[], &[]);
    let cases = [(9, &site.new, "there is no shard 9"), (1, &site.old, "")];
    for (shard, to, said) in cases {
        let output = shard_move(shard, &to.address);
        assert_eq!(output.status.success(), said.is_empty(), "{}", all(&output));
        assert!(all(&output).contains(said), "{}", all(&output));
    }
    let up = pando().args(["up"]).arg(&site.new.folder).arg("--mount").arg("/nowhere").output();
    assert!(!up.unwrap().status.success());
    site.end();
}

#[test]
fn a_shard_is_added_while_a_client_works() {
    let site = Site::new(&[], &[]);
    let worker = site.worker.as_ref().unwrap();
    let output = shard_add(&site.old.folder, &["--to", &site.new.address]).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((told["shard"].as_u64(), &told["moved"]), (Some(4), &told["slots"]));
    worker.goes_on(200);
    for target in [site.old.folder.to_str().unwrap(), &site.new.address] {
        let slots = slots(target);
        assert_eq!((slots.len(), slots.iter().sum::<u64>()), (5, 1 << 16));
        assert_eq!(Some(slots[4]), told["slots"].as_u64());
        assert_eq!(hosts_of(4, target), std::slice::from_ref(&site.new.address));
    }
    // It moves as all others do.
    let moved = shard_move(4, &site.old.address);
    assert!(moved.status.success(), "{}", all(&moved));
    worker.goes_on(200);
    assert_eq!(hosts_of(4, &site.new.address), std::slice::from_ref(&site.old.address));
    site.end();
}

/// A server of the same folder, started for a shard that is not there yet, makes it.
#[test]
fn a_server_may_be_started_for_the_next_shard() {
    let scratch = Scratch::new();
    let folder = scratch.path().join("volume");
    let made = pando().arg("format").arg(&folder).args(["--shards", "7"]).output().unwrap();
    assert!(made.status.success(), "{}", all(&made));
    let old = Server::start(&folder, &[]);
    let worker = Worker::start(&folder);
    let beyond = pando().arg("server").arg(&folder).args(["--shard", "8"]).output().unwrap();
    assert!(!beyond.status.success());
    assert!(all(&beyond).contains("there is no shard 8"), "{}", all(&beyond));
    let new = Server::serve(&folder, "7", &[]);
    let output = shard_add(&folder, &[]).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    worker.goes_on(200);
    let shown = folder.to_str().unwrap();
    assert_eq!((slots(shown).len(), hosts_of(7, shown)), (8, vec![new.address.clone()]));
    worker.end();
    let output = pando().arg("fsck").arg(&old.address).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
}

#[test]
fn a_volume_that_is_up_grows_and_is_found_so_when_it_is_up_again() {
    let mut volume = Up::up(&["--shards", "7"]);
    let fill = |volume: &Up, name: &str| {
        let script = format!("for d in $(seq 150); do mkdir -p d$d; touch d$d/{name}; done");
        shell(&volume.mount, &script);
    };
    fill(&volume, "before");
    let output = shard_add(&volume.folder, &[]).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    fill(&volume, "after");
    let names_there = || list(volume.folder.to_str().unwrap())["shards"][7]["entries"].as_u64();
    // Of 150 directories an eighth; none, once in 500 million volumes.
    assert!(names_there().unwrap() > 0);
    volume.kill();
    volume.start(&[]);
    assert_eq!(shell(&volume.mount, "ls d*/before d*/after | wc -l").trim(), "300");
    assert_eq!(slots(volume.folder.to_str().unwrap()).len(), 8);
    volume.stop();
    let output = pando().arg("fsck").arg(&volume.folder).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
}

#[test]
fn whatever_is_killed_while_a_shard_is_added_the_same_command_goes_on() {
    let mut site = Site::new(&[], &[]);
    let (folder, to) = (site.old.folder.clone(), site.new.address.clone());
    let begin = || {
        let mut command = shard_add(&folder, &["--to", &to, "--rate", "1500"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let come = |more: u64| {
        let shown = folder.to_str().unwrap();
        let arrived = || slots(shown).get(4).copied().unwrap_or(0);
        let so_far = arrived();
        until("slots come", || arrived() >= so_far + more);
    };
    let mut command = begin();
    come(200);
    command.kill().unwrap();
    command.wait().unwrap();
    let command = begin();
    come(200);
    site.old.kill();
    site.old.restart(&[]);
    come(200);
    site.new.kill();
    site.rejoin(&[]);
    site.worker.as_ref().unwrap().goes_on(100);
    let output = command.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    let slots = slots(folder.to_str().unwrap());
    assert_eq!((slots.len(), slots.iter().sum::<u64>()), (5, 1 << 16));
    site.worker.as_ref().unwrap().goes_on(200);
    site.end();
}
