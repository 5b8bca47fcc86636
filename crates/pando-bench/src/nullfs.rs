//! A file system that does nothing but remember: the floor under everything served through FUSE.
//!
//! Names and attributes are in hash maps behind one lock. File data is accepted and forgotten (only
//! the size is kept); there are no links, renames, attributes of users or permissions.

mod adaptor;
mod tree;

use std::io;
use std::path::Path;

use pando_fuse::{Mounted, Options};

/// What the kernel may remember, and who judges callers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Kernel {
    /// As the mount's options say; nobody judges.
    #[default]
    AsTold,
    /// What a mount of Pando that is one of several has: the kernel judges by attributes that are
    /// new.
    Several,
    /// What a mount of Pando that is alone on its volume has: the kernel judges, and remembers
    /// names and attributes.
    Alone,
}

/// What of the null file system itself can be varied.
#[derive(Clone, Copy, Default, Debug)]
pub struct Behaviour {
    /// Tells the kernel at open that `close` needs no FLUSH.
    pub no_flush: bool,
    /// What its kernel may remember.
    pub kernel: Kernel,
}

/// Mounts an empty null file system.
pub fn mount(mountpoint: &Path, options: &Options, behaviour: Behaviour) -> io::Result<Mounted> {
    let default_permissions = behaviour.kernel != Kernel::AsTold;
    let options = &Options { default_permissions, ..options.clone() };
    let filesystem = std::sync::Arc::new(adaptor::NullFs::new(options, behaviour));
    pando_fuse::kernel::session::mount_filesystem(filesystem, mountpoint, options)
}
