//! A volume whose shards and mounts are processes on hosts of their own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Scratch, all, pando};
use crate::lan::{Lan, address};

pub const SERVERS: u8 = 4;
pub const MOUNTS: u8 = 2;
const PORT: u16 = 7400;
/// Sizes so small that splits, renames between shards and checkpoints are under way all the time.
const SIZES: [&str; 4] = ["--split-threshold", "12", "--checkpoint-bytes", "200000"];

/// Fields are dropped in this order.
pub struct Site {
    /// By host number, from 1: servers, then mounts.
    processes: Vec<Option<Child>>,
    pub lan: Lan,
    pub folder: PathBuf,
    secret: PathBuf,
    scratch: Scratch,
}

/// Of the servers, the one with this shard; of the mounts, by number from 0.
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
    /// All servers and mounts, up.
    pub fn new() -> Self {
        let scratch = Scratch::new();
        let (folder, secret) = (scratch.path().join("volume"), scratch.path().join("secret"));
        fs::write(&secret, "correct horse battery staple\n").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let made = pando().arg("format").arg(&folder).args(["--shards", "4"]).output().unwrap();
        assert!(made.status.success(), "{}", all(&made));
        let lan = Lan::new(SERVERS + MOUNTS);
        let processes = (0..=SERVERS + MOUNTS).map(|_| None).collect();
        let mut site = Self { processes, lan, folder, secret, scratch };
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
        self.scratch.path().join(format!("mount-{number}"))
    }

    pub fn address_of(shard: u8) -> String {
        format!("{}:{PORT}", address(Process::Server(shard).host()))
    }

    /// `pando` on a host.
    pub fn pando(&self, host: u8) -> Command {
        let program = pando();
        let mut command = self.lan.command(host, program.get_program());
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    }

    fn log(&self, process: Process) -> PathBuf {
        self.scratch.path().join(format!("log-{}", process.host()))
    }

    /// Returns once it is ready.
    pub fn start(&mut self, process: Process) {
        let mut command = self.pando(process.host());
        match process {
            Process::Server(shard) => {
                command.arg("server").arg(&self.folder).args(["--shard", &shard.to_string()]);
                command.args(["--listen", &Self::address_of(shard)]).args(SIZES);
            }
            Process::Mount(number) => {
                let servers: Vec<_> = (0..SERVERS).map(Self::address_of).collect();
                command.arg("mount").arg(servers.join(",")).arg(self.mount(number));
                command.args(["--timeout", "never"]);
            }
        }
        let log = fs::File::options().create(true).append(true).open(self.log(process)).unwrap();
        command.arg("--json").arg("--secret").arg(&self.secret);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.processes[usize::from(process.host())] = Some(child);
        assert!(line.contains("\"pid\""), "{process:?} does not start: {line}{}", self.logs());
    }

    fn signal(&self, process: Process, signal: Signal) {
        let child = self.processes[usize::from(process.host())].as_ref().expect("it runs");
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    /// kill -9.
    pub fn kill(&mut self, process: Process) {
        self.signal(process, Signal::KILL);
        let child = self.processes[usize::from(process.host())].take();
        child.expect("it ran").wait().unwrap();
    }

    /// SIGTERM; it must end well.
    pub fn stop(&mut self, process: Process) {
        self.signal(process, Signal::TERM);
        let child = self.processes[usize::from(process.host())].take();
        let status = child.expect("it ran").wait().unwrap();
        assert!(status.success(), "{process:?}: {status}{}", self.logs());
    }

    /// SIGSTOP.
    pub fn suspend(&self, process: Process) {
        self.signal(process, Signal::STOP);
    }

    /// SIGCONT.
    pub fn resume(&self, process: Process) {
        self.signal(process, Signal::CONT);
    }

    /// Runs `pando` on the first server's host, with the secret.
    pub fn ask(&self, words: &[&str]) -> Output {
        self.pando(1).args(words).arg("--secret").arg(&self.secret).output().unwrap()
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
        for child in self.processes.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
        for number in 0..MOUNTS {
            let _ = unmount(self.mount(number), UnmountFlags::DETACH);
        }
    }
}
