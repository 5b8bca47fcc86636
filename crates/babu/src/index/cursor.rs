//! Moving over the entries of files with disjoint spans, in ascending order.

use std::sync::Arc;

use crate::index::ahead::ReadAhead;
use crate::index::block::{Block, BlockCursor};
use crate::index::file::IndexFile;
use crate::index::resident::{Access, Pool, TryReadError};
use crate::key::Key;
use crate::value::Value;

/// Stands before an entry; [`FilesCursor::advance`] goes to it, and then its key and value are
/// lent. A block is held for as long as the cursor is in it.
pub(crate) struct FilesCursor<'a> {
    /// Files not finished yet, ascending.
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
    /// Entries of `from..to`; `None` is the end of all keys.
    pub(crate) fn seek(
        files: &'a [Arc<IndexFile>],
        pool: &'a Arc<Pool>,
        access: Access,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<FilesCursor<'a>, TryReadError> {
        let passed = files.partition_point(|file| *file.facts().to <= *from);
        let files = &files[passed..];
        let position = files.first().and_then(|file| file.block_for(from)).unwrap_or(0);
        let (to, ahead) = (to.map(Key::from), ReadAhead::default());
        let (block, cursor) = (None, BlockCursor::default());
        let mut cursor = FilesCursor { files, pool, access, to, position, ahead, block, cursor };
        cursor.load(Some(from))?;
        Ok(cursor)
    }

    /// Enters the block at the position, or the first behind it, from the key on; there is none at
    /// the end.
    fn load(&mut self, from: Option<&[u8]>) -> Result<(), TryReadError> {
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

    /// Goes to the next entry; false at the end.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool, TryReadError> {
        match &self.block {
            Some(block) if self.cursor.advance(block) => Ok(true),
            Some(_) => self.advance_to_block(),
            None => Ok(false),
        }
    }

    #[cold]
    fn advance_to_block(&mut self) -> Result<bool, TryReadError> {
        self.load(None)?;
        while let Some(block) = &self.block {
            if self.cursor.advance(block) {
                return Ok(true);
            }
            self.load(None)?;
        }
        Ok(false)
    }

    /// The key of the entry it stands at.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.cursor.key()
    }

    /// The value of the entry it stands at; `None`: a tombstone.
    #[inline]
    pub(crate) fn value(&self) -> Option<&[u8]> {
        Some(self.block.as_ref()?.bytes(self.cursor.value()?))
    }

    /// The same, to keep.
    pub(crate) fn owned_value(&self) -> Option<Value<'static>> {
        Some(Value::in_block(self.block.clone()?, self.cursor.value()?))
    }
}
