//! Moving over the entries of files with disjoint spans, in ascending order.

use crate::types::error::ReadError;
use std::sync::Arc;

use crate::index::ahead::ReadAhead;
use crate::index::file::IndexFile;
use crate::index::format::block::{Block, BlockCursor};
use crate::index::pool::{Access, Pool};
use crate::index::value::Value;
use crate::types::key::Key;

/// A cursor over the entries of files. [`FilesCursor::advance`] goes to the next entry, and lends
/// its key and value. The cursor holds the block that it is in.
pub(crate) struct FilesCursor<'a> {
    /// Files that are not finished yet, ascending.
    files: &'a [Arc<IndexFile>],
    pool: &'a Arc<Pool>,
    access: Access,
    to: Option<Key>,
    position: usize,
    ahead: ReadAhead,
    block: Option<Arc<Block>>,
    cursor: BlockCursor,
}

impl<'a> FilesCursor<'a> {
    /// A cursor before the first entry of `from..to`. `None` is the end of all keys.
    pub(crate) fn seek(
        files: &'a [Arc<IndexFile>],
        pool: &'a Arc<Pool>,
        access: Access,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<FilesCursor<'a>, ReadError> {
        let passed = files.partition_point(|file| *file.facts().to <= *from);
        let files = &files[passed..];
        let position = files.first().and_then(|file| file.block_for(from)).unwrap_or(0);
        let (to, ahead) = (to.map(Key::from), ReadAhead::default());
        let (block, cursor) = (None, BlockCursor::default());
        let mut cursor = FilesCursor { files, pool, access, to, position, ahead, block, cursor };
        cursor.load(Some(from))?;
        Ok(cursor)
    }

    /// Enters the block at the current position, or the first block of the next file. With `from`,
    /// begins at that key. At the end there is no block.
    fn load(&mut self, from: Option<&[u8]>) -> Result<(), ReadError> {
        if self.block.take().is_some() {
            self.ahead.pass();
        }
        while let Some(file) = self.files.first() {
            if self.position == file.block_count() {
                self.files = &self.files[1..];
                self.position = 0;
                self.ahead.next_file();
                continue;
            }
            let block = file.block(self.position, self.pool, self.access, &mut self.ahead)?;
            match from {
                Some(from) => self.cursor.seek(&block, from),
                None => self.cursor.enter(&block),
            }
            if let Some(to) = &self.to
                && !file.goes_on_before(self.position, to)
            {
                self.cursor.stop_before(&block, to);
                self.files = &[];
            }
            self.position += 1;
            self.block = Some(block);
            break;
        }
        Ok(())
    }

    /// Goes to the next entry. Returns false at the end.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool, ReadError> {
        match &self.block {
            Some(block) if self.cursor.advance(block) => Ok(true),
            Some(_) => self.advance_to_block(),
            None => Ok(false),
        }
    }

    #[cold]
    fn advance_to_block(&mut self) -> Result<bool, ReadError> {
        self.load(None)?;
        while let Some(block) = &self.block {
            if self.cursor.advance(block) {
                return Ok(true);
            }
            self.load(None)?;
        }
        Ok(false)
    }

    /// The key of the current entry.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.cursor.key()
    }

    /// The value of the current entry. `None`: a tombstone.
    #[inline]
    pub(crate) fn value(&self) -> Option<&[u8]> {
        Some(self.block.as_ref()?.bytes(self.cursor.value()?))
    }

    /// The value of the current entry, independent of the cursor. `None`: a tombstone.
    pub(crate) fn owned_value(&self) -> Option<Value<'static>> {
        Some(Value::in_block(self.block.clone()?, self.cursor.value()?))
    }
}
