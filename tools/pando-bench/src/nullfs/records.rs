//! The tree's nodes in the memory of a mount that is kept, for the process that serves next.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pando_kept::{At, Found, Identity, Mapped, NoRoom, Nodes, Refused};

use super::node::{Content, Dir, Node, ROOT};

/// Bits of a mode that hold the type. The others are types.
const TYPE_BITS: u16 = 0o170_000;
const DIRECTORY: u16 = 0o040_000;
const FILE: u16 = 0o100_000;
const LINK: u16 = 0o120_000;
/// Numbers of a node's own words.
const TIME: usize = 0;
const SIZE: usize = 1;
/// Null file systems are all of one volume.
const VOLUME: u128 = 0x6e75_6c6c;

/// A node of a predecessor.
pub(super) struct Record {
    pub number: u64,
    /// The directory that has it, which may be missing. 0 for the root.
    pub dir: u64,
    pub name: Vec<u8>,
    pub node: Node,
}

/// Writes nodes. Does nothing any more once there was no room for one.
pub(super) struct Records {
    /// `None` once the mount is not kept any more.
    nodes: Option<Nodes<Mapped>>,
    places: HashMap<u64, Place>,
}

/// Where a node is: in the memory, and in the tree.
struct Place {
    at: At,
    dir: u64,
    name: Vec<u8>,
}

impl Records {
    /// Begins in a new memory.
    pub(super) fn create(memory: Mapped) -> Result<Self, NoRoom> {
        let nodes = Nodes::create(memory, Identity { volume: VOLUME, generation: 0 })?;
        Ok(Self { nodes: Some(nodes), places: HashMap::new() })
    }

    /// Goes on with the memory of a predecessor, and returns its nodes.
    pub(super) fn adopt(memory: Mapped, generation: u64) -> Result<(Self, Vec<Record>), Refused> {
        let (mut nodes, found) = Nodes::adopt(memory, Identity { volume: VOLUME, generation })?;
        let Found { nodes: all, damaged } = found;
        if damaged > 0 {
            eprintln!("pando-bench: {damaged} records of nodes are damaged, and forgotten");
        }
        let (mut places, mut records) = (HashMap::new(), Vec::new());
        for (at, node) in all {
            let Some(record) = read(node) else {
                nodes.free(at);
                continue;
            };
            let (dir, name) = (record.dir, record.name.clone());
            places.insert(record.number, Place { at, dir, name });
            records.push(record);
        }
        Ok((Self { nodes: Some(nodes), places }, records))
    }

    /// Notes a new node.
    pub(super) fn added(&mut self, number: u64, dir: u64, name: &[u8], node: &Node) {
        self.put(number, None, dir, name.to_vec(), node);
    }

    /// Notes what has changed in a node.
    pub(super) fn changed(&mut self, number: u64, node: &Node) {
        if let Some(Place { at, dir, name }) = self.places.remove(&number) {
            self.put(number, Some(at), dir, name, node);
        }
    }

    /// Notes that a file has another size, bytes.
    pub(super) fn resized(&mut self, number: u64, size: u64) {
        if let (Some(nodes), Some(place)) = (&mut self.nodes, self.places.get(&number)) {
            nodes.set_own(place.at, SIZE, size);
        }
    }

    /// Forgets a node.
    pub(super) fn removed(&mut self, number: u64) {
        if let (Some(nodes), Some(place)) = (&mut self.nodes, self.places.remove(&number)) {
            nodes.free(place.at);
        }
    }

    fn put(&mut self, number: u64, old: Option<At>, dir: u64, name: Vec<u8>, node: &Node) {
        let Some(nodes) = &mut self.nodes else { return };
        match nodes.put(old, &written(number, dir, &name, node)) {
            Ok(at) => {
                self.places.insert(number, Place { at, dir, name });
            }
            Err(error) => {
                eprintln!("pando-bench: {error}");
                *self = Self { nodes: None, places: HashMap::new() };
            }
        }
    }
}

fn written(number: u64, dir: u64, name: &[u8], node: &Node) -> pando_kept::Node {
    let (kind, size, rest) = match &node.content {
        Content::File { size } => (FILE, *size, Vec::new()),
        Content::Dir(_) => (DIRECTORY, 0, Vec::new()),
        Content::Link(target) => (LINK, 0, target.clone()),
    };
    let since = node.time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut own = [0; 2];
    own[TIME] = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    own[SIZE] = size;
    let (mode, uid, gid) = (kind | node.mode, node.uid, node.gid);
    pando_kept::Node { ino: number, mode, uid, gid, dir, name: name.to_vec(), rest, own }
}

/// Returns `None` for what is no node of a null file system.
fn read(kept: pando_kept::Node) -> Option<Record> {
    let pando_kept::Node { ino: number, mode, uid, gid, dir, name, rest, own } = kept;
    let content = match mode & TYPE_BITS {
        FILE => Content::File { size: own[SIZE] },
        DIRECTORY => Content::Dir(Dir::default()),
        LINK => Content::Link(rest),
        _ => return None,
    };
    let is_dir = matches!(content, Content::Dir(_));
    if (number == ROOT) != name.is_empty() || (number == ROOT && !is_dir) {
        return None;
    }
    let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(own[TIME]);
    let node = Node { content, mode: mode & !TYPE_BITS, uid, gid, time };
    Some(Record { number, dir, name, node })
}
