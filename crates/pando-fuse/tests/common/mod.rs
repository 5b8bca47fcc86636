//! A tree in memory that stands in for shards and client. It has names and attributes, but checks
//! no permissions.

#[allow(dead_code, reason = "a tree uses a part of it")]
#[path = "../../../pando-data/tests/data/common/mod.rs"]
pub mod shards;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use pando_client::{Content, DirEntry, IfThere, Then, Usage};
use pando_data::{DataFs, Limits, Metadata, ObjectStore, WriteError};
use pando_fuse::{Answer, Namespace, Pages, Vfs};
use pando_types::op::{AccessMask, NewNode, ObjectId, Piece, RenameFlags, XattrMode};
use pando_types::reply::Layout;
use pando_types::{
    Attr, Credentials, Errno, FileKind, Ino, Kill, Name, SetAttr, ShardIndex, Timestamp,
};

use shards::{Shards, Store};

type Dir = BTreeMap<u64, (Name, Ino)>;
type Xattrs = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Default)]
struct Tree {
    dirs: HashMap<Ino, (Ino, Dir)>,
    /// Attributes of nodes. For regular files, only kind, link count and owners are used.
    attrs: HashMap<Ino, Attr>,
    targets: HashMap<Ino, Vec<u8>>,
    xattrs: HashMap<Ino, Xattrs>,
    last: u64,
}

/// The tree, with counts of calls.
pub struct Memory {
    pub shards: Arc<Shards>,
    tree: Mutex<Tree>,
    pub calls: AtomicU64,
    pub opens: AtomicI64,
    pub lookups: AtomicI64,
    pub last_by: Mutex<Credentials>,
}

/// A file system over a tree in memory.
pub struct Setup {
    pub fs: Arc<Vfs>,
    pub memory: Arc<Memory>,
    pub store: Arc<Store>,
}

pub fn setup() -> Setup {
    let store = Store::new("fuse");
    let memory = Arc::new(Memory::new(Shards::new(&store)));
    let data = DataFs::new(
        Arc::clone(&memory) as Arc<dyn Metadata>,
        Arc::clone(&store) as Arc<dyn ObjectStore>,
        Limits::default(),
    );
    Setup { fs: Vfs::new(Arc::clone(&memory) as Arc<dyn Namespace>, data), memory, store }
}

fn attr(ino: Ino, kind: FileKind, mode: u16, by: &Credentials) -> Attr {
    let time = Timestamp::from_nanos(1_700_000_000_000_000_000);
    Attr {
        ino,
        kind,
        mode,
        nlink: if kind == FileKind::Directory { 2 } else { 1 },
        uid: by.uid,
        gid: by.gid,
        rdev: 0,
        size: 0,
        atime: time,
        mtime: time,
        ctime: time,
        btime: time,
        data_version: 1,
        change: 1,
        project: 0,
    }
}

impl Memory {
    fn new(shards: Arc<Shards>) -> Self {
        let mut tree = Tree { last: 1, ..Tree::default() };
        tree.dirs.insert(Ino::ROOT, (Ino::ROOT, Dir::new()));
        let root = attr(Ino::ROOT, FileKind::Directory, 0o777, &Credentials::ROOT);
        tree.attrs.insert(Ino::ROOT, root);
        let tree = Mutex::new(tree);
        Self {
            shards,
            tree,
            calls: AtomicU64::new(0),
            opens: AtomicI64::new(0),
            lookups: AtomicI64::new(0),
            last_by: Mutex::default(),
        }
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.tree.lock().unwrap()
    }

    fn attr_of(&self, tree: &Tree, ino: Ino) -> Result<Attr, Errno> {
        let known = tree.attrs.get(&ino).ok_or(Errno::ESTALE)?.clone();
        match known.kind {
            FileKind::Regular => {
                let (nlink, uid, gid) = (known.nlink, known.uid, known.gid);
                Ok(Attr { nlink, uid, gid, ..self.shards.getattr(ino)? })
            }
            _ => Ok(known),
        }
    }

    fn looked_up(&self, tree: &Tree, ino: Ino) -> Result<Attr, Errno> {
        let attr = self.attr_of(tree, ino)?;
        self.lookups.fetch_add(1, Ordering::Relaxed);
        Ok(attr)
    }
}

/// A listing in progress, with pages of 100 entries.
struct Under {
    memory: Arc<Memory>,
    ino: Ino,
    position: u64,
}

impl Pages for Under {
    fn next(&mut self) -> Answer<'_, Vec<DirEntry>> {
        let page = self.memory.do_readdir(&Credentials::ROOT, self.ino, self.position, 100);
        if let Ok(Some(last)) = page.as_ref().map(|page| page.last()) {
            self.position = last.position;
        }
        now(page)
    }
}

impl Tree {
    fn dir(&mut self, ino: Ino) -> Result<&mut Dir, Errno> {
        self.dirs.get_mut(&ino).map(|(_, dir)| dir).ok_or(Errno::ENOTDIR)
    }

    fn find(&mut self, dir: Ino, name: &Name) -> Result<(u64, Ino), Errno> {
        let found = self.dir(dir)?.iter().find(|(_, (other, _))| other == name);
        found.map(|(&position, &(_, ino))| (position, ino)).ok_or(Errno::ENOENT)
    }

    fn add(&mut self, dir: Ino, name: &Name, ino: Ino) -> Result<(), Errno> {
        self.last += 1;
        let position = self.last + 10;
        self.dir(dir)?.insert(position, (name.clone(), ino));
        Ok(())
    }

    fn unlink(&mut self, dir: Ino, name: &Name) -> Result<(), Errno> {
        let (position, ino) = self.find(dir, name)?;
        self.dir(dir)?.remove(&position);
        self.attrs.get_mut(&ino).ok_or(Errno::ESTALE)?.nlink -= 1;
        Ok(())
    }
}

impl Metadata for Memory {
    fn time_at(&self, _: ShardIndex) -> Timestamp {
        Timestamp::from_nanos(1_800_000_000_000_000_000)
    }

    fn getattr(&self, ino: Ino) -> Result<Attr, Errno> {
        self.attr_of(&self.tree(), ino)
    }

    fn setattr(&self, by: &Credentials, ino: Ino, set: SetAttr) -> Result<Attr, Errno> {
        let mut tree = self.tree();
        let attr = tree.attrs.get_mut(&ino).ok_or(Errno::ESTALE)?;
        attr.mode = set.mode.unwrap_or(attr.mode);
        attr.uid = set.uid.unwrap_or(attr.uid);
        attr.gid = set.gid.unwrap_or(attr.gid);
        if attr.kind == FileKind::Regular {
            self.shards.setattr(by, ino, set)?;
        }
        self.attr_of(&tree, ino)
    }

    fn read_data(&self, ino: Ino, offset: u64, len: u64) -> Result<Layout, Errno> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.shards.read_data(ino, offset, len)
    }

    fn write_data(
        &self,
        ino: Ino,
        base: Option<u64>,
        pieces: Vec<Piece>,
        mtime: Option<Timestamp>,
        kill: Option<Kill>,
    ) -> Result<Attr, WriteError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.shards.write_data(ino, base, pieces, mtime, kill)
    }

    fn sync_file(&self, _: Ino) -> Result<(), Errno> {
        Ok(())
    }

    fn new_object(&self) -> ObjectId {
        self.shards.new_object()
    }

    fn garbage(&self) -> Result<Vec<(ShardIndex, ObjectId)>, Errno> {
        self.shards.garbage()
    }

    fn garbage_done(&self, deleted: Vec<(ShardIndex, ObjectId)>) -> Result<(), Errno> {
        self.shards.garbage_done(deleted)
    }
}

impl Memory {
    fn do_lookup(&self, by: &Credentials, parent: Ino, name: &Name) -> Result<Attr, Errno> {
        *self.last_by.lock().unwrap() = by.clone();
        let mut tree = self.tree();
        let (_, ino) = tree.find(parent, name)?;
        self.looked_up(&tree, ino)
    }

    fn do_forget(&self, _: Ino, count: u64) {
        self.lookups.fetch_sub(count.cast_signed(), Ordering::Relaxed);
    }

    fn do_access(&self, _: &Credentials, _: Ino, _: AccessMask) -> Result<(), Errno> {
        Ok(())
    }

    fn do_create(
        &self,
        by: &Credentials,
        parent: Ino,
        name: &Name,
        node: NewNode,
        if_there: IfThere,
        then: Then,
    ) -> Result<(Attr, bool), Errno> {
        let mut tree = self.tree();
        if then == Then::Open {
            self.opens.fetch_add(1, Ordering::Relaxed);
        }
        if let Ok((_, ino)) = tree.find(parent, name) {
            return if if_there == IfThere::Refuse {
                Err(Errno::EEXIST)
            } else {
                Ok((self.looked_up(&tree, ino)?, false))
            };
        }
        tree.last += 1;
        let ino = Ino(tree.last);
        let mut made = attr(ino, node.kind, node.mode, by);
        made.rdev = node.rdev;
        made.size = node.symlink.len() as u64;
        if node.kind == FileKind::Regular {
            self.shards.create(ino);
            let set = SetAttr { mode: Some(node.mode), ..SetAttr::default() };
            self.shards.setattr(by, ino, set)?;
        }
        tree.attrs.insert(ino, made);
        tree.targets.insert(ino, node.symlink);
        tree.add(parent, name, ino)?;
        Ok((self.looked_up(&tree, ino)?, true))
    }

    fn do_mkdir(
        &self,
        by: &Credentials,
        parent: Ino,
        name: &Name,
        mode: u16,
    ) -> Result<Attr, Errno> {
        let mut tree = self.tree();
        if tree.find(parent, name).is_ok() {
            return Err(Errno::EEXIST);
        }
        tree.last += 1;
        let ino = Ino(tree.last);
        tree.attrs.insert(ino, attr(ino, FileKind::Directory, mode, by));
        tree.dirs.insert(ino, (parent, Dir::new()));
        tree.add(parent, name, ino)?;
        self.looked_up(&tree, ino)
    }

    fn do_unlink(&self, _: &Credentials, parent: Ino, name: &Name) -> Result<(), Errno> {
        self.tree().unlink(parent, name)
    }

    fn do_rmdir(&self, _: &Credentials, parent: Ino, name: &Name) -> Result<(), Errno> {
        let mut tree = self.tree();
        let (_, ino) = tree.find(parent, name)?;
        if !tree.dir(ino)?.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        tree.unlink(parent, name)
    }

    fn do_link(&self, _: &Credentials, ino: Ino, parent: Ino, name: &Name) -> Result<Attr, Errno> {
        let mut tree = self.tree();
        tree.add(parent, name, ino)?;
        tree.attrs.get_mut(&ino).ok_or(Errno::ESTALE)?.nlink += 1;
        self.looked_up(&tree, ino)
    }

    fn do_rename(
        &self,
        _: &Credentials,
        from: (Ino, &Name),
        to: (Ino, &Name),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let mut tree = self.tree();
        let (position, ino) = tree.find(from.0, from.1)?;
        match tree.find(to.0, to.1) {
            Ok(_) if flags.no_replace => return Err(Errno::EEXIST),
            Ok(_) => tree.unlink(to.0, to.1)?,
            Err(_) => {}
        }
        tree.dir(from.0)?.remove(&position);
        tree.add(to.0, to.1, ino)
    }

    fn do_readlink(&self, _: &Credentials, ino: Ino) -> Result<Vec<u8>, Errno> {
        self.tree().targets.get(&ino).cloned().ok_or(Errno::EINVAL)
    }

    fn do_open(
        &self,
        by: &Credentials,
        ino: Ino,
        _: AccessMask,
        content: Content,
        kill: Option<Kill>,
    ) -> Result<Attr, Errno> {
        self.opens.fetch_add(1, Ordering::Relaxed);
        if content == Content::Cut {
            let set = SetAttr { size: Some(0), kill, ..SetAttr::default() };
            self.shards.setattr(by, ino, set)?;
        }
        self.attr_of(&self.tree(), ino)
    }

    fn do_release(&self, _: Ino) -> Result<(), Errno> {
        self.opens.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    fn do_opendir(&self, _: &Credentials, ino: Ino) -> Result<(), Errno> {
        self.tree().dir(ino).map(drop)
    }

    fn do_readdir(
        &self,
        _: &Credentials,
        ino: Ino,
        position: u64,
        limit: u32,
    ) -> Result<Vec<DirEntry>, Errno> {
        let mut tree = self.tree();
        let after = tree.dir(ino)?.range(position + 1..).take(limit as usize);
        let page: Vec<_> = after.map(|(&at, (name, ino))| (at, name.clone(), *ino)).collect();
        let entries = page.into_iter().map(|(position, name, ino)| DirEntry {
            position,
            name,
            ino,
            kind: tree.attrs[&ino].kind,
            attr: None,
        });
        Ok(entries.collect())
    }

    fn do_readdir_plus(
        &self,
        by: &Credentials,
        ino: Ino,
        position: u64,
        limit: u32,
    ) -> Result<Vec<DirEntry>, Errno> {
        let mut page = self.do_readdir(by, ino, position, limit)?;
        let tree = self.tree();
        for entry in &mut page {
            entry.attr = Some(self.looked_up(&tree, entry.ino)?);
        }
        Ok(page)
    }

    fn do_parent(&self, ino: Ino) -> Result<Ino, Errno> {
        self.tree().dirs.get(&ino).map(|(parent, _)| *parent).ok_or(Errno::ENOTDIR)
    }

    fn do_getxattr(&self, _: &Credentials, ino: Ino, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let tree = self.tree();
        tree.xattrs.get(&ino).and_then(|all| all.get(name)).cloned().ok_or(Errno::ENODATA)
    }

    fn do_listxattr(&self, _: &Credentials, ino: Ino) -> Result<Vec<Vec<u8>>, Errno> {
        Ok(self
            .tree()
            .xattrs
            .get(&ino)
            .map(|all| all.keys().cloned().collect())
            .unwrap_or_default())
    }

    fn do_setxattr(
        &self,
        _: &Credentials,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        _: XattrMode,
    ) -> Result<(), Errno> {
        self.tree().xattrs.entry(ino).or_default().insert(name.to_vec(), value.to_vec());
        Ok(())
    }

    fn do_removexattr(&self, _: &Credentials, ino: Ino, name: &[u8]) -> Result<(), Errno> {
        let mut tree = self.tree();
        tree.xattrs.entry(ino).or_default().remove(name).map(drop).ok_or(Errno::ENODATA)
    }

    fn do_statfs(&self) -> Result<Usage, Errno> {
        Ok(Usage { inodes: self.tree().attrs.len() as u64, bytes: 0 })
    }
}

/// Each method answers at once, by the method `do_…` of its name.
impl Namespace for Memory {
    fn learn_names<'a>(&'a self, _: &'a Credentials, _: Ino, _: u32) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn getattr<'a>(&'a self, ino: Ino) -> Answer<'a, Attr> {
        now(Metadata::getattr(self, ino))
    }

    fn setattr<'a>(&'a self, by: &'a Credentials, ino: Ino, set: SetAttr) -> Answer<'a, Attr> {
        now(Metadata::setattr(self, by, ino, set))
    }

    fn lookup<'a>(&'a self, by: &'a Credentials, parent: Ino, name: &'a Name) -> Answer<'a, Attr> {
        now(self.do_lookup(by, parent, name))
    }

    fn forget(&self, ino: Ino, count: u64) {
        self.do_forget(ino, count);
    }

    fn access<'a>(&'a self, by: &'a Credentials, ino: Ino, mask: AccessMask) -> Answer<'a, ()> {
        now(self.do_access(by, ino, mask))
    }

    fn create<'a>(
        &'a self,
        by: &'a Credentials,
        parent: Ino,
        name: &'a Name,
        node: NewNode,
        if_there: IfThere,
        then: Then,
    ) -> Answer<'a, (Attr, bool)> {
        now(self.do_create(by, parent, name, node, if_there, then))
    }

    fn mkdir<'a>(
        &'a self,
        by: &'a Credentials,
        parent: Ino,
        name: &'a Name,
        mode: u16,
    ) -> Answer<'a, Attr> {
        now(self.do_mkdir(by, parent, name, mode))
    }

    fn unlink<'a>(&'a self, by: &'a Credentials, parent: Ino, name: &'a Name) -> Answer<'a, ()> {
        now(self.do_unlink(by, parent, name))
    }

    fn rmdir<'a>(&'a self, by: &'a Credentials, parent: Ino, name: &'a Name) -> Answer<'a, ()> {
        now(self.do_rmdir(by, parent, name))
    }

    fn link<'a>(
        &'a self,
        by: &'a Credentials,
        ino: Ino,
        parent: Ino,
        name: &'a Name,
    ) -> Answer<'a, Attr> {
        now(self.do_link(by, ino, parent, name))
    }

    fn rename<'a>(
        &'a self,
        by: &'a Credentials,
        from: (Ino, &'a Name),
        to: (Ino, &'a Name),
        flags: RenameFlags,
    ) -> Answer<'a, ()> {
        now(self.do_rename(by, from, to, flags))
    }

    fn readlink<'a>(&'a self, by: &'a Credentials, ino: Ino) -> Answer<'a, Vec<u8>> {
        now(self.do_readlink(by, ino))
    }

    fn open<'a>(
        &'a self,
        by: &'a Credentials,
        ino: Ino,
        access: AccessMask,
        content: Content,
        kill: Option<Kill>,
    ) -> Answer<'a, Attr> {
        now(self.do_open(by, ino, access, content, kill))
    }

    fn release<'a>(&'a self, ino: Ino) -> Answer<'a, ()> {
        now(self.do_release(ino))
    }

    fn release_all<'a>(&'a self, inos: &'a [Ino]) -> Answer<'a, ()> {
        now(inos.iter().try_for_each(|ino| self.do_release(*ino)))
    }

    fn opendir<'a>(&'a self, by: &'a Credentials, ino: Ino) -> Answer<'a, ()> {
        now(self.do_opendir(by, ino))
    }

    fn readdir_plus<'a>(
        &'a self,
        by: &'a Credentials,
        ino: Ino,
        position: u64,
        limit: u32,
    ) -> Answer<'a, Vec<DirEntry>> {
        now(self.do_readdir_plus(by, ino, position, limit))
    }

    fn listing(
        self: Arc<Self>,
        _: &Credentials,
        ino: Ino,
        position: u64,
    ) -> Result<Box<dyn Pages>, Errno> {
        Ok(Box::new(Under { memory: self, ino, position }))
    }

    fn parent<'a>(&'a self, ino: Ino) -> Answer<'a, Ino> {
        now(self.do_parent(ino))
    }

    fn getxattr<'a>(
        &'a self,
        by: &'a Credentials,
        ino: Ino,
        name: &'a [u8],
    ) -> Answer<'a, Vec<u8>> {
        now(self.do_getxattr(by, ino, name))
    }

    fn listxattr<'a>(&'a self, by: &'a Credentials, ino: Ino) -> Answer<'a, Vec<Vec<u8>>> {
        now(self.do_listxattr(by, ino))
    }

    fn setxattr<'a>(
        &'a self,
        by: &'a Credentials,
        ino: Ino,
        name: &'a [u8],
        value: &'a [u8],
        mode: XattrMode,
    ) -> Answer<'a, ()> {
        now(self.do_setxattr(by, ino, name, value, mode))
    }

    fn removexattr<'a>(&'a self, by: &'a Credentials, ino: Ino, name: &'a [u8]) -> Answer<'a, ()> {
        now(self.do_removexattr(by, ino, name))
    }

    fn statfs<'a>(&'a self) -> Answer<'a, Usage> {
        now(self.do_statfs())
    }
}

fn now<'a, T: Send + 'a>(result: Result<T, Errno>) -> Answer<'a, T> {
    Box::pin(std::future::ready(result))
}
