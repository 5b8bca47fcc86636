//! What the sweep learns of file data: which objects are needed, by which file, and how long they
//! must be.
//!
//! An object takes eight bytes. Objects are in lists by session and by thousands of its counter.
//! Whether an object is needed is known only after all rows are read.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use pando_types::op::{FILE_SIZE_MAX, ObjectId, SLICE_MAX};
use pando_types::peer::Inode;
use pando_types::reply::Slice;
use pando_types::{FileKind, Ino};

use crate::rows::key::Cold;

/// Number of low bits of an object's counter that one list covers: 4,096 objects.
const LIST_BITS: u32 = 12;
const OWNER_BITS: u32 = 20;

/// One number for each object: `counter (12) ‖ owner's hash (20) ‖ length (32)`, ascending.
type List = Vec<u64>;

/// Objects that files need, and objects that are to be deleted.
#[derive(Default)]
pub struct Needed {
    lists: BTreeMap<u128, List>,
    garbage: BTreeSet<ObjectId>,
    suspects: BTreeSet<ObjectId>,
}

fn owner_hash(ino: Ino) -> u64 {
    let mut hasher = DefaultHasher::new();
    ino.hash(&mut hasher);
    hasher.finish() >> (64 - OWNER_BITS)
}

fn counter(object: ObjectId) -> u64 {
    object.0 as u64 & ((1 << LIST_BITS) - 1)
}

impl Needed {
    /// Notes a slice of a file.
    pub fn name(&mut self, ino: Ino, slice: &Slice) {
        let object = slice.range.object;
        let len = u64::from(u32::try_from(slice.range.object_len).unwrap_or(u32::MAX));
        let packed = counter(object) << 52 | owner_hash(ino) << 32 | len;
        let list = self.lists.entry(object.0 >> LIST_BITS).or_default();
        match list.binary_search_by_key(&(packed >> 52), |other| other >> 52) {
            Err(at) => list.insert(at, packed),
            Ok(at) if list[at] != packed => {
                self.suspects.insert(object);
                list[at] = list[at].max(packed);
            }
            Ok(_) => {}
        }
    }

    /// Notes an object that is to be deleted.
    pub fn garbage(&mut self, object: ObjectId) {
        self.garbage.insert(object);
    }

    /// Whether an object is to be deleted.
    pub fn is_garbage(&self, object: ObjectId) -> bool {
        self.garbage.contains(&object)
    }

    /// Bytes of content that an object must have; `None` if no file needs it.
    pub fn len(&self, object: ObjectId) -> Option<u64> {
        let list = self.lists.get(&(object.0 >> LIST_BITS))?;
        let at = list.binary_search_by_key(&counter(object), |other| other >> 52).ok()?;
        Some(list[at] & u64::from(u32::MAX))
    }

    /// Objects above `after` and up to `last` that some file needs, ascending.
    pub fn between(&self, after: Option<ObjectId>, last: Option<ObjectId>) -> Vec<ObjectId> {
        let Some(first) = after.map_or(Some(0), |after| after.0.checked_add(1)) else {
            return Vec::new();
        };
        let last = last.map_or(u128::MAX, |last| last.0);
        if last < first {
            return Vec::new();
        }
        let lists = self.lists.range(first >> LIST_BITS..=last >> LIST_BITS);
        let all = lists.flat_map(|(high, list)| {
            list.iter().map(move |packed| high << LIST_BITS | u128::from(packed >> 52))
        });
        all.filter(|id| (first..=last).contains(id)).map(ObjectId).collect()
    }

    /// Objects that two files need, and objects that are both needed and to be deleted.
    pub fn suspects(&self) -> BTreeSet<ObjectId> {
        let doomed = self.garbage.iter().filter(|id| self.len(**id).is_some());
        self.suspects.iter().copied().chain(doomed.copied()).collect()
    }

    /// Number of objects that are to be deleted.
    pub fn garbage_count(&self) -> u64 {
        self.garbage.len() as u64
    }
}

/// The rows beside one inode, collected while the sweep reads them.
#[derive(Default)]
pub struct ColdRows {
    xattr: bool,
    inline: Option<u64>,
    slices: u64,
    end: u64,
    wrong: Option<String>,
}

impl ColdRows {
    /// Notes one row. A slice comes with its record.
    pub fn pass(&mut self, cold: Cold, value: &[u8], slice: Option<&Slice>) {
        match (cold, slice) {
            (Cold::Xattr, _) => self.xattr = true,
            (Cold::Inline, _) => self.inline = Some(value.len() as u64),
            (Cold::Slice(offset), Some(slice)) => self.slice(offset, slice),
            (Cold::Slice(_), None) => {}
        }
    }

    fn slice(&mut self, offset: u64, slice: &Slice) {
        let range = &slice.range;
        self.slices += 1;
        let end = offset.saturating_add(range.len);
        let in_object = range.offset.checked_add(range.len).is_some_and(|e| e <= range.object_len);
        if slice.offset != offset {
            self.is_wrong(format!("the slice at {offset} says that it is at {}", slice.offset));
        } else if range.len == 0 || range.len > SLICE_MAX || end > FILE_SIZE_MAX {
            self.is_wrong(format!("the slice at {offset} has {} bytes", range.len));
        } else if !in_object {
            self.is_wrong(format!("the slice at {offset} reaches beyond its object's end"));
        } else if offset < self.end {
            self.is_wrong(format!("the slice at {offset} overlaps the one before"));
        }
        self.end = self.end.max(end);
    }

    fn is_wrong(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    /// Whether there is a row of extended attributes.
    pub fn has_xattrs(&self) -> bool {
        self.xattr
    }

    /// Describes how the rows do not fit the inode; `None` if they fit.
    pub fn misfit(&self, inode: &Inode) -> Option<String> {
        if is_planted!(MisfitUnseen) {
            return None;
        }
        if self.wrong.is_some() {
            return self.wrong.clone();
        }
        let size = inode.attr.size;
        let inline = self.inline.unwrap_or(0);
        let misfit = match inode.attr.kind {
            FileKind::Directory => "a directory's inode stands in for a file's".to_owned(),
            FileKind::Symlink if self.inline != Some(size) || size == 0 || self.slices > 0 => {
                format!("a symbolic link of {size} bytes has {inline} bytes of target")
            }
            FileKind::Symlink => return None,
            FileKind::Regular if inode.is_inline && self.slices > 0 => {
                format!("its data is said to be inline, and it has {} slices", self.slices)
            }
            FileKind::Regular if !inode.is_inline && self.inline.is_some() => {
                format!("its data is said to be in objects, and {inline} bytes are inline")
            }
            FileKind::Regular if inline.max(self.end) > size => {
                format!("data reaches to byte {}, the file to {size}", inline.max(self.end))
            }
            FileKind::Regular => return None,
            _ if self.inline.is_some() || self.slices > 0 || size > 0 => {
                "a device, pipe or socket has data".to_owned()
            }
            _ => return None,
        };
        Some(misfit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pando_types::op::ObjectRange;

    fn slice(object: u128, object_len: u64) -> Slice {
        let range = ObjectRange {
            object: ObjectId(object),
            offset: 0,
            len: 1,
            object_len,
            store: 0,
            key: 0,
            codec: 0,
        };
        Slice { offset: 0, range }
    }

    #[test]
    fn needed_objects_are_found_again_with_their_lengths() {
        let mut needed = Needed::default();
        let ids: [u128; 6] = [0, 1, 4095, 4096, 7 << 64, (7 << 64) + 5000];
        for (n, id) in ids.iter().enumerate() {
            needed.name(Ino(9), &slice(*id, 100 + n as u64));
            needed.name(Ino(9), &slice(*id, 100 + n as u64));
        }
        for (n, id) in ids.iter().enumerate() {
            assert_eq!(needed.len(ObjectId(*id)), Some(100 + n as u64));
            assert_eq!(needed.len(ObjectId(id + 2)), None);
        }
        let all: Vec<u128> = needed.between(None, None).into_iter().map(|id| id.0).collect();
        assert_eq!(all, ids);
        let some = needed.between(Some(ObjectId(1)), Some(ObjectId(4096)));
        assert_eq!(some, [ObjectId(4095), ObjectId(4096)]);
        assert!(needed.suspects().is_empty());
        needed.name(Ino(10), &slice(4095, 102));
        needed.garbage(ObjectId(1));
        let suspects: Vec<_> = needed.suspects().into_iter().collect();
        assert_eq!(suspects, [ObjectId(1), ObjectId(4095)]);
    }
}
