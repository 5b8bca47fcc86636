//! Nodes that the kernel knows, and what it has open.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of the root towards the kernel.
pub const ROOT: u64 = 1;

/// An entry of a directory as it was listed at its opening.
pub struct Listed {
    pub ino: u64,
    pub mode: u32,
    pub name: Vec<u8>,
}

/// What a handle stands for.
#[derive(Clone)]
pub enum Open {
    File(Arc<File>),
    Directory(Arc<Vec<Listed>>),
}

struct Node {
    path: PathBuf,
    lookups: u64,
}

/// A node's number is its inode number in the folder. Nothing is renamed there, so a node keeps
/// its path.
pub struct Nodes {
    root: PathBuf,
    known: HashMap<u64, Node>,
    handles: HashMap<u64, Open>,
    last_handle: u64,
}

impl Nodes {
    pub fn new(root: PathBuf) -> Self {
        Self { root, known: HashMap::new(), handles: HashMap::new(), last_handle: 0 }
    }

    pub fn path(&self, number: u64) -> Option<&Path> {
        match number {
            ROOT => Some(&self.root),
            number => self.known.get(&number).map(|node| node.path.as_path()),
        }
    }

    /// The kernel has looked up a node once more.
    pub fn looked_up(&mut self, number: u64, path: PathBuf) {
        self.known.entry(number).or_insert(Node { path, lookups: 0 }).lookups += 1;
    }

    pub fn forget(&mut self, number: u64, count: u64) {
        if let Some(node) = self.known.get_mut(&number) {
            node.lookups = node.lookups.saturating_sub(count);
            if node.lookups == 0 {
                self.known.remove(&number);
            }
        }
    }

    pub fn open(&mut self, open: Open) -> u64 {
        self.last_handle += 1;
        self.handles.insert(self.last_handle, open);
        self.last_handle
    }

    pub fn opened(&self, handle: u64) -> Option<Open> {
        self.handles.get(&handle).cloned()
    }

    pub fn close(&mut self, handle: u64) {
        self.handles.remove(&handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_known_until_all_its_lookups_are_forgotten() {
        let mut nodes = Nodes::new("/r".into());
        nodes.looked_up(7, "/r/a".into());
        nodes.looked_up(7, "/r/a".into());
        nodes.forget(7, 1);
        assert_eq!(nodes.path(7), Some(Path::new("/r/a")));
        nodes.forget(7, 1);
        assert_eq!((nodes.path(7), nodes.path(ROOT)), (None, Some(Path::new("/r"))));
    }
}
