//! Writing an index file, front to back.

use crate::codec::Seal;
use crate::disk::{Disk, DiskFile};
use crate::error::{IoContext, IoFailure};
use crate::index::block::BlockBuilder;
use crate::index::{self, Extent, FOOTER_BYTES, FOOTER_MAGIC};

/// Bytes collected before they go to the disk.
const BUFFER_BYTES: usize = 1 << 20;

pub(crate) struct IndexWriter {
    file: Box<dyn DiskFile>,
    name: String,
    seal: Seal,
    block_bytes: usize,
    block: BlockBuilder,
    block_first_key: Vec<u8>,
    list: Vec<u8>,
    block_count: u64,
    entry_count: u64,
    buffer: Vec<u8>,
    buffer_offset: u64,
}

impl IndexWriter {
    pub(crate) fn create(
        disk: &dyn Disk,
        database_id: u64,
        number: u64,
        block_bytes: usize,
    ) -> Result<IndexWriter, IoFailure> {
        let name = index::index_name(number);
        let file = disk.create(&name).during("create", &name)?;
        let seal = index::seal(database_id, number);
        Ok(IndexWriter {
            file,
            name,
            seal,
            block_bytes,
            block: BlockBuilder::new(),
            block_first_key: Vec::new(),
            list: Vec::new(),
            block_count: 0,
            entry_count: 0,
            buffer: index::encode_header(seal, number).to_vec(),
            buffer_offset: 0,
        })
    }

    /// Adds an entry; keys must ascend.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), IoFailure> {
        if self.block.is_empty() {
            self.block_first_key.clear();
            self.block_first_key.extend_from_slice(key);
        }
        self.block.push(key, value);
        self.entry_count += 1;
        if self.block.len() >= self.block_bytes {
            self.finish_block()?;
        }
        Ok(())
    }

    /// Completes the file and makes it durable (its name is the caller's). Returns its length.
    pub(crate) fn finish(mut self) -> Result<u64, IoFailure> {
        if !self.block.is_empty() {
            self.finish_block()?;
        }
        let list_offset = self.offset();
        let list_checksum = self.seal.at(list_offset).over(&self.list).value();
        self.buffer.extend_from_slice(&self.list);
        let footer_offset = self.offset();
        let mut footer = [0; FOOTER_BYTES];
        footer[..8].copy_from_slice(&list_offset.to_le_bytes());
        footer[8..16].copy_from_slice(&(self.list.len() as u64).to_le_bytes());
        footer[16..24].copy_from_slice(&self.block_count.to_le_bytes());
        footer[24..32].copy_from_slice(&self.entry_count.to_le_bytes());
        footer[32..36].copy_from_slice(&list_checksum.to_le_bytes());
        footer[56..60].copy_from_slice(&FOOTER_MAGIC);
        let checksum = self.seal.at(footer_offset).over(&footer[..60]).value();
        footer[60..].copy_from_slice(&checksum.to_le_bytes());
        self.buffer.extend_from_slice(&footer);
        self.flush()?;
        self.file.sync().during("sync", &self.name)?;
        Ok(self.buffer_offset)
    }

    fn offset(&self) -> u64 {
        self.buffer_offset + self.buffer.len() as u64
    }

    fn finish_block(&mut self) -> Result<(), IoFailure> {
        let extent = Extent { offset: self.offset(), len: self.block.len() as u32 };
        self.block.finish(self.seal, extent.offset, &mut self.buffer);
        self.list.extend_from_slice(&extent.offset.to_le_bytes());
        self.list.extend_from_slice(&extent.len.to_le_bytes());
        self.list.extend_from_slice(&(self.block_first_key.len() as u16).to_le_bytes());
        self.list.extend_from_slice(&self.block_first_key);
        self.block_count += 1;
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), IoFailure> {
        self.file.write_at(self.buffer_offset, &self.buffer).during("write", &self.name)?;
        self.buffer_offset += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
