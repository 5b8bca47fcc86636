//! The index: files that together hold every key once, each a range of its own.

use std::sync::Arc;

use crate::error::ReadError;
use crate::index::block::Block;
use crate::index::cache::BlockCache;
use crate::index::file::IndexFile;
use crate::key::Key;
use crate::value::Value;

/// Files in ascending order of their keys; their key ranges do not overlap.
#[derive(Clone)]
pub(crate) struct IndexSet {
    pub(crate) files: Vec<Arc<IndexFile>>,
    pub(crate) cache: Arc<BlockCache>,
}

impl IndexSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub(crate) fn entry_count(&self) -> u64 {
        self.files.iter().map(|file| file.entry_count()).sum()
    }

    /// Position of the file and block where `key` is, if it is anywhere.
    fn place(&self, key: &[u8]) -> Option<(usize, usize)> {
        let file = self.files.partition_point(|file| file.first_key() <= key).checked_sub(1)?;
        Some((file, self.files[file].block_for(key)?))
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Value<'static>>, ReadError> {
        let Some((file, position)) = self.place(key) else {
            return Ok(None);
        };
        let block = self.files[file].block(position, &self.cache)?;
        Ok(block.search(key).ok().map(|entry| Value::in_block(block.clone(), entry)))
    }

    /// A cursor at the first entry at or behind `key`.
    pub(crate) fn seek(&self, key: &[u8]) -> Result<IndexCursor<'_>, ReadError> {
        let (file, position) = self.place(key).unwrap_or((0, 0));
        let mut cursor = IndexCursor { set: self, file, position, block: None, entry: 0 };
        cursor.load()?;
        if let Some(block) = &cursor.block {
            cursor.entry = block.seek(key);
        }
        Ok(cursor)
    }
}

/// Moves over the entries of an index in ascending order.
pub(crate) struct IndexCursor<'a> {
    set: &'a IndexSet,
    file: usize,
    position: usize,
    block: Option<Arc<Block>>,
    entry: usize,
}

impl IndexCursor<'_> {
    fn load(&mut self) -> Result<(), ReadError> {
        self.block = None;
        self.entry = 0;
        if let Some(file) = self.set.files.get(self.file) {
            self.block = Some(file.block(self.position, &self.set.cache)?);
        }
        Ok(())
    }

    pub(crate) fn next(&mut self) -> Result<Option<(Key, Value<'static>)>, ReadError> {
        loop {
            let Some(block) = &self.block else {
                return Ok(None);
            };
            if self.entry < block.count() {
                let key = Key::from(block.key(self.entry));
                let value = Value::in_block(block.clone(), self.entry);
                self.entry += 1;
                return Ok(Some((key, value)));
            }
            self.position += 1;
            if self.position >= self.set.files[self.file].block_count() {
                self.file += 1;
                self.position = 0;
            }
            self.load()?;
        }
    }
}
