//! RocksDB as tuned for metadata: filters of 10 bits a key, LZ4, a log that is not synced.

use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Result;
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Options, ReadOptions, WaitForCompactOptions,
    WriteBatch, WriteOptions,
};

use super::{Setup, Store, Variant, prefix_end};
use crate::data::{Glance, Sum};

pub struct RocksDb {
    db: Arc<DB>,
    batch: WriteBatch,
    write: WriteOptions,
}

impl Store for RocksDb {
    type Done = ();

    fn open(setup: &Setup) -> Result<RocksDb> {
        let mut table = BlockBasedOptions::default();
        table.set_bloom_filter(10.0, false);
        table.set_block_cache(&Cache::new_lru_cache(setup.cache_bytes));
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_compression_type(DBCompressionType::Lz4);
        options.set_block_based_table_factory(&table);
        options.set_write_buffer_size(setup.tree_bytes);
        options.set_max_background_jobs(2);
        match setup.variant {
            Variant::Plain => {}
            Variant::MmapLog => options.set_allow_mmap_writes(true),
            Variant::MemtableFilter => {
                options.set_memtable_whole_key_filtering(true);
                options.set_memtable_prefix_bloom_ratio(0.004);
            }
        }
        let db = Arc::new(DB::open(&options, &setup.folder)?);
        let mut write = WriteOptions::default();
        write.set_sync(setup.sync);
        Ok(RocksDb { db, batch: WriteBatch::default(), write })
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Glance>> {
        Ok(self.db.get_pinned(key)?.map(|value| Glance::of(&value)))
    }

    fn scan(&mut self, prefix: &[u8]) -> Result<Sum> {
        let mut options = ReadOptions::default();
        if let Some(end) = prefix_end(prefix) {
            options.set_iterate_upper_bound(end);
        }
        let mut cursor = self.db.raw_iterator_opt(options);
        let mut sum = Sum::default();
        cursor.seek(prefix);
        while let Some((key, value)) = cursor.item() {
            sum.add(key, value);
            cursor.next();
        }
        cursor.status()?;
        Ok(sum)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.batch.put(key, value);
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.batch.delete(key);
        Ok(())
    }

    /// One batch holds all groups and is applied as one, so there is nothing to do.
    fn end_group(&mut self) {}

    fn write(&mut self) -> Result<()> {
        Ok(self.db.write_opt(std::mem::take(&mut self.batch), &self.write)?)
    }

    fn start_checkpoint(&mut self) -> Result<JoinHandle<Result<()>>> {
        let db = self.db.clone();
        Ok(std::thread::spawn(move || {
            db.flush()?;
            db.compact_range(None::<&[u8]>, None::<&[u8]>);
            Ok(())
        }))
    }

    fn finish_checkpoint(&mut self, (): ()) -> Result<()> {
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        let mut options = WaitForCompactOptions::default();
        options.set_flush(true);
        Ok(self.db.wait_for_compact(&options)?)
    }

    fn snapshot(&mut self) -> Result<bool> {
        let folder = self.db.path().with_extension("snapshot");
        Checkpoint::new(&self.db)?.create_checkpoint(folder)?;
        Ok(true)
    }
}
