//! Mounts to be measured. Each is served by processes of its own, in a temporary folder. All of it
//! is removed at the end, also after a failure.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use pando_fuse::is_mountpoint;
use pando_server::Folder;
use rustix::mount::{UnmountFlags, unmount};
use serde::Serialize;
use serde_json::Value;
use tempfile::TempDir;

use super::beside::Beside;
use super::make;
use super::named::Named;
use super::process::Process;
use super::program::{self, option, pando};
use crate::output::failure::Failure;

/// A file system that is served and mounted. Dropping it unmounts it, ends its processes, and
/// removes its folder.
pub struct Server {
    /// A client that keeps the mount's kernel from remembering.
    beside: Option<Beside>,
    /// In the order of their start.
    processes: Vec<Process>,
    mountpoint: PathBuf,
    /// Further mounts of the same volume.
    others: Vec<PathBuf>,
    /// What was started last: the program and its arguments.
    last: Option<(PathBuf, Vec<OsString>)>,
    folder: Option<TempDir>,
}

/// A new mount that does not hold by then never will.
const HOLDS_WITHIN: Duration = Duration::from_secs(20);

/// How shards and mount of a volume are divided into processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Serve {
    /// All in one process: `pando up`
    Up,
    /// A process for the shards and one for the mount, over a Unix socket
    Unix,
    /// The same over TCP, on this machine
    Tcp,
}

/// How a volume is served.
pub struct Volume<'a> {
    pub serve: Serve,
    pub shards: u16,
    pub durability: &'a str,
    pub threads: Option<u16>,
    /// Whether no other client changes anything. `up` is always alone.
    pub is_alone: bool,
}

impl Server {
    fn new() -> Result<Self, Failure> {
        let folder = make::temporary("pando-bench-")?;
        let mountpoint = folder.path().join("mount");
        let (others, folder) = (Vec::new(), Some(folder));
        Ok(Self { beside: None, processes: Vec::new(), mountpoint, others, last: None, folder })
    }

    fn make_mountpoint(&self) -> Result<(), Failure> {
        let mountpoint = &self.mountpoint;
        std::fs::create_dir(mountpoint).map_err(|error| {
            Failure::plain(format!("cannot make {}: {error}", mountpoint.display()))
        })
    }

    /// Mounts the null file system. Its kernel may remember what the kernel of a Pando mount may
    /// remember, if that is served as `serve` says.
    pub fn null(serve: Serve, threads: Option<u16>) -> Result<Self, Failure> {
        let mut server = Self::new()?;
        server.make_mountpoint()?;
        let kernel = if serve == Serve::Up { "alone" } else { "several" };
        let words = ["null".into(), server.mountpoint.clone().into()];
        let more = option("--kernel", Some(kernel)).chain(option("--threads", threads));
        server.start(&program::this()?, words, more)?;
        Ok(server)
    }

    /// Mounts a folder at another, read-only, by a FUSE that remembers nothing.
    pub fn pass(folder: &Path) -> Result<Self, Failure> {
        let mut server = Self::new()?;
        server.make_mountpoint()?;
        let words = ["pass".into(), folder.into(), server.mountpoint.clone().into()];
        server.start(&program::this()?, words, None)?;
        Ok(server)
    }

    /// A new volume that no process serves yet.
    pub fn idle(shards: u16) -> Result<Self, Failure> {
        let server = Self::new()?;
        make::format(&Folder::new(&server.volume())?, shards)?;
        Ok(server)
    }

    /// A new volume that a process serves over sockets, and the name by which others connect to it.
    pub fn served(volume: &Volume<'_>) -> Result<(Self, String), Failure> {
        let mut server = Self::idle(volume.shards)?;
        let folder = server.volume();
        let durability = option("--durability", Some(volume.durability));
        let listen = option("--listen", (volume.serve == Serve::Tcp).then_some("127.0.0.1:0"));
        let words =
            ["server".into(), folder.clone().into(), "--shard".into(), OsString::from("all")];
        let said =
            server.start(&pando()?, words, durability.chain(listen).chain(["--json".into()]))?;
        let target = match volume.serve {
            Serve::Tcp => tcp_address(&said)?,
            Serve::Unix | Serve::Up => folder.display().to_string(),
        };
        Ok((server, target))
    }

    /// A new volume with its mount. The kernel of a mount through servers does not remember if
    /// another client changes something all the time. That of any other one does.
    pub fn pando(volume: &Volume<'_>) -> Result<Self, Failure> {
        let threads = option("--threads", volume.threads);
        if volume.serve == Serve::Up {
            let mut server = Self::idle(volume.shards)?;
            server.up(option("--durability", Some(volume.durability)).chain(threads))?;
            server.await_hold()?;
            return Ok(server);
        }
        let (mut server, target) = Self::served(volume)?;
        let mount = server.mountpoint.clone().into();
        let key = ["--key".into(), server.key().into(), "--json".into()];
        if !volume.is_alone {
            server.beside = Some(Beside::start(&Named::parse(&target)?, &server.key())?);
        }
        server.start(&pando()?, ["mount".into(), target.into(), mount], threads.chain(key))?;
        Ok(server)
    }

    /// The key of the volume's owner.
    pub fn key(&self) -> PathBuf {
        self.volume().join("keys/admin.pem")
    }

    /// Starts one process that serves the volume and mounts it.
    pub fn up(&mut self, more: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
        let (volume, mount) = (self.volume().into(), self.mountpoint.clone().into());
        let words = ["up".into(), volume, "--mount".into(), mount, "--json".into()];
        self.start(&pando()?, words, more).map(drop)
    }

    /// Ends the process that was started last, and starts it anew.
    pub fn restart(&mut self) -> Result<(), Failure> {
        let last = self.last.clone();
        let (program, words) = last.ok_or_else(|| Failure::plain("nothing was started"))?;
        drop(self.processes.pop());
        self.start(&program, words, None).map(drop)
    }

    /// Mounts the volume of [`Self::pando`] once more, by a process like that of its mount.
    pub fn another(&mut self) -> Result<PathBuf, Failure> {
        let last = self.last.clone();
        let (program, mut words) = last.ok_or_else(|| Failure::plain("nothing was started"))?;
        let path = self.mountpoint.with_file_name(format!("mount-{}", self.others.len() + 2));
        let mount = words.iter_mut().find(|word| *word == self.mountpoint.as_os_str());
        let mount = mount.ok_or_else(|| Failure::plain("no mount was started last"))?;
        *mount = path.clone().into();
        self.others.push(path.clone());
        let again = self.last.clone();
        let started = self.start(&program, words, None);
        self.last = again;
        started.map(|_| path)
    }

    /// Waits until the mount holds. It then does for the rest of its time.
    pub fn await_hold(&self) -> Result<(), Failure> {
        let failed = |why: &dyn std::fmt::Display| {
            Failure::plain(format!("cannot ask the mount that was started: {why}"))
        };
        let program = pando()?;
        let begun = Instant::now();
        while begun.elapsed() < HOLDS_WITHIN {
            let mut asked = Command::new(&program);
            asked.arg("status").arg(&self.mountpoint).arg("--json");
            let told = asked.output().map_err(|error| failed(&error))?;
            let told: Value =
                serde_json::from_slice(&told.stdout).map_err(|error| failed(&error))?;
            if told["counters"]["holds"] == 1 {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(failed(&"it does not hold"))
    }

    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// The volume's folder.
    pub fn volume(&self) -> PathBuf {
        self.mountpoint.with_file_name("volume")
    }

    /// The process that was started last.
    pub fn pid(&self) -> Option<u32> {
        self.processes.last().map(|process| process.id())
    }

    /// Starts a program with these arguments. Returns what it reports when it is up.
    fn start(
        &mut self,
        program: &Path,
        words: impl IntoIterator<Item = OsString>,
        more: impl IntoIterator<Item = OsString>,
    ) -> Result<Value, Failure> {
        let words: Vec<OsString> = words.into_iter().chain(more).collect();
        let (process, said) = Process::start(program, &words)?;
        self.processes.push(process);
        self.last = Some((program.to_owned(), words));
        Ok(said)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.beside.take());
        while let Some(process) = self.processes.pop() {
            drop(process);
        }
        let is_mounted = |path: &Path| {
            let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            is_mountpoint(&path).unwrap_or(true)
        };
        let mut mounts = self.others.iter().chain([&self.mountpoint]);
        for mount in mounts.clone().filter(|mount| is_mounted(mount)) {
            let _ = unmount(mount, UnmountFlags::DETACH);
        }
        // If a tree is still mounted, the folder must not be removed: that would delete files in
        // the mount.
        if mounts.any(|mount| is_mounted(mount))
            && let Some(folder) = self.folder.take()
        {
            let path = folder.keep();
            eprintln!("pando-bench: {} could not be unmounted and was left behind", path.display());
        }
    }
}

/// The address at which a new server listens for other machines.
fn tcp_address(said: &Value) -> Result<String, Failure> {
    let addresses = said["addresses"].as_array().into_iter().flatten();
    let mut addresses = addresses.filter_map(Value::as_str);
    match addresses.find(|address| !address.starts_with("unix:")) {
        Some(address) => Ok(address.to_owned()),
        None => Err(Failure::plain("the server that was started says no TCP address")),
    }
}
