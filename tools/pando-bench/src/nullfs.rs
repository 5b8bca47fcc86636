//! A file system that only keeps names and attributes. It is the floor for everything that is
//! served through FUSE.
//!
//! Names and attributes are in hash maps behind one lock. Of file data it keeps only the size.
//! There are symbolic links, but no hard links, renames, extended attributes or permissions.

mod adaptor;
mod attributes;
mod tree;

use std::io;
use std::path::Path;
use std::sync::Arc;

use pando_fuse::{Mounted, Options, Unserved};
use pando_keeper::{Kept, Mode, mode_here};

use adaptor::NullFs;

/// What the kernel may remember, and which side checks permissions.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Kernel {
    /// The kernel remembers what the mount's options allow. Permissions are not checked.
    #[default]
    AsTold,
    /// As on a Pando mount beside other clients: the kernel checks permissions, by attributes that
    /// it fetches anew.
    Several,
    /// As on a Pando mount that is alone on its volume: the kernel checks permissions, and
    /// remembers names and attributes.
    Alone,
}

/// Variants of the null file system.
#[derive(Clone, Copy, Default, Debug)]
pub struct Behaviour {
    /// The kernel is told at open that `close` needs no FLUSH.
    pub no_flush: bool,
    /// What the kernel may remember.
    pub kernel: Kernel,
}

/// Mounts an empty null file system.
pub fn mount(mountpoint: &Path, options: &Options, behaviour: Behaviour) -> io::Result<Mounted> {
    let options = &judged(options, behaviour);
    let filesystem = Arc::new(NullFs::new(options, behaviour, 0));
    pando_fuse::mount_filesystem(filesystem, mountpoint, options)
}

/// Mounts an empty null file system whose channels a keeper holds, or goes on with the mount of a
/// process that died. A successor's tree is empty: it has forgotten all nodes but the root.
/// `mountpoint` is an absolute path, free of links.
pub fn mount_kept(
    kept: &Kept,
    mountpoint: &Path,
    options: &Options,
    behaviour: Behaviour,
) -> io::Result<Mounted> {
    let options = &Options { is_kept: true, ..judged(options, behaviour) };
    let filesystem = Arc::new(NullFs::new(options, behaviour, kept.generation()));
    let (unserved, mode) = if kept.generation() > 0 {
        let taken = kept.take_over()?;
        (Unserved::taken_over(mountpoint, taken.channels, taken.number), taken.mode)
    } else {
        let mode = mode_here();
        let unserved = Unserved::mount(mountpoint, options, false)?;
        if let Err(error) = kept.keep(unserved.channels(), unserved.number(), mode) {
            let _ = unserved.detach();
            return Err(error);
        }
        (unserved, mode)
    };
    let unserved = match mode {
        Mode::Resend => unserved,
        Mode::Clones => unserved.by_clones()?,
    };
    pando_fuse::serve(unserved, filesystem, options)
}

fn judged(options: &Options, behaviour: Behaviour) -> Options {
    Options { default_permissions: behaviour.kernel != Kernel::AsTold, ..options.clone() }
}
