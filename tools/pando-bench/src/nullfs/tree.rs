//! Names and inodes of the null file system.

use std::collections::HashMap;
use std::time::SystemTime;

use super::node::{Content, Dir, Node, ROOT};
use super::records::{Record, Records};

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
    /// Of a mount that is kept: what its successor will know.
    records: Option<Records>,
}

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
            records: None,
        }
    }

    /// The tree of a mount that is kept: what a predecessor has left. Later changes are recorded.
    pub(super) fn recorded(generation: u64, mut records: Records, found: Vec<Record>) -> Self {
        let mut tree = Self::new(generation);
        let mut entries = Vec::new();
        for Record { number, dir, name, node } in found {
            if number > tree.last_number {
                // No predecessor has given this number.
                records.removed(number);
                continue;
            }
            tree.nodes.insert(number, node);
            entries.push((number, dir, name));
        }
        if !entries.iter().any(|&(number, ..)| number == ROOT) {
            records.added(ROOT, 0, b"", &tree.nodes[&ROOT]);
        }
        for (number, dir, name) in entries.into_iter().filter(|&(number, ..)| number != ROOT) {
            let dir = tree.dir_mut(dir).ok();
            if !dir.is_some_and(|dir| dir.insert(&name, number)) {
                // A damaged record was its directory.
                records.removed(number);
                tree.nodes.remove(&number);
            }
        }
        tree.records = Some(records);
        tree
    }

    pub(super) fn node(&self, number: u64) -> Result<&Node, Refusal> {
        self.nodes.get(&number).ok_or(Refusal::NoEntry)
    }

    /// Changes mode, owner or size of a node.
    pub(super) fn change(
        &mut self,
        number: u64,
        change: impl FnOnce(&mut Node),
    ) -> Result<&Node, Refusal> {
        let node = self.nodes.get_mut(&number).ok_or(Refusal::NoEntry)?;
        change(node);
        if let Some(records) = &mut self.records {
            records.changed(number, node);
        }
        Ok(node)
    }

    /// Has a file reach to `end`, bytes.
    pub(super) fn reach(&mut self, number: u64, end: u64) {
        let Some(Node { content: Content::File { size }, .. }) = self.nodes.get_mut(&number) else {
            return;
        };
        if end > *size {
            *size = end;
            if let Some(records) = &mut self.records {
                records.resized(number, end);
            }
        }
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
        if !self.dir_mut(parent)?.insert(name, number) {
            return Err(Refusal::Exists);
        }
        if let Some(records) = &mut self.records {
            records.added(number, parent, name, &node);
        }
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
        if let Some(records) = &mut self.records {
            records.removed(number);
        }
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
        match &mut self.nodes.get_mut(&number).ok_or(Refusal::NoEntry)?.content {
            Content::Dir(dir) => Ok(dir),
            Content::File { .. } | Content::Link(_) => Err(Refusal::NotDirectory),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use pando_kept::Mapped;

    use super::*;

    fn file_of(uid: u32) -> Node {
        let content = Content::File { size: 0 };
        Node { content, mode: 0o644, uid, gid: 0, time: SystemTime::now() }
    }

    fn file() -> Node {
        file_of(0)
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

    #[test]
    fn what_has_no_directory_any_more_is_dropped_and_its_record_is_free() {
        let memory = Mapped::create().unwrap();
        let shared = memory.as_fd().try_clone_to_owned().unwrap();
        let mut tree = Tree::recorded(0, Records::create(memory).unwrap(), Vec::new());
        let dir = Node { content: Content::Dir(Dir::default()), ..file() };
        let d = tree.add(ROOT, b"d", dir).unwrap();
        tree.add(d, b"lost", file_of(1)).unwrap();
        let kept = tree.add(ROOT, b"kept", file_of(2)).unwrap();
        tree.reach(kept, 7);
        tree.change(kept, |node| node.uid = 4).unwrap();
        // As if the record had been damaged.
        tree.records.as_mut().unwrap().removed(d);
        drop(tree);
        let adopt = |generation| {
            let memory = Mapped::open(shared.try_clone().unwrap()).unwrap();
            let (records, found) = Records::adopt(memory, generation).unwrap();
            (found.len(), Tree::recorded(generation, records, found))
        };
        let (count, tree) = adopt(1);
        let node = tree.node(tree.lookup(ROOT, b"kept").unwrap()).unwrap();
        assert!(matches!(node.content, Content::File { size: 7 }) && node.uid == 4);
        assert_eq!((count, tree.nodes.len()), (3, 2));
        drop(tree);
        assert_eq!(adopt(2).0, 2);
    }
}
