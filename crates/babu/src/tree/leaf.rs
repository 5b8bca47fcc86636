//! Up to 64 entries of one branch, in one piece of memory.
//!
//! ```text
//! │ heads, ascending: 8 × room │ slots: 4 × room │ records in order of arrival, gaps between them │ spare │
//! ```
//!
//! A search runs over the heads alone, which are a few lines next to each other; what is moved to make place for an entry
//! is 12 bytes per entry behind it. Records of a leaf lie together, so that a scan reads memory that it has asked for
//! in time.
//!
//! 1. Heads, and where they are equal the keys, ascend strictly.
//! 2. `dead` is the sum of the gaps, at most half of the bytes. When the memory does not suffice, a leaf with more than a
//!    quarter dead is compacted, not enlarged.
//! 3. Long records are kept apart, so that copying a leaf is cheap, and that 16 bits say where a record is.

use std::cmp::Ordering;
use std::ops::Range;

use crate::tree::Found;
use crate::tree::parts::Rest;
use crate::tree::prefetch::prefetch;
use crate::tree::record::{self, Record, record_bytes};
use crate::tree::slot::{SLOT_BYTES, Slot};

/// More do not fit.
pub(crate) const LEAF_ENTRIES: usize = 64;
/// Longer records are kept apart.
const INLINE_RECORD_BYTES: usize = 256;
const HEAD_BYTES: usize = 8;
const FIXED_BYTES: usize = HEAD_BYTES + SLOT_BYTES;
/// What a leaf costs beside its bytes: its place among others, and what the allocator adds.
const LEAF_BYTES: usize = 64;

// Where a record begins is 16 bits: a full leaf of the longest records, a third of it dead, and one more.
const _: () = assert!(
    LEAF_ENTRIES * (FIXED_BYTES + INLINE_RECORD_BYTES) * 4 / 3 * 9 / 8 + INLINE_RECORD_BYTES
        <= u16::MAX as usize
);

#[derive(Default)]
pub(crate) struct Leaf {
    bytes: Vec<u8>,
    apart: Option<Box<Apart>>,
    count: u8,
    /// How many entries there is place for without moving the records.
    room: u8,
    /// Bytes of records that are gone.
    dead: u32,
}

/// Long records. An empty one is free.
#[derive(Default)]
struct Apart {
    records: Vec<Box<[u8]>>,
    bytes: usize,
}

impl Leaf {
    pub(crate) const fn new() -> Leaf {
        Leaf { bytes: Vec::new(), apart: None, count: 0, room: 0, dead: 0 }
    }

    fn with_room(room: usize, record_bytes: usize) -> Leaf {
        let mut bytes = Vec::with_capacity(room * FIXED_BYTES + record_bytes);
        bytes.resize(room * FIXED_BYTES, 0);
        Leaf { bytes, room: room as u8, ..Leaf::new() }
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

    /// Memory taken, roughly.
    pub(crate) fn memory_bytes(&self) -> usize {
        let apart = self.apart.as_ref().map_or(0, |apart| apart.bytes);
        LEAF_BYTES + self.bytes.capacity() + apart
    }

    #[inline]
    fn heads(&self) -> &[[u8; HEAD_BYTES]] {
        &self.bytes.as_chunks().0[..self.len()]
    }

    #[inline]
    fn slots(&self) -> &[[u8; SLOT_BYTES]] {
        let start = usize::from(self.room) * HEAD_BYTES;
        &self.bytes[start..].as_chunks().0[..self.len()]
    }

    #[inline]
    pub(crate) fn head(&self, position: usize) -> u64 {
        u64::from_ne_bytes(self.heads()[position])
    }

    #[inline]
    fn slot(&self, position: usize) -> Slot {
        Slot(u32::from_ne_bytes(self.slots()[position]))
    }

    fn set_head(&mut self, position: usize, head: u64) {
        let start = position * HEAD_BYTES;
        self.bytes[start..start + HEAD_BYTES].copy_from_slice(&head.to_ne_bytes());
    }

    fn set_slot(&mut self, position: usize, slot: Slot) {
        let start = usize::from(self.room) * HEAD_BYTES + position * SLOT_BYTES;
        self.bytes[start..start + SLOT_BYTES].copy_from_slice(&slot.0.to_ne_bytes());
    }

    #[inline]
    fn record_of(&self, slot: Slot) -> Record<'_> {
        Record::read(match (slot.apart_number(), &self.apart) {
            (Some(number), Some(apart)) => &apart.records[number],
            _ => &self.bytes[slot.range()],
        })
    }

    /// The key of an entry from behind its prefix, and what the entry says.
    #[inline]
    pub(crate) fn entry(&self, position: usize) -> (Rest<'_>, Found<'_>) {
        let slot = self.slot(position);
        let record = self.record_of(slot);
        (record.rest(self.head(position)), found(slot, record))
    }

    /// How the first entry's key compares to one with the same head.
    pub(crate) fn first_order(&self, rest: Rest<'_>) -> Ordering {
        self.record_of(self.slot(0)).rest(rest.head).order(rest)
    }

    /// Asks for the memory that a search reads.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(self.heads().as_flattened());
        prefetch(self.slots().as_flattened());
    }

    /// All of its memory, for one who is about to read it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where a key is, or where it would be.
    #[inline]
    pub(crate) fn search(&self, rest: Rest<'_>) -> Result<usize, usize> {
        let heads = self.heads();
        let position = heads.partition_point(|head| u64::from_ne_bytes(*head) < rest.head);
        match heads.get(position) {
            Some(head) if u64::from_ne_bytes(*head) == rest.head => {
                if self.record_of(self.slot(position)).is_of(rest) {
                    return Ok(position);
                }
                self.search_equal_heads(position, rest)
            }
            _ => Err(position),
        }
    }

    #[cold]
    fn search_equal_heads(&self, start: usize, rest: Rest<'_>) -> Result<usize, usize> {
        let heads = &self.heads()[start..];
        let len = heads.partition_point(|head| u64::from_ne_bytes(*head) <= rest.head);
        let slots = &self.slots()[start..start + len];
        let found = slots.binary_search_by(|slot| {
            self.record_of(Slot(u32::from_ne_bytes(*slot))).rest(rest.head).order(rest)
        });
        found.map(|position| start + position).map_err(|position| start + position)
    }

    /// How many entries are before a key.
    pub(crate) fn lower_bound(&self, rest: Rest<'_>) -> usize {
        self.search(rest).unwrap_or_else(|position| position)
    }

    /// What there is to say of a key.
    #[inline]
    pub(crate) fn get(&self, rest: Rest<'_>) -> Option<Found<'_>> {
        let position = self.search(rest).ok()?;
        let slot = self.slot(position);
        Some(found(slot, self.record_of(slot)))
    }

    /// Adds an entry at its place, which [`Leaf::search`] has told. `None` is a tombstone. The leaf is not full.
    pub(crate) fn insert(&mut self, position: usize, rest: Rest<'_>, value: Option<&[u8]>) {
        let need = record_bytes(rest, value.unwrap_or_default());
        if self.count == self.room {
            self.rebuild(room_for(self.len() + 1), need);
        }
        let slot = self.store(rest, value);
        let count = self.len();
        self.bytes
            .copy_within(position * HEAD_BYTES..count * HEAD_BYTES, (position + 1) * HEAD_BYTES);
        let slots = usize::from(self.room) * HEAD_BYTES;
        let moved = slots + position * SLOT_BYTES..slots + count * SLOT_BYTES;
        self.bytes.copy_within(moved, slots + (position + 1) * SLOT_BYTES);
        self.count += 1;
        self.set_head(position, rest.head);
        self.set_slot(position, slot);
    }

    /// Changes what an entry says. `None` makes it a tombstone.
    pub(crate) fn replace(&mut self, position: usize, rest: Rest<'_>, value: Option<&[u8]>) {
        let old = self.slot(position);
        let need = record_bytes(rest, value.unwrap_or_default());
        if old.apart_number().is_none() && need <= old.inline_bytes() {
            let place = old.range();
            let end = place.start + need;
            self.bytes[place.start + record::value_offset(rest)..end]
                .copy_from_slice(value.unwrap_or_default());
            self.dead += (place.end - end) as u32;
            let slot = Slot::inline(place.start..end).with_deleted(value.is_none());
            self.set_slot(position, slot);
            self.compact_if_due();
            return;
        }
        self.release(old);
        self.set_slot(position, Slot::VACANT);
        let slot = self.store(rest, value);
        self.set_slot(position, slot);
        self.compact_if_due();
    }

    /// Removes entries.
    pub(crate) fn remove(&mut self, range: Range<usize>) {
        for position in range.clone() {
            self.release(self.slot(position));
        }
        let count = self.len();
        self.bytes
            .copy_within(range.end * HEAD_BYTES..count * HEAD_BYTES, range.start * HEAD_BYTES);
        let slots = usize::from(self.room) * HEAD_BYTES;
        let moved = slots + range.end * SLOT_BYTES..slots + count * SLOT_BYTES;
        self.bytes.copy_within(moved, slots + range.start * SLOT_BYTES);
        self.count -= range.len() as u8;
        self.compact_if_due();
    }

    /// Takes the entries from `position` on out into a leaf of their own.
    pub(crate) fn split_off(&mut self, position: usize) -> Leaf {
        let count = self.len();
        let right = self.subset(position..count, room_for(count - position), 0);
        *self = self.subset(0..position, room_for(position), 0);
        right
    }

    /// Takes over all entries of the leaf that follows.
    pub(crate) fn append(&mut self, mut right: Leaf) {
        self.rebuild(room_for(self.len() + right.len()), right.live_bytes());
        let count = right.len();
        self.take(&mut right, 0..count);
    }

    /// Puts a record where there is place.
    fn store(&mut self, rest: Rest<'_>, value: Option<&[u8]>) -> Slot {
        let bytes = value.unwrap_or_default();
        let need = record_bytes(rest, bytes);
        let slot = if need > INLINE_RECORD_BYTES {
            let mut record = Vec::with_capacity(need);
            record::write(&mut record, rest, bytes);
            self.keep_apart(record.into())
        } else {
            if self.bytes.capacity() - self.bytes.len() < need {
                if self.dead as usize * 4 > self.bytes.len() {
                    self.rebuild(usize::from(self.room), need);
                } else {
                    self.bytes.reserve_exact(need.max(self.bytes.len() / 8));
                }
            }
            let start = self.bytes.len();
            record::write(&mut self.bytes, rest, bytes);
            Slot::inline(start..self.bytes.len())
        };
        slot.with_deleted(value.is_none())
    }

    /// Gives up a record.
    fn release(&mut self, slot: Slot) {
        if slot.apart_number().is_some() {
            self.take_apart(slot);
        } else if slot.range().end == self.bytes.len() {
            self.bytes.truncate(slot.range().start);
        } else {
            self.dead += slot.inline_bytes() as u32;
        }
    }

    fn keep_apart(&mut self, record: Box<[u8]>) -> Slot {
        let apart = self.apart.get_or_insert_default();
        apart.bytes += record.len() + LEAF_BYTES / 2;
        let number = match apart.records.iter().position(|record| record.is_empty()) {
            Some(free) => {
                apart.records[free] = record;
                free
            }
            None => {
                apart.records.push(record);
                apart.records.len() - 1
            }
        };
        Slot::apart(number)
    }

    fn take_apart(&mut self, slot: Slot) -> Option<Box<[u8]>> {
        let apart = self.apart.as_mut()?;
        let record = std::mem::take(&mut apart.records[slot.apart_number()?]);
        apart.bytes -= record.len() + LEAF_BYTES / 2;
        if apart.bytes == 0 {
            self.apart = None;
        }
        Some(record)
    }

    fn fixed_bytes(&self) -> usize {
        usize::from(self.room) * FIXED_BYTES
    }

    /// Bytes of records that are not kept apart.
    fn live_bytes(&self) -> usize {
        self.bytes.len() - self.fixed_bytes() - self.dead as usize
    }

    fn compact_if_due(&mut self) {
        let bytes = self.bytes.len();
        if self.dead as usize * 2 > bytes || bytes * 4 < self.bytes.capacity() {
            self.rebuild(room_for(self.len()), 0);
        }
    }

    /// Makes room for `room` entries, the next of which has `need` bytes, and leaves no gaps.
    fn rebuild(&mut self, room: usize, need: usize) {
        if self.dead > 0 {
            *self = self.subset(0..self.len(), room, need);
            return;
        }
        let live = &self.bytes[self.fixed_bytes()..];
        let mut new = Leaf::with_room(room, provision(self.len(), live.len(), room, need));
        let heads = self.heads().as_flattened();
        new.bytes[..heads.len()].copy_from_slice(heads);
        new.bytes.extend_from_slice(live);
        new.count = self.count;
        let by = new.fixed_bytes() as isize - self.fixed_bytes() as isize;
        for position in 0..self.len() {
            new.set_slot(position, self.slot(position).moved(by));
        }
        new.apart = self.apart.take();
        *self = new;
    }

    /// A leaf of some of the entries, without gaps, the records in order of the keys.
    fn subset(&mut self, range: Range<usize>, room: usize, need: usize) -> Leaf {
        let live = range.clone().map(|position| self.slot(position).inline_bytes()).sum();
        let mut subset = Leaf::with_room(room, provision(range.len(), live, room, need));
        subset.take(self, range);
        subset
    }

    /// Copies entries of another leaf behind its own, and takes over what is kept apart.
    fn take(&mut self, other: &mut Leaf, range: Range<usize>) {
        for position in range {
            let old = other.slot(position);
            let slot = match other.take_apart_if(old) {
                Some(record) => self.keep_apart(record).with_deleted(old.is_deleted()),
                None => {
                    let by = self.bytes.len() as isize - old.range().start as isize;
                    self.bytes.extend_from_slice(&other.bytes[old.range()]);
                    old.moved(by)
                }
            };
            let end = self.len();
            self.count += 1;
            self.set_head(end, other.head(position));
            self.set_slot(end, slot);
        }
    }

    fn take_apart_if(&mut self, slot: Slot) -> Option<Box<[u8]>> {
        slot.apart_number()?;
        self.take_apart(slot)
    }
}

#[cfg(test)]
impl Leaf {
    pub(crate) fn check(&self) {
        assert!((1..=usize::from(self.room)).contains(&self.len()));
        let slots = || (0..self.len()).map(|position| self.slot(position));
        let live: usize = slots().map(Slot::inline_bytes).sum();
        assert_eq!(live, self.live_bytes());
        assert!(self.dead as usize * 2 <= self.bytes.len());
        let apart = slots().filter(|slot| slot.apart_number().is_some()).count();
        let kept = self
            .apart
            .as_ref()
            .map_or(0, |apart| apart.records.iter().filter(|record| !record.is_empty()).count());
        assert_eq!(apart, kept);
        assert!((0..self.len()).is_sorted_by_key(|position| self.entry(position).0));
    }
}

#[inline]
fn found<'a>(slot: Slot, record: Record<'a>) -> Found<'a> {
    match slot.is_deleted() {
        false => Found::Value(record.value),
        true => Found::Deleted,
    }
}

/// For how many entries a leaf that has so many makes room: up to a quarter more.
fn room_for(count: usize) -> usize {
    match count {
        0..=2 => count,
        _ => (count + count / 4 + 1).next_multiple_of(4).min(LEAF_ENTRIES),
    }
}

/// Memory for records: for those there are, for one of `need` bytes, and for as many like them as there will be room for.
fn provision(count: usize, live: usize, room: usize, need: usize) -> usize {
    let wanted = live + need;
    let known = count + usize::from(need > 0);
    wanted + wanted * room.saturating_sub(known) / known.max(1)
}
