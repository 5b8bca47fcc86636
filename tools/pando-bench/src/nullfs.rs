//! A file system that only keeps names and attributes. It is the floor for everything that is
//! served through FUSE.
//!
//! Names and attributes are in hash maps behind one lock. Of file data it keeps only the size.
//! There are symbolic links, but no hard links, renames, extended attributes or permissions.

mod adaptor;
mod attributes;
mod node;
mod records;
mod tree;

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use pando_fuse::{Mounted, Options, Unserved};
use pando_keeper::{Kept, Mode, mode_here};
use pando_kept::{Mapped, Refused};

use adaptor::NullFs;
use records::Records;
use tree::Tree;

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
    let filesystem = Arc::new(NullFs::new(options, behaviour, Tree::new(0)));
    pando_fuse::mount_filesystem(filesystem, mountpoint, options)
}

/// Mounts an empty null file system whose channels a keeper holds, or goes on with the mount and
/// the tree of a process that died. A call that was under way then may run twice: a `mkdir` says
/// that the name is taken. `mountpoint` is an absolute path, free of links.
pub fn mount_kept(
    kept: &mut Kept,
    mountpoint: &Path,
    options: &Options,
    behaviour: Behaviour,
) -> io::Result<Mounted> {
    let options = &Options { is_kept: true, ..judged(options, behaviour) };
    let (unserved, mode, tree) = if kept.generation() > 0 {
        // No further successor could read this memory either, so none is to be started.
        let tree = predecessors_tree(kept).inspect_err(|_| kept.over(1))?;
        let taken = kept.take_over()?;
        (Unserved::taken_over(mountpoint, taken.channels, taken.number), taken.mode, tree)
    } else {
        make(kept, mountpoint, options)?
    };
    let unserved = match mode {
        Mode::Resend => unserved,
        Mode::Clones => unserved.by_clones()?,
    };
    let filesystem = Arc::new(NullFs::new(options, behaviour, tree));
    pando_fuse::serve(unserved, filesystem, options)
}

/// Mounts, and hands the mount to the keeper with a memory for the tree's nodes.
fn make(kept: &Kept, mountpoint: &Path, options: &Options) -> io::Result<(Unserved, Mode, Tree)> {
    let memory = Mapped::create()?;
    let file = memory.as_fd().try_clone_to_owned()?;
    let records = Records::create(memory).map_err(io::Error::other)?;
    let tree = Tree::recorded(0, records, Vec::new());
    let mode = mode_here();
    let unserved = Unserved::mount(mountpoint, options, false)?;
    let (channels, number) = (unserved.channels(), unserved.number());
    if let Err(error) = kept.keep(channels, Some(file.as_fd()), number, mode) {
        let _ = unserved.detach();
        return Err(error);
    }
    Ok((unserved, mode, tree))
}

/// The tree that the process before this one has left.
fn predecessors_tree(kept: &mut Kept) -> io::Result<Tree> {
    let generation = kept.generation();
    let memory = kept.take_memory().ok_or_else(|| io::Error::other(Refused::NotOne))?;
    let (records, found) =
        Records::adopt(Mapped::open(memory)?, generation).map_err(io::Error::other)?;
    Ok(Tree::recorded(generation, records, found))
}

fn judged(options: &Options, behaviour: Behaviour) -> Options {
    Options { default_permissions: behaviour.kernel != Kernel::AsTold, ..options.clone() }
}
