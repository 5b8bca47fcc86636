//! Moving over the entries of files with disjoint spans, in ascending order.

use std::sync::Arc;

use crate::index::ahead::ReadAhead;
use crate::index::block::{Block, BlockCursor};
use crate::index::file::IndexFile;
use crate::index::resident::{Access, Pool, TryReadError};
use crate::key::Key;
use crate::value::Value;

pub(crate) struct FilesCursor<'a> {
    /// Files not finished yet, ascending.
    files: &'a [Arc<IndexFile>],
    pool: &'a Arc<Pool>,
    access: Access,
    position: usize,
    ahead: ReadAhead,
    block: Option<(Arc<Block>, BlockCursor)>,
}

impl<'a> FilesCursor<'a> {
    /// Stands before the first entry at or behind `key`.
    pub(crate) fn seek(
        files: &'a [Arc<IndexFile>],
        pool: &'a Arc<Pool>,
        access: Access,
        key: &[u8],
    ) -> Result<FilesCursor<'a>, TryReadError> {
        let passed = files.partition_point(|file| *file.facts().to <= *key);
        let files = &files[passed..];
        let position = files.first().and_then(|file| file.block_for(key)).unwrap_or(0);
        let ahead = ReadAhead::default();
        let mut cursor = FilesCursor { files, pool, access, position, ahead, block: None };
        if let Some(block) = cursor.load()? {
            let start = BlockCursor::seek(&block, key);
            cursor.block = Some((block, start));
        }
        Ok(cursor)
    }

    /// The block at the position, or the first behind it; `None` at the end.
    fn load(&mut self) -> Result<Option<Arc<Block>>, TryReadError> {
        while let Some(file) = self.files.first() {
            if self.position < file.block_count() {
                return file
                    .block(self.position, self.pool, self.access, &mut self.ahead)
                    .map(Some);
            }
            self.files = &self.files[1..];
            self.position = 0;
            self.ahead.next_file();
        }
        Ok(None)
    }

    /// The next entry: a value, or `None` for a tombstone.
    pub(crate) fn next(&mut self) -> Result<Option<(Key, Option<Value<'static>>)>, TryReadError> {
        while let Some((block, cursor)) = &mut self.block {
            if cursor.advance(block) {
                let value = cursor.value().map(|range| Value::in_block(block.clone(), range));
                return Ok(Some((Key::from(cursor.key()), value)));
            }
            self.position += 1;
            self.ahead.pass();
            self.block = self.load()?.map(|block| (block, BlockCursor::default()));
        }
        Ok(None)
    }
}
