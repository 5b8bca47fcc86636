//! An index file open for reading.

use std::sync::Arc;

use crate::codec::{Fields, Seal};
use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, IoContext, IoFailure, ReadError};
use crate::index::block::Block;
use crate::index::cache::BlockCache;
use crate::index::{self, Extent, FOOTER_BYTES, FOOTER_MAGIC, INDEX_HEADER_BYTES, INDEX_VERSION};
use crate::key::Key;

/// An index file whose header, footer and block list have been checked.
pub(crate) struct IndexFile {
    number: u64,
    name: String,
    len: u64,
    file: Box<dyn DiskFile>,
    seal: Seal,
    blocks: Vec<(Key, Extent)>,
    entry_count: u64,
}

struct Footer {
    list_offset: u64,
    list_len: u64,
    block_count: u64,
    entry_count: u64,
    list_checksum: u32,
}

impl IndexFile {
    /// Opens a file that must have this length.
    pub(crate) fn open(
        disk: &dyn Disk,
        database_id: u64,
        number: u64,
        len: u64,
    ) -> Result<IndexFile, ReadError> {
        let name = index::index_name(number);
        let damage = |offset, what: &str| ReadError::from(Damage::new(&name, offset, what));
        let file = match disk.open(&name) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(damage(0, "the index file is missing"));
            }
            result => result.during("open", &name)?,
        };
        if file.len().during("read", &name)? != len {
            return Err(damage(0, "the index file has another length than when it was written"));
        }
        let seal = index::seal(database_id, number);
        if len < (INDEX_HEADER_BYTES + FOOTER_BYTES) as u64 {
            return Err(damage(0, "the index file is too short"));
        }
        let header = read(&*file, &name, 0, INDEX_HEADER_BYTES as u64)?;
        let version = check_header(&header, seal)
            .ok_or_else(|| damage(0, "the header of the index file is unreadable"))?;
        if version != INDEX_VERSION {
            return Err(ReadError::Version {
                file: name,
                found: version,
                supported: INDEX_VERSION,
            });
        }
        let footer_offset = len - FOOTER_BYTES as u64;
        let footer = read(&*file, &name, footer_offset, FOOTER_BYTES as u64)?;
        let footer = Footer::parse(&footer, seal, footer_offset)
            .ok_or_else(|| damage(footer_offset, "the footer of the index file is unreadable"))?;
        let list_damage = || {
            damage(
                footer.list_offset,
                "the block list is unreadable, and with it all entries of the index file",
            )
        };
        if footer.list_offset.checked_add(footer.list_len) != Some(footer_offset) {
            return Err(list_damage());
        }
        let list = read(&*file, &name, footer.list_offset, footer.list_len)?;
        let blocks = parse_list(&list, seal, &footer).ok_or_else(list_damage)?;
        Ok(IndexFile { number, name, len, file, seal, blocks, entry_count: footer.entry_count })
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn entry_count(&self) -> u64 {
        self.entry_count
    }

    pub(crate) fn block_count(&self) -> usize {
        self.blocks.len()
    }

    pub(crate) fn first_key(&self) -> &[u8] {
        self.blocks.first().map_or(&[], |(key, _)| key)
    }

    /// Position of the one block that can hold `key`; `None` if all keys are behind it.
    pub(crate) fn block_for(&self, key: &[u8]) -> Option<usize> {
        self.blocks.partition_point(|(first, _)| **first <= *key).checked_sub(1)
    }

    /// A block, from memory or from the disk.
    pub(crate) fn block(
        &self,
        position: usize,
        cache: &BlockCache,
    ) -> Result<Arc<Block>, ReadError> {
        let id = (self.number, position as u32);
        if let Some(block) = cache.get(id) {
            return Ok(block);
        }
        let block = Arc::new(self.read_block(position)?);
        cache.insert(id, block.clone());
        Ok(block)
    }

    /// A block from the disk.
    pub(crate) fn read_block(&self, position: usize) -> Result<Block, ReadError> {
        let (first, extent) = &self.blocks[position];
        let bytes = read(&*self.file, &self.name, extent.offset, u64::from(extent.len))?;
        let damage = |what: &str| {
            let until = match self.blocks.get(position + 1) {
                Some((next, _)) => format!("up to {}", shown(next)),
                None => "to the end".to_owned(),
            };
            let keys = shown(first);
            let what = format!("{what}; affected are the keys from {keys} {until}");
            ReadError::from(Damage::new(&self.name, extent.offset, what))
        };
        let block = Block::parse(bytes, self.seal, extent.offset).map_err(damage)?;
        if block.key(0) != &**first {
            return Err(damage("the block begins with another key than the block list says"));
        }
        Ok(block)
    }
}

/// A key for an error message: keys may be long.
fn shown(key: &[u8]) -> String {
    const SHOWN_BYTES: usize = 32;
    match key.len() > SHOWN_BYTES {
        true => format!("{}…", key[..SHOWN_BYTES].escape_ascii()),
        false => key.escape_ascii().to_string(),
    }
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
    (magic == index::INDEX_MAGIC && seal.at(0).over(body).value() == checksum).then_some(version)
}

impl Footer {
    fn parse(bytes: &[u8], seal: Seal, offset: u64) -> Option<Footer> {
        let body = bytes.get(..60)?;
        let checksum = Fields(bytes.get(60..)?).u32()?;
        if seal.at(offset).over(body).value() != checksum || body.get(56..60)? != FOOTER_MAGIC {
            return None;
        }
        let mut fields = Fields(body);
        Some(Footer {
            list_offset: fields.u64()?,
            list_len: fields.u64()?,
            block_count: fields.u64()?,
            entry_count: fields.u64()?,
            list_checksum: fields.u32()?,
        })
    }
}

/// Parses the block list: keys ascend, and the blocks lie back to back from the header to the list.
fn parse_list(bytes: &[u8], seal: Seal, footer: &Footer) -> Option<Vec<(Key, Extent)>> {
    if seal.at(footer.list_offset).over(bytes).value() != footer.list_checksum {
        return None;
    }
    let mut fields = Fields(bytes);
    let mut blocks: Vec<(Key, Extent)> = Vec::new();
    let mut end = INDEX_HEADER_BYTES as u64;
    while !fields.0.is_empty() {
        let extent = Extent { offset: fields.u64()?, len: fields.u32()? };
        let key_bytes = usize::from(fields.u16()?);
        let key = Key::from(fields.bytes(key_bytes)?);
        if extent.offset != end || blocks.last().is_some_and(|(last, _)| *last >= key) {
            return None;
        }
        end = end.checked_add(u64::from(extent.len))?;
        blocks.push((key, extent));
    }
    (end == footer.list_offset && blocks.len() as u64 == footer.block_count).then_some(blocks)
}
