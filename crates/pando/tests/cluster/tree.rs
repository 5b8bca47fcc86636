//! A source tree that is extracted through one mount and compared through another, while both are
//! killed now and then. It goes in pieces, so that a kill undoes only one piece.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use crate::common::all;
use crate::station::Station;

/// Maximum number of objects in a piece.
const PIECE_MAX: usize = 400;
/// Time after which `tar` is killed, seconds. A piece takes a few seconds.
const PATIENCE: &str = "900";
/// The tree's name on the volume.
pub const NAME: &str = "tree";

pub struct Tree {
    root: PathBuf,
    /// Relative paths, with each directory before its contents. The last piece has all directories
    /// again, since filling them changes their times.
    pieces: Vec<Vec<PathBuf>>,
    compared: AtomicUsize,
}

impl Tree {
    /// Opens a source tree: a folder, or an archive, which is extracted in `scratch`.
    pub fn open(source: &Path, scratch: &Path) -> Self {
        let mut root = source.to_owned();
        if !source.is_dir() {
            root = scratch.join("source");
            fs::create_dir(&root).unwrap();
            // Some archives have their directories in pieces, too.
            let mut tar = Command::new("tar");
            tar.args(["--delay-directory-restore", "-xf"]).arg(source).arg("-C").arg(&root);
            let extracted = tar.output().unwrap();
            assert!(extracted.status.success(), "{}", all(&extracted));
        }
        let (mut paths, mut directories) = (Vec::new(), Vec::new());
        walk(&root, Path::new("."), &mut paths, &mut directories);
        let pieces = paths.chunks((paths.len() / 8).clamp(8, PIECE_MAX)).map(<[_]>::to_vec);
        let pieces = pieces.chain([directories]).collect();
        Self { root, pieces, compared: AtomicUsize::new(0) }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Number of objects, and number of pieces.
    pub fn objects(&self) -> (usize, usize) {
        let directories = self.pieces.last().map_or(0, Vec::len);
        (self.pieces.iter().map(Vec::len).sum::<usize>() - directories, self.pieces.len())
    }

    /// Number of pieces that were compared.
    pub fn compared(&self) -> usize {
        self.compared.load(Ordering::Relaxed)
    }

    /// Extracts the tree, and reports each piece that is done.
    pub fn extract(
        &self,
        station: &Station,
        scratch: &Path,
        done: Sender<usize>,
    ) -> Result<(), String> {
        for number in 0..self.pieces.len() {
            let archive = self.pack(number, scratch);
            station.work(|mount| {
                let target = mount.join(NAME);
                fs::create_dir_all(&target).map_err(|error| error.to_string())?;
                let mut tar = Command::new("timeout");
                tar.args(["--signal=KILL", PATIENCE, "tar", "-xpf"]).arg(&archive);
                let extracted = tar.arg("-C").arg(&target).output().unwrap();
                let fails = || format!("tar, piece {number}: {}", all(&extracted));
                extracted.status.success().then_some(()).ok_or_else(fails)
            })?;
            if done.send(number).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn pack(&self, number: usize, scratch: &Path) -> PathBuf {
        let archive = scratch.join("piece.tar");
        let mut tar = Command::new("tar");
        tar.args(["--format=posix", "--no-recursion", "--null", "-cf"]).arg(&archive);
        tar.arg("-C").arg(&self.root).args(["-T", "-"]).stdin(Stdio::piped());
        let mut tar = tar.spawn().unwrap();
        let mut list = tar.stdin.take().unwrap();
        for path in &self.pieces[number] {
            list.write_all(path.as_os_str().as_bytes()).unwrap();
            list.write_all(&[0]).unwrap();
        }
        drop(list);
        assert!(tar.wait().unwrap().success());
        archive
    }

    /// Compares each piece that is done with its source.
    pub fn compare(&self, station: &Station, done: Receiver<usize>) -> Result<(), String> {
        for number in done {
            let is_last = number + 1 == self.pieces.len();
            station.work(|mount| {
                for path in &self.pieces[number] {
                    let (here, there) = (self.root.join(path), mount.join(NAME).join(path));
                    if here.is_dir() && !here.is_symlink() && !is_last {
                        continue;
                    }
                    let expected = Object::read(&here).unwrap();
                    let found = Object::read(&there)
                        .map_err(|error| format!("{}: {error}", there.display()))?;
                    if let Some(difference) = expected.difference(&found) {
                        return Err(format!("{}: {difference}", there.display()));
                    }
                }
                Ok(())
            })?;
            self.compared.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Lists everything at and below `path`, each directory before its contents, and all directories
/// once more.
fn walk(root: &Path, path: &Path, paths: &mut Vec<PathBuf>, directories: &mut Vec<PathBuf>) {
    paths.push(path.to_owned());
    directories.push(path.to_owned());
    let list = fs::read_dir(root.join(path)).unwrap().map(Result::unwrap);
    for entry in list {
        let path = path.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            walk(root, &path, paths, directories);
        } else {
            paths.push(path);
        }
    }
}

/// The facts of an object that are compared.
struct Object {
    metadata: Metadata,
    content: Content,
}

#[derive(PartialEq)]
enum Content {
    File(Vec<u8>),
    Link(PathBuf),
    Directory(BTreeSet<OsString>),
    Other(u64),
}

impl Object {
    fn read(path: &Path) -> io::Result<Self> {
        let metadata = path.symlink_metadata()?;
        let content = if metadata.is_dir() {
            let names = fs::read_dir(path)?.map(|entry| Ok(entry?.file_name()));
            Content::Directory(names.collect::<io::Result<_>>()?)
        } else if metadata.is_symlink() {
            Content::Link(fs::read_link(path)?)
        } else if metadata.is_file() {
            Content::File(fs::read(path)?)
        } else {
            Content::Other(metadata.rdev())
        };
        Ok(Self { metadata, content })
    }

    fn difference(&self, other: &Self) -> Option<String> {
        let facts = |object: &Self| {
            let of = &object.metadata;
            let time = format!("{}.{:09}", of.mtime(), of.mtime_nsec());
            let size = if of.is_dir() { 0 } else { of.size() };
            [
                ("mode", format!("{:o}", of.mode())),
                ("owner", format!("{}:{}", of.uid(), of.gid())),
                ("time", time),
                ("links", of.nlink().to_string()),
                ("size", size.to_string()),
            ]
        };
        let pairs = facts(self).into_iter().zip(facts(other));
        let mut different = pairs.filter(|(expected, found)| expected != found);
        let fact = different
            .next()
            .map(|((what, expected), (_, found))| format!("{what} {found}, expected {expected}"));
        fact.or_else(|| (self.content != other.content).then(|| "other content".to_owned()))
    }
}
