//! Mounting: options, checks, unmounting. It serves any [`FileSystem`] of this crate. So a null
//! file system measures the costs of this layer alone.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::device::{self, Config, Counts, FileSystem, MountOptions, Notifier, Running, Unmounter};

/// Default number of CPUs for each thread that reads requests.
const CPUS_PER_READER: usize = 4;
/// Largest default number of threads that read requests.
const READERS_MAX: usize = 8;

/// Options of a mount.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long the kernel may remember which file a name leads to. With zero it asks each time,
    /// unless the session is alone on its volume.
    pub entry_timeout: Duration,
    /// How long the kernel may remember attributes. With zero it asks each time, unless the session
    /// is alone on its volume.
    pub attr_timeout: Duration,
    /// Number of threads that read requests concurrently, at least 1. One is fastest on few CPUs: a
    /// wake-up then finds it on the caller's CPU more often. Requests that wait for a disk get
    /// further threads anyway; those that wait for another shard need none.
    pub threads: usize,
    /// Whether each reader has its own descriptor of `/dev/fuse`, with its own queue of pending
    /// requests.
    pub clone_fd: bool,
    /// Whether users other than the mounting one may enter.
    pub allow_other: bool,
    /// Whether the mount is read-only.
    pub read_only: bool,
    /// Whether setuid and setgid bits of programs take effect.
    pub suid: bool,
    /// Whether device nodes lead to devices.
    pub dev: bool,
    /// Whether the kernel judges permissions itself. [`mount`](crate::mount()) always sets this.
    pub default_permissions: bool,
    /// Source shown in `/proc/mounts`.
    pub source: String,
    /// Command of a process that drops pages; it calls [`device::drop_pages`]. If empty, this
    /// process drops them itself, and may not end if it is killed meanwhile.
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

/// A mounted file system. Dropping it unmounts it. If it is in use, it is aborted: its callers get
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
    /// Path of the mount point.
    #[must_use]
    pub fn mountpoint(&self) -> &Path {
        self.unmounter.mountpoint()
    }

    /// Number of the mount's device, `MAJOR:MINOR`, as `/proc/*/mountinfo` shows it.
    #[must_use]
    pub fn device(&self) -> &[u8] {
        self.unmounter.device()
    }

    /// A sender of notifications to the kernel. Never use it within a request.
    #[must_use]
    pub fn notifier(&self) -> Notifier {
        self.notifier.clone()
    }

    /// Unmounts. Fails with `EBUSY` if the mount is in use; then it goes on. Any thread may call
    /// this while another waits.
    pub fn request_unmount(&self) -> io::Result<()> {
        if self.is_over() { Ok(()) } else { self.unmounter.unmount() }
    }

    /// Unmounts, and waits until the last request is answered. Fails with `EBUSY` if the mount is
    /// in use; then it stays mounted.
    pub fn unmount(mut self) -> Result<(), (io::Error, Self)> {
        if let Err(error) = self.request_unmount() {
            return Err((error, self));
        }
        self.join().map_err(|error| (error, self))
    }

    /// Detaches the mount from the tree at once. Programs that use it may go on.
    pub fn detach(&self) -> io::Result<()> {
        if self.is_over() { Ok(()) } else { self.unmounter.detach() }
    }

    /// Waits until the mount is unmounted.
    pub fn wait(mut self) -> io::Result<()> {
        self.join()
    }

    /// Number of requests read so far, for each kind that occurred. The second list is the file
    /// system's own counters.
    #[must_use]
    pub fn counters(&self) -> (Counts, Counts) {
        self.running.as_ref().map(Running::counters).unwrap_or_default()
    }

    /// Whether the session is over because the mount was unmounted.
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
        // A mount that cannot be ended goes on until the programs that use it are done.
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

/// Whether `path`, absolute and free of links, is a mount point in the kernel's own list.
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
