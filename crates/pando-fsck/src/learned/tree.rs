//! What the sweep learns of directories: the few facts about each that other rows must agree with.
//!
//! A directory takes about 250 bytes, more if it is split. Its files take none.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use pando_core::record::{Content, Header};
use pando_placement::shard_of;
use pando_types::peer::Inherit;
use pando_types::reply::{Access, Spread};
use pando_types::{DirId, DirRef, FileKind, Ino, Name, Order, PartitionIndex, Radix, ShardIndex};

use crate::rows::volume::Volume;

/// A directory as its content record tells.
struct ContentSide {
    ino: Ino,
    parent: DirRef,
    name: Option<u64>,
    inherit: Inherit,
    is_tombstone: bool,
    is_sound: bool,
}

/// What decides who may do what in a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Rights {
    mode: u16,
    uid: u32,
    gid: u32,
}

/// A directory as an entry that leads to it tells.
#[derive(Clone, Copy)]
pub struct EntrySide {
    pub shard: ShardIndex,
    pub parent: DirId,
    pub order: u64,
    name: u64,
    ino: Ino,
    rights: Rights,
}

/// A partition as its header tells.
#[derive(Clone, Copy)]
pub struct Part {
    pub shard: ShardIndex,
    pub start: u64,
    pub partition: PartitionIndex,
    pub radix: Radix,
    ino: Ino,
    inherit: Inherit,
    spread: Option<Spread>,
}

impl Part {
    pub fn new(shard: ShardIndex, start: u64, header: &Header) -> Self {
        Self {
            shard,
            start,
            partition: header.partition,
            radix: header.radix,
            ino: header.ino,
            inherit: header.inherit,
            spread: header.spread,
        }
    }
}

#[derive(Default)]
struct Node {
    content: Option<ContentSide>,
    entry: Option<EntrySide>,
    parts: Vec<Part>,
    visited: u32,
}

/// All directories.
#[derive(Default)]
pub struct Tree {
    nodes: BTreeMap<DirId, Node>,
    /// Further entries of directories that have one already.
    more_entries: Vec<(DirId, EntrySide)>,
    tombstones: u64,
}

/// Hash of a name, as it is kept here.
pub fn name_hash(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// Whether a directory's own attributes are possible. The real counts are those of its partitions.
pub fn has_sound_attributes(content: &Content) -> bool {
    let base = &content.base;
    (base.kind, base.nlink, base.size) == (FileKind::Directory, 2, 0)
}

/// Attributes of a directory that its partitions copy.
pub fn inherit(content: &Content) -> Inherit {
    let base = &content.base;
    Inherit { mode: base.mode, uid: base.uid, gid: base.gid, project: base.project }
}

/// The shard where a partition must be.
pub fn shard_for(
    volume: &Volume,
    dir: DirId,
    spread: Option<Spread>,
    partition: PartitionIndex,
) -> ShardIndex {
    match spread {
        Some(spread) if partition.0 > 0 => shard_of(&spread, partition),
        _ => volume.map.home(dir),
    }
}

impl Tree {
    pub fn content(&mut self, dir: DirId, content: &Content) {
        self.tombstones += u64::from(content.tombstone);
        self.nodes.entry(dir).or_default().content = Some(ContentSide {
            ino: content.base.ino,
            parent: content.parent,
            name: content.name.as_ref().map(|name| name_hash(name.as_bytes())),
            inherit: inherit(content),
            is_tombstone: content.tombstone,
            is_sound: has_sound_attributes(content),
        });
    }

    pub fn part(&mut self, dir: DirId, shard: ShardIndex, start: u64, header: &Header) {
        self.nodes.entry(dir).or_default().parts.push(Part::new(shard, start, header));
    }

    pub fn entry(
        &mut self,
        (shard, parent, order): (ShardIndex, DirId, u64),
        name: &Name,
        access: &Access,
    ) {
        let side = EntrySide {
            shard,
            parent,
            order,
            name: name_hash(name.as_bytes()),
            ino: access.dir.ino,
            rights: Rights { mode: access.mode, uid: access.uid, gid: access.gid },
        };
        let node = self.nodes.entry(access.dir.id).or_default();
        match node.entry {
            None => node.entry = Some(side),
            Some(_) => self.more_entries.push((access.dir.id, side)),
        }
    }

    /// Number of directories, without tombstones.
    pub fn directories(&self) -> u64 {
        self.nodes.values().filter(|n| n.content.is_some()).count() as u64 - self.tombstones
    }

    /// Number of removed directories with ids that are not free yet.
    pub fn tombstones(&self) -> u64 {
        self.tombstones
    }

    /// Entries that lead to a directory.
    pub fn entries_of(&self, dir: DirId) -> Vec<EntrySide> {
        let first = self.nodes.get(&dir).and_then(|node| node.entry);
        let more = self.more_entries.iter().filter(|(id, _)| *id == dir).map(|(_, side)| *side);
        first.into_iter().chain(more).collect()
    }

    /// Partitions of a directory.
    pub fn parts_of(&self, dir: DirId) -> &[Part] {
        self.nodes.get(&dir).map_or(&[], |node| &node.parts)
    }

    /// Whether a directory's partitions hold every order exactly once.
    pub fn tiles(&self, dir: DirId) -> bool {
        tiles(self.parts_of(dir))
    }

    /// Directories that must be looked at, and loops of directories.
    pub fn suspects(&mut self, volume: &Volume) -> (Vec<DirId>, Vec<Vec<DirId>>) {
        let mut dirs: Vec<DirId> = self
            .nodes
            .iter()
            .filter(|(dir, node)| !self.is_sound(volume, **dir, node))
            .map(|(dir, _)| *dir)
            .collect();
        dirs.extend(self.more_entries.iter().map(|(dir, _)| *dir));
        if !self.nodes.contains_key(&DirId::ROOT) {
            dirs.push(DirId::ROOT);
        }
        dirs.sort_unstable();
        dirs.dedup();
        (dirs, self.loops())
    }

    fn is_sound(&self, volume: &Volume, dir: DirId, node: &Node) -> bool {
        let Some(content) = &node.content else { return false };
        if content.is_tombstone || !content.is_sound {
            return false;
        }
        let parts = node.parts.iter().all(|part| {
            (part.ino, part.inherit) == (content.ino, content.inherit)
                && is_placed(volume, dir, part, &node.parts)
        });
        if !parts || !tiles(&node.parts) {
            return false;
        }
        let Some(entry) = &node.entry else {
            return dir == DirId::ROOT && content.name.is_none() && content.parent == DirRef::ROOT;
        };
        let parent = self.nodes.get(&entry.parent).and_then(|parent| parent.content.as_ref());
        let Inherit { mode, uid, gid, .. } = content.inherit;
        (entry.ino, entry.rights) == (content.ino, Rights { mode, uid, gid })
            && (Some(entry.name), entry.parent) == (content.name, content.parent.id)
            && parent.is_some_and(|parent| parent.ino == content.parent.ino)
            && dir != DirId::ROOT
    }

    fn loops(&mut self) -> Vec<Vec<DirId>> {
        let mut loops = Vec::new();
        let dirs: Vec<DirId> = self.nodes.keys().copied().collect();
        for (walk, dir) in (1..).zip(dirs) {
            let mut at = dir;
            let up = |node: &Node| {
                let content = node.content.as_ref().filter(|content| !content.is_tombstone);
                node.entry.map(|e| e.parent).or(content.map(|c| c.parent.id))
            };
            while at != DirId::ROOT
                && let Some(node) = self.nodes.get_mut(&at)
                && node.visited != walk
                && node.content.is_some()
            {
                if node.visited != 0 {
                    at = DirId::ROOT;
                    break;
                }
                node.visited = walk;
                match up(node) {
                    Some(parent) => at = parent,
                    None => break,
                }
            }
            let in_loop = |node: &Node| node.visited == walk && node.content.is_some();
            if at == DirId::ROOT || !self.nodes.get(&at).is_some_and(in_loop) {
                continue;
            }
            // All directories of the loop, from here up to here again.
            let mut members = vec![at];
            let mut next = self.nodes.get(&at).and_then(up);
            while let Some(dir) = next
                && dir != at
                && members.len() <= self.nodes.len()
            {
                members.push(dir);
                next = self.nodes.get(&dir).and_then(up);
            }
            if next == Some(at) {
                loops.push(members);
            }
        }
        loops
    }
}

/// Whether a partition is where its index and its directory's spread put it, and has the spread of
/// the other partitions.
pub fn is_placed(volume: &Volume, dir: DirId, part: &Part, all: &[Part]) -> bool {
    let orders = pando_placement::range(part.partition, part.radix);
    let is_whole = (part.partition, part.radix) == (PartitionIndex(0), Radix(0));
    part.shard == shard_for(volume, dir, part.spread, part.partition)
        && orders.start == part.start
        && !orders.is_empty()
        && (part.spread.is_some() || is_whole)
        && part.spread.as_ref().is_none_or(pando_placement::is_spread)
        && all.iter().all(|other| other.spread == part.spread)
}

/// Whether the ranges of partitions hold every order exactly once.
pub fn tiles(parts: &[Part]) -> bool {
    let mut ranges: Vec<_> =
        parts.iter().map(|part| pando_placement::range(part.partition, part.radix)).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    let mut end = 0;
    for range in &ranges {
        if range.start != end {
            return false;
        }
        end = range.end;
    }
    end == Order::END
}
