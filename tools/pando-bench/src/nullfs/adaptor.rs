//! Answers the kernel's requests to the null file system.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use pando_fuse::Options;
use pando_fuse::device::abi::{self, fattr, fopen};
use pando_fuse::device::{
    Delivery, Entry, Errno, FileSystem, Listing, Operation, Reply, Request, Undelivered,
};

use super::attributes::{attributes, is_directory};
use super::node::{Content, Dir, Node, ROOT};
use super::tree::{Refusal, Tree, Wanted};
use super::{Behaviour, Kernel};

/// Times for which a Pando mount that is alone lets its kernel remember: names, attributes of
/// directories, and attributes of all else.
const ALONE: [Duration; 3] =
    [Duration::from_secs(5), Duration::from_secs(1), Duration::from_secs(60)];
/// The shortest time that is not zero. The kernel rounds it up to its unit of time.
const ONE_JIFFY: Duration = Duration::from_nanos(1);

pub(super) struct NullFs {
    tree: Mutex<Tree>,
    options: Options,
    open_flags: u32,
    kernel: Kernel,
}

impl NullFs {
    pub(super) fn new(options: &Options, behaviour: Behaviour, tree: Tree) -> Self {
        let open_flags = if behaviour.no_flush { fopen::NOFLUSH } else { 0 };
        let kernel = behaviour.kernel;
        Self { tree: Mutex::new(tree), options: options.clone(), open_flags, kernel }
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lookup(&self, parent: u64, name: &[u8]) -> Result<abi::Attr, Refusal> {
        let tree = self.tree();
        let number = tree.lookup(parent, name)?;
        Ok(attributes(number, tree.node(number)?))
    }

    fn add(
        &self,
        request: &Request<'_>,
        name: &[u8],
        mode: u32,
        content: Content,
    ) -> Result<abi::Attr, Refusal> {
        let (uid, gid) = (request.caller.uid, request.caller.gid);
        let node = Node { content, mode: permissions(mode), uid, gid, time: SystemTime::now() };
        let mut tree = self.tree();
        let number = tree.add(request.node, name, node)?;
        Ok(attributes(number, tree.node(number)?))
    }

    fn setattr(&self, number: u64, set: &abi::SetattrIn) -> Result<abi::Attr, Refusal> {
        let mut tree = self.tree();
        let node = tree.change(number, |node| {
            if set.valid & fattr::MODE != 0 {
                node.mode = permissions(set.mode);
            }
            if set.valid & fattr::UID != 0 {
                node.uid = set.uid;
            }
            if set.valid & fattr::GID != 0 {
                node.gid = set.gid;
            }
            let is_cut = set.valid & fattr::SIZE != 0;
            if let (Content::File { size }, true) = (&mut node.content, is_cut) {
                *size = set.size;
            }
        })?;
        Ok(attributes(number, node))
    }

    fn list(&self, number: u64, offset: u64, size: u32, plus: bool) -> Result<Listing, Refusal> {
        let mut listing = Listing::new(size);
        let tree = self.tree();
        for (position, name) in [(1, &b"."[..]), (2, b"..")] {
            // The tree does not know parents. The kernel resolves `..` itself, so the root's number
            // will do.
            let number = if position == 1 { number } else { ROOT };
            let mode = attributes(number, tree.node(number)?).mode;
            let mut add = || match plus {
                true => listing.add_plus(None, number, position, mode, name),
                false => listing.add(number, position, mode, name),
            };
            if offset < position && add() {
                return Ok(listing);
            }
        }
        for (position, name, number) in tree.list(number, offset.max(2))? {
            let attr = attributes(number, tree.node(number)?);
            let is_full = match plus {
                true => {
                    listing.add_plus(Some(&self.entry(attr)), number, position, attr.mode, name)
                }
                false => listing.add(number, position, attr.mode, name),
            };
            if is_full {
                break;
            }
        }
        Ok(listing)
    }

    fn entry(&self, attr: abi::Attr) -> Entry {
        Entry {
            node: attr.ino,
            attr,
            entry_timeout: self.entry_timeout(),
            attr_timeout: self.named_timeout(&attr),
        }
    }

    /// A kernel that is alone may keep listings.
    fn directory_flags(&self) -> u32 {
        match self.kernel {
            Kernel::Alone => fopen::CACHE_DIR | fopen::KEEP_CACHE,
            _ => 0,
        }
    }

    fn entry_timeout(&self) -> Duration {
        match self.kernel {
            Kernel::AsTold => self.options.entry_timeout,
            Kernel::Several => Duration::ZERO,
            Kernel::Alone => ALONE[0],
        }
    }

    /// How long the kernel may keep attributes that a lookup or a listing tells.
    fn named_timeout(&self, attr: &abi::Attr) -> Duration {
        match self.kernel {
            Kernel::Several if is_directory(attr) => ONE_JIFFY,
            _ => self.attr_timeout(attr),
        }
    }

    /// How long the kernel may keep the attributes of a node that it knows.
    fn attr_timeout(&self, attr: &abi::Attr) -> Duration {
        match self.kernel {
            Kernel::AsTold => self.options.attr_timeout,
            Kernel::Several if attr.ino == ROOT => ONE_JIFFY,
            Kernel::Several => Duration::ZERO,
            Kernel::Alone if is_directory(attr) => ALONE[1],
            Kernel::Alone => ALONE[2],
        }
    }

    fn absent(&self, reply: Reply) -> Delivery {
        match self.kernel {
            Kernel::Alone => reply.entry(&Entry::absent(ALONE[0])),
            _ => reply.error(Errno::NOENT),
        }
    }

    fn answer(&self, request: &Request<'_>, reply: Reply) -> Delivery {
        let node = request.node;
        let entry = |reply: Reply, attr| reply.entry(&self.entry(attr));
        let attr = |reply: Reply, attr| reply.attr(attr, self.attr_timeout(&attr));
        let done = |reply: Reply, ()| reply.ok();
        match request.operation {
            Operation::Lookup { name } => match self.lookup(node, name) {
                Err(Refusal::NoEntry) => self.absent(reply),
                found => say(reply, found, entry),
            },
            Operation::Getattr => {
                let found = self.tree().node(node).map(|found| attributes(node, found));
                say(reply, found, attr)
            }
            Operation::Setattr(set) => say(reply, self.setattr(node, &set), attr),
            Operation::Mknod { name, mode, .. } => {
                say(reply, self.add(request, name, mode, Content::File { size: 0 }), entry)
            }
            Operation::Mkdir { name, mode } => {
                say(reply, self.add(request, name, mode, Content::Dir(Dir::default())), entry)
            }
            Operation::Symlink { name, target } => {
                let made = self.add(request, name, 0o777, Content::Link(target.to_vec()));
                say(reply, made, entry)
            }
            Operation::Readlink => {
                let target = self.tree().target(node);
                say(reply, target, |reply, target| reply.data(&target))
            }
            Operation::Unlink { name } => {
                let removed = self.tree().remove(node, name, Wanted::File);
                say(reply, removed, done)
            }
            Operation::Rmdir { name } => {
                let removed = self.tree().remove(node, name, Wanted::Directory);
                say(reply, removed, done)
            }
            Operation::Create { name, mode, .. } => {
                let made = self.add(request, name, mode, Content::File { size: 0 });
                say(reply, made, |reply, attr| reply.created(&self.entry(attr), 0, self.open_flags))
            }
            Operation::Open { .. } => reply.opened(0, self.open_flags),
            Operation::Opendir => reply.opened(0, self.directory_flags()),
            Operation::Read { size, .. } => reply.data(&vec![0; size as usize]),
            Operation::Write { offset, data, .. } => {
                self.tree().reach(node, offset.saturating_add(data.len() as u64));
                reply.written(data.len() as u32)
            }
            Operation::Readdir { offset, size, plus, .. } => {
                let listed = self.list(node, offset, size, plus);
                say(reply, listed, |reply, listing| reply.listing(&listing))
            }
            Operation::Statfs => reply.statfs(&abi::StatfsOut {
                blocks: 1 << 30,
                bfree: 1 << 30,
                bavail: 1 << 30,
                files: 1 << 30,
                ffree: 1 << 30,
                bsize: 4096,
                namelen: 255,
                frsize: 4096,
                ..Default::default()
            }),
            Operation::Getxattr { .. } => reply.error(Errno::NODATA),
            Operation::Access { .. }
            | Operation::Flush { .. }
            | Operation::Fsync
            | Operation::Release { .. }
            | Operation::Releasedir { .. } => reply.ok(),
            _ => reply.error(Errno::NOSYS),
        }
    }
}

fn say<T>(
    reply: Reply,
    result: Result<T, Refusal>,
    answer: impl FnOnce(Reply, T) -> Delivery,
) -> Delivery {
    match result {
        Ok(value) => answer(reply, value),
        Err(refusal) => reply.error(errno(refusal)),
    }
}

fn permissions(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

fn errno(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::NoEntry => Errno::NOENT,
        Refusal::Exists => Errno::EXIST,
        Refusal::NotDirectory => Errno::NOTDIR,
        Refusal::IsDirectory => Errno::ISDIR,
        Refusal::NotEmpty => Errno::NOTEMPTY,
        Refusal::NoLink => Errno::INVAL,
    }
}

impl FileSystem for NullFs {
    fn handle(&self, request: &Request<'_>, reply: Reply) {
        // The tree counts no lookups and no opens, so an undelivered reply needs no cleanup.
        let (Ok(()) | Err(Undelivered)) = self.answer(request, reply);
    }

    fn forget(&self, _node: u64, _count: u64) {}
}
