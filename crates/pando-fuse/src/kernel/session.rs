//! Mounting: options, negotiation with the kernel, threads, unmounting. The same for every file system that is served
//! through this crate, so that a null file system measures what Pando's own costs before it does anything.
//!
//! What is negotiated, and why:
//! - `PARALLEL_DIROPS`: lookups and listings of one directory need not wait for each other;
//! - `ATOMIC_O_TRUNC`: `open(O_TRUNC)` is one request, so that truncation is part of the open;
//! - `DO_READDIRPLUS` with `READDIRPLUS_AUTO`: attributes ride on a listing when the kernel guesses they are wanted; only
//!   with timeouts above zero, since without them the kernel would ask for each attribute again;
//! - `HANDLE_KILLPRIV_V2`: setuid and setgid are taken off by us on write, truncation and change of owner. Left to the
//!   kernel, it would ask for an extended attribute before each write, and change the mode in the name of the writer, who
//!   need not be the owner;
//! - not `WRITEBACK_CACHE`: a write reaches us at once, so that size and times are ours;
//! - not `POSIX_LOCKS`, `FLOCK_LOCKS`: the kernel keeps locks within one mount.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;

use fuser::{Config, Filesystem, InitFlags, KernelConfig, MountOption, SessionACL};

/// Largest `write` request, bytes.
pub const WRITE_SIZE_MAX: u32 = 1 << 20;
/// Requests the kernel may have under way in the background (readahead, releases).
const BACKGROUND_MAX: u16 = 256;

/// How a mount behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long the kernel may take a name for granted. Zero: it asks each time.
    pub entry_timeout: Duration,
    /// How long the kernel may take attributes for granted. Zero: it asks each time.
    pub attr_timeout: Duration,
    /// Threads that answer requests; above 0. One is fastest for one program at a time (a wake-up finds it on the same
    /// CPU more often); with more, requests that wait for something do not hold up others.
    pub threads: usize,
    /// Gives each thread its own descriptor of `/dev/fuse`, with a queue of its own for what it works on.
    pub clone_fd: bool,
    /// Whether users other than the one who mounts may enter.
    pub allow_other: bool,
    /// Mounts read-only.
    pub read_only: bool,
    /// Source shown in `/proc/mounts`.
    pub source: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            entry_timeout: Duration::ZERO,
            attr_timeout: Duration::ZERO,
            threads: std::thread::available_parallelism().map_or(3, |n| (n.get() + 1).clamp(3, 8)),
            clone_fd: false,
            allow_other: true,
            read_only: false,
            source: "pando".to_owned(),
        }
    }
}

/// Asks the kernel for what this crate relies on. To be called from `init` of every file system.
pub fn negotiate(config: &mut KernelConfig, options: &Options) {
    let mut wanted = vec![
        InitFlags::FUSE_PARALLEL_DIROPS,
        InitFlags::FUSE_ATOMIC_O_TRUNC,
        InitFlags::FUSE_ASYNC_DIO,
        InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    ];
    if !options.entry_timeout.is_zero() && !options.attr_timeout.is_zero() {
        wanted.extend([InitFlags::FUSE_DO_READDIRPLUS, InitFlags::FUSE_READDIRPLUS_AUTO]);
    }
    for flag in wanted {
        // A kernel that lacks one does without it.
        let _ = config.add_capabilities(flag);
    }
    let _ = config.set_max_write(WRITE_SIZE_MAX);
    let _ = config.set_max_background(BACKGROUND_MAX);
}

/// A mounted file system. Dropping it unmounts.
pub struct Mounted {
    mountpoint: PathBuf,
    unmounter: Mutex<fuser::SessionUnmounter>,
    notifier: fuser::Notifier,
    session: Option<JoinHandle<io::Result<()>>>,
}

/// Mounts any file system of the FUSE library at an existing directory.
pub fn mount_filesystem<F: Filesystem>(
    filesystem: F,
    mountpoint: &Path,
    options: &Options,
) -> io::Result<Mounted> {
    let mountpoint = check_mountpoint(mountpoint)?;
    check_device()?;
    let mut session = fuser::Session::new(filesystem, &mountpoint, &configuration(options))
        .map_err(|error| explain(&error, &mountpoint))?;
    let unmounter = Mutex::new(session.unmount_callable());
    let notifier = session.notifier();
    let session =
        std::thread::Builder::new().name("pando-mount".to_owned()).spawn(move || session.run())?;
    Ok(Mounted { mountpoint, unmounter, notifier, session: Some(session) })
}

impl Mounted {
    /// Where.
    #[must_use]
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// Sends invalidations to the kernel; never to be used within a request about the same thing.
    #[must_use]
    pub fn notifier(&self) -> fuser::Notifier {
        self.notifier.clone()
    }

    /// Unmounts, if nobody uses it: else `EBUSY`, and all goes on. May be called from any thread, while another waits.
    pub fn request_unmount(&self) -> io::Result<()> {
        match rustix::mount::unmount(&self.mountpoint, rustix::mount::UnmountFlags::NOFOLLOW) {
            Ok(()) => Ok(()),
            // Someone else has unmounted it already.
            Err(rustix::io::Errno::INVAL) => Ok(()),
            Err(rustix::io::Errno::PERM) => {
                self.unmounter.lock().unwrap_or_else(std::sync::PoisonError::into_inner).unmount()
            }
            Err(errno) => Err(io::Error::new(
                io::Error::from(errno).kind(),
                format!("cannot unmount {}: {errno}", self.mountpoint.display()),
            )),
        }
    }

    /// Unmounts and waits until the last request is answered. `EBUSY` if it is in use; it then stays mounted.
    pub fn unmount(mut self) -> Result<(), (io::Error, Self)> {
        if let Err(error) = self.request_unmount() {
            return Err((error, self));
        }
        self.join().map_err(|error| (error, self))
    }

    /// Detaches the mount from the tree at once; who uses it may go on until they are done.
    pub fn detach(&self) -> io::Result<()> {
        let flags =
            rustix::mount::UnmountFlags::DETACH.union(rustix::mount::UnmountFlags::NOFOLLOW);
        match rustix::mount::unmount(&self.mountpoint, flags) {
            Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Waits until someone unmounts it.
    pub fn wait(mut self) -> io::Result<()> {
        self.join()
    }

    /// Whether the session is over, because someone unmounted it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.session.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn join(&mut self) -> io::Result<()> {
        match self.session.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(io::Error::other("a thread that answers the kernel panicked")),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.session.is_none() {
            return;
        }
        if self.request_unmount().is_ok() {
            let _ = self.join();
        } else {
            let _ = self.detach();
        }
    }
}

fn configuration(options: &Options) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(options.source.clone()),
        // The direct mount passes only custom options on.
        MountOption::CUSTOM("subtype=pando".to_owned()),
        MountOption::NoAtime,
        MountOption::Dev,
        MountOption::Suid,
    ];
    if options.read_only {
        config.mount_options.push(MountOption::RO);
    }
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(options.threads.max(1));
    config.clone_fd = options.clone_fd;
    config
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
    use std::os::unix::ffi::OsStrExt;
    let list = std::fs::read("/proc/self/mountinfo")?;
    let wanted = path.as_os_str().as_bytes();
    Ok(list
        .split(|&byte| byte == b'\n')
        .filter_map(|line| line.split(|&byte| byte == b' ').nth(4))
        .any(|field| unescape(field) == wanted))
}

/// Undoes the octal escapes of `/proc` (`\040` for a space).
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let code = tail.get(..3).filter(|_| byte == b'\\').and_then(|digits| {
            digits.iter().try_fold(0u32, |sum, digit| {
                (b'0'..=b'7').contains(digit).then(|| sum * 8 + u32::from(digit - b'0'))
            })
        });
        match code.and_then(|code| u8::try_from(code).ok()) {
            Some(code) => {
                bytes.push(code);
                rest = &tail[3..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    bytes
}

fn check_device() -> io::Result<()> {
    let result = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let Err(error) = result else { return Ok(()) };
    let text = match error.kind() {
        io::ErrorKind::NotFound => {
            "/dev/fuse is missing: load the module (`modprobe fuse`), or give the container the device".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "/dev/fuse may not be opened by this user or within this container".to_owned()
        }
        _ => format!("cannot open /dev/fuse: {error}"),
    };
    Err(io::Error::new(error.kind(), text))
}

fn explain(error: &io::Error, mountpoint: &Path) -> io::Error {
    let shown = mountpoint.display();
    if error.kind() == io::ErrorKind::NotFound && !rustix::process::geteuid().is_root() {
        return io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("cannot mount at {shown}: not root, and fusermount3 is not installed"),
        );
    }
    if error.kind() == io::ErrorKind::NotFound {
        return io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "cannot mount at {shown}: the kernel does not permit it here (CAP_SYS_ADMIN is needed)"
            ),
        );
    }
    io::Error::new(error.kind(), format!("cannot mount at {shown}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octal_escapes_of_proc_are_undone() {
        for (field, expected) in [
            (&b"/a"[..], &b"/a"[..]),
            (br"/a\040b", b"/a b"),
            (br"/a\134b\011", b"/a\\b\t"),
            (br"/a\0", br"/a\0"),
        ] {
            assert_eq!(unescape(field), expected);
        }
    }

    #[test]
    fn the_root_is_a_mountpoint_and_a_missing_one_is_named() {
        assert!(is_mountpoint(Path::new("/")).unwrap());
        let error = check_mountpoint(Path::new("/no/such/directory")).unwrap_err();
        assert!(error.to_string().contains("/no/such/directory"), "{error}");
        let error = check_mountpoint(Path::new("/")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    }
}
