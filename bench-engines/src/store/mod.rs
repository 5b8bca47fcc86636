//! All engines behind one trait, so that each does identical work.

mod babu;
mod fjall;
mod lmdb;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;

use std::path::PathBuf;
use std::thread::JoinHandle;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::data::{Glance, Sum};

/// Parameters for opening an engine.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Folder of its files, which must exist.
    pub folder: PathBuf,
    /// Whether an fsync follows every log write.
    pub sync: bool,
    /// Size of the cache for blocks of files, if the engine has one of its own.
    pub cache_bytes: usize,
    /// Size at which the engine writes its trees to files by itself, if it does so.
    pub tree_bytes: usize,
    /// Whether the files are larger than memory.
    pub is_memory_scarce: bool,
    /// A deviation from the engine's usual configuration.
    pub variant: Variant,
}

/// Variants of RocksDB that are not the demanded comparison, but may be faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// The usual configuration.
    Plain,
    /// Files, including the log, are written through shared memory mappings.
    MmapLog,
    /// The memtable has a Bloom filter, too.
    MemtableFilter,
}

/// An open engine. One thread writes.
///
/// `end_group` ends the group of all changes since the last one. The next `write` puts the ended
/// groups into the log. From then on reads must see them; before, they may or may not.
pub trait Store: Sized + 'static {
    /// The result of a checkpoint on another thread.
    type Done: Send + 'static;

    /// Opens the database, or creates it.
    fn open(setup: &Setup) -> Result<Self>;

    /// Announces changes, and the reads that belong to them.
    fn begin(&mut self) -> Result<()> {
        Ok(())
    }

    /// Looks up a key.
    fn get(&mut self, key: &[u8]) -> Result<Option<Glance>>;

    /// Reads every entry whose key begins with `prefix`.
    fn scan(&mut self, prefix: &[u8]) -> Result<Sum>;

    /// Sets a key.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes a key.
    fn delete(&mut self, key: &[u8]) -> Result<()>;

    /// Ends the present group, which is applied as one.
    fn end_group(&mut self);

    /// Writes all groups since the last call to the log at once. With [`Setup::sync`] it also
    /// syncs.
    fn write(&mut self) -> Result<()>;

    /// Writes all records into files, in the engine's most compact form, and waits for that.
    fn checkpoint(&mut self) -> Result<()> {
        let job = self.start_checkpoint()?;
        let done = job.join().map_err(|_| anyhow::anyhow!("the checkpoint panicked"))??;
        self.finish_checkpoint(done)
    }

    /// Starts a checkpoint on another thread, beside further work.
    fn start_checkpoint(&mut self) -> Result<JoinHandle<Result<Self::Done>>>;

    /// Installs the result of a checkpoint.
    fn finish_checkpoint(&mut self, done: Self::Done) -> Result<()>;

    /// Writes all records in memory into files. Then it waits until the engine has finished its own
    /// work on files, such as compactions.
    fn settle(&mut self) -> Result<()>;

    /// Makes a snapshot that outlives the process. Returns false if the engine cannot.
    fn snapshot(&mut self) -> Result<bool>;

    /// To be called at intervals during a long load. If an engine leaves checkpoints to its caller,
    /// this starts or installs one.
    fn tend(&mut self) -> Result<()> {
        Ok(())
    }
}

/// An engine with its variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Pando's store.
    Babu,
    /// As the comparison is asked for: filters, LZ4, no fsync.
    #[cfg(feature = "rocksdb")]
    Rocksdb,
    /// The same with its log written through a memory mapping.
    #[cfg(feature = "rocksdb")]
    RocksdbMmap,
    /// The same with a filter in front of its memtable.
    #[cfg(feature = "rocksdb")]
    RocksdbFilter,
    /// Through heed: a writable memory map.
    Lmdb,
    /// fjall 3.
    Fjall,
    /// redb 4.
    Redb,
}

/// Work that any engine can do.
pub trait Work {
    /// The result of the work.
    type Output;

    /// Does the work with this engine.
    fn run<S: Store>(self, setup: &Setup) -> Result<Self::Output>;
}

impl Engine {
    /// All engines and variants.
    pub fn all() -> &'static [Engine] {
        <Engine as clap::ValueEnum>::value_variants()
    }

    /// Name in results.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Babu => "babu",
            #[cfg(feature = "rocksdb")]
            Engine::Rocksdb => "rocksdb",
            #[cfg(feature = "rocksdb")]
            Engine::RocksdbMmap => "rocksdb-mmap",
            #[cfg(feature = "rocksdb")]
            Engine::RocksdbFilter => "rocksdb-filter",
            Engine::Lmdb => "lmdb",
            Engine::Fjall => "fjall",
            Engine::Redb => "redb",
        }
    }

    /// The variant of the engine.
    pub fn variant(self) -> Variant {
        match self {
            #[cfg(feature = "rocksdb")]
            Engine::RocksdbMmap => Variant::MmapLog,
            #[cfg(feature = "rocksdb")]
            Engine::RocksdbFilter => Variant::MemtableFilter,
            _ => Variant::Plain,
        }
    }

    /// Does the work with this engine.
    pub fn give<W: Work>(self, work: W, setup: &Setup) -> Result<W::Output> {
        match self {
            Engine::Babu => work.run::<babu::Babu>(setup),
            #[cfg(feature = "rocksdb")]
            Engine::Rocksdb | Engine::RocksdbMmap | Engine::RocksdbFilter => {
                work.run::<rocksdb::RocksDb>(setup)
            }
            Engine::Lmdb => work.run::<lmdb::Lmdb>(setup),
            Engine::Fjall => work.run::<fjall::Fjall>(setup),
            Engine::Redb => work.run::<redb::Redb>(setup),
        }
    }
}

/// The first key after all keys that begin with `prefix`. `None` if there is none.
#[cfg_attr(not(feature = "rocksdb"), expect(dead_code, reason = "only one engine has to be told"))]
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut end = prefix[..=kept].to_vec();
    end[kept] += 1;
    Some(end)
}
