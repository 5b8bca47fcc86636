//! The tree of inodes. Its nodes change through `put` and `forget` only.

use std::collections::BTreeMap;
use std::sync::Arc;

use pando_types::{Errno, FileKind, Ino};

use crate::model::{Call, Node, Op, Outcome, Stat, Value, Who};

/// A whole namespace.
#[derive(Clone, Debug)]
pub struct Tree {
    nodes: BTreeMap<Ino, Arc<(Node, u64)>>,
    fingerprint: u64,
}

impl Default for Tree {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for Tree {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint && self.nodes == other.nodes
    }
}

impl Tree {
    /// A tree with an empty root, which belongs to user 0 and has mode 0755.
    #[must_use]
    pub fn new() -> Self {
        let mut tree = Self { nodes: BTreeMap::new(), fingerprint: 0 };
        tree.put(Ino::ROOT, Node::new(FileKind::Directory, 0o755, 0, 0, Ino::ROOT));
        tree
    }

    /// Runs one operation. A successful create or mkdir gives its node the number `new`.
    pub fn apply(&mut self, call: &Call, new: Ino) -> Outcome {
        let (who, by) = (call.who, &call.credentials);
        match &call.op {
            Op::Lookup(dir, name) => self.lookup(by, *dir, name),
            Op::Create { .. } => self.create(call, new),
            Op::Mkdir(dir, name, mode) => self.mkdir(by, *dir, name, *mode, new),
            Op::Unlink(dir, name) => self.unlink(by, *dir, name),
            Op::Rmdir(dir, name) => self.rmdir(by, *dir, name),
            Op::Link(ino, dir, name) => self.link(by, *ino, *dir, name),
            Op::Rename { from, name, to, new_name, flags } => {
                self.rename(by, (*from, name), (*to, new_name), *flags)
            }
            Op::GetAttr(ino) => Ok(Value::Stat(self.stat(*ino)?)),
            Op::SetAttr(ino, set) => self.set_attr(by, *ino, set),
            Op::Access(ino, mask) => self.access(by, *ino, *mask),
            Op::Readlink(ino) => self.readlink(*ino),
            Op::Open { ino, access, truncate } => self.open(who, by, *ino, *access, *truncate),
            Op::Release(ino) => self.release(who, *ino),
            Op::Read(ino, offset, len) => self.read(*ino, *offset, *len),
            Op::Write(ino, offset, bytes) => self.write(by, *ino, *offset, bytes),
            Op::GetXattr(ino, name) => self.get_xattr(by, *ino, name),
            Op::ListXattr(ino) => self.list_xattr(*ino),
            Op::SetXattr(ino, name, value, mode) => self.set_xattr(by, *ino, name, value, *mode),
            Op::RemoveXattr(ino, name) => self.remove_xattr(by, *ino, name),
            Op::ReadDir(dir) => self.read_dir(by, *dir),
            Op::Parent(dir) => Ok(Value::Ino(self.dir(*dir)?.parent)),
            Op::EndSession => self.end_session(who),
            Op::Linger(other) => self.linger(who, *other),
            Op::ByPath { .. } => {
                let call = self.resolved(call)?;
                self.apply(&call, new)
            }
        }
    }

    /// The node of `ino`. `ESTALE` if it is gone.
    pub fn node(&self, ino: Ino) -> Result<&Node, Errno> {
        self.nodes.get(&ino).map(|node| &node.0).ok_or(Errno::ESTALE)
    }

    /// The node of the directory `ino`. `ESTALE` if it is gone, `ENOTDIR` if it is no directory.
    pub fn dir(&self, ino: Ino) -> Result<&Node, Errno> {
        let node = self.node(ino)?;
        if node.is_dir() { Ok(node) } else { Err(Errno::ENOTDIR) }
    }

    /// Attributes of `ino`. `ESTALE` if it is gone.
    pub fn stat(&self, ino: Ino) -> Result<Stat, Errno> {
        Ok(self.node(ino)?.stat(ino))
    }

    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = (Ino, &Node)> {
        self.nodes.iter().map(|(ino, node)| (*ino, &node.0))
    }

    /// A hash of the whole tree. Equal trees have equal hashes, whatever operations led to them.
    #[must_use]
    pub const fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Whether the session `who` has the file open.
    #[must_use]
    pub fn is_open(&self, who: Who, ino: Ino) -> bool {
        self.nodes.get(&ino).is_some_and(|node| node.0.opens.contains_key(&who))
    }

    /// Whether `above` is `ino` or one of the directories above it.
    #[must_use]
    pub fn is_within(&self, mut ino: Ino, above: Ino) -> bool {
        loop {
            match self.nodes.get(&ino) {
                _ if ino == above => return true,
                Some(node) if node.0.parent != ino => ino = node.0.parent,
                _ => return false,
            }
        }
    }

    pub(crate) fn put(&mut self, ino: Ino, node: Node) {
        self.forget(ino);
        let fingerprint = node.fingerprint(ino);
        self.fingerprint = self.fingerprint.wrapping_add(fingerprint);
        self.nodes.insert(ino, Arc::new((node, fingerprint)));
    }

    /// Changes the node of `ino`, which must be there.
    pub(crate) fn edit(&mut self, ino: Ino, change: impl FnOnce(&mut Node)) {
        let mut node = self.nodes[&ino].0.clone();
        change(&mut node);
        self.put(ino, node);
    }

    pub(crate) fn forget(&mut self, ino: Ino) {
        if let Some(node) = self.nodes.remove(&ino) {
            self.fingerprint = self.fingerprint.wrapping_sub(node.1);
        }
    }

    /// Forgets a file that has neither names nor opens.
    pub(crate) fn reap(&mut self, ino: Ino) {
        if self.nodes.get(&ino).is_some_and(|n| n.0.nlink == 0 && n.0.opens.is_empty()) {
            self.forget(ino);
        }
    }
}
