//! Mounting: options, checks before it, unmounting. The same for every file system that is served
//! through this crate, so that a null file system measures what Pando's own costs before it does
//! anything.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::device::{self, Config, Counts, FileSystem, MountOptions, Notifier, Running, Unmounter};

/// CPUs for each thread that reads requests, unless something else is said.
const CPUS_PER_READER: usize = 4;
/// Most readers, unless something else is said.
const READERS_MAX: usize = 8;

/// How a mount behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long the kernel may take it for granted that a name leads to a file. Zero: it asks each
    /// time, unless the session is alone on its volume.
    pub entry_timeout: Duration,
    /// The same of attributes.
    pub attr_timeout: Duration,
    /// Threads that read requests at the same time; above 0. One is fastest on few CPUs, since a
    /// wake-up then finds it on the same CPU more often; what waits for a disk or another shard
    /// gets further threads, or none, anyway.
    pub threads: usize,
    /// Gives each reader its own descriptor of `/dev/fuse`, with a queue of its own for what it
    /// works on.
    pub clone_fd: bool,
    /// Whether users other than the one who mounts may enter.
    pub allow_other: bool,
    /// Mounts read-only.
    pub read_only: bool,
    /// Whether setuid and setgid bits of programs count.
    pub suid: bool,
    /// Whether device nodes lead to devices.
    pub dev: bool,
    /// Whether the kernel itself judges who may do what ([`mount`](crate::mount()) always has it
    /// so).
    pub default_permissions: bool,
    /// Source shown in `/proc/mounts`.
    pub source: String,
    /// What is run, with arguments, to have pages dropped by ([`device::drop_pages`]); if empty,
    /// this process does so, and may not end when it is killed meanwhile.
    pub dropper: Vec<OsString>,
}

impl Default for Options {
    fn default() -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            entry_timeout: Duration::ZERO,
            attr_timeout: Duration::ZERO,
            threads: cpus.div_ceil(CPUS_PER_READER).min(READERS_MAX),
            clone_fd: false,
            allow_other: true,
            read_only: false,
            suid: false,
            dev: false,
            default_permissions: false,
            source: "pando".to_owned(),
            dropper: Vec::new(),
        }
    }
}

/// A mounted file system. Dropping it unmounts; if it is in use, whoever waits for it gets
/// `ECONNABORTED`.
#[derive(Debug)]
pub struct Mounted {
    unmounter: Unmounter,
    notifier: Notifier,
    running: Option<Running>,
}

/// Mounts any file system at an existing directory.
pub fn mount_filesystem(
    filesystem: Arc<dyn FileSystem>,
    mountpoint: &Path,
    options: &Options,
) -> io::Result<Mounted> {
    let mountpoint = check_mountpoint(mountpoint)?;
    let mount_options = MountOptions {
        source: options.source.clone(),
        allow_other: options.allow_other,
        read_only: options.read_only,
        suid: options.suid,
        dev: options.dev,
        default_permissions: options.default_permissions,
    };
    let readers = options.threads.max(1);
    let readdir_plus = !options.entry_timeout.is_zero() && !options.attr_timeout.is_zero();
    let file_locks = filesystem.keeps_locks();
    let config = Config { readers, readdir_plus, file_locks, ..Config::default() };
    let (channel, unmounter) = device::mount(&mountpoint, &mount_options)?;
    let begin = || {
        device::shake_hands(&channel, &config)?;
        let mut channels = vec![channel];
        while options.clone_fd && channels.len() < readers {
            channels.push(device::clone_channel(&channels[0])?);
        }
        device::start(channels, filesystem, config)
    };
    match begin() {
        Ok(running) => {
            if !options.dropper.is_empty() {
                running.drop_pages_by(options.dropper.clone());
            }
            Ok(Mounted { unmounter, notifier: running.notifier(), running: Some(running) })
        }
        Err(error) => {
            let _ = unmounter.detach();
            let text = format!("cannot mount at {}: {error}", mountpoint.display());
            Err(io::Error::new(error.kind(), text))
        }
    }
}

impl Mounted {
    /// Where.
    #[must_use]
    pub fn mountpoint(&self) -> &Path {
        self.unmounter.mountpoint()
    }

    /// Number of its device, `MAJOR:MINOR`, as `/proc/*/mountinfo` has it.
    #[must_use]
    pub fn device(&self) -> &[u8] {
        self.unmounter.device()
    }

    /// For what the kernel should know; never to be used within a request.
    #[must_use]
    pub fn notifier(&self) -> Notifier {
        self.notifier.clone()
    }

    /// Unmounts, if nobody uses it: else `EBUSY`, and all goes on. May be called from any thread,
    /// while another waits.
    pub fn request_unmount(&self) -> io::Result<()> {
        if self.is_over() { Ok(()) } else { self.unmounter.unmount() }
    }

    /// Unmounts and waits until the last request is answered. `EBUSY` if it is in use; it then
    /// stays mounted.
    pub fn unmount(mut self) -> Result<(), (io::Error, Self)> {
        if let Err(error) = self.request_unmount() {
            return Err((error, self));
        }
        self.join().map_err(|error| (error, self))
    }

    /// Detaches the mount from the tree at once; who uses it may go on until they are done.
    pub fn detach(&self) -> io::Result<()> {
        if self.is_over() { Ok(()) } else { self.unmounter.detach() }
    }

    /// Waits until someone unmounts it.
    pub fn wait(mut self) -> io::Result<()> {
        self.join()
    }

    /// Requests read from the kernel so far, for each kind with any; and what the file system
    /// itself counts.
    #[must_use]
    pub fn counters(&self) -> (Counts, Counts) {
        self.running.as_ref().map(Running::counters).unwrap_or_default()
    }

    /// Whether the session is over, because someone unmounted it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.running.as_ref().is_none_or(Running::is_over)
    }

    fn join(&mut self) -> io::Result<()> {
        self.running.take().map_or(Ok(()), Running::join)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.running.is_none() {
            return;
        }
        // One that could not be ended goes on until its users are done.
        if (self.request_unmount().is_ok() || self.unmounter.abort())
            && let Err(error) = self.join()
        {
            eprintln!("pando: {}: {error}", self.mountpoint().display());
        }
    }
}

fn check_mountpoint(path: &Path) -> io::Result<PathBuf> {
    let say = |kind, text: String| Err(io::Error::new(kind, text));
    let shown = path.display();
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return say(error.kind(), format!("{shown} does not exist: make the directory first"));
        }
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOTCONN.raw_os_error()) => {
            return say(
                io::ErrorKind::ResourceBusy,
                format!("{shown} is held by a mount whose process is gone: `umount {shown}` first"),
            );
        }
        Err(error) => return say(error.kind(), format!("cannot look at {shown}: {error}")),
    };
    if !metadata.is_dir() {
        return say(io::ErrorKind::NotADirectory, format!("{shown} is not a directory"));
    }
    let path = path.canonicalize()?;
    if is_mountpoint(&path)? {
        return say(
            io::ErrorKind::ResourceBusy,
            format!("something is mounted at {} already", path.display()),
        );
    }
    Ok(path)
}

/// Whether `path`, absolute and free of links, is the root of some mount, by the kernel's own list.
pub fn is_mountpoint(path: &Path) -> io::Result<bool> {
    device::is_listed(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_a_mountpoint_and_a_missing_one_is_named() {
        assert!(is_mountpoint(Path::new("/")).unwrap());
        let error = check_mountpoint(Path::new("/no/such/directory")).unwrap_err();
        assert!(error.to_string().contains("/no/such/directory"), "{error}");
        let error = check_mountpoint(Path::new("/")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    }
}
