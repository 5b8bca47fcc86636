//! One hand: its files and directories, its next operation, and the expected reply.

use std::collections::HashMap;
use std::time::Instant;

use pando_client::path::Paths;
use pando_client::{Client, Content, DirEntry, IfThere};
use pando_types::op::RenameFlags;
use pando_types::{Attr, Credentials, FileKind, SetAttr};

use super::Tally;
use super::table::{MixOp, TABLE_1_PARTS};
use crate::BenchError;

/// The two modes of files, then those of directories. A change of permissions switches between
/// them.
const FILE_MODES: [u16; 2] = [0o644, 0o640];
const DIR_MODES: [u16; 2] = [0o755, 0o750];
/// Read permission, as in `access(2)`.
const READ: u8 = 4;

/// The expected state of a directory of the hand.
struct Directory {
    name: u64,
    ino: u64,
    mode: u16,
    files: Vec<File>,
}

/// The expected state of a file.
#[derive(Clone, Copy)]
struct File {
    name: u64,
    ino: u64,
    mode: u16,
}

/// A hand with all its files and directories.
pub(super) struct Hand<'a> {
    client: &'a Client,
    paths: Paths<'a>,
    root: &'a [u8],
    rng: fastrand::Rng,
    with_files: Vec<Directory>,
    empty: Vec<Directory>,
    /// Number of the next name. No name is used twice.
    next_name: u64,
}

impl<'a> Hand<'a> {
    pub(super) fn new(client: &'a Client, root: &'a [u8], seed: u64, number: u64) -> Self {
        let mix = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self {
            client,
            paths: Paths::new(client, Credentials::ROOT),
            root,
            rng: fastrand::Rng::with_seed(seed ^ mix),
            with_files: Vec::new(),
            empty: Vec::new(),
            next_name: 0,
        }
    }

    /// Makes `files` files in directories of about `per_directory` each. There are at least two
    /// directories with files, and an empty one.
    pub(super) async fn fill(&mut self, files: u64, per_directory: u64, tally: &Tally<'_>) {
        let directories = files.div_ceil(per_directory).max(2);
        for _ in 0..=directories {
            if let Err(error) = self.mkdir().await {
                return tally.fail(error);
            }
        }
        self.with_files = self.empty.split_off(1);
        for number in 0..files {
            if tally.is_over() {
                return;
            }
            let at = (number % directories) as usize;
            match self.create_in(at).await {
                Ok(()) => tally.count(),
                Err(error) => return tally.fail(error),
            }
        }
    }

    /// Does `operations` operations.
    pub(super) async fn work(&mut self, operations: u64, tally: &Tally<'_>) {
        for _ in 0..operations {
            if tally.is_over() {
                return;
            }
            let wanted = MixOp::drawn(self.rng.u32(..TABLE_1_PARTS));
            let op = self.possible(wanted);
            let begun = Instant::now();
            match self.act(op).await {
                Ok(nanos) => {
                    let nanos = nanos.unwrap_or_else(|| begun.elapsed().as_nanos() as u64);
                    tally.record(op, nanos);
                }
                Err(error) => return tally.fail(error),
            }
        }
    }

    /// Returns `op`, or its replacement if the hand has no target for it.
    fn possible(&self, op: MixOp) -> MixOp {
        let has_files = self.with_files.iter().any(|dir| !dir.files.is_empty());
        match op {
            MixOp::OpenClose
            | MixOp::Stat
            | MixOp::Delete
            | MixOp::Rename
            | MixOp::SetPermission
                if !has_files =>
            {
                MixOp::Create
            }
            MixOp::Rmdir if self.empty.is_empty() => MixOp::Mkdir,
            op => op,
        }
    }

    /// Does the operation and compares the reply. `Some` is the latency in nanoseconds, if it is
    /// shorter than this whole call.
    async fn act(&mut self, op: MixOp) -> Result<Option<u64>, BenchError> {
        match op {
            MixOp::OpenClose => self.open_and_close().await?,
            MixOp::Stat => {
                let (at, nth) = self.any_file();
                let (path, file) = (self.file_path(at, nth), self.with_files[at].files[nth]);
                let attr = self.paths.lstat(&path).await.map_err(failed(op, &path))?;
                check_file(op, &path, &attr, file)?;
            }
            MixOp::Create => {
                let at = self.any_directory();
                self.create_in(at).await?;
            }
            MixOp::Delete => {
                let (at, nth) = self.any_file();
                let path = self.file_path(at, nth);
                self.paths.unlink(&path).await.map_err(failed(op, &path))?;
                self.with_files[at].files.swap_remove(nth);
            }
            MixOp::Rename => self.rename().await?,
            MixOp::SetPermission => {
                let (at, nth) = self.any_file();
                let path = self.file_path(at, nth);
                let mode = other(FILE_MODES, self.with_files[at].files[nth].mode);
                let attr = self.set_mode(op, &path, mode).await?;
                self.with_files[at].files[nth].mode = mode;
                check_file(op, &path, &attr, self.with_files[at].files[nth])?;
            }
            MixOp::Readdir => {
                let at = self.any_directory();
                let path = self.dir_path(self.with_files[at].name);
                let begun = Instant::now();
                let entries = self.paths.readdir(&path).await.map_err(failed(op, &path))?;
                let nanos = begun.elapsed().as_nanos() as u64;
                check_listing(&path, &entries, &self.with_files[at])?;
                return Ok(Some(nanos));
            }
            MixOp::StatDir => {
                let at = self.any_directory();
                let path = self.dir_path(self.with_files[at].name);
                let attr = self.paths.stat(&path).await.map_err(failed(op, &path))?;
                check_dir(op, &path, &attr, &self.with_files[at])?;
            }
            MixOp::Mkdir => self.mkdir().await?,
            MixOp::Rmdir => {
                let nth = self.rng.usize(..self.empty.len());
                let path = self.dir_path(self.empty[nth].name);
                self.paths.rmdir(&path).await.map_err(failed(op, &path))?;
                self.empty.swap_remove(nth);
            }
            MixOp::RenameDir => {
                let at = self.any_directory();
                let name = self.new_name();
                let (from, to) = (self.dir_path(self.with_files[at].name), self.dir_path(name));
                let flags = RenameFlags::default();
                self.paths.rename(&from, &to, flags).await.map_err(failed(op, &from))?;
                self.with_files[at].name = name;
            }
            MixOp::SetPermissionDir => {
                let at = self.any_directory();
                let path = self.dir_path(self.with_files[at].name);
                let mode = other(DIR_MODES, self.with_files[at].mode);
                let attr = self.set_mode(op, &path, mode).await?;
                self.with_files[at].mode = mode;
                check_dir(op, &path, &attr, &self.with_files[at])?;
            }
        }
        Ok(None)
    }

    async fn open_and_close(&mut self) -> Result<(), BenchError> {
        let op = MixOp::OpenClose;
        let (at, nth) = self.any_file();
        let (path, file) = (self.file_path(at, nth), self.with_files[at].files[nth]);
        let attr = self.paths.open(&path, READ, Content::Kept).await.map_err(failed(op, &path))?;
        let closed = self.client.release(attr.ino).await;
        check_file(op, &path, &attr, file)?;
        closed.map_err(failed(op, &path))
    }

    async fn rename(&mut self) -> Result<(), BenchError> {
        let (at, nth) = self.any_file();
        let to = if self.rng.bool() { at } else { self.any_directory() };
        let mut file = self.with_files[at].files[nth];
        let from = self.file_path(at, nth);
        file.name = self.new_name();
        let path = file_path(&self.dir_path(self.with_files[to].name), file.name);
        let flags = RenameFlags { no_replace: true, exchange: false };
        let renamed = self.paths.rename(&from, &path, flags).await;
        renamed.map_err(failed(MixOp::Rename, &from))?;
        self.with_files[at].files.swap_remove(nth);
        self.with_files[to].files.push(file);
        Ok(())
    }

    async fn create_in(&mut self, at: usize) -> Result<(), BenchError> {
        let name = self.new_name();
        let path = file_path(&self.dir_path(self.with_files[at].name), name);
        let created = self.paths.create(&path, FILE_MODES[0], IfThere::Refuse).await;
        let (attr, is_new) = created.map_err(failed(MixOp::Create, &path))?;
        if !is_new {
            return Err(wrong(MixOp::Create, &path, "was there before"));
        }
        let file = File { name, ino: attr.ino.0, mode: FILE_MODES[0] };
        check_file(MixOp::Create, &path, &attr, file)?;
        self.with_files[at].files.push(file);
        Ok(())
    }

    async fn mkdir(&mut self) -> Result<(), BenchError> {
        let name = self.new_name();
        let path = self.dir_path(name);
        let made = self.paths.mkdir(&path, DIR_MODES[0]).await;
        let attr = made.map_err(failed(MixOp::Mkdir, &path))?;
        let made = Directory { name, ino: attr.ino.0, mode: DIR_MODES[0], files: Vec::new() };
        check_dir(MixOp::Mkdir, &path, &attr, &made)?;
        self.empty.push(made);
        Ok(())
    }

    /// Resolves the path and changes the inode's mode by number, as `chmod` does it through a
    /// mount.
    async fn set_mode(&self, op: MixOp, path: &[u8], mode: u16) -> Result<Attr, BenchError> {
        let ino = self.paths.resolve(path).await.map_err(failed(op, path))?;
        let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
        let changed = self.client.setattr(&Credentials::ROOT, ino, set).await;
        self.client.forget(ino, 1);
        changed.map_err(failed(op, path))
    }

    /// Lists all directories and compares them. Returns the number of files.
    pub(super) async fn census(&self) -> Result<u64, BenchError> {
        let op = MixOp::Readdir;
        let listed = self.paths.readdir(self.root).await.map_err(failed(op, self.root))?;
        let known = self.with_files.iter().chain(&self.empty);
        let known = known.map(|dir| (dir_name(dir.name), dir.ino)).collect();
        compare(self.root, &listed, known, FileKind::Directory)?;
        let mut files = 0;
        for dir in self.with_files.iter().chain(&self.empty) {
            let path = self.dir_path(dir.name);
            let entries = self.paths.readdir(&path).await.map_err(failed(op, &path))?;
            check_listing(&path, &entries, dir)?;
            files += entries.len() as u64;
        }
        Ok(files)
    }

    fn new_name(&mut self) -> u64 {
        self.next_name += 1;
        self.next_name
    }

    fn any_directory(&mut self) -> usize {
        self.rng.usize(..self.with_files.len())
    }

    /// Chooses a random file: the index of its directory, and its index there. A file must exist.
    fn any_file(&mut self) -> (usize, usize) {
        loop {
            let at = self.any_directory();
            let files = self.with_files[at].files.len();
            if files > 0 {
                return (at, self.rng.usize(..files));
            }
        }
    }

    fn dir_path(&self, name: u64) -> Vec<u8> {
        [self.root, b"/", &dir_name(name)].concat()
    }

    fn file_path(&self, at: usize, nth: usize) -> Vec<u8> {
        let dir = &self.with_files[at];
        file_path(&self.dir_path(dir.name), dir.files[nth].name)
    }
}

fn dir_name(name: u64) -> Vec<u8> {
    format!("d{name}").into_bytes()
}

fn file_name(name: u64) -> Vec<u8> {
    format!("f{name:08}").into_bytes()
}

fn file_path(dir: &[u8], name: u64) -> Vec<u8> {
    [dir, b"/", &file_name(name)].concat()
}

fn other(modes: [u16; 2], mode: u16) -> u16 {
    if mode == modes[0] { modes[1] } else { modes[0] }
}

fn failed(op: MixOp, path: &[u8]) -> impl FnOnce(pando_types::Errno) -> BenchError {
    BenchError::operation(op.name(), path)
}

fn wrong(op: MixOp, path: &[u8], what: &str) -> BenchError {
    BenchError::WrongReply { operation: op.name(), what: format!("{} {what}", path.escape_ascii()) }
}

fn check_file(op: MixOp, path: &[u8], attr: &Attr, file: File) -> Result<(), BenchError> {
    let is_right = (attr.ino.0, attr.kind) == (file.ino, FileKind::Regular)
        && (attr.mode, attr.nlink, attr.size) == (file.mode, 1, 0);
    if is_right {
        return Ok(());
    }
    let what = format!("made as inode {} with mode {:o} is {attr:?}", file.ino, file.mode);
    Err(wrong(op, path, &what))
}

/// Compares attributes of a directory, except its size and times. Until a rename is finished on all
/// shards, these do not include it.
fn check_dir(op: MixOp, path: &[u8], attr: &Attr, dir: &Directory) -> Result<(), BenchError> {
    let is_right = (attr.ino.0, attr.kind) == (dir.ino, FileKind::Directory)
        && (attr.mode, attr.nlink) == (dir.mode, 2);
    if is_right {
        return Ok(());
    }
    let what = format!("made as inode {} with mode {:o} is {attr:?}", dir.ino, dir.mode);
    Err(wrong(op, path, &what))
}

fn check_listing(path: &[u8], entries: &[DirEntry], dir: &Directory) -> Result<(), BenchError> {
    let known = dir.files.iter().map(|file| (file_name(file.name), file.ino)).collect();
    compare(path, entries, known, FileKind::Regular)
}

/// Checks that the listing has exactly the known entries, each once.
fn compare(
    path: &[u8],
    entries: &[DirEntry],
    mut known: HashMap<Vec<u8>, u64>,
    kind: FileKind,
) -> Result<(), BenchError> {
    for entry in entries {
        let name = entry.name.as_bytes();
        let is_right = entry.kind == kind && known.remove(name) == Some(entry.ino.0);
        if !is_right {
            let what = format!("lists {}, {:?} {}", name.escape_ascii(), entry.kind, entry.ino.0);
            return Err(wrong(MixOp::Readdir, path, &what));
        }
    }
    match known.keys().next() {
        None => Ok(()),
        Some(name) => {
            let (missing, name) = (known.len(), name.escape_ascii());
            let what = format!("does not list {missing} of its entries, among them {name}");
            Err(wrong(MixOp::Readdir, path, &what))
        }
    }
}
