//! Mounts to be measured. Each is served by processes of its own, in a temporary folder. All of it
//! is removed at the end, also after a failure.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pando_fuse::is_mountpoint;
use pando_server::Folder;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::args::Serve;
use crate::failure::Failure;

/// Time that a process has to end in order.
const END_FOR: Duration = Duration::from_secs(15);

/// A file system that is served and mounted. Dropping it unmounts it, ends its processes, and
/// removes its folder.
pub struct Server {
    /// In the order of their start.
    processes: Vec<Process>,
    mountpoint: PathBuf,
    folder: Option<TempDir>,
}

/// A new mount that is not alone on its volume by then will never be.
const ALONE_WITHIN: Duration = Duration::from_secs(20);

/// How a volume is served.
pub struct Volume<'a> {
    pub serve: Serve,
    pub shards: u16,
    pub durability: &'a str,
    pub threads: Option<u16>,
}

impl Server {
    fn new() -> Result<Self, Failure> {
        let folder = TempDir::with_prefix("pando-bench-")
            .map_err(|error| Failure::plain(format!("cannot make a temporary folder: {error}")))?;
        let mountpoint = folder.path().join("mount");
        Ok(Self { processes: Vec::new(), mountpoint, folder: Some(folder) })
    }

    /// Mounts the null file system. Its kernel may remember what the kernel of a Pando mount may
    /// remember, if that is served as `serve` says.
    pub fn null(serve: Serve, threads: Option<u16>) -> Result<Self, Failure> {
        let mut server = Self::new()?;
        let mountpoint = &server.mountpoint;
        std::fs::create_dir(mountpoint).map_err(|error| {
            Failure::plain(format!("cannot make {}: {error}", mountpoint.display()))
        })?;
        let kernel = if serve == Serve::Up { "alone" } else { "several" };
        let words = ["bench".into(), "null".into(), server.mountpoint.clone().into()];
        let more = option("--kernel", Some(kernel)).chain(option("--threads", threads));
        server.start(words, more)?;
        Ok(server)
    }

    /// A new volume that no process serves yet.
    pub fn idle(shards: u16) -> Result<Self, Failure> {
        let server = Self::new()?;
        crate::volume::format::format(&Folder::new(&server.volume())?, shards)?;
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
        let said = server.start(words, durability.chain(listen).chain(["--json".into()]))?;
        let target = match volume.serve {
            Serve::Tcp => tcp_address(&said)?,
            Serve::Unix | Serve::Up => folder.display().to_string(),
        };
        Ok((server, target))
    }

    /// A new volume with its mount.
    pub fn pando(volume: &Volume<'_>) -> Result<Self, Failure> {
        let threads = option("--threads", volume.threads);
        if volume.serve == Serve::Up {
            let mut server = Self::idle(volume.shards)?;
            server.up(option("--durability", Some(volume.durability)).chain(threads))?;
            server.await_alone()?;
            return Ok(server);
        }
        let (mut server, target) = Self::served(volume)?;
        let mount = server.mountpoint.clone().into();
        let key = ["--key".into(), server.key().into(), "--json".into()];
        server.start(["mount".into(), target.into(), mount], threads.chain(key))?;
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
        self.start(words, more).map(drop)
    }

    /// Waits until the mount is alone on its volume. It then stays alone for the rest of its time.
    fn await_alone(&self) -> Result<(), Failure> {
        let failed = |why: &dyn std::fmt::Display| {
            Failure::plain(format!("cannot ask the mount that was started: {why}"))
        };
        let program = std::env::current_exe().map_err(|error| failed(&error))?;
        let begun = Instant::now();
        while begun.elapsed() < ALONE_WITHIN {
            let mut asked = Command::new(&program);
            asked.arg("status").arg(&self.mountpoint).arg("--json");
            let told = asked.output().map_err(|error| failed(&error))?;
            let told: Value =
                serde_json::from_slice(&told.stdout).map_err(|error| failed(&error))?;
            if told["counters"]["alone"] == 1 {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(failed(&"it is not alone on its volume"))
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
        self.processes.last().map(|process| process.0.id())
    }

    /// Starts this program with these arguments. Returns what it reports when it is up.
    fn start(
        &mut self,
        words: impl IntoIterator<Item = OsString>,
        more: impl IntoIterator<Item = OsString>,
    ) -> Result<Value, Failure> {
        let words: Vec<OsString> = words.into_iter().chain(more).collect();
        let (process, said) = Process::start(&words)?;
        self.processes.push(process);
        Ok(said)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        while let Some(process) = self.processes.pop() {
            drop(process);
        }
        let is_mounted = |path: &Path| {
            let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            is_mountpoint(&path).unwrap_or(true)
        };
        if is_mounted(&self.mountpoint) {
            let _ = unmount(&self.mountpoint, UnmountFlags::DETACH);
        }
        // If the tree is still mounted, the folder must not be removed: that would delete files in
        // the mount.
        if is_mounted(&self.mountpoint)
            && let Some(folder) = self.folder.take()
        {
            let path = folder.keep();
            eprintln!("pando: {} could not be unmounted and was left behind", path.display());
        }
    }
}

/// A process that ends with this one. Dropping it ends the process.
pub struct Process(Child);

impl Process {
    /// Starts this program with `words`. It is up when it prints its first line.
    pub fn start(words: &[OsString]) -> Result<(Self, Value), Failure> {
        let failed =
            |error: std::io::Error| Failure::plain(format!("cannot start a server: {error}"));
        let child = Command::new(std::env::current_exe().map_err(failed)?)
            .args(["bench", "leashed", "--"])
            .args(words)
            // Ctrl-C reaches only this process, which ends the server once no worker uses its mount
            // any more.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let mut process = Self(child);
        let stdout = process.0.stdout.take().expect("was asked for");
        let stderr = process.0.stderr.take().expect("was asked for");
        // A thread reads standard error to its end, so that the process never blocks on a full
        // pipe.
        let complaints = std::thread::Builder::new()
            .name("bench-complaints".to_owned())
            .spawn(move || BufReader::new(stderr).lines().map_while(Result::ok).collect::<Vec<_>>())
            .map_err(failed)?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).map_err(failed)?;
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        if said.is_object() && said.get("error").is_none() {
            return Ok((process, said));
        }
        drop(process);
        let why = complaints.join().unwrap_or_default().join("\n");
        Err(Failure::plain(format!("cannot start a server: {why}")))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let begun = Instant::now();
        let is_running = |child: &mut Child| matches!(child.try_wait(), Ok(None));
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| is_running(&mut self.0)) {
            let _ = kill_process(pid, Signal::TERM);
        }
        while is_running(&mut self.0) && begun.elapsed() < END_FOR {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
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

/// An option with its value as arguments, or nothing if there is no value.
pub fn option<T: ToString>(
    name: &'static str,
    value: Option<T>,
) -> impl Iterator<Item = OsString> + use<T> {
    value.into_iter().flat_map(move |value| [name.into(), value.to_string().into()])
}
