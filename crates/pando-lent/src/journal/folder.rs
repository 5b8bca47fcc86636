//! The files of journals: a folder for each process that answers, of any volume.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use pando_types::ShardIndex;
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};

use crate::journal::halves::{Journal, Notebook, Storage};
use crate::journal::record::HALF;

const LOCK: &str = "lock";
const SHARD: &str = "shard-";
/// A file that says that objects are lost.
const LOST: &str = "objects-lost";

/// Where the processes of this machine keep their journals of one volume.
#[derive(Clone, Debug)]
pub struct Mounts {
    folder: PathBuf,
    /// How the names of its folders begin.
    of: String,
}

/// The journals of this process.
#[derive(Debug)]
pub struct Notes {
    folder: PathBuf,
    _lock: File,
}

/// The journals of a process that has ended.
#[derive(Debug)]
pub struct Found {
    folder: PathBuf,
    _lock: File,
}

impl Storage for File {
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

impl Mounts {
    /// Journals of the volume with this id and the key with this name, in a folder that only this
    /// user may enter. Shards take what was answered under a key from that key only.
    #[must_use]
    pub fn new(folder: &Path, volume: &[u8; 16], key: &str) -> Self {
        let volume = volume.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        Self { folder: folder.to_owned(), of: format!("{volume}-{key}") }
    }

    /// Begins the journals of this process.
    pub fn begin(&self) -> io::Result<Notes> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let own = format!("{}-{:016x}", self.of, u64::from_le_bytes(random));
        // Under its final name a folder has a lock from the beginning.
        let coming = self.folder.join(format!("coming-{own}"));
        DirBuilder::new().mode(0o700).recursive(true).create(&coming)?;
        let lock = private().create_new(true).open(coming.join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let folder = self.folder.join(own);
        fs::rename(&coming, &folder)?;
        Ok(Notes { folder, _lock: lock })
    }

    /// Takes the journals of processes that have ended.
    pub fn ended(&self) -> io::Result<Vec<Found>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            let is_its = entry.file_name().to_str().is_some_and(|name| {
                name.strip_prefix(&self.of).is_some_and(|rest| rest.starts_with('-'))
            });
            let folder = entry.path();
            if !is_its {
                continue;
            }
            let Ok(lock) = private().open(folder.join(LOCK)) else { continue };
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
                // Another process may have sent and removed it meanwhile.
                if folder.join(LOCK).exists() {
                    found.push(Found { folder, _lock: lock });
                }
            }
        }
        Ok(found)
    }
}

fn note_lost(folder: &Path) -> io::Result<()> {
    private().create(true).truncate(true).open(folder.join(LOST)).map(drop)
}

impl Notebook for Notes {
    fn open(&self, shard: ShardIndex) -> io::Result<Journal> {
        let path = self.folder.join(format!("{SHARD}{}", shard.0));
        let file = private().create(true).truncate(true).open(path)?;
        fallocate(&file, FallocateFlags::empty(), 0, 2 * HALF as u64)?;
        Journal::new(Box::new(file), shard)
    }

    fn objects_are_lost(&self) -> io::Result<()> {
        note_lost(&self.folder)
    }

    /// Removes the folder of all, too, if it is empty then.
    fn end(&self) -> io::Result<()> {
        fs::remove_dir_all(&self.folder)?;
        if let Some(all) = self.folder.parent() {
            // Other journals may be there.
            let _ = fs::remove_dir(all);
        }
        Ok(())
    }
}

impl Found {
    /// Whether objects that the journals name are lost.
    #[must_use]
    pub fn has_lost_objects(&self) -> bool {
        self.folder.join(LOST).exists()
    }

    /// Notes that objects which the journals name are lost.
    pub fn objects_are_lost(&self) -> io::Result<()> {
        note_lost(&self.folder)
    }

    /// The bytes of each journal, by the path of its file.
    pub fn journals(&self) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(SHARD)) {
                all.push((entry.path(), fs::read(entry.path())?));
            }
        }
        all.sort();
        Ok(all)
    }

    /// Removes all journals.
    pub fn end(self) -> io::Result<()> {
        fs::remove_dir_all(&self.folder)
    }
}
