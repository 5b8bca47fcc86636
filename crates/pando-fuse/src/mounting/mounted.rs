//! A mounted file system, from the mount to the unmount. It serves any [`FileSystem`] of this
//! crate. So a null file system measures the costs of this layer alone.

use std::io;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::device::counting::counted::Measured;
use crate::device::counting::profile::Profiled;
use crate::device::notify::Notifier;
use crate::device::running::{Running, start_with};
use crate::device::session::{Counts, FileSystem};
use crate::mounting::helper::failed;
use crate::mounting::options::Options;
use crate::mounting::unmount::Unmounter;
use crate::mounting::unserved::{Unserved, config};

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
    serve(Unserved::mount(mountpoint, options, filesystem.keeps_locks())?, filesystem, options)
}

/// Begins to serve a mount, by a file system that keeps locks if the one of the beginning did. If
/// that fails, the mount is detached, unless it is [kept](Options::is_kept).
pub fn serve(
    unserved: Unserved,
    filesystem: Arc<dyn FileSystem>,
    options: &Options,
) -> io::Result<Mounted> {
    let config = config(options, filesystem.keeps_locks());
    let Unserved { unmounter, channels, rings } = unserved;
    match start_with(channels, rings, filesystem, config) {
        Ok(running) => {
            if !options.dropper.is_empty() {
                let number = unmounter.number();
                running.drop_pages_by(options.dropper.clone(), options.is_kept, number);
            }
            Ok(Mounted { unmounter, notifier: running.notifier(), running: Some(running) })
        }
        Err(error) => {
            if !options.is_kept {
                let _ = unmounter.detach();
            }
            Err(failed(unmounter.mountpoint(), error.kind(), &error))
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

    /// What was measured so far. `None` if the session is over.
    #[must_use]
    pub fn measured(&self) -> Option<Measured> {
        self.running.as_ref().map(Running::measured)
    }

    /// Begins to count requests by caller, until [`Self::end_profile`] with the same number, for
    /// `limit` at most. One profile runs at a time: the error is the time that another has left.
    pub fn begin_profile(&self, number: u64, limit: Duration) -> Result<(), Duration> {
        self.running.as_ref().map_or(Ok(()), |running| running.begin_profile(number, limit))
    }

    /// Ends the profile of this number. `None`: there is none.
    #[must_use]
    pub fn end_profile(&self, number: u64) -> Option<Profiled> {
        self.running.as_ref()?.end_profile(number)
    }

    /// Whether requests come by rings of io_uring. Otherwise they come by `/dev/fuse`.
    #[must_use]
    pub fn has_rings(&self) -> bool {
        self.running.as_ref().is_some_and(Running::has_rings)
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
            let place = self.mountpoint().display();
            // The disk with the log may be full.
            let _ = writeln!(std::io::stderr(), "pando: {place}: {error}");
        }
    }
}
