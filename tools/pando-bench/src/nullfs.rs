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

use pando_fuse::{Mounted, Options};

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
    let default_permissions = behaviour.kernel != Kernel::AsTold;
    let options = &Options { default_permissions, ..options.clone() };
    let filesystem = std::sync::Arc::new(adaptor::NullFs::new(options, behaviour));
    pando_fuse::mount_filesystem(filesystem, mountpoint, options)
}
