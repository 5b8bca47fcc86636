//! A tree in which calls are made, and the look at its contents.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, SeekFrom, fallocate, renameat_with, seek};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

use crate::acts::{Act, At, DIRS, HELD, Name};

pub struct Tree {
    root: PathBuf,
    held: [Option<File>; HELD],
}

/// All files by name: the number of links of each, and its bytes.
pub struct Seen(BTreeMap<String, (u64, Vec<u8>)>);

impl Seen {
    /// The first difference, in words.
    pub fn differs(&self, found: &Self) -> Option<String> {
        let names = |seen: &Self| seen.0.keys().cloned().collect::<Vec<_>>();
        if names(self) != names(found) {
            return Some(format!("names are {:?}, instead of {:?}", names(found), names(self)));
        }
        self.0.iter().zip(&found.0).find_map(|((name, expected), (_, found))| {
            let (links, bytes) = (expected.0, &expected.1);
            if links != found.0 {
                return Some(format!("{name} has {} links, instead of {links}", found.0));
            }
            if bytes.len() != found.1.len() {
                let len = found.1.len();
                return Some(format!("{name} has {len} bytes, instead of {}", bytes.len()));
            }
            let at = bytes.iter().zip(&found.1).position(|(one, other)| one != other)?;
            let (is, ought) = (found.1[at], bytes[at]);
            Some(format!("byte {at} of {} of {name} is {is}, instead of {ought}", bytes.len()))
        })
    }
}

fn bytes(seed: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

impl Tree {
    /// A new tree with its directories.
    pub fn new(root: &Path) -> Self {
        for dir in 0..DIRS {
            fs::create_dir_all(root.join(format!("d{dir}"))).unwrap();
        }
        Self::of(root)
    }

    /// A tree with directories that exist already.
    pub fn of(root: &Path) -> Self {
        Self { root: root.to_owned(), held: [const { None }; HELD] }
    }

    fn path(&self, name: Name) -> PathBuf {
        self.root.join(format!("d{}/f{}", name.dir, name.file))
    }

    /// Runs a call, and returns its result in words.
    pub fn run(&mut self, act: &Act) -> String {
        match self.try_run(act) {
            Ok(said) => said,
            Err(error) => match Errno::from_io_error(&error) {
                Some(errno) => format!("{errno:?}"),
                None => format!("{error}"),
            },
        }
    }

    fn open(&self, name: Name, cut: bool) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(cut).open(self.path(name))
    }

    /// Runs `what` on an existing file.
    fn with<R>(&self, at: At, what: impl FnOnce(&File) -> io::Result<R>) -> io::Result<R> {
        match at {
            At::Held(held) => match &self.held[held] {
                Some(file) => what(file),
                None => Err(io::Error::other("nothing is open")),
            },
            At::Name(name) => {
                let file = OpenOptions::new().read(true).write(true).open(self.path(name))?;
                what(&file)
            }
        }
    }

    fn try_run(&mut self, act: &Act) -> io::Result<String> {
        let ok = |()| "ok".to_owned();
        match act {
            Act::Open(held, name) => self.held[*held] = Some(self.open(*name, false)?),
            Act::OpenCut(held, name) => self.held[*held] = Some(self.open(*name, true)?),
            Act::Close(held) => self.held[*held] = None,
            Act::CloseAll => self.held = [const { None }; HELD],
            Act::Write { at, offset, len, seed } => {
                let bytes = bytes(*seed, *len);
                return self.with(*at, |file| file.write_all_at(&bytes, *offset)).map(ok);
            }
            Act::Append { at, len, seed } => {
                let mut file = OpenOptions::new().append(true).open(self.path(*at))?;
                file.write_all(&bytes(*seed, *len))?;
            }
            Act::Map { at, offset, len, seed } => {
                return self.with(*at, |file| map(file, *offset, &bytes(*seed, *len)));
            }
            Act::Truncate(at, size) => return self.with(*at, |file| file.set_len(*size)).map(ok),
            Act::Allocate(at, mode, offset, len) => {
                let allocate = |file: &File| Ok(fallocate(file, *mode, *offset, *len)?);
                return self.with(*at, allocate).map(ok);
            }
            Act::Copy { from, to, offset, len, to_offset } => {
                return self.with(*from, |from| {
                    self.with(*to, |to| copy(from, *offset, to, *to_offset, *len))
                });
            }
            Act::Read { at, offset, len } => {
                return self.with(*at, |file| read(file, *offset, *len));
            }
            Act::Sync(at) => return self.with(*at, File::sync_all).map(ok),
            Act::Rename(from, to) => fs::rename(self.path(*from), self.path(*to))?,
            Act::Exchange(from, to) => {
                let (from, to) = (self.path(*from), self.path(*to));
                renameat_with(CWD, from, CWD, to, RenameFlags::EXCHANGE)?;
            }
            Act::Link(from, to) => fs::hard_link(self.path(*from), self.path(*to))?,
            Act::Unlink(name) => fs::remove_file(self.path(*name))?,
            Act::Crowd(dir, count) => {
                for n in 0..*count {
                    File::create(self.root.join(format!("d{dir}/crowd-{n}")))?;
                }
            }
            Act::Disperse(dir) => {
                for entry in fs::read_dir(self.root.join(format!("d{dir}")))? {
                    let entry = entry?;
                    if entry.file_name().to_string_lossy().starts_with("crowd") {
                        fs::remove_file(entry.path())?;
                    }
                }
            }
        }
        Ok(ok(()))
    }

    /// Looks at everything. A range that a file calls a hole must read as zeros.
    pub fn look(&self) -> Seen {
        let mut seen = BTreeMap::new();
        for dir in 0..DIRS {
            for entry in fs::read_dir(self.root.join(format!("d{dir}"))).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(&self.root).unwrap().to_string_lossy().into_owned();
                let links = path.metadata().unwrap().nlink();
                let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
                check_holes(&name, &File::open(&path).unwrap(), &bytes);
                seen.insert(name, (links, bytes));
            }
        }
        Seen(seen)
    }
}

fn read(file: &File, offset: u64, len: u64) -> io::Result<String> {
    let mut bytes = vec![0; len as usize];
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], offset + done as u64)? {
            0 => break,
            more => done += more,
        }
    }
    let sum = |sum: u64, byte: &u8| sum.rotate_left(5).wrapping_mul(31) ^ u64::from(*byte);
    Ok(format!("{done} bytes, {:x}", bytes[..done].iter().fold(0, sum)))
}

fn copy(from: &File, offset: u64, to: &File, to_offset: u64, len: u64) -> io::Result<String> {
    let (mut at, mut to_at, mut done) = (offset, to_offset, 0);
    while done < len {
        let rest = (len - done) as usize;
        match rustix::fs::copy_file_range(from, Some(&mut at), to, Some(&mut to_at), rest)? {
            0 => break,
            more => done += more as u64,
        }
    }
    Ok(format!("{done} copied"))
}

/// Writes through a mapping the part of `bytes` that is within the file.
fn map(file: &File, offset: u64, bytes: &[u8]) -> io::Result<String> {
    let size = file.metadata()?.len();
    let len = size.saturating_sub(offset).min(bytes.len() as u64) as usize;
    if len == 0 {
        return Ok("nothing is there".to_owned());
    }
    let begin = offset / 4096 * 4096;
    let mapped = (offset - begin) as usize + len;
    // SAFETY: a new shared mapping of a file that no other thread or process cuts, written within
    // its size, and unmapped before this returns.
    unsafe {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let memory = mmap(std::ptr::null_mut(), mapped, protection, flags, file, begin)?;
        let target = memory.cast::<u8>().add((offset - begin) as usize);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, len);
        msync(memory, mapped, MsyncFlags::SYNC)?;
        munmap(memory, mapped)?;
    }
    Ok(format!("{len} written"))
}

fn check_holes(name: &str, file: &File, bytes: &[u8]) {
    let mut at = 0;
    while at < bytes.len() as u64 {
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => bytes.len() as u64,
            Err(error) => panic!("{name}: {error}"),
        };
        let hole = &bytes[at as usize..data as usize];
        assert!(hole.iter().all(|&byte| byte == 0), "{name}: data from {at} to {data} in a hole");
        if data == bytes.len() as u64 {
            return;
        }
        let end = seek(file, SeekFrom::Hole(data)).unwrap();
        assert!(end > data, "{name}: a hole at {data}, where data begins");
        at = end;
    }
}
