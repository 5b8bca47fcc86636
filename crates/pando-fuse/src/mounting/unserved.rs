//! A mount that this process does not serve yet: it was just made, or another process has served
//! it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use crate::device::handshake::shake_hands_with;
use crate::device::rings::Rings;
use crate::device::session::Config;
use crate::mounting::helper::{failed, installed_helper};
use crate::mounting::mount::mount;
use crate::mounting::mount_options::MountOptions;
use crate::mounting::mountpoint::check_mountpoint;
use crate::mounting::options::Options;
use crate::mounting::unmount::Unmounter;
use crate::protocol::channel::clone_channel;
use crate::protocol::connection::open_abort;

/// The channels of a mount for which INIT is agreed on, and what unmounts it. Dropping this leaves
/// the mount in the tree.
#[derive(Debug)]
pub struct Unserved {
    pub(crate) unmounter: Unmounter,
    pub(crate) channels: Vec<OwnedFd>,
    pub(crate) rings: Option<Rings>,
}

/// What a session is told of the options.
pub(crate) fn config(options: &Options, file_locks: bool) -> Config {
    let readdir_plus = !options.entry_timeout.is_zero() && !options.attr_timeout.is_zero();
    Config { readers: options.threads.max(1), readdir_plus, file_locks, ..Config::default() }
}

impl Unserved {
    /// Mounts at an existing directory, and agrees with the kernel on version and flags.
    /// `file_locks` is whether the file system keeps locks.
    pub fn mount(mountpoint: &Path, options: &Options, file_locks: bool) -> io::Result<Self> {
        let mountpoint = check_mountpoint(mountpoint)?;
        let mount_options = MountOptions {
            source: options.source.clone(),
            allow_other: options.allow_other,
            read_only: options.read_only,
            suid: options.suid,
            dev: options.dev,
            exec: options.exec,
            default_permissions: options.default_permissions,
        };
        let config = config(options, file_locks);
        let (channel, unmounter) = mount(&mountpoint, &mount_options)?;
        let begin = || {
            // A mount that is killed while it drops pages must be ended by another process.
            let can_end = options.dropper.is_empty() || open_abort(unmounter.number()).is_ok();
            let may_have = options.rings && !options.is_kept && can_end;
            let rings = may_have.then(Rings::new).and_then(Result::ok);
            let rings = shake_hands_with(&channel, rings, &config)?;
            let mut channels = vec![channel];
            while options.clone_fd && channels.len() < config.readers {
                channels.push(clone_channel(&channels[0])?);
            }
            Ok((channels, rings))
        };
        match begin() {
            Ok((channels, rings)) => Ok(Self { unmounter, channels, rings }),
            Err(error) => {
                let error: io::Error = error;
                let _ = unmounter.detach();
                Err(failed(&mountpoint, error.kind(), &error))
            }
        }
    }

    /// A mount that another process has served. `mountpoint` is where that one has mounted: an
    /// absolute path, free of links. It is not looked at, since nothing in it is answered yet.
    /// `number` is that of [`Self::number`].
    #[must_use]
    pub fn taken_over(mountpoint: &Path, channels: Vec<OwnedFd>, number: u64) -> Self {
        let unmounter = Unmounter {
            mountpoint: mountpoint.to_owned(),
            device: format!("0:{number}").into_bytes(),
            helper: installed_helper(),
        };
        Self { unmounter, channels, rings: None }
    }

    /// The channels, the first one first.
    #[must_use]
    pub fn channels(&self) -> &[OwnedFd] {
        &self.channels
    }

    /// Number of the mount below `/sys/fs/fuse/connections`: the minor number of its device, whose
    /// major number is 0.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.unmounter.number()
    }

    /// Path of the mount point, absolute and free of links.
    #[must_use]
    pub fn mountpoint(&self) -> &Path {
        self.unmounter.mountpoint()
    }

    /// Replaces each channel by a clone that only this process has. When it dies, the kernel ends
    /// what was read from them with `ECONNABORTED`.
    pub fn by_clones(self) -> io::Result<Self> {
        let clone = |_| clone_channel(&self.channels[0]);
        let channels = self.channels.iter().map(clone).collect::<Result<_, _>>()?;
        Ok(Self { channels, ..self })
    }

    /// Detaches the mount from the tree, if it cannot be served.
    pub fn detach(&self) -> io::Result<()> {
        self.unmounter.detach()
    }
}
