//! A volume with servers and mounts that are processes on hosts of their own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::lan::Lan;
use crate::common::{Scratch, all, pando};

use crate::station::Station;

pub const SERVERS: u8 = 4;
pub const MOUNTS: u8 = 2;
const NETWORK: &str = "10.99.7";
const PORT: u16 = 7400;
/// Sizes that are so small that splits, renames between shards and checkpoints run all the time.
pub const TINY: [&str; 4] = ["--split-threshold", "12", "--checkpoint-bytes", "120000"];

/// A volume with its processes. Fields are dropped in this order.
pub struct Site {
    /// Processes by host number, from 1: servers, then mounts.
    processes: Vec<Option<Pid>>,
    /// The stations of the mounts.
    stations: Vec<Arc<Station>>,
    /// Options of the servers.
    sizes: [&'static str; 4],
    durability: &'static str,
    pub lan: Lan,
    pub folder: PathBuf,
    key: PathBuf,
    scratch: Scratch,
}

/// A process: the server of a shard, or the mount of a number, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Process {
    Server(u8),
    Mount(u8),
}

impl Process {
    pub const fn host(self) -> u8 {
        match self {
            Self::Server(shard) => 1 + shard,
            Self::Mount(number) => 1 + SERVERS + number,
        }
    }
}

impl Site {
    /// A site with all servers and mounts running. `sizes`: options of the servers; `durability`:
    /// their mode.
    pub fn new(sizes: [&'static str; 4], durability: &'static str) -> Self {
        let scratch = Scratch::new();
        let folder = scratch.path().join("volume");
        let made = pando().arg("format").arg(&folder).args(["--shards", "4"]).output().unwrap();
        assert!(made.status.success(), "{}", all(&made));
        let key = folder.join("keys/admin.pem");
        let lan = Lan::new(NETWORK, SERVERS + MOUNTS);
        let processes = (0..=SERVERS + MOUNTS).map(|_| None).collect();
        let station = |number| {
            let mount = scratch.path().join(format!("mount-{number}"));
            Arc::new(Station::new(mount))
        };
        let stations = (0..MOUNTS).map(station).collect();
        let mut site = Self { processes, stations, sizes, durability, lan, folder, key, scratch };
        for shard in 0..SERVERS {
            site.start(Process::Server(shard));
        }
        for number in 0..MOUNTS {
            site.start(Process::Mount(number));
        }
        site
    }

    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    pub fn mount(&self, number: u8) -> PathBuf {
        self.station(number).mount().to_owned()
    }

    pub fn station(&self, number: u8) -> Arc<Station> {
        Arc::clone(&self.stations[usize::from(number)])
    }

    pub fn address_of(shard: u8) -> String {
        format!("{NETWORK}.{}:{PORT}", Process::Server(shard).host())
    }

    /// A `pando` command on a host.
    pub fn pando(&self, host: u8) -> Command {
        let program = pando();
        let mut command = self.lan.command(host, program.get_program());
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    }

    fn log(&self, process: Process) -> PathBuf {
        self.scratch.path().join(format!("log-{}", process.host()))
    }

    /// Starts a process, and returns when it is ready.
    pub fn start(&mut self, process: Process) {
        let mut command = self.pando(process.host());
        match process {
            Process::Server(shard) => {
                command.arg("server").arg(&self.folder).args(["--shard", &shard.to_string()]);
                command.args(["--listen", &Self::address_of(shard)]).args(self.sizes);
                command.args(["--durability", self.durability]);
            }
            Process::Mount(number) => {
                let servers: Vec<_> = (0..SERVERS).map(Self::address_of).collect();
                command.arg("mount").arg(servers.join(",")).arg(self.mount(number));
                command.args(["--timeout", "never"]).arg("--key").arg(&self.key);
            }
        }
        command.arg("--json");
        let pipe = self.scratch.path().join(format!("pipe-{}", process.host()));
        if !pipe.exists() {
            mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        }
        let pid = self.lan.keeper.start(&command, &pipe, &self.log(process));
        self.processes[usize::from(process.host())] = Some(pid);
        let mut line = String::new();
        BufReader::new(fs::File::open(pipe).unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("\"pid\""), "{process:?} does not start: {line}{}", self.logs());
        if let Process::Mount(number) = process {
            self.station(number).is_up();
        }
    }

    fn signal(&self, process: Process, signal: Signal) {
        let pid = self.processes[usize::from(process.host())].expect("it runs");
        kill_process(pid, signal).unwrap();
    }

    /// Kills a process with `SIGKILL`.
    pub fn kill(&mut self, process: Process) {
        if let Process::Mount(number) = process {
            self.station(number).is_to_be_killed();
        }
        self.signal(process, Signal::KILL);
        let pid = self.processes[usize::from(process.host())].take();
        self.lan.keeper.wait(pid.expect("it ran"));
    }

    /// Stops a process with `SIGTERM`, which must end well.
    pub fn stop(&mut self, process: Process) {
        self.signal(process, Signal::TERM);
        let pid = self.processes[usize::from(process.host())].take();
        let code = self.lan.keeper.wait(pid.expect("it ran"));
        assert_eq!(code, 0, "{process:?}{}", self.logs());
    }

    /// Suspends a process with `SIGSTOP`.
    pub fn suspend(&self, process: Process) {
        self.signal(process, Signal::STOP);
    }

    /// Resumes a process with `SIGCONT`.
    pub fn resume(&self, process: Process) {
        self.signal(process, Signal::CONT);
    }

    /// Runs `pando` on the first server's host, with the owner's key.
    pub fn ask(&self, words: &[&str]) -> Output {
        self.pando(1).args(words).arg("--key").arg(&self.key).output().unwrap()
    }

    /// Checks the running volume with `pando fsck`: it must be whole.
    pub fn check_running(&self) {
        let checked = self.ask(&["fsck", &Self::address_of(0)]);
        assert!(checked.status.success(), "{}", all(&checked));
        eprint!("running: {}", String::from_utf8_lossy(&checked.stdout));
    }

    /// Checks the stopped volume with `pando fsck`. If mounts were killed, objects may be stored
    /// that no file names. After those are removed, the volume must be whole.
    pub fn check_stopped(&self) {
        let fsck = |options: &[&str]| {
            pando().arg("fsck").arg(&self.folder).args(options).output().unwrap()
        };
        let checked = fsck(&["--json"]);
        let said: Value = serde_json::from_slice(&checked.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", all(&checked)));
        let mounts_were_killed = self.stations.iter().any(|station| station.was_killed());
        let is_forgiven =
            |finding: &Value| mounts_were_killed && finding["code"] == "object-unnamed";
        let findings = said["findings"].as_array().unwrap();
        assert!(findings.iter().all(is_forgiven), "{said:#}");
        assert_eq!(
            said["clean"],
            findings.is_empty() && said["findings_not_kept"] == 0,
            "{said:#}"
        );
        if !findings.is_empty() {
            let mended = fsck(&["--repair"]);
            assert!(mended.status.success(), "{}", all(&mended));
        }
        let checked = fsck(&[]);
        assert!(checked.status.success(), "{}", all(&checked));
        let stopped = String::from_utf8_lossy(&checked.stdout).replace('\n', "; ");
        eprintln!("stopped: {stopped}({} unnamed objects removed)", findings.len());
    }

    fn logs(&self) -> String {
        let mut text = String::new();
        for host in 1..=SERVERS + MOUNTS {
            let path = self.scratch.path().join(format!("log-{host}"));
            let log = fs::read_to_string(path).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(30)..].join("\n");
            text.push_str(&format!("\n--- host {host}\n{last}"));
        }
        text
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        for pid in self.processes.iter().flatten() {
            let _ = kill_process(*pid, Signal::KILL);
            self.lan.keeper.wait(*pid);
        }
        for number in 0..MOUNTS {
            let _ = unmount(self.mount(number), UnmountFlags::DETACH);
        }
    }
}
