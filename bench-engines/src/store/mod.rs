//! The engines, behind one trait, so that the work is the same for all.

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

/// How an engine is opened.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Where its files are. Exists.
    pub folder: PathBuf,
    /// Whether every log write is followed by an fsync.
    pub sync: bool,
    /// Memory for blocks of files, where an engine has a cache of its own.
    pub cache_bytes: usize,
    /// Size at which an engine begins to write its trees to files by itself, where it does.
    pub tree_bytes: usize,
    /// Whether files are larger than memory.
    pub is_memory_scarce: bool,
    /// A way of the engine that differs from what it does by default.
    pub variant: Variant,
}

/// Ways to run RocksDB that are not the one asked for, but may be faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// None.
    Plain,
    /// Files, the log among them, are written through shared memory mappings.
    MmapLog,
    /// A filter in front of the memtable too.
    MemtableFilter,
}

/// An engine that is open. One thread writes.
///
/// What was put or deleted belongs to the group that the next `end_group` ends; what was grouped is
/// in the log, and can be read, after the next `write`. Until then a read may or may not see it.
pub trait Store: Sized + 'static {
    /// What a checkpoint on another thread hands back.
    type Done: Send + 'static;

    /// Opens, or creates.
    fn open(setup: &Setup) -> Result<Self>;

    /// Says that changes follow, and reads that belong to them.
    fn begin(&mut self) -> Result<()> {
        Ok(())
    }

    /// Looks a key up.
    fn get(&mut self, key: &[u8]) -> Result<Option<Glance>>;

    /// Looks at every entry whose key begins so.
    fn scan(&mut self, prefix: &[u8]) -> Result<Sum>;

    /// Sets a key.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes a key.
    fn delete(&mut self, key: &[u8]) -> Result<()>;

    /// Ends a group, which is applied as one.
    fn end_group(&mut self);

    /// One log write for all groups since the last; with [`Setup::sync`] also the fsync.
    fn write(&mut self) -> Result<()>;

    /// Brings everything into files, in the best shape the engine knows, and waits.
    fn checkpoint(&mut self) -> Result<()> {
        let job = self.start_checkpoint()?;
        let done = job.join().map_err(|_| anyhow::anyhow!("the checkpoint panicked"))??;
        self.finish_checkpoint(done)
    }

    /// The same beside the work that goes on.
    fn start_checkpoint(&mut self) -> Result<JoinHandle<Result<Self::Done>>>;

    /// Takes over what a checkpoint has made.
    fn finish_checkpoint(&mut self, done: Self::Done) -> Result<()>;

    /// Brings what is in memory into files, and waits until the engine has done with these what it
    /// does by itself.
    fn settle(&mut self) -> Result<()>;

    /// Makes a snapshot that outlives the process. False: the engine has none.
    fn snapshot(&mut self) -> Result<bool>;

    /// For a load that goes on for long: to be called now and then. Begins or takes over
    /// checkpoints in engines that leave that to their caller.
    fn tend(&mut self) -> Result<()> {
        Ok(())
    }
}

/// An engine, and how it is run.
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

/// Work that any engine can be given.
pub trait Work {
    /// What comes of it.
    type Output;

    /// Does it.
    fn run<S: Store>(self, setup: &Setup) -> Result<Self::Output>;
}

impl Engine {
    /// All of them.
    pub fn all() -> &'static [Engine] {
        <Engine as clap::ValueEnum>::value_variants()
    }

    /// Its name in results.
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

    /// How it is run.
    pub fn variant(self) -> Variant {
        match self {
            #[cfg(feature = "rocksdb")]
            Engine::RocksdbMmap => Variant::MmapLog,
            #[cfg(feature = "rocksdb")]
            Engine::RocksdbFilter => Variant::MemtableFilter,
            _ => Variant::Plain,
        }
    }

    /// Gives it work.
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

/// The first key behind all that begin with `prefix`; `None` if there is none.
#[cfg_attr(not(feature = "rocksdb"), expect(dead_code, reason = "only one engine has to be told"))]
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut end = prefix[..=kept].to_vec();
    end[kept] += 1;
    Some(end)
}
