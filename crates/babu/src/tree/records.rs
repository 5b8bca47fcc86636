//! The memory of a tree: its records, and the leaves that refer to them.

use crate::tree::arena::{Arena, MAX_BLOCK_BYTES};
use crate::tree::parts::Rest;
use crate::tree::record::RecordHandle;
use crate::tree::record::{self, Record, record_bytes};
use crate::types::prefetch::prefetch;

/// Memory of a long record beside its bytes, in bytes: the allocator's part, and its place in
/// `long`.
const LONG_RECORD_BYTES: usize = 32;

#[derive(Default)]
pub(crate) struct Records {
    pub(crate) arena: Arena,
    /// Records longer than a block, by number. An empty one is free.
    long: Vec<Box<[u8]>>,
    free: Vec<u32>,
    long_bytes: usize,
    count: usize,
}

impl Records {
    /// An empty set of records. It takes over this one's memory once that is freed.
    pub(crate) fn successor(&self) -> Records {
        Records { arena: self.arena.successor(), ..Records::default() }
    }

    /// Number of records. Each entry has one.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Approximate memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.arena.bytes() + self.long_bytes
    }

    #[inline]
    fn bytes_of(&self, handle: RecordHandle) -> &[u8] {
        match handle.long_number() {
            None => self.arena.block(handle.address(), handle.len()),
            Some(number) => &self.long[number],
        }
    }

    #[inline]
    pub(crate) fn get(&self, handle: RecordHandle) -> Record<'_> {
        Record::read(self.bytes_of(handle))
    }

    /// Prefetches a record.
    #[inline]
    pub(crate) fn prefetch(&self, handle: RecordHandle) {
        if handle.long_number().is_none() {
            prefetch(self.bytes_of(handle));
        }
    }

    /// Stores a record, and returns its record handle. Without a value it is a tombstone.
    #[inline]
    pub(crate) fn add(&mut self, rest: Rest<'_>, value: Option<&[u8]>) -> RecordHandle {
        let bytes = value.unwrap_or_default();
        let len = record_bytes(rest, bytes);
        self.count += 1;
        let handle = if len <= MAX_BLOCK_BYTES {
            let address = self.arena.allocate(len);
            record::write(self.arena.block_mut(address, len), rest, bytes);
            RecordHandle::short(address, len)
        } else {
            let mut record = vec![0; len];
            record::write(&mut record, rest, bytes);
            self.add_long(record.into())
        };
        handle.with_deleted(value.is_none())
    }

    fn add_long(&mut self, record: Box<[u8]>) -> RecordHandle {
        self.long_bytes += record.len() + LONG_RECORD_BYTES;
        RecordHandle::long(match self.free.pop() {
            Some(number) => {
                self.long[number as usize] = record;
                number
            }
            None => {
                self.long.push(record);
                self.long.len() as u32 - 1
            }
        })
    }

    /// Replaces a record by one of the same key. Overwrites it in place if the sizes allow.
    pub(crate) fn replace(
        &mut self,
        old: RecordHandle,
        rest: Rest<'_>,
        value: Option<&[u8]>,
    ) -> RecordHandle {
        let bytes = value.unwrap_or_default();
        let len = record_bytes(rest, bytes);
        let is_short = old.long_number().is_none() && len <= MAX_BLOCK_BYTES;
        if is_short && Arena::is_same_size(old.len(), len) {
            record::write(self.arena.block_mut(old.address(), len), rest, bytes);
            return RecordHandle::short(old.address(), len).with_deleted(value.is_none());
        }
        self.remove(old);
        self.add(rest, value)
    }

    /// Removes a record.
    #[inline]
    pub(crate) fn remove(&mut self, handle: RecordHandle) {
        self.count -= 1;
        match handle.long_number() {
            None => self.arena.release(handle.address(), handle.len()),
            Some(number) => {
                let record = std::mem::take(&mut self.long[number]);
                self.long_bytes -= record.len() + LONG_RECORD_BYTES;
                self.free.push(number as u32);
            }
        }
    }
}
