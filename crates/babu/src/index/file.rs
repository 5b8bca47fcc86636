//! An index file that is open for reading.

use crate::index::format::header::INDEX_MAGIC;
use crate::index::format::header::index_name;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::disk::traits::{Disk, DiskFile};
use crate::index::ahead::ReadAhead;
use crate::index::format::block::{Block, BlockFound};
use crate::index::format::facts::FileFacts;
use crate::index::format::header::Extent;
use crate::index::format::header::FOOTER_BYTES;
use crate::index::format::header::FOOTER_MAGIC;
use crate::index::format::header::INDEX_HEADER_BYTES;
use crate::index::format::header::INDEX_VERSION;
use crate::index::format::list::BlockList;
use crate::index::pool::{Access, Pool, ReadCounters};
use crate::index::value::Value;
use crate::types::codec::{Fields, Seal};
use crate::types::error::{Damage, IoContext, IoFailure, ReadError};
use crate::types::filter;
use crate::types::filter::Filter;
use crate::types::ranges::RangeSet;

/// An open index file. Header, footer and tail have been checked, or the file is dark.
pub(crate) struct IndexFile {
    facts: FileFacts,
    name: Box<str>,
    file: Box<dyn DiskFile>,
    seal: Seal,
    filter: Filter,
    filter_prefix_bytes: usize,
    ranges: RangeSet,
    blocks: BlockList,
    /// The damage, if merges pass the file over because of it.
    damage: OnceLock<Box<Damage>>,
    /// True if the header, footer or tail cannot be read, so that the content is unknown.
    is_dark: bool,
}

/// The entry of a layer on disk for a key.
#[derive(Debug, Clone)]
pub(crate) enum DiskFound {
    Value(Value<'static>),
    Deleted,
}

#[derive(Debug, Clone, Copy)]
struct Footer {
    blocks_end: u64,
    filter_bytes: u64,
    ranges_bytes: u64,
    list_bytes: u64,
    blocks: u64,
    entries: u64,
    tombstones: u64,
    filter_prefix_bytes: u32,
    tail_checksum: u32,
}

/// What header, footer and tail say.
struct Ends {
    filter: Filter,
    filter_prefix_bytes: usize,
    ranges: RangeSet,
    blocks: BlockList,
}

impl IndexFile {
    /// Opens a file and checks it against `facts`.
    pub(crate) fn open(
        disk: &dyn Disk,
        database_id: u64,
        facts: FileFacts,
    ) -> Result<IndexFile, ReadError> {
        let name = index_name(facts.number);
        let damage = |offset, what| file_damage(&name, &facts, offset, what);
        let file = match disk.open(&name) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(damage(0, "the index file is missing"));
            }
            result => result.during("open", &name)?,
        };
        let len = facts.len;
        if file.len().during("read", &name)? != len {
            return Err(damage(0, "the index file has another length than when it was written"));
        }
        file.expect_random_reads();
        let seal = crate::index::format::header::seal(database_id, facts.number);
        let ends = Ends::read(&*file, &name, seal, &facts)?;
        let Ends { filter, filter_prefix_bytes, ranges, blocks } = ends;
        let (damage, is_dark) = (OnceLock::new(), false);
        Ok(IndexFile {
            facts,
            name: name.into_boxed_str(),
            file,
            seal,
            filter,
            filter_prefix_bytes,
            ranges,
            blocks,
            damage,
            is_dark,
        })
    }

    /// Opens a file that a manifest names. If the file exists with its length, and its header,
    /// footer or tail cannot be read, it opens as *dark*. A dark file has one unreadable block,
    /// which holds all keys of its span. What the file hides is unknown, so its span is not
    /// answered from the files below.
    pub(crate) fn open_named(
        disk: &dyn Disk,
        database_id: u64,
        facts: FileFacts,
    ) -> Result<IndexFile, ReadError> {
        let error = match IndexFile::open(disk, database_id, facts.clone()) {
            Err(error @ (ReadError::Damaged(_) | ReadError::Io(_))) => error,
            result => return result,
        };
        let name = index_name(facts.number);
        let there = disk.open(&name).and_then(|file| Ok((file.len()?, file)));
        let Ok((_, file)) = there.and_then(|there| match there.0 == facts.len {
            true => Ok(there),
            false => Err(std::io::ErrorKind::NotFound.into()),
        }) else {
            return Err(error);
        };
        let damage = match error {
            ReadError::Damaged(damage) => damage,
            error => Damage::new(&name, 0, error.to_string()),
        };
        let keys = Some(Box::new(facts.from.to_vec()..facts.to.to_vec()));
        Ok(IndexFile {
            name: name.into_boxed_str(),
            file,
            seal: crate::index::format::header::seal(database_id, facts.number),
            filter: Filter::of_all(),
            filter_prefix_bytes: 0,
            ranges: RangeSet::default(),
            blocks: BlockList::dark(&facts.from),
            damage: Box::new(Damage { keys, ..damage }).into(),
            is_dark: true,
            facts,
        })
    }

    pub(crate) fn facts(&self) -> &FileFacts {
        &self.facts
    }

    pub(crate) fn number(&self) -> u64 {
        self.facts.number
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn len(&self) -> u64 {
        self.facts.len
    }

    pub(crate) fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// Offset and length of a block.
    pub(crate) fn extent(&self, position: usize) -> Extent {
        self.blocks.extent(position)
    }

    /// Ranges that the file hides in the files below.
    pub(crate) fn ranges(&self) -> &RangeSet {
        &self.ranges
    }

    /// The damage, if merges pass the file over because of it.
    pub(crate) fn damage(&self) -> Option<&Damage> {
        self.damage.get().map(|damage| &**damage)
    }

    /// Makes merges pass the file over until the next opening. Returns false if they already did.
    pub(crate) fn pass_over(&self, damage: &Damage) -> bool {
        self.damage.set(Box::new(damage.clone())).is_ok()
    }

    /// Memory in bytes that the file takes while it is open.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<IndexFile>()
            + self.filter.len()
            + self.blocks.memory_bytes()
            + self.ranges.len() * 2 * size_of::<crate::types::key::Key>()
    }

    /// Makes the file's bytes durable. Syncing its name is up to the caller.
    pub(crate) fn sync(&self) -> Result<(), IoFailure> {
        self.file.sync().during("sync", &self.name)
    }

    /// Copies the whole file, as it is, to one that is empty. Syncing that one is up to the caller.
    pub(crate) fn copy_to(&self, target: &dyn DiskFile) -> std::io::Result<()> {
        target.copy_from(&*self.file, self.len())
    }

    /// False only if no block after this one holds keys before `to`. Reads no block.
    pub(crate) fn goes_on_before(&self, position: usize, to: &[u8]) -> bool {
        match position + 1 < self.block_count() {
            true => self.blocks.separator(position + 1) < to,
            false => *self.facts.to < *to,
        }
    }

    /// Bytes of the blocks that have keys in `from..to` only. Reads no block.
    pub(crate) fn bytes_within(&self, from: &[u8], to: &[u8]) -> u64 {
        let first = match self.blocks.find(from) {
            Some(_) if *from <= *self.facts.from => 0,
            Some(position) if self.blocks.separator(position) == from => position,
            Some(position) => position + 1,
            None => 0,
        };
        let end = match *self.facts.to <= *to {
            true => self.block_count(),
            false => self.blocks.find(to).unwrap_or(0),
        };
        (first..end).map(|position| u64::from(self.extent(position).len)).sum()
    }

    /// Position of the one block that can hold `key`. `None` if `key` is before all blocks.
    pub(crate) fn block_for(&self, key: &[u8]) -> Option<usize> {
        self.blocks.find(key)
    }

    /// False only if the file has no entry with this key.
    pub(crate) fn may_contain(&self, key: &[u8]) -> bool {
        self.may_contain_hash(self.hash(key))
    }

    /// Hash of the part of a key that the filter looks at.
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        filter::hash(key, self.filter_prefix_bytes)
    }

    fn may_contain_hash(&self, hash: u64) -> bool {
        self.filter.may_contain(hash) && !(is_planted!(FilterDenies) && hash.is_multiple_of(16))
    }

    /// Prefetches the memory that [`IndexFile::may_contain`] reads.
    #[inline]
    pub(crate) fn prefetch_filter(&self, hash: u64) {
        self.filter.prefetch(hash);
    }

    /// Number of leading bytes of a key that the filter looks at.
    pub(crate) fn filter_prefix_bytes(&self) -> usize {
        self.filter_prefix_bytes
    }

    /// The file's entry for a key within its span, of which this is the hash. `None` if it has no
    /// entry and does not hide the key.
    pub(crate) fn get(
        self: &Arc<Self>,
        key: &[u8],
        hash: u64,
        pool: &Arc<Pool>,
        access: Access,
    ) -> Result<Option<DiskFound>, ReadError> {
        let hidden = || self.ranges.end_of(key).map(|_| DiskFound::Deleted);
        ReadCounters::add(&pool.counters.files_asked, 1);
        if !self.may_contain_hash(hash) {
            ReadCounters::add(&pool.counters.filter_refusals, 1);
            return Ok(hidden());
        }
        let Some(position) = self.block_for(key) else {
            return Ok(hidden());
        };
        let block = self.block(position, pool, access, &mut ReadAhead::default())?;
        Ok(match block.get(key) {
            Some(BlockFound::Value(range)) => Some(DiskFound::Value(Value::in_block(block, range))),
            Some(BlockFound::Tombstone) => Some(DiskFound::Deleted),
            None => hidden(),
        })
    }

    /// A block, from the cache or from the disk, as `access` says.
    pub(crate) fn block(
        self: &Arc<Self>,
        position: usize,
        pool: &Arc<Pool>,
        access: Access,
        ahead: &mut ReadAhead,
    ) -> Result<Arc<Block>, ReadError> {
        let id = (self.number(), position as u32);
        if access != Access::Direct
            && let Some(block) = pool.cache.get(id)
        {
            ReadCounters::add(&pool.counters.block_hits, 1);
            return Ok(block);
        }
        self.prefetch(ahead.take(self.extent(position), access));
        let block = Arc::new(self.read_block(position)?);
        ReadCounters::add(&pool.counters.block_reads, 1);
        let bytes = u64::from(self.extent(position).len);
        ReadCounters::add(&pool.counters.block_read_bytes, bytes);
        Ok(match access {
            Access::Direct => block,
            _ => pool.cache.insert(id, block),
        })
    }

    /// Asks the disk to read this part of the file soon, as far as the file reaches.
    pub(crate) fn prefetch(&self, part: Range<u64>) {
        let end = part.end.min(self.len());
        if part.start < end {
            self.file.prefetch(part.start, end - part.start);
        }
    }

    /// Reads a block from the disk.
    pub(crate) fn read_block(&self, position: usize) -> Result<Block, ReadError> {
        if let (true, Some(damage)) = (self.is_dark, self.damage()) {
            return Err(damage.clone().into());
        }
        let extent = self.extent(position);
        let bytes = read(&*self.file, &self.name, extent.offset, u64::from(extent.len))
            .map_err(|failure| self.block_damage(position, &failure.source.to_string()))?;
        Block::parse(bytes, self.seal, extent.offset)
            .map_err(|what| self.block_damage(position, what).into())
    }

    fn block_damage(&self, position: usize, what: &str) -> Damage {
        let from = self.blocks.separator(position).max(&self.facts.from);
        let to = match position + 1 < self.block_count() {
            true => self.blocks.separator(position + 1),
            false => &self.facts.to,
        };
        let what =
            format!("{what}; affected are the keys from {} up to {}", shown(from), shown(to));
        let keys = Some(Box::new(from.to_vec()..to.to_vec()));
        Damage { keys, ..Damage::new(&self.name, self.extent(position).offset, what) }
    }
}

/// A key for an error message, cut if it is long.
fn shown(key: &[u8]) -> String {
    const SHOWN_BYTES: usize = 32;
    match key.len() > SHOWN_BYTES {
        true => format!("{}…", key[..SHOWN_BYTES].escape_ascii()),
        false => key.escape_ascii().to_string(),
    }
}

/// Damage that makes all keys of a file unknown.
fn file_damage(name: &str, facts: &FileFacts, offset: u64, what: &str) -> ReadError {
    let (from, to) = (shown(&facts.from), shown(&facts.to));
    let what = format!("{what}; affected are the keys from {from} up to {to}");
    ReadError::from(Damage::new(name, offset, what))
}

fn read(file: &dyn DiskFile, name: &str, offset: u64, len: u64) -> Result<Vec<u8>, IoFailure> {
    let mut bytes = vec![0; len as usize];
    file.read_at(offset, &mut bytes).during("read", name)?;
    Ok(bytes)
}

fn check_header(bytes: &[u8], seal: Seal) -> Option<u16> {
    let body = bytes.get(..28)?;
    let checksum = Fields(bytes.get(28..)?).u32()?;
    let mut fields = Fields(body);
    let magic = fields.bytes(8)?;
    let version = fields.u16()?;
    (magic == INDEX_MAGIC && seal.at(0).over(body).value() == checksum).then_some(version)
}

impl Ends {
    /// Reads header, footer and tail, and checks them against `facts`.
    fn read(
        file: &dyn DiskFile,
        name: &str,
        seal: Seal,
        facts: &FileFacts,
    ) -> Result<Ends, ReadError> {
        let damage = |offset, what| file_damage(name, facts, offset, what);
        if facts.len < (INDEX_HEADER_BYTES + FOOTER_BYTES) as u64 {
            return Err(damage(0, "the index file is too short"));
        }
        let header = read(file, name, 0, INDEX_HEADER_BYTES as u64)?;
        let version = check_header(&header, seal)
            .ok_or_else(|| damage(0, "the header of the index file is unreadable"))?;
        if version != INDEX_VERSION {
            return Err(ReadError::version(name, version, INDEX_VERSION));
        }
        let footer_offset = facts.len - FOOTER_BYTES as u64;
        let footer = read(file, name, footer_offset, FOOTER_BYTES as u64)?;
        let footer = Footer::parse(&footer, seal, footer_offset)
            .filter(|footer| footer.tail_end() == Some(footer_offset))
            .ok_or_else(|| damage(footer_offset, "the footer of the index file is unreadable"))?;
        if (footer.entries, footer.tombstones) != (facts.entries, facts.tombstones) {
            return Err(damage(footer_offset, "the index file is not the one the manifest names"));
        }
        let tail = read(file, name, footer.blocks_end, footer_offset - footer.blocks_end)?;
        let (filter, ranges, blocks) = parse_tail(&tail, seal, &footer).ok_or_else(|| {
            damage(footer.blocks_end, "filter or block list of the index file are unreadable")
        })?;
        let filter_prefix_bytes = footer.filter_prefix_bytes as usize;
        Ok(Ends { filter, filter_prefix_bytes, ranges, blocks })
    }
}

impl Footer {
    fn parse(bytes: &[u8], seal: Seal, offset: u64) -> Option<Footer> {
        let body = bytes.get(..92)?;
        let checksum = Fields(bytes.get(92..)?).u32()?;
        if seal.at(offset).over(body).value() != checksum || body.get(88..92)? != FOOTER_MAGIC {
            return None;
        }
        let mut fields = Fields(body);
        Some(Footer {
            blocks_end: fields.u64()?,
            filter_bytes: fields.u64()?,
            ranges_bytes: fields.u64()?,
            list_bytes: fields.u64()?,
            blocks: fields.u64()?,
            entries: fields.u64()?,
            tombstones: fields.u64()?,
            filter_prefix_bytes: fields.u32()?,
            tail_checksum: fields.u32()?,
        })
    }

    fn tail_end(&self) -> Option<u64> {
        self.blocks_end
            .checked_add(self.filter_bytes)?
            .checked_add(self.ranges_bytes)?
            .checked_add(self.list_bytes)
    }
}

fn parse_tail(tail: &[u8], seal: Seal, footer: &Footer) -> Option<(Filter, RangeSet, BlockList)> {
    if seal.at(footer.blocks_end).over(tail).value() != footer.tail_checksum {
        return None;
    }
    let mut fields = Fields(tail);
    let filter = Filter::read(fields.bytes(footer.filter_bytes as usize)?);
    let ranges = RangeSet::decode(fields.bytes(footer.ranges_bytes as usize)?)?;
    let list = BlockList::parse(fields.0, footer.blocks, footer.blocks_end)?;
    Some((filter, ranges, list))
}

#[cfg(test)]
mod tests;
mod verify;

pub(crate) use verify::Stretch;
