//! Locks on a volume and on its shards, so that one process serves them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pando_types::SHARDS_MAX;
use rustix::fs::FlockOperation;

use crate::folder::error::{FolderError, io_error};
use crate::folder::files::make_folder;
use crate::folder::layout::Folder;

/// How long `take` waits for the lock of a process that was killed.
const DYING_FOR: Duration = Duration::from_secs(10);

/// How long `take` waits for the lock of any other process, which may just be ending.
const ENDING_FOR: Duration = Duration::from_millis(200);

/// The lock on a volume or on some of its shards. It is released when dropped, and by the kernel
/// when the process dies.
#[derive(Debug)]
pub struct FolderLock {
    /// Locked files with this process's pid inside, each with its shard. `None`: the whole volume.
    files: Vec<(Option<u16>, File)>,
    _shared: Option<File>,
}

impl FolderLock {
    /// Locks one more shard, which is being moved to this folder.
    pub(crate) fn add(&mut self, folder: &Folder, shard: u16) -> Result<(), FolderError> {
        if !self.holds(shard) {
            self.files.push((Some(shard), folder.lock_shard(shard)?));
        }
        Ok(())
    }

    /// Whether this process has locked the shard.
    pub(crate) fn holds(&self, shard: u16) -> bool {
        self.files.iter().any(|(held, _)| *held == Some(shard))
    }

    /// Releases the lock on one shard.
    pub(crate) fn release(&mut self, shard: u16) {
        self.files.retain(|(held, file)| {
            let stays = *held != Some(shard);
            if !stays {
                let _ = file.set_len(0);
            }
            stays
        });
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        self.files.iter().for_each(|(_, file)| drop(file.set_len(0)));
    }
}

impl Folder {
    /// Locks the whole volume for this process.
    pub fn lock(&self) -> Result<FolderLock, FolderError> {
        let path = self.run_lock()?;
        match take(&path, FlockOperation::NonBlockingLockExclusive)? {
            Taken::Here(file) => {
                if let Ok(superblock) = self.read() {
                    (0..superblock.shards).try_for_each(|shard| self.check_kept(shard))?;
                }
                Ok(FolderLock { files: vec![(None, file)], _shared: None })
            }
            Taken::By(pid) => {
                let shards = self.shard_holders()?;
                let path = self.path.clone();
                Err(match shards.is_empty() {
                    true => FolderError::Locked { path, pid },
                    false => FolderError::Served { path, shards },
                })
            }
        }
    }

    /// Locks some shards for this process. Other processes may lock other shards.
    pub fn lock_shards(&self, shards: &[u16]) -> Result<FolderLock, FolderError> {
        let path = self.path.clone();
        let shared = match take(&self.run_lock()?, FlockOperation::NonBlockingLockShared)? {
            Taken::Here(file) => file,
            Taken::By(pid) => return Err(FolderError::Locked { path, pid }),
        };
        let mut files = Vec::new();
        for &shard in shards {
            // A process that holds the lock may give the shard away until it releases it.
            files.push((Some(shard), self.lock_shard(shard)?));
            self.check_kept(shard)?;
        }
        Ok(FolderLock { files, _shared: Some(shared) })
    }

    pub(crate) fn lock_shard(&self, shard: u16) -> Result<File, FolderError> {
        match take(&self.shard_lock(shard), FlockOperation::NonBlockingLockExclusive)? {
            Taken::Here(file) => Ok(file),
            Taken::By(pid) => Err(FolderError::ShardLocked { path: self.path.clone(), shard, pid }),
        }
    }

    /// The shards of this folder that are served, each with its process's pid.
    pub fn shard_holders(&self) -> Result<Vec<(u16, String)>, FolderError> {
        let mut holders = Vec::new();
        self.read()?;
        for shard in 0..SHARDS_MAX {
            if let Some(pid) = holder_of(&self.shard_lock(shard))? {
                holders.push((shard, pid));
            }
        }
        Ok(holders)
    }

    /// Pid of the process that has locked the whole volume. `None`: no process has.
    pub fn holder(&self) -> Result<Option<String>, FolderError> {
        holder_of(&self.run().join("lock"))
    }

    fn run_lock(&self) -> Result<PathBuf, FolderError> {
        let run = self.run();
        make_folder(&run).map_err(io_error("make the folder", &run))?;
        Ok(run.join("lock"))
    }

    fn shard_lock(&self, shard: u16) -> PathBuf {
        self.run().join(format!("shard-{shard:04}.lock"))
    }
}

enum Taken {
    Here(File),
    By(String),
}

/// Locks a file, and writes this process's pid into it if the lock is exclusive.
fn take(path: &Path, how: FlockOperation) -> Result<Taken, FolderError> {
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .map_err(io_error("open", path))?;
    let begun = Instant::now();
    while let Err(errno) = rustix::fs::flock(&file, how) {
        if errno != rustix::io::Errno::WOULDBLOCK {
            return Err(io_error("lock", path)(errno.into()));
        }
        let pid = read_pid(&mut file);
        let patience = if is_dying(&pid) { DYING_FOR } else { ENDING_FOR };
        if begun.elapsed() >= patience {
            return Ok(Taken::By(pid));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    if matches!(how, FlockOperation::NonBlockingLockExclusive) {
        // The pid is a courtesy: a full disk is no reason to refuse the lock.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    }
    Ok(Taken::Here(file))
}

/// Pid of the process that holds the exclusive lock on a file. `None`: no process does.
fn holder_of(path: &Path) -> Result<Option<String>, FolderError> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error("open", path)(error)),
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(None),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(Some(read_pid(&mut file))),
        Err(errno) => Err(io_error("lock", path)(errno.into())),
    }
}

/// Whether a process was killed and is not quite gone: one of its threads still waits for the disk.
fn is_dying(pid: &str) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")),
        Err(_) => true,
    }
}

fn read_pid(file: &mut File) -> String {
    let mut text = String::new();
    let _ = file.rewind().and_then(|()| file.read_to_string(&mut text));
    let text = text.trim();
    if text.is_empty() { "unknown".to_owned() } else { text.to_owned() }
}
