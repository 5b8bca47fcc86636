//! The kernel adaptor of Pando. It turns FUSE requests into calls of the file system, and results
//! into replies.
//!
//! ```text
//! kernel ── /dev/fuse ── device ── adaptor ── Vfs ─┬─ Namespace (the client): names, attributes, permissions
//!                        the protocol, threads     └─ DataFs: contents
//! ```
//!
//! [`Vfs`] is the file system as Linux wants it. It knows no structure of the kernel, and can be
//! used and tested without a kernel. [`device`] depends on no file system: the null file system of
//! the benchmarks uses it, too.
//!
//! # Rooms
//!
//! Each folder imports only what stands above it here:
//!
//! | folder | holds |
//! |---|---|
//! | `protocol` | the kernel's structures, requests and answers; the channel that they pass through |
//! | [`device`] | the session of a mount: its pending requests, its threads, notifications |
//! | `mounting` | options, mounting and unmounting, the kernel's list of mounts |
//! | `remembered` | what the kernel was told, and what it may answer from its own memory |
//! | `vfs` | [`Vfs`]: names and contents together, handles, listings; [`Namespace`] |
//! | `adaptor` | a [`Vfs`] behind the session: each request becomes one call |
// A line that is printed may find no room, or nobody who reads it. These macros would panic.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod adaptor;
pub mod device;
mod mounting;
mod protocol;
mod remembered;
mod vfs;

use std::io;
use std::path::Path;
use std::sync::Arc;

pub use device::drop_pages;
pub use mounting::mount::can_mount;
pub use mounting::mounted::{Mounted, mount_filesystem, serve};
pub use mounting::mountinfo::is_mountpoint;
pub use mounting::options::Options;
pub use mounting::unmount::{abort_at, detach_at, unmount_at};
pub use mounting::unserved::Unserved;
pub use vfs::file_system::{StatFs, Vfs};
pub use vfs::files::{OpenFlags, Opened};
pub use vfs::listing::{DirHandle, Listed};
pub use vfs::namespace::{Answer, Namespace, Pages};

use adaptor::state::inner::Adaptor;

/// Mounts a file system at an existing directory.
pub fn mount(fs: Arc<Vfs>, mountpoint: &Path, options: &Options) -> io::Result<Mounted> {
    let options = &Options { default_permissions: true, ..options.clone() };
    let adaptor = Arc::new(Adaptor::new(fs, options));
    let mounted = mount_filesystem(Arc::clone(&adaptor) as _, mountpoint, options)?;
    adaptor.mounted(&mounted);
    Ok(mounted)
}
