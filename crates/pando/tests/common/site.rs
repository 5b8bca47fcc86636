//! A volume with servers and mounts as background processes on this machine. Nothing of it is left
//! behind.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use pando_client::net::{NetOptions, Target, Tool};
use pando_wire::{Ask, Told};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{Scratch, all, pando};

/// A volume with servers and mounts as background processes.
pub struct Site {
    pub folder: PathBuf,
    /// Servers and mounts, in the order in which they were started.
    pub processes: Vec<Pid>,
    pub mounts: Vec<PathBuf>,
    /// Where those processes tell metrics that do.
    pub metrics: Vec<String>,
    scratch: Scratch,
}

impl Site {
    /// A site with one server for each list of shards, and no mount.
    pub fn new(servers: &[&str], extra: &[&str]) -> Self {
        let scratch = Scratch::new();
        let folder = scratch.path().join("volume");
        let made = pando().arg("format").arg(&folder).args(["--shards", "4"]).output().unwrap();
        assert!(made.status.success(), "{}", all(&made));
        let (processes, mounts, metrics) = Default::default();
        let mut site = Self { folder, processes, mounts, metrics, scratch };
        for shards in servers {
            site.serve(shards, extra);
        }
        site
    }

    /// A site with one server of all shards, and two mounts.
    pub fn pair() -> Self {
        let mut site = Self::new(&["all"], &["--split-threshold", "40"]);
        site.mount(&[]);
        site.mount(&[]);
        site
    }

    fn note(&mut self, output: &Output) -> Pid {
        assert!(output.status.success(), "{}\n{}", all(output), self.log());
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        let pid = i32::try_from(summary["pid"].as_i64().unwrap()).unwrap();
        let pid = Pid::from_raw(pid).unwrap();
        self.processes.push(pid);
        self.metrics.extend(summary["metrics"].as_str().map(str::to_owned));
        pid
    }

    pub fn serve(&mut self, shards: &str, extra: &[&str]) -> Pid {
        let mut command = pando();
        command.arg("server").arg(&self.folder).args(["--shard", shards, "-d", "--json"]);
        let output = command.args(extra).output().unwrap();
        self.note(&output)
    }

    pub fn mount(&mut self, extra: &[&str]) -> Pid {
        let path = self.scratch.path().join(format!("mount-{}", self.mounts.len()));
        self.mount_at(self.folder.clone().as_os_str(), path, extra)
    }

    /// Mounts a folder or addresses at `path`.
    pub fn mount_at(&mut self, target: &OsStr, path: PathBuf, extra: &[&str]) -> Pid {
        let log = self.scratch.path().join("mount-log");
        let mut command = pando();
        command.arg("mount").arg(target).arg(&path).args(["-d", "--json", "--log"]).arg(log);
        let output = command.args(extra).output().unwrap();
        self.mounts.push(path);
        self.note(&output)
    }

    /// The folder that holds the volume, the mounts and the log of mounts.
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// The address at which the first server listens for other machines.
    pub fn tcp(&self) -> String {
        let status = &self.statuses()[0];
        let all = status["addresses"].as_array().unwrap().iter();
        let mut all = all.map(|address| address.as_str().unwrap());
        all.find(|address| !address.starts_with("unix:")).unwrap().to_owned()
    }

    pub fn at(&self, mount: usize, path: &str) -> PathBuf {
        self.mounts[mount].join(path)
    }

    pub fn log(&self) -> String {
        let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
        read(self.folder.join("run/log")) + &read(self.scratch.path().join("mount-log"))
    }

    /// Number of inodes on all shards, as the servers count them.
    pub fn inodes(&self) -> u64 {
        let statuses = self.statuses();
        let shards = statuses.iter().flat_map(|status| status["shards"].as_array().unwrap());
        shards.map(|shard| shard["inodes"].as_u64().unwrap()).sum()
    }

    /// The status of each server. This starts no process: a process that inherits a file of a
    /// suspended mount would wait for that mount.
    pub fn statuses(&self) -> Vec<Value> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let target = Target::Run(self.folder.join("run"));
        runtime.block_on(async {
            let mut tool = Tool::connect(&target, &NetOptions::default()).await.unwrap();
            let mut statuses = Vec::new();
            for (addresses, _) in tool.processes() {
                let Told::Json(json) = tool.ask(&addresses, Ask::Status).await.unwrap() else {
                    panic!("no status");
                };
                statuses.push(serde_json::from_str(&json).unwrap());
            }
            statuses
        })
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
        for pid in self.processes.drain(..) {
            let _ = kill_process(pid, Signal::CONT);
            let _ = kill_process(pid, Signal::KILL);
        }
        for mount in &self.mounts {
            let _ = unmount(mount, UnmountFlags::DETACH);
        }
    }
}

/// Suspends a process, and waits until all its threads stand still. They run on until the thread
/// that gets the signal has run.
pub fn suspend(process: Pid) {
    kill_process(process, Signal::STOP).unwrap();
    let is_stopped = |task: &Path| {
        let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
        // The state follows the name in parentheses. A thread that has ended meanwhile has no such
        // line.
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    };
    let tasks = format!("/proc/{}/task", process.as_raw_nonzero());
    until("all its threads are suspended", || {
        fs::read_dir(&tasks).unwrap().all(|task| is_stopped(&task.unwrap().path()))
    });
}

/// Waits until `is_so` holds. Fails after two minutes.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(120), "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
