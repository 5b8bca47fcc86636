//! Mounts to be measured, each served by a process of its own in a temporary folder; whatever happens, nothing of it stays.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pando_fuse::kernel::session::is_mountpoint;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::failure::Failure;

/// How long a server has to end in order.
const END_FOR: Duration = Duration::from_secs(15);

/// A file system that is served and mounted. Dropping it unmounts, ends the process, and removes its folder.
pub struct Server {
    process: Child,
    mountpoint: PathBuf,
    folder: Option<TempDir>,
}

impl Server {
    /// The null file system.
    pub fn null(threads: Option<u16>) -> Result<Self, Failure> {
        let folder = folder()?;
        let mountpoint = folder.path().join("mount");
        std::fs::create_dir(&mountpoint).map_err(|error| {
            Failure::plain(format!("cannot make {}: {error}", mountpoint.display()))
        })?;
        let mut words = vec!["bench".into(), "null".into(), mountpoint.clone().into_os_string()];
        words.extend(option("--threads", threads));
        Self::start(&words, mountpoint, folder)
    }

    /// A new volume with its mount.
    pub fn pando(shards: u16, durability: &str, threads: Option<u16>) -> Result<Self, Failure> {
        let folder = folder()?;
        let mountpoint = folder.path().join("mount");
        let mut words = vec!["up".into(), folder.path().join("volume").into_os_string()];
        words.extend(["--mount".into(), mountpoint.clone().into_os_string(), "--json".into()]);
        words.extend(option("--shards", Some(shards)));
        words.extend(option("--durability", Some(durability)));
        words.extend(option("--threads", threads));
        Self::start(&words, mountpoint, folder)
    }

    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// Starts this program with `words`; it is up when it says its first line.
    fn start(
        words: &[std::ffi::OsString],
        mountpoint: PathBuf,
        folder: TempDir,
    ) -> Result<Self, Failure> {
        let failed =
            |error: std::io::Error| Failure::plain(format!("cannot start a server: {error}"));
        let process = Command::new(std::env::current_exe().map_err(failed)?)
            .args(["bench", "leashed", "--"])
            .args(words)
            // Ctrl-C is for us, who will end it when nobody works on its mount any more.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let mut server = Self { process, mountpoint, folder: Some(folder) };
        let stdout = server.process.stdout.take().expect("was asked for");
        let stderr = server.process.stderr.take().expect("was asked for");
        let complaints = std::thread::Builder::new()
            .name("bench-complaints".to_owned())
            .spawn(move || BufReader::new(stderr).lines().map_while(Result::ok).collect::<Vec<_>>())
            .map_err(failed)?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).map_err(failed)?;
        if line.is_empty() || line.contains("\"error\"") {
            let _ = server.process.wait();
            let why = complaints.join().unwrap_or_default().join("\n");
            return Err(Failure::plain(format!("cannot start a server: {why}")));
        }
        Ok(server)
    }

    fn end(&mut self) {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        let begun = Instant::now();
        let is_running = |process: &mut Child| matches!(process.try_wait(), Ok(None));
        if let Some(pid) = pid.filter(|_| is_running(&mut self.process)) {
            let _ = kill_process(pid, Signal::TERM);
        }
        while is_running(&mut self.process) && begun.elapsed() < END_FOR {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
        if is_mountpoint(&self.mountpoint).unwrap_or(true) {
            let _ = unmount(&self.mountpoint, UnmountFlags::DETACH);
        }
        // What is still mounted must not be walked into, to be removed.
        if is_mountpoint(&self.mountpoint).unwrap_or(true)
            && let Some(folder) = self.folder.take()
        {
            let path = folder.keep();
            eprintln!("pando: {} could not be unmounted and was left behind", path.display());
        }
    }
}

fn folder() -> Result<TempDir, Failure> {
    let failed = |error| Failure::plain(format!("cannot make a temporary folder: {error}"));
    let folder = TempDir::with_prefix("pando-bench-").map_err(failed)?;
    Ok(folder)
}

fn option(name: &str, value: Option<impl ToString>) -> impl Iterator<Item = std::ffi::OsString> {
    value.into_iter().flat_map(move |value| [name.into(), value.to_string().into()])
}
