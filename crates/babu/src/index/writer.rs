//! Writing one index file from front to back.

use crate::index::format::header::encode_header;
use crate::index::format::header::index_name;
use crate::types::options::IndexSizes;
use xxhash_rust::xxh3::Xxh3Default;

use crate::disk::traits::{Disk, DiskFile};
use crate::index::format::block::{BlockBuilder, MAX_BLOCK_BYTES};
use crate::index::format::facts::FileFacts;
use crate::index::format::header::FOOTER_BYTES;
use crate::index::format::header::FOOTER_MAGIC;
use crate::index::format::list;
use crate::types::codec::Seal;
use crate::types::error::{IoContext, IoFailure};
use crate::types::filter;
use crate::types::filter::Filter;
use crate::types::key::Key;
use crate::types::key::successor;
use crate::types::ranges::RangeSet;

/// Bytes collected before they go to the disk.
const BUFFER_BYTES: usize = 1 << 20;

/// How much larger the filter of a run is than that of the bottom: 20 bits a key. It passes an
/// absent key about once in a thousand times, so that several runs are together no worse than the
/// bottom.
const RUN_SPARSENESS: usize = 2;

pub(crate) struct IndexWriter {
    file: Box<dyn DiskFile>,
    name: String,
    seal: Seal,
    number: u64,
    sizes: IndexSizes,
    /// The filter has room for this many times as many keys.
    sparseness: usize,
    block: BlockBuilder,
    /// Separator of the block under construction.
    separator: Vec<u8>,
    /// Last key of the previous block.
    last_key: Vec<u8>,
    first_key: Option<Key>,
    list: Vec<u8>,
    hashes: Vec<u64>,
    block_count: u64,
    entry_count: u64,
    tombstone_count: u64,
    buffer: Vec<u8>,
    buffer_offset: u64,
    digest: Xxh3Default,
}

/// A file that is complete and not yet durable.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) facts: FileFacts,
    /// XXH3-128 of all bytes of the file.
    pub(crate) digest: u128,
}

impl IndexWriter {
    pub(crate) fn create(
        disk: &dyn Disk,
        database_id: u64,
        number: u64,
        sizes: IndexSizes,
        is_run: bool,
    ) -> Result<IndexWriter, IoFailure> {
        let name = index_name(number);
        let file = disk.create(&name).during("create", &name)?;
        let seal = crate::index::format::header::seal(database_id, number);
        Ok(IndexWriter {
            file,
            name,
            seal,
            number,
            sizes,
            sparseness: if is_run { RUN_SPARSENESS } else { 1 },
            block: BlockBuilder::new(),
            separator: Vec::new(),
            last_key: Vec::new(),
            first_key: None,
            list: Vec::new(),
            hashes: Vec::new(),
            block_count: 0,
            entry_count: 0,
            tombstone_count: 0,
            buffer: encode_header(seal, number).to_vec(),
            buffer_offset: 0,
            digest: Xxh3Default::new(),
        })
    }

    /// Adds a value, or a tombstone. Keys must ascend.
    pub(crate) fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), IoFailure> {
        let entry_bytes = key.len() + value.map_or(0, <[u8]>::len);
        if !self.block.is_empty() && self.block.len() + entry_bytes > MAX_BLOCK_BYTES {
            self.finish_block()?;
        }
        if self.block.is_empty() {
            self.separator.clear();
            let separator = match self.first_key {
                None => key,
                Some(_) => list::separator(&self.last_key, key),
            };
            self.separator.extend_from_slice(separator);
            self.first_key.get_or_insert_with(|| Key::from(key));
        }
        self.block.push(key, value);
        let hash = filter::hash(key, self.sizes.filter_prefix_bytes);
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
        self.entry_count += 1;
        self.tombstone_count += u64::from(value.is_none());
        if self.block.len() >= self.sizes.block_bytes.min(MAX_BLOCK_BYTES) {
            self.finish_block()?;
        }
        Ok(())
    }

    /// Approximate length so far in bytes. Bytes that are not compressed yet count in full.
    pub(crate) fn bytes(&self) -> u64 {
        self.buffer_offset + (self.buffer.len() + self.block.len()) as u64
    }

    /// Completes the file with the ranges that it hides. Syncing is up to the caller.
    ///
    /// # Panics
    /// If there are neither entries nor ranges: such a file has no span.
    pub(crate) fn finish(mut self, ranges: &RangeSet) -> Result<Written, IoFailure> {
        if !self.block.is_empty() {
            self.finish_block()?;
        }
        let (from, to) = self.span(ranges);
        let blocks_end = self.offset();
        let mut tail = Filter::build(&self.hashes, self.sparseness).bytes().to_vec();
        let filter_bytes = tail.len() as u64;
        ranges.encode(&mut tail);
        let ranges_bytes = tail.len() as u64 - filter_bytes;
        tail.extend_from_slice(&self.list);
        let tail_checksum = self.seal.at(blocks_end).over(&tail).value();
        self.buffer.extend_from_slice(&tail);
        let footer_offset = self.offset();
        let mut footer = Vec::with_capacity(FOOTER_BYTES);
        for field in [
            blocks_end,
            filter_bytes,
            ranges_bytes,
            self.list.len() as u64,
            self.block_count,
            self.entry_count,
            self.tombstone_count,
        ] {
            footer.extend_from_slice(&field.to_le_bytes());
        }
        let prefix_bytes = u32::try_from(self.sizes.filter_prefix_bytes).unwrap_or(u32::MAX);
        footer.extend_from_slice(&prefix_bytes.to_le_bytes());
        footer.extend_from_slice(&tail_checksum.to_le_bytes());
        footer.extend_from_slice(&[0; 24]);
        footer.extend_from_slice(&FOOTER_MAGIC);
        let checksum = self.seal.at(footer_offset).over(&footer).value();
        footer.extend_from_slice(&checksum.to_le_bytes());
        self.buffer.extend_from_slice(&footer);
        self.flush()?;
        let facts = FileFacts {
            number: self.number,
            len: self.buffer_offset,
            from,
            to,
            entries: self.entry_count,
            tombstones: self.tombstone_count,
        };
        Ok(Written { facts, digest: self.digest.digest128() })
    }

    fn span(&self, ranges: &RangeSet) -> (Key, Key) {
        let first = ranges.iter().next().map(|(from, _)| from.clone());
        let last = ranges.iter().next_back().map(|(_, to)| to.clone());
        let from = self.first_key.iter().chain(&first).min().cloned();
        let entries_end = self.first_key.as_ref().map(|_| successor(&self.last_key));
        let to = entries_end.into_iter().chain(last).max();
        match (from, to) {
            (Some(from), Some(to)) => (from, to),
            _ => panic!("an index file with nothing in it"),
        }
    }

    fn offset(&self) -> u64 {
        self.buffer_offset + self.buffer.len() as u64
    }

    fn finish_block(&mut self) -> Result<(), IoFailure> {
        self.last_key.clear();
        self.last_key.extend_from_slice(self.block.last_key());
        let offset = self.offset();
        let stored_bytes = self.block.finish(self.seal, offset, &mut self.buffer);
        list::put(&mut self.list, &self.separator, stored_bytes);
        self.block_count += 1;
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), IoFailure> {
        self.file.write_at(self.buffer_offset, &self.buffer).during("write", &self.name)?;
        self.digest.update(&self.buffer);
        self.buffer_offset += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
