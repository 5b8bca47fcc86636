//! Up to 64 entries of one branch.
//!
//! ```text
//! │ heads of keys, ascending: 8 × room │ handles: 8 × room │        one block of the arena
//! ```
//!
//! A search reads only the heads, which are a few adjacent cache lines. They are prefetched before
//! it begins.
//!
//! Heads, and keys of equal heads, ascend strictly.

use std::cmp::Ordering;
use std::ops::Range;

use crate::tree::arena::{Address, MAX_BLOCK_BYTES};
use crate::tree::parts::Rest;
use crate::tree::record::Found;
use crate::tree::record::Record;
use crate::tree::record::RecordHandle;
use crate::tree::records::Records;
use crate::types::prefetch::prefetch;

/// Most entries of a leaf.
pub(crate) const LEAF_ENTRIES: usize = 64;
const WORD_BYTES: usize = 8;
const ENTRY_BYTES: usize = 2 * WORD_BYTES;

const _: () = assert!(LEAF_ENTRIES * ENTRY_BYTES <= MAX_BLOCK_BYTES);

type Words = [[u8; WORD_BYTES]];

/// A leaf. Dropping it does not free its memory: [`Leaf::clear`] does, or the end of the tree.
#[derive(Default)]
pub(crate) struct Leaf {
    block: Address,
    count: u8,
    room: u8,
}

impl Leaf {
    pub(crate) const fn new() -> Leaf {
        Leaf { block: Address(0), count: 0, room: 0 }
    }

    fn with_room(room: usize, records: &mut Records) -> Leaf {
        Leaf { block: records.arena.allocate(room * ENTRY_BYTES), count: 0, room: room as u8 }
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.count)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() == LEAF_ENTRIES
    }

    fn block_bytes(&self) -> usize {
        usize::from(self.room) * ENTRY_BYTES
    }

    /// Heads and record handles of all entries.
    #[inline]
    fn words<'a>(&self, records: &'a Records) -> (&'a Words, &'a Words) {
        if self.room == 0 {
            return (&[], &[]);
        }
        let words = records.arena.block(self.block, self.block_bytes()).as_chunks().0;
        let (heads, handles) = words.split_at(usize::from(self.room));
        (&heads[..self.len()], &handles[..self.len()])
    }

    #[inline]
    fn heads<'a>(&self, records: &'a Records) -> &'a Words {
        self.words(records).0
    }

    #[inline]
    pub(crate) fn head(&self, position: usize, records: &Records) -> u64 {
        u64::from_ne_bytes(self.heads(records)[position])
    }

    #[inline]
    fn handle(&self, position: usize, records: &Records) -> RecordHandle {
        RecordHandle(u64::from_ne_bytes(self.words(records).1[position]))
    }

    /// Heads and record handles with all room of the leaf.
    #[inline]
    fn words_mut<'a>(&self, records: &'a mut Records) -> (&'a mut Words, &'a mut Words) {
        let block = records.arena.block_mut(self.block, self.block_bytes());
        block.as_chunks_mut().0.split_at_mut(usize::from(self.room))
    }

    /// The part of an entry's key after the prefix, and the entry's content.
    #[inline]
    pub(crate) fn entry<'a>(&self, position: usize, records: &'a Records) -> (Rest<'a>, Found<'a>) {
        let (heads, handles) = self.words(records);
        let handle = RecordHandle(u64::from_ne_bytes(handles[position]));
        let record = records.get(handle);
        (record.rest(u64::from_ne_bytes(heads[position])), found(handle, record))
    }

    /// Compares the first entry's key to a key with an equal head.
    pub(crate) fn first_order(&self, rest: Rest<'_>, records: &Records) -> Ordering {
        records.get(self.handle(0, records)).rest(rest.head).order(rest)
    }

    /// Prefetches the memory of the leaf.
    #[inline]
    pub(crate) fn prefetch(&self, records: &Records) {
        let (heads, handles) = self.words(records);
        prefetch(heads.as_flattened());
        prefetch(handles.as_flattened());
    }

    /// Prefetches the memory of an entry's record.
    #[inline]
    pub(crate) fn prefetch_record(&self, position: usize, records: &Records) {
        records.prefetch(self.handle(position, records));
    }

    /// Position of a key, or as an error the position where it would be inserted.
    #[inline]
    pub(crate) fn search(&self, rest: Rest<'_>, records: &Records) -> Result<usize, usize> {
        let (heads, handles) = self.words(records);
        let position = heads.partition_point(|head| u64::from_ne_bytes(*head) < rest.head);
        match heads.get(position) {
            Some(head) if u64::from_ne_bytes(*head) == rest.head => {
                if records.get(RecordHandle(u64::from_ne_bytes(handles[position]))).is_of(rest) {
                    return Ok(position);
                }
                self.search_equal_heads(position, rest, records)
            }
            _ => Err(position),
        }
    }

    #[cold]
    fn search_equal_heads(
        &self,
        start: usize,
        rest: Rest<'_>,
        records: &Records,
    ) -> Result<usize, usize> {
        let (heads, handles) = self.words(records);
        let heads = &heads[start..];
        let len = heads.partition_point(|head| u64::from_ne_bytes(*head) <= rest.head);
        let found = handles[start..start + len].binary_search_by(|handle| {
            records.get(RecordHandle(u64::from_ne_bytes(*handle))).rest(rest.head).order(rest)
        });
        found.map(|position| start + position).map_err(|position| start + position)
    }

    /// Number of entries with keys less than this key.
    pub(crate) fn lower_bound(&self, rest: Rest<'_>, records: &Records) -> usize {
        self.search(rest, records).unwrap_or_else(|position| position)
    }

    /// The content of a key's entry.
    #[inline]
    pub(crate) fn get<'a>(&self, rest: Rest<'_>, records: &'a Records) -> Option<Found<'a>> {
        let position = self.search(rest, records).ok()?;
        let handle = self.handle(position, records);
        Some(found(handle, records.get(handle)))
    }

    /// Adds an entry at the position that [`Leaf::search`] returned. A value of `None` is a
    /// tombstone. The leaf must not be full.
    pub(crate) fn insert(
        &mut self,
        position: usize,
        rest: Rest<'_>,
        value: Option<&[u8]>,
        records: &mut Records,
    ) {
        if self.count == self.room {
            self.move_to_room(room_for(self.len() + 1), records);
        }
        let handle = records.add(rest, value);
        let count = self.len();
        let (heads, handles) = self.words_mut(records);
        heads.copy_within(position..count, position + 1);
        handles.copy_within(position..count, position + 1);
        heads[position] = rest.head.to_ne_bytes();
        handles[position] = handle.0.to_ne_bytes();
        self.count += 1;
    }

    /// Replaces the value of an entry. `None` makes the entry a tombstone.
    pub(crate) fn replace(
        &mut self,
        position: usize,
        rest: Rest<'_>,
        value: Option<&[u8]>,
        records: &mut Records,
    ) {
        let handle = records.replace(self.handle(position, records), rest, value);
        self.words_mut(records).1[position] = handle.0.to_ne_bytes();
    }

    /// Removes the entries at these positions.
    pub(crate) fn remove(&mut self, range: Range<usize>, records: &mut Records) {
        for position in range.clone() {
            records.remove(self.handle(position, records));
        }
        self.close_gap(range, records);
        if self.is_empty() {
            self.clear(records);
        } else if self.len() * 3 < usize::from(self.room) {
            self.move_to_room(room_for(self.len()), records);
        }
    }

    /// Removes all entries, and frees the leaf's memory.
    pub(crate) fn clear(&mut self, records: &mut Records) {
        for position in 0..self.len() {
            records.remove(self.handle(position, records));
        }
        if self.room > 0 {
            records.arena.release(self.block, self.block_bytes());
        }
        *self = Leaf::new();
    }

    /// Moves the entries from `position` on into a new leaf, and returns that.
    pub(crate) fn split_off(&mut self, position: usize, records: &mut Records) -> Leaf {
        let count = self.len();
        let mut right = Leaf::with_room(LEAF_ENTRIES, records);
        right.copy(self, position..count, records);
        self.close_gap(position..count, records);
        right
    }

    /// Takes over all entries of the next leaf.
    pub(crate) fn append(&mut self, right: Leaf, records: &mut Records) {
        let room = room_for(self.len() + right.len());
        if usize::from(self.room) < room {
            self.move_to_room(room, records);
        }
        self.copy(&right, 0..right.len(), records);
        records.arena.release(right.block, right.block_bytes());
    }

    fn close_gap(&mut self, range: Range<usize>, records: &mut Records) {
        let count = self.len();
        let (heads, handles) = self.words_mut(records);
        heads.copy_within(range.end..count, range.start);
        handles.copy_within(range.end..count, range.start);
        self.count -= range.len() as u8;
    }

    fn move_to_room(&mut self, room: usize, records: &mut Records) {
        let mut moved = Leaf::with_room(room, records);
        if self.room > 0 {
            moved.copy(self, 0..self.len(), records);
            records.arena.release(self.block, self.block_bytes());
        }
        *self = moved;
    }

    /// Appends entries of another leaf.
    fn copy(&mut self, other: &Leaf, range: Range<usize>, records: &mut Records) {
        let (from, to) = records
            .arena
            .two_blocks((other.block, other.block_bytes()), (self.block, self.block_bytes()));
        let place = self.len()..self.len() + range.len();
        let (from, to) = (from.as_chunks::<WORD_BYTES>().0, to.as_chunks_mut::<WORD_BYTES>().0);
        let (other_room, room) = (usize::from(other.room), usize::from(self.room));
        to[place.clone()].copy_from_slice(&from[range.clone()]);
        to[room + place.start..room + place.end]
            .copy_from_slice(&from[other_room + range.start..other_room + range.end]);
        self.count = place.end as u8;
    }
}

#[cfg(test)]
impl Leaf {
    pub(crate) fn check(&self, records: &Records) {
        assert!((1..=usize::from(self.room)).contains(&self.len()));
        assert!((0..self.len()).is_sorted_by_key(|position| self.entry(position, records).0));
    }
}

#[inline]
fn found<'a>(handle: RecordHandle, record: Record<'a>) -> Found<'a> {
    match handle.is_deleted() {
        false => Found::Value(record.value),
        true => Found::Deleted,
    }
}

/// Number of entries for which a leaf with `count` entries has room.
fn room_for(count: usize) -> usize {
    count.next_power_of_two().min(LEAF_ENTRIES)
}
