//! Directories, partitions, entries, inodes.

use std::collections::{BTreeMap, BTreeSet};

use pando_core::keys::Kind;
use pando_core::record::{Content, Header};
use pando_types::peer::{EntryValue, Inherit};
use pando_types::{DirId, FileKind, Ino, Order, PartitionIndex, Radix, ShardIndex};

use super::rows::{FoundEntry, Volume};

type Faults<'a> = &'a mut Vec<String>;

/// Checks all of it.
pub fn check(volume: &Volume, faults: Faults<'_>) {
    let mut contents = BTreeMap::new();
    for (shard, dir, content) in &volume.contents {
        if volume.map.home(*dir) != *shard {
            faults.push(format!("content of {dir} is on shard {shard}"));
        }
        if content.tombstone {
            faults.push(format!("{dir} is still a tombstone"));
            continue;
        }
        contents.insert(*dir, content);
        let headers = volume.headers.get(dir).map_or(&[][..], Vec::as_slice);
        tiles(volume, *dir, content, headers, faults);
    }
    for (dir, headers) in &volume.headers {
        if !contents.contains_key(dir) {
            faults.push(format!("partitions of {dir} without content: {headers:?}"));
        }
    }
    entries(volume, &contents, faults);
    counts(volume, faults);
    links(volume, faults);
    cold(volume, faults);
}

fn tiles(
    volume: &Volume,
    dir: DirId,
    content: &Content,
    headers: &[(ShardIndex, u64, Header)],
    faults: Faults<'_>,
) {
    let base = &content.base;
    let inherit = Inherit { mode: base.mode, uid: base.uid, gid: base.gid, project: base.project };
    let mut ranges: Vec<_> = headers.iter().map(|(_, _, header)| header.range()).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    let mut end = 0;
    for range in &ranges {
        if range.start != end {
            faults
                .push(format!("{dir}: partitions leave a gap or overlap at {end:#x}: {ranges:x?}"));
        }
        end = range.end;
    }
    if end != Order::END {
        faults.push(format!("{dir}: partitions end at {end:#x}"));
    }
    for (shard, start, header) in headers {
        let home = volume.map.home(dir);
        let place = header
            .spread
            .map_or(home, |spread| pando_placement::shard_of(&spread, header.partition));
        let is_first = (header.partition, header.radix) == (PartitionIndex(0), Radix(0));
        if place != *shard || header.range().start != *start {
            faults.push(format!("{dir}: {header:?} is on shard {shard} at {start:#x}"));
        }
        if header.spread.is_none() && !is_first {
            faults.push(format!("{dir}: {header:?} was split without a spread"));
        }
        if header.ino != base.ino || header.inherit != inherit {
            faults.push(format!("{dir}: {header:?} differs from {content:?}"));
        }
    }
}

fn entries(volume: &Volume, contents: &BTreeMap<DirId, &Content>, faults: Faults<'_>) {
    let mut named = BTreeSet::new();
    let mut inos = BTreeSet::new();
    let mut names = BTreeSet::new();
    for entry in &volume.entries {
        let FoundEntry { shard, dir, order, name, value } = entry;
        if volume.secrets.order(name.as_bytes()).base() != order.base() {
            faults.push(format!("{name} of {dir} is at {order:?}"));
        }
        if !names.insert((*dir, name.clone())) {
            faults.push(format!("{name} of {dir} is there twice"));
        }
        let owned = volume.headers.get(dir).is_some_and(|headers| {
            headers.iter().any(|(at, _, h)| at == shard && h.range().contains(&order.0))
        });
        if !owned {
            faults.push(format!("{name} of {dir} is on shard {shard}, which does not own it"));
        }
        match value {
            EntryValue::Dir(access) => {
                if !named.insert(access.dir.id) {
                    faults.push(format!("{} is named twice", access.dir.id));
                }
                let Some(content) = contents.get(&access.dir.id) else {
                    faults.push(format!("{name} of {dir} leads to {access:?}: nothing is there"));
                    continue;
                };
                let base = &content.base;
                let same = (access.dir.ino, access.mode, access.uid, access.gid)
                    == (base.ino, base.mode, base.uid, base.gid);
                if !same || content.parent.id != *dir || content.name.as_ref() != Some(name) {
                    faults.push(format!("{name} of {dir}: {access:?} differs from {content:?}"));
                }
                let parent = contents.get(dir).map(|parent| parent.base.ino);
                if Some(content.parent.ino) != parent || !inos.insert(base.ino) {
                    faults.push(format!("{content:?} in {parent:?}"));
                }
            }
            EntryValue::File(inode) => {
                if inode.attr.nlink != 1 || !inos.insert(inode.attr.ino) {
                    faults.push(format!("{name} of {dir}: {:?}", inode.attr));
                }
            }
            EntryValue::Linked(ino, kind) => {
                let kind_there = volume.links.get(ino).map(|(_, inode)| inode.attr.kind);
                if kind_there != Some(*kind)
                    || !volume.link_names.contains(&(*ino, *dir, name.clone()))
                {
                    faults.push(format!("{name} of {dir}: {ino:?} is {kind_there:?}"));
                }
            }
        }
    }
    for dir in contents.keys() {
        if *dir != DirId::ROOT && !named.contains(dir) {
            faults.push(format!("{dir} has no name: {:?}", contents[dir]));
        }
    }
    for ino in volume.links.keys() {
        if !inos.insert(*ino) {
            faults.push(format!("{ino:?} is linked and elsewhere too"));
        }
    }
}

fn counts(volume: &Volume, faults: Faults<'_>) {
    for (dir, headers) in &volume.headers {
        for (shard, _, header) in headers {
            let inside = volume.entries.iter().filter(|entry| {
                entry.dir == *dir
                    && entry.shard == *shard
                    && header.range().contains(&entry.order.0)
            });
            let (mut entries, mut subdirs) = (0, 0);
            for entry in inside {
                entries += 1;
                subdirs += u64::from(matches!(entry.value, EntryValue::Dir(_)));
            }
            if (entries, subdirs) != (header.entries, header.subdirs) {
                faults.push(format!("{dir}: {entries}, {subdirs} entries: {header:?}"));
            }
        }
    }
}

fn links(volume: &Volume, faults: Faults<'_>) {
    let mut names: BTreeMap<Ino, u32> = BTreeMap::new();
    for entry in &volume.entries {
        if let EntryValue::Linked(ino, _) = entry.value {
            *names.entry(ino).or_default() += 1;
        }
    }
    for (ino, (shard, inode)) in &volume.links {
        let known = volume.link_names.iter().filter(|(of, ..)| of == ino).count();
        let count = names.get(ino).copied().unwrap_or(0);
        if volume.map.link(*ino) != *shard || count == 0 {
            faults.push(format!("{ino:?} on shard {shard} has {count} names"));
        }
        if inode.attr.nlink != count || known != count as usize || inode.attr.ino != *ino {
            faults.push(format!("{ino:?} has {count} names, knows {known}: {:?}", inode.attr));
        }
    }
    for (ino, dir, name) in &volume.link_names {
        if !volume.links.contains_key(ino) {
            faults.push(format!("{name} of {dir} is known to {ino:?}, which is gone"));
        }
    }
}

fn cold(volume: &Volume, faults: Faults<'_>) {
    let mut inline = BTreeSet::new();
    for entry in &volume.entries {
        let EntryValue::File(inode) = &entry.value else { continue };
        inline.insert((entry.shard, entry.dir, entry.order.0));
        let has =
            |kind: Kind| volume.cold.contains(&(entry.shard, entry.dir, kind as u8, entry.order.0));
        let symlink = inode.attr.kind == FileKind::Symlink;
        if inode.has_xattrs != has(Kind::Xattr) || symlink && !has(Kind::Inline) {
            faults.push(format!("{} of {}: cold rows differ: {inode:?}", entry.name, entry.dir));
        }
    }
    for &(shard, dir, kind, order) in &volume.cold {
        let of_dir = kind == Kind::DirXattr as u8
            && volume.contents.iter().any(|(at, id, _)| (*at, *id) == (shard, dir));
        if !of_dir && !inline.contains(&(shard, dir, order)) {
            faults.push(format!("{dir}: a row of kind {kind} at {order:#x} belongs to nothing"));
        }
    }
    for (ino, kind) in &volume.link_cold {
        if !volume.links.contains_key(ino) {
            faults.push(format!("a row of kind {kind} belongs to {ino:?}, which is gone"));
        }
    }
}
