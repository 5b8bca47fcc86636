//! A block: consecutive entries of an index file, read and checked as one.
//!
//! ```text
//! as stored                                       raw
//!  0  u32  checksum of bytes 4.., seeded with      0  entries
//!          the block's place                          restarts: u32 offset of every 16th entry
//!  4  u8   codec (0: raw, 1: LZ4)                     u32 number of entries
//!  5  3 zeros
//!  8  u32  raw length                             entry: varint bytes shared with the key before ‖ varint bytes
//! 12       raw, as the codec leaves it                   that follow ‖ varint kind ‖ these bytes ‖ value
//!                                                 kind:  0 tombstone, n + 1 a value of n bytes
//! ```
//!
//! An entry at a restart shares no bytes with the key before it. A tombstone hides its key in the
//! files below.

use std::cmp::Ordering;
use std::ops::Range;

use crate::types::codec::{Fields, Seal, put_varint};
use crate::types::key::MAX_VALUE_BYTES;
use crate::types::key::{INLINE_BYTES, Key, MAX_KEY_BYTES, head};
use crate::types::prefetch::prefetch;

pub(crate) const BLOCK_HEADER_BYTES: usize = 12;
const RESTART_INTERVAL: usize = 16;
const RAW: u8 = 0;
const LZ4: u8 = 1;
/// Size in bytes beyond which entries begin another block, whatever the options say.
pub(crate) const MAX_BLOCK_BYTES: usize = 16 << 20;
/// Bytes that are prefetched: usual entries from a restart to the next take this much.
const PREFETCHED_BYTES: usize = 2 << 10;
/// Longest raw block in bytes. A block may end with one entry of the greatest length.
const MAX_RAW_BYTES: usize = MAX_BLOCK_BYTES + MAX_VALUE_BYTES + (1 << 20);

/// Collects entries in ascending order of keys, and encodes them as a block.
pub(crate) struct BlockBuilder {
    raw: Vec<u8>,
    restarts: Vec<u32>,
    count: usize,
    last_key: Vec<u8>,
    compressed: Vec<u8>,
}

impl BlockBuilder {
    pub(crate) fn new() -> BlockBuilder {
        BlockBuilder {
            raw: Vec::new(),
            restarts: Vec::new(),
            count: 0,
            last_key: Vec::new(),
            compressed: Vec::new(),
        }
    }

    /// Adds a value, or a tombstone if `value` is `None`.
    pub(crate) fn push(&mut self, key: &[u8], value: Option<&[u8]>) {
        let mut shared = 0;
        if self.count.is_multiple_of(RESTART_INTERVAL) {
            self.restarts.push(self.raw.len() as u32);
        } else {
            shared = shared_bytes(&self.last_key, key);
        }
        put_varint(&mut self.raw, shared as u64);
        put_varint(&mut self.raw, (key.len() - shared) as u64);
        put_varint(&mut self.raw, value.map_or(0, |value| value.len() as u64 + 1));
        self.raw.extend_from_slice(&key[shared..]);
        self.raw.extend_from_slice(value.unwrap_or_default());
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
        self.count += 1;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Raw length so far, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.raw.len() + self.restarts.len() * 4
    }

    pub(crate) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Appends the block to `out` and begins another. Returns the stored length of the block in
    /// bytes.
    pub(crate) fn finish(&mut self, seal: Seal, offset: u64, out: &mut Vec<u8>) -> u32 {
        for restart in &self.restarts {
            self.raw.extend_from_slice(&restart.to_le_bytes());
        }
        self.raw.extend_from_slice(&(self.count as u32).to_le_bytes());
        let room = lz4_flex::block::get_maximum_output_size(self.raw.len());
        self.compressed.resize(room, 0);
        // Compression cannot fail with this much room. If it did, the block would be stored raw.
        let written = lz4_flex::block::compress_into(&self.raw, &mut self.compressed);
        let (codec, payload) = match written {
            Ok(bytes) if bytes < self.raw.len() - self.raw.len() / 8 => {
                (LZ4, &self.compressed[..bytes])
            }
            _ => (RAW, &self.raw[..]),
        };
        let start = out.len();
        out.extend_from_slice(&[0, 0, 0, 0, codec, 0, 0, 0]);
        out.extend_from_slice(&(self.raw.len() as u32).to_le_bytes());
        out.extend_from_slice(payload);
        let checksum = seal.at(offset).over(&out[start + 4..]).value();
        out[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
        self.raw.clear();
        self.restarts.clear();
        self.last_key.clear();
        self.count = 0;
        (out.len() - start) as u32
    }
}

/// The numbers at the head of an entry.
struct Header {
    /// Bytes that the key shares with the one before.
    shared: usize,
    suffix_bytes: usize,
    /// 0: a deletion. Otherwise one more than the bytes of the value.
    kind: usize,
    /// Bytes of these numbers themselves.
    bytes: usize,
}

/// The head of an entry of which a number takes more than one byte.
#[cold]
fn long_header(body: &[u8]) -> Option<Header> {
    let mut fields = Fields(body);
    let shared = usize::try_from(fields.varint()?).ok()?;
    let suffix_bytes = usize::try_from(fields.varint()?).ok()?;
    let kind = usize::try_from(fields.varint()?).ok()?;
    Some(Header { shared, suffix_bytes, kind, bytes: body.len() - fields.0.len() })
}

fn shared_bytes(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// A block in memory. It was checked as a whole: all entries parse, and keys ascend.
#[derive(Debug)]
pub(crate) struct Block {
    raw: Vec<u8>,
    /// Where entries end and the restart offsets begin.
    entries_end: usize,
    count: usize,
    /// Bytes with which all keys begin. There may be more.
    common: Key,
    /// Copies of the restarts, for searches: in the block they are far apart in memory.
    restarts: Box<[Restart]>,
}

/// An entry that shares no bytes with the one before.
#[derive(Debug, Clone, Copy, Default)]
struct Restart {
    /// The first bytes of its key after the common ones, as a number.
    head: u64,
    at: u32,
}

/// The block's entry for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BlockFound {
    Value(Range<usize>),
    Tombstone,
}

/// The decoded header of one entry, and the positions of its parts.
struct Entry {
    shared: usize,
    suffix: Range<usize>,
    /// Position of the value. `None`: a tombstone.
    value: Option<Range<usize>>,
    end: usize,
}

impl Block {
    /// Checks and decodes a block that was read from `offset`. An error says what is wrong with the
    /// bytes.
    pub(crate) fn parse(stored: Vec<u8>, seal: Seal, offset: u64) -> Result<Block, &'static str> {
        const SHORT: &str = "the block is too short";
        let mut fields = Fields(&stored);
        let checksum = fields.u32().ok_or(SHORT)?;
        if seal.at(offset).over(fields.0).value() != checksum && !is_planted!(BlockUnchecked) {
            return Err("the block has a wrong checksum");
        }
        let codec = fields.u8().ok_or(SHORT)?;
        fields.bytes(3).ok_or(SHORT)?;
        let raw_bytes = fields.u32().ok_or(SHORT)? as usize;
        let payload = fields.0;
        let raw = match codec {
            RAW if payload.len() == raw_bytes => {
                let mut raw = stored;
                raw.drain(..BLOCK_HEADER_BYTES);
                raw
            }
            LZ4 if raw_bytes <= MAX_RAW_BYTES => {
                let mut raw = vec![0; raw_bytes];
                match lz4_flex::block::decompress_into(payload, &mut raw) {
                    Ok(bytes) if bytes == raw_bytes => raw,
                    _ => return Err("the block is intact but does not decompress"),
                }
            }
            RAW | LZ4 => return Err("the block is intact but has an impossible length"),
            _ => return Err("the block has an unknown codec"),
        };
        Self::parse_raw(raw).ok_or("the block is intact but its entries cannot be decoded")
    }

    fn parse_raw(raw: Vec<u8>) -> Option<Block> {
        let count = Fields(raw.get(raw.len().checked_sub(4)?..)?).u32()? as usize;
        let restart_count = count.div_ceil(RESTART_INTERVAL);
        let entries_end = raw.len().checked_sub(restart_count.checked_mul(4)?.checked_add(4)?)?;
        let restarts = vec![Restart::default(); restart_count].into();
        let mut block = Block { raw, entries_end, count, common: Key::from(&[][..]), restarts };
        let mut key: Vec<u8> = Vec::new();
        let mut at = 0;
        for position in 0..count {
            let entry = block.entry(at)?;
            let is_restart = position.is_multiple_of(RESTART_INTERVAL);
            if is_restart
                && (entry.shared != 0 || block.stored_restart(position / RESTART_INTERVAL) != at)
            {
                return None;
            }
            let suffix = &block.raw[entry.suffix.clone()];
            let rest = key.get(entry.shared..)?;
            let ascends = position == 0 || rest < suffix;
            // Lookups rely on entries that share as many bytes as possible with the key before.
            let is_more_shared = !is_restart && !rest.is_empty() && rest.first() == suffix.first();
            if !ascends || is_more_shared || entry.shared + suffix.len() > MAX_KEY_BYTES {
                return None;
            }
            key.truncate(entry.shared);
            key.extend_from_slice(suffix);
            at = entry.end;
        }
        if at != entries_end || count == 0 {
            return None;
        }
        block.learn_restarts(&key)?;
        Some(block)
    }

    /// Fills in `common` and `restarts`, which searches need.
    fn learn_restarts(&mut self, last_key: &[u8]) -> Option<()> {
        let first = self.entry(0)?.suffix;
        let shared = shared_bytes(&self.raw[first.clone()], last_key);
        let common = first.start..first.start + shared.min(INLINE_BYTES);
        for position in 0..self.restarts.len() {
            let at = self.stored_restart(position);
            let key = &self.raw[self.entry(at)?.suffix];
            let head = head(key.get(common.len()..)?);
            self.restarts[position] = Restart { head, at: u32::try_from(at).ok()? };
        }
        self.common = Key::from(&self.raw[common]);
        Some(())
    }

    /// Decodes the entry at `at`. `None` if no entry fits there.
    #[inline]
    fn entry(&self, at: usize) -> Option<Entry> {
        let body = self.raw.get(at..self.entries_end)?;
        let Header { shared, suffix_bytes, kind, bytes } = match body.first_chunk() {
            // The usual case: three lengths of one byte each.
            Some(&[shared, suffix, kind]) if (shared | suffix | kind) < 0x80 => Header {
                shared: usize::from(shared),
                suffix_bytes: usize::from(suffix),
                kind: usize::from(kind),
                bytes: 3,
            },
            _ => long_header(body)?,
        };
        let suffix_start = at + bytes;
        let suffix_end = suffix_start.checked_add(suffix_bytes)?;
        let end = suffix_end.checked_add(kind.saturating_sub(1))?;
        (end <= self.entries_end).then_some(Entry {
            shared,
            suffix: suffix_start..suffix_end,
            value: (kind > 0).then_some(suffix_end..end),
            end,
        })
    }

    fn stored_restart(&self, position: usize) -> usize {
        let at = self.entries_end + position * 4;
        Fields(&self.raw[at..]).u32().map_or(0, |offset| offset as usize)
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Approximate memory of the block in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.raw.len() + size_of::<Block>() + self.restarts.len() * size_of::<Restart>()
    }

    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.raw[range]
    }

    fn restart(&self, position: usize) -> usize {
        self.restarts[position].at as usize
    }

    /// Position of the last restart with a key at or before `key`, or of the first restart.
    fn restart_before(&self, key: &[u8]) -> usize {
        let (start, rest) = key.split_at(key.len().min(self.common.len()));
        match start.cmp(&self.common) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.restarts.len() - 1,
            Ordering::Equal => {}
        }
        let head = head(rest);
        let behind = self.restarts.partition_point(|restart| restart.head <= head);
        // Among restarts with this head, compare whole keys.
        let same = self.restarts[..behind].iter().rev().take_while(|other| other.head == head);
        let (mut low, mut high) = ((behind - same.count()).saturating_sub(1), behind);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let first = self.entry(self.restart(middle)).map_or(&[][..], |e| &self.raw[e.suffix]);
            if first <= key {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Prefetches the entries from a restart up to the next. A search reads about half of them in
    /// order. (Measured with half a million records in files: 9 % more lookups a second.)
    fn prefetch(&self, restart: usize) {
        let end = self.restarts.get(restart + 1).map_or(self.entries_end, |next| next.at as usize);
        prefetch(
            &self.raw[self.restart(restart)..end.min(self.restart(restart) + PREFETCHED_BYTES)],
        );
    }

    /// Finds the entry of `key`. `None` if the block has none.
    pub(crate) fn get(&self, key: &[u8]) -> Option<BlockFound> {
        let restart = self.restart_before(key);
        self.prefetch(restart);
        let mut at = self.restart(restart);
        // Number of bytes that `key` shares with the previous entry, which is less than `key`.
        let mut matched = 0;
        while at < self.entries_end {
            let entry = self.entry(at)?;
            if entry.shared < matched {
                return None;
            }
            if entry.shared == matched {
                let suffix = &self.raw[entry.suffix.clone()];
                let rest = &key[matched..];
                let more = shared_bytes(suffix, rest);
                if more == suffix.len() && more == rest.len() {
                    return Some(match entry.value {
                        Some(value) => BlockFound::Value(value),
                        None => BlockFound::Tombstone,
                    });
                }
                if suffix[more..] > rest[more..] {
                    return None;
                }
                matched += more;
            }
            at = entry.end;
            // The loop never reaches an entry at a restart, which shares nothing. The next
            // restart's key is greater than `key`.
        }
        None
    }
}

/// Moves over the entries of a block. Holds the key of the current entry.
#[derive(Debug, Default)]
pub(crate) struct BlockCursor {
    next: usize,
    /// End of the entries to visit.
    end: usize,
    key: KeyBuffer,
    value: Option<Range<usize>>,
}

impl BlockCursor {
    /// Moves before the first entry. The next [`BlockCursor::advance`] reaches it.
    pub(crate) fn enter(&mut self, block: &Block) {
        self.next = 0;
        self.end = block.entries_end;
        self.key.len = 0;
    }

    /// Moves before the first entry at or after `key`.
    pub(crate) fn seek(&mut self, block: &Block, key: &[u8]) {
        self.enter(block);
        self.next = block.restart(block.restart_before(key));
        while let Some(entry) = block.entry(self.next) {
            let (head, rest) = key.split_at(entry.shared.min(key.len()));
            let is_before = match self.key()[..entry.shared].cmp(head) {
                Ordering::Equal => block.raw[entry.suffix.clone()] < *rest,
                order => order.is_lt(),
            };
            if !is_before {
                break;
            }
            self.step(block, entry);
        }
    }

    /// Ends the visit before the first entry at or after `key`.
    pub(crate) fn stop_before(&mut self, block: &Block, key: &[u8]) {
        let mut stop = BlockCursor::default();
        stop.seek(block, key);
        self.end = stop.next;
    }

    /// Goes to the next entry. Returns false at the end.
    #[inline]
    pub(crate) fn advance(&mut self, block: &Block) -> bool {
        if self.next >= self.end {
            return false;
        }
        match block.entry(self.next) {
            Some(entry) => {
                self.step(block, entry);
                true
            }
            None => false,
        }
    }

    #[inline]
    fn step(&mut self, block: &Block, entry: Entry) {
        self.key.set(entry.shared, &block.raw, entry.suffix);
        self.value = entry.value;
        self.next = entry.end;
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.key.bytes()
    }

    /// Position of the value in the block. `None`: a tombstone.
    #[inline]
    pub(crate) fn value(&self) -> Option<Range<usize>> {
        self.value.clone()
    }
}

/// A key, put together from the bytes that it shares with the previous key, and the rest.
#[derive(Debug, Default)]
struct KeyBuffer {
    /// Memory for keys. It never shrinks.
    bytes: Vec<u8>,
    len: usize,
}

/// Bytes copied for a suffix up to this long. Most suffixes are shorter. A copy of a fixed length
/// costs less than one of the exact length.
const COPIED_BYTES: usize = 32;

impl KeyBuffer {
    /// Keeps the first `shared` bytes, and appends `suffix` of `raw`.
    #[inline]
    fn set(&mut self, shared: usize, raw: &[u8], suffix: Range<usize>) {
        self.len = shared + suffix.len();
        if suffix.len() <= COPIED_BYTES
            && let Some(from) = raw[suffix.start..].first_chunk::<COPIED_BYTES>()
            && let Some(to) = self.bytes.get_mut(shared..shared + COPIED_BYTES)
        {
            to.copy_from_slice(from);
        } else {
            self.set_long(shared, &raw[suffix]);
        }
    }

    #[cold]
    fn set_long(&mut self, shared: usize, suffix: &[u8]) {
        if self.bytes.len() < self.len + COPIED_BYTES {
            self.bytes.resize(self.len + COPIED_BYTES, 0);
        }
        self.bytes[shared..self.len].copy_from_slice(suffix);
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests;
