//! Names and inodes of the null file system.

use std::collections::{BTreeMap, HashMap};
use std::time::SystemTime;

/// The kind of a node, and its contents.
pub(super) enum Content {
    /// A file, of which only the size is kept.
    File {
        /// Size in bytes.
        size: u64,
    },
    /// A directory.
    Dir(Dir),
    /// A symbolic link, with its target.
    Link(Vec<u8>),
}

/// A directory's entries, by name and by position. Positions follow the order of creation, and a
/// listing continues after one.
#[derive(Default)]
pub(super) struct Dir {
    by_name: HashMap<Vec<u8>, (u64, u64)>,
    by_position: BTreeMap<u64, (Vec<u8>, u64)>,
}

/// A file or directory.
pub(super) struct Node {
    /// Its kind and contents.
    pub content: Content,
    /// Permission bits.
    pub mode: u16,
    /// Owner's user id.
    pub uid: u32,
    /// Owner's group id.
    pub gid: u32,
    /// Time of creation.
    pub time: SystemTime,
}

/// Reasons to refuse an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    NoEntry,
    Exists,
    NotDirectory,
    IsDirectory,
    NotEmpty,
    NoLink,
}

/// The kind of node that a removal is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    File,
    Directory,
}

/// All nodes by number.
pub(super) struct Tree {
    nodes: HashMap<u64, Node>,
    last_number: u64,
}

/// Node number of the root.
pub(super) const ROOT: u64 = 1;
/// Lower positions are those of `.` and `..`.
const FIRST_POSITION: u64 = 3;

impl Tree {
    /// An empty tree. Trees of different generations give no number that another one gives.
    pub(super) fn new(generation: u64) -> Self {
        let root = Node {
            content: Content::Dir(Dir::default()),
            mode: 0o777,
            uid: 0,
            gid: 0,
            time: SystemTime::now(),
        };
        Self {
            nodes: HashMap::from([(ROOT, root)]),
            last_number: FIRST_POSITION + (generation << 40),
        }
    }

    pub(super) fn node(&self, number: u64) -> Result<&Node, Refusal> {
        self.nodes.get(&number).ok_or(Refusal::NoEntry)
    }

    pub(super) fn node_mut(&mut self, number: u64) -> Result<&mut Node, Refusal> {
        self.nodes.get_mut(&number).ok_or(Refusal::NoEntry)
    }

    /// The target of a symbolic link.
    pub(super) fn target(&self, number: u64) -> Result<Vec<u8>, Refusal> {
        match &self.node(number)?.content {
            Content::Link(target) => Ok(target.clone()),
            Content::File { .. } | Content::Dir(_) => Err(Refusal::NoLink),
        }
    }

    pub(super) fn lookup(&self, parent: u64, name: &[u8]) -> Result<u64, Refusal> {
        self.dir(parent)?.by_name.get(name).map(|&(_, node)| node).ok_or(Refusal::NoEntry)
    }

    /// Adds a node. Fails if the name exists.
    pub(super) fn add(&mut self, parent: u64, name: &[u8], node: Node) -> Result<u64, Refusal> {
        self.last_number += 1;
        let number = self.last_number;
        let dir = self.dir_mut(parent)?;
        if dir.by_name.contains_key(name) {
            return Err(Refusal::Exists);
        }
        dir.by_name.insert(name.to_vec(), (number, number));
        dir.by_position.insert(number, (name.to_vec(), number));
        self.nodes.insert(number, node);
        Ok(number)
    }

    /// Removes a name and its node. It must be a directory if `directory` is true, and a file if
    /// not.
    pub(super) fn remove(
        &mut self,
        parent: u64,
        name: &[u8],
        wanted: Wanted,
    ) -> Result<(), Refusal> {
        let number = self.lookup(parent, name)?;
        match (&self.node(number)?.content, wanted) {
            (Content::File { .. } | Content::Link(_), Wanted::Directory) => {
                return Err(Refusal::NotDirectory);
            }
            (Content::Dir(_), Wanted::File) => return Err(Refusal::IsDirectory),
            (Content::Dir(dir), _) if !dir.by_name.is_empty() => return Err(Refusal::NotEmpty),
            _ => {}
        }
        let dir = self.dir_mut(parent)?;
        if let Some((position, _)) = dir.by_name.remove(name) {
            dir.by_position.remove(&position);
        }
        self.nodes.remove(&number);
        Ok(())
    }

    /// Entries of a directory after `position`: each entry's position, name and node.
    pub(super) fn list(
        &self,
        number: u64,
        position: u64,
    ) -> Result<impl Iterator<Item = (u64, &[u8], u64)>, Refusal> {
        Ok(self
            .dir(number)?
            .by_position
            .range(position + 1..)
            .map(|(&position, (name, node))| (position, name.as_slice(), *node)))
    }

    fn dir(&self, number: u64) -> Result<&Dir, Refusal> {
        match &self.node(number)?.content {
            Content::Dir(dir) => Ok(dir),
            Content::File { .. } | Content::Link(_) => Err(Refusal::NotDirectory),
        }
    }

    fn dir_mut(&mut self, number: u64) -> Result<&mut Dir, Refusal> {
        match &mut self.node_mut(number)?.content {
            Content::Dir(dir) => Ok(dir),
            Content::File { .. } | Content::Link(_) => Err(Refusal::NotDirectory),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Node {
        let content = Content::File { size: 0 };
        Node { content, mode: 0o644, uid: 0, gid: 0, time: SystemTime::now() }
    }

    #[test]
    fn names_come_and_go() {
        let mut tree = Tree::new(0);
        let a = tree.add(ROOT, b"a", file()).unwrap();
        assert_eq!(tree.add(ROOT, b"a", file()), Err(Refusal::Exists));
        assert_eq!(tree.lookup(ROOT, b"a"), Ok(a));
        assert_eq!(tree.remove(ROOT, b"a", Wanted::Directory), Err(Refusal::NotDirectory));
        assert_eq!(tree.remove(ROOT, b"a", Wanted::File), Ok(()));
        assert_eq!(tree.lookup(ROOT, b"a"), Err(Refusal::NoEntry));
    }

    #[test]
    fn a_listing_goes_on_where_it_stopped() {
        let mut tree = Tree::new(0);
        for name in [b"a", b"b", b"c"] {
            tree.add(ROOT, name, file()).unwrap();
        }
        let first = tree.list(ROOT, 0).unwrap().next().unwrap().0;
        tree.remove(ROOT, b"a", Wanted::File).unwrap();
        let rest: Vec<_> = tree.list(ROOT, first).unwrap().map(|(_, name, _)| name).collect();
        assert_eq!(rest, [b"b", b"c"]);
    }
}
