//! Removes a tree, with many names at the same time.
//!
//! ```text
//!   work   a stack of directories that are being read ── take one ── read a page ── unlink its files, all at once
//!            ▲    put it back if there is more, its subdirectories on top ◄──┘
//! ```
//!
//! Invariants:
//! 1. A directory is removed when its `left` is 0: no page is unread, and no subdirectory remains.
//!    The task that removes its last subdirectory continues with the parent.
//! 2. If an object could not be removed, the directories that contain it stay. The failure is
//!    reported once, for that object.
//! 3. A directory lies on the stack below its subdirectories. So memory grows with the depth of the
//!    tree, by a page and a listing for each level. It does not grow with the size of a directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use pando_client::{Client, Listing};
use pando_types::{Credentials, Errno, FileKind, Ino, Name};
use tokio::task::JoinSet;

use crate::console::output::say;

/// Directories that are read at the same time, at most.
const DIRECTORIES_MAX: usize = 8;
/// Names of one directory that are removed at the same time, at most.
const NAMES_MAX: usize = 256;
/// Failures that are printed. Further ones are only counted.
const TOLD_MAX: u64 = 20;

/// Progress of the removal.
#[derive(Default)]
pub struct Progress {
    files: AtomicU64,
    directories: AtomicU64,
    failures: AtomicU64,
}

/// Numbers of files removed, directories removed, and failures.
pub struct Counts {
    pub files: u64,
    pub directories: u64,
    pub failures: u64,
}

impl Progress {
    /// The numbers until now.
    pub fn counts(&self) -> Counts {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            files: get(&self.files),
            directories: get(&self.directories),
            failures: get(&self.failures),
        }
    }

    pub fn removed_file(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    fn failed(&self, path: &Path, errno: Errno) {
        match self.failures.fetch_add(1, Ordering::Relaxed) {
            told if told < TOLD_MAX => {
                say!("cannot remove {}: {errno}", path.display())
            }
            TOLD_MAX => say!("further paths cannot be removed, and are not named"),
            _ => {}
        }
    }
}

/// One removal: the client, the credentials and the progress.
pub struct Job {
    pub client: Arc<Client>,
    pub credentials: Credentials,
    progress: Arc<Progress>,
}

/// A directory to be removed.
struct Dir {
    /// The parent, if it is to be removed, too.
    parent: Option<Arc<Self>>,
    parent_ino: Ino,
    name: Name,
    path: PathBuf,
    ino: Ino,
    /// Number of subdirectories, plus 1 until the directory is read to its end.
    left: AtomicUsize,
    /// Whether an object in it could not be removed, so that the directory stays.
    stays: AtomicBool,
}

/// A directory that is being read.
struct Reading {
    dir: Arc<Dir>,
    listing: Option<Listing>,
}

impl Reading {
    fn new(dir: Dir) -> Self {
        Self { dir: Arc::new(dir), listing: None }
    }
}

/// Removes the directory `ino`, which was looked up as `name` in `parent`, and all that is in it.
pub async fn remove(job: &Arc<Job>, parent: Ino, name: Name, ino: Ino, path: PathBuf) {
    let (left, stays) = (AtomicUsize::new(1), AtomicBool::new(false));
    let first = Dir { parent: None, parent_ino: parent, name, path, ino, left, stays };
    let mut stack = vec![Reading::new(first)];
    let mut steps = JoinSet::new();
    loop {
        while steps.len() < DIRECTORIES_MAX
            && let Some(reading) = stack.pop()
        {
            let job = Arc::clone(job);
            steps.spawn(async move { job.step(reading).await });
        }
        match steps.join_next().await {
            Some(Ok(more)) => stack.extend(more),
            // With `panic = abort` no panic arrives here. In tests it continues.
            Some(Err(panic)) => std::panic::resume_unwind(panic.into_panic()),
            None => return,
        }
    }
}

impl Job {
    pub const fn new(
        client: Arc<Client>,
        credentials: Credentials,
        progress: Arc<Progress>,
    ) -> Self {
        Self { client, credentials, progress }
    }

    /// Removes a page of files. Returns the remaining work: the rest of the directory, and its
    /// subdirectories on top.
    async fn step(self: &Arc<Self>, mut reading: Reading) -> Vec<Reading> {
        let page = match self.page(&mut reading).await {
            Ok(page) if !page.is_empty() => page,
            result => {
                if let Err(errno) = result
                    && errno != Errno::ESTALE
                    && errno != Errno::ENOENT
                {
                    self.stays(&reading.dir, &reading.dir.path, errno);
                }
                self.one_less(reading.dir).await;
                return Vec::new();
            }
        };
        let dir = Arc::clone(&reading.dir);
        let (subdirs, files): (Vec<_>, Vec<_>) =
            page.into_iter().partition(|entry| entry.kind == FileKind::Directory);
        let mut unlinks = JoinSet::new();
        for entry in files {
            if unlinks.len() >= NAMES_MAX {
                unlinks.join_next().await;
            }
            let (job, dir) = (Arc::clone(self), Arc::clone(&dir));
            unlinks.spawn(async move { job.unlink(&dir, &entry.name).await });
        }
        while unlinks.join_next().await.is_some() {}
        let mut more = vec![reading];
        for entry in subdirs {
            let path = dir.path.join(text(&entry.name));
            match self.client.lookup_brief(&self.credentials, dir.ino, &entry.name).await {
                Ok(found) => {
                    dir.left.fetch_add(1, Ordering::Relaxed);
                    more.push(Reading::new(Dir {
                        parent: Some(Arc::clone(&dir)),
                        parent_ino: dir.ino,
                        name: entry.name,
                        path,
                        ino: found.ino,
                        left: AtomicUsize::new(1),
                        stays: AtomicBool::new(false),
                    }));
                }
                Err(Errno::ENOENT) => {}
                Err(errno) => self.stays(&dir, &path, errno),
            }
        }
        more
    }

    async fn page(&self, reading: &mut Reading) -> Result<Vec<pando_client::DirEntry>, Errno> {
        let listing = match &mut reading.listing {
            Some(listing) => listing,
            None => {
                self.client.opendir(&self.credentials, reading.dir.ino).await?;
                let listing = self.client.listing(&self.credentials, reading.dir.ino, 0)?;
                reading.listing.insert(listing)
            }
        };
        listing.next().await
    }

    async fn unlink(&self, dir: &Dir, name: &Name) {
        match self.client.unlink(&self.credentials, dir.ino, name).await {
            Ok(()) => self.progress.removed_file(),
            // Another process removed it first.
            Err(Errno::ENOENT) => {}
            Err(errno) => self.stays(dir, &dir.path.join(text(name)), errno),
        }
    }

    fn stays(&self, dir: &Dir, path: &Path, errno: Errno) {
        dir.stays.store(true, Ordering::Relaxed);
        self.progress.failed(path, errno);
    }

    /// Decrements `left` of `dir`. At 0 the directory is removed, and the parent's `left` is
    /// decremented in turn.
    async fn one_less(&self, mut dir: Arc<Dir>) {
        while dir.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let mut stays = dir.stays.load(Ordering::Relaxed);
            if !stays {
                match self.client.rmdir(&self.credentials, dir.parent_ino, &dir.name).await {
                    Ok(()) => _ = self.progress.directories.fetch_add(1, Ordering::Relaxed),
                    Err(Errno::ENOENT) => {}
                    Err(errno) => {
                        self.progress.failed(&dir.path, errno);
                        stays = true;
                    }
                }
            }
            self.client.forget(dir.ino, 1);
            let Some(parent) = &dir.parent else { return };
            parent.stays.fetch_or(stays, Ordering::Relaxed);
            dir = Arc::clone(parent);
        }
    }
}

fn text(name: &Name) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(name.as_bytes())
}
