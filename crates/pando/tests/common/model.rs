//! The content that a worker's part of the tree must have, and the content that it has.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file, directory or symlink as the checks compare it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Node {
    Dir { mode: u32 },
    File { mode: u32, content: Vec<u8>, links: u64 },
    Link { target: PathBuf },
}

/// Nodes by path, relative to the mount.
pub type Tree = BTreeMap<PathBuf, Node>;

/// Adds everything at and below `path` to `tree`.
pub fn read(mount: &Path, path: &Path, tree: &mut Tree) -> io::Result<()> {
    let at = mount.join(path);
    let metadata = match at.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        result => result?,
    };
    let mode = metadata.mode() & 0o7777;
    let kind = metadata.file_type();
    let node = if kind.is_dir() {
        for entry in fs::read_dir(&at)? {
            read(mount, &path.join(entry?.file_name()), tree)?;
        }
        Node::Dir { mode }
    } else if kind.is_symlink() {
        Node::Link { target: fs::read_link(&at)? }
    } else {
        Node::File { mode, content: fs::read(&at)?, links: metadata.nlink() }
    };
    tree.insert(path.to_owned(), node);
    Ok(())
}

/// Moves `from`, and everything below it, to `to`.
pub fn rename(tree: &mut Tree, from: &Path, to: &Path) {
    remove(tree, to);
    let moved: Vec<PathBuf> = tree.keys().filter(|path| path.starts_with(from)).cloned().collect();
    for path in moved {
        let node = tree.remove(&path).expect("just listed");
        let rest = path.strip_prefix(from).expect("just filtered");
        tree.insert(if rest.as_os_str().is_empty() { to.to_owned() } else { to.join(rest) }, node);
    }
}

/// Removes `path` and everything below it.
pub fn remove(tree: &mut Tree, path: &Path) {
    tree.retain(|other, _| !other.starts_with(path));
}

/// How two trees differ, in words. At most 20 differences.
pub fn differences(expected: &Tree, found: &Tree) -> Vec<String> {
    let shown = |node: Option<&Node>| match node {
        None => "nothing".to_owned(),
        Some(Node::File { mode, content, links }) => {
            format!("file {mode:o}, {} bytes, {links} links", content.len())
        }
        Some(node) => format!("{node:?}"),
    };
    let paths = expected.keys().chain(found.keys());
    let mut list: Vec<String> = paths
        .filter(|path| expected.get(*path) != found.get(*path))
        .map(|path| {
            let (expected, found) = (shown(expected.get(path)), shown(found.get(path)));
            format!("{}: expected {expected}, found {found}", path.display())
        })
        .collect();
    list.dedup();
    list.truncate(20);
    list
}
