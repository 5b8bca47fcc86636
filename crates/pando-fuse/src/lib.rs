//! The kernel adaptor of Pando. It turns FUSE requests into calls of the file system, and results
//! into replies.
//!
//! ```text
//! kernel ── /dev/fuse ── device ── kernel::adaptor ── Vfs ─┬─ Namespace (the client): names, attributes, permissions
//!                        the protocol, threads             └─ DataFs: contents
//! ```
//!
//! The kernel's structures stay within [`device`] and [`kernel`]. [`Vfs`] is the file system as
//! Linux wants it. It can be used and tested without a kernel. [`device`] depends on no file
//! system: the null file system of the benchmarks uses it, too.

pub mod device;
pub mod kernel;
mod namespace;
mod vfs;

use std::io;
use std::path::Path;
use std::sync::Arc;

pub use device::{abort_at, can_mount, drop_pages, unmount_at};
pub use kernel::session::{Mounted, Options};
pub use namespace::{Answer, Namespace, Pages};
pub use vfs::{DirHandle, Listed, OpenFlags, Opened, StatFs, Vfs};

/// Mounts a file system at an existing directory.
pub fn mount(fs: Arc<Vfs>, mountpoint: &Path, options: &Options) -> io::Result<Mounted> {
    let options = &Options { default_permissions: true, ..options.clone() };
    let adaptor = Arc::new(kernel::adaptor::Adaptor::new(fs, options));
    let mounted =
        kernel::session::mount_filesystem(Arc::clone(&adaptor) as _, mountpoint, options)?;
    adaptor.mounted(&mounted);
    Ok(mounted)
}
