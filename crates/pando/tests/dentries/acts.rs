//! Calls of all kinds, by a path or within a held directory, and the trees that they act on.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

/// Name of a call, and the function. The call acts on one of two trees that differ in their
/// contents, by a path or within a held directory.
pub type Act = (&'static str, fn(&Held) -> Result<String, Errno>);

/// Where paths begin.
pub enum At {
    Fd(OwnedFd),
    /// The working directory of the calling thread.
    Cwd,
}

impl AsFd for At {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Fd(fd) => fd.as_fd(),
            Self::Cwd => rustix::fs::CWD,
        }
    }
}

/// What a call is relative to. `front` is put before each name.
pub struct Held {
    pub at: At,
    pub front: &'static str,
}

impl Held {
    fn path(&self, name: &str) -> String {
        format!("{}{name}", self.front)
    }

    /// A path to the directory itself.
    fn dir(&self) -> &str {
        if self.front.is_empty() { "." } else { self.front }
    }

    pub fn read(&self, name: &str) -> Result<String, Errno> {
        let fd = rustix::fs::openat(&self.at, self.path(name), OFlags::RDONLY, Mode::empty())?;
        let mut text = String::new();
        File::from(fd).read_to_string(&mut text).unwrap();
        Ok(text)
    }

    pub fn make(&self, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(&self.at, self.path(name), flags | OFlags::CREATE, Mode::RWXU)
    }

    fn open(&self, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(&self.at, self.path(name), flags, Mode::empty())
    }
}

/// All calls. Each returns what it has found, or makes something that can be found.
pub const ACTS: [Act; 27] = [
    ("read", |held| held.read("file")),
    ("stat", |held| {
        let stat = rustix::fs::statat(&held.at, held.path("file"), AtFlags::empty())?;
        Ok(stat.st_size.to_string())
    }),
    ("stat of the directory", |held| {
        let stat = rustix::fs::statat(&held.at, held.dir(), AtFlags::empty())?;
        Ok(stat.st_ino.to_string())
    }),
    ("access to the directory", |held| {
        rustix::fs::accessat(&held.at, held.dir(), rustix::fs::Access::EXEC_OK, AtFlags::empty())?;
        Ok(String::new())
    }),
    ("listing", |held| {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = rustix::fs::openat(&held.at, held.dir(), flags, Mode::empty())?;
        let mut names: Vec<_> = rustix::fs::Dir::read_from(fd)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.retain(|name| name.starts_with("only"));
        Ok(names.concat())
    }),
    ("create", |held| {
        File::from(held.make("made", OFlags::WRONLY)?).write_all(b"made").unwrap();
        Ok(String::new())
    }),
    ("create, or else fail", |held| {
        drop(held.make("new", OFlags::WRONLY | OFlags::EXCL)?);
        Ok(String::new())
    }),
    ("overwrite", |held| {
        let flags = OFlags::WRONLY | OFlags::TRUNC;
        let fd = rustix::fs::openat(&held.at, held.path("file"), flags, Mode::empty())?;
        File::from(fd).write_all(b"over").unwrap();
        held.read("file")
    }),
    ("mkdir", |held| {
        rustix::fs::mkdirat(&held.at, held.path("sub"), Mode::RWXU)?;
        Ok(String::new())
    }),
    ("mkdir of what is there", |held| {
        match rustix::fs::mkdirat(&held.at, held.path("kept"), Mode::RWXU) {
            Err(Errno::EXIST) => Ok("kept".to_owned()),
            other => other.map(|()| "made".to_owned()),
        }
    }),
    ("symlink", |held| {
        rustix::fs::symlinkat("target", &held.at, held.path("symlink"))?;
        Ok(String::new())
    }),
    ("mknod", |held| {
        rustix::fs::mknodat(&held.at, held.path("pipe"), FileType::Fifo, Mode::RWXU, 0)?;
        Ok(String::new())
    }),
    ("link", |held| {
        let (old, new) = (held.path("file"), held.path("link"));
        rustix::fs::linkat(&held.at, old, &held.at, new, AtFlags::empty())?;
        held.read("link")
    }),
    ("rename", |held| {
        rustix::fs::renameat(&held.at, held.path("movable"), &held.at, held.path("moved"))?;
        held.read("moved")
    }),
    ("unlink", |held| {
        rustix::fs::unlinkat(&held.at, held.path("doomed"), AtFlags::empty())?;
        Ok(String::new())
    }),
    ("rmdir", |held| {
        rustix::fs::unlinkat(&held.at, held.path("hollow"), AtFlags::REMOVEDIR)?;
        Ok(String::new())
    }),
    ("chmod of the directory", |held| {
        rustix::fs::chmodat(&held.at, held.dir(), Mode::from_raw_mode(0o711), AtFlags::empty())?;
        let stat = rustix::fs::statat(&held.at, held.dir(), AtFlags::empty())?;
        Ok(format!("{:o}", stat.st_mode & 0o777))
    }),
    ("through a subdirectory", |held| held.read("kept/../kept/within")),
    ("and back up", |held| held.read("../c/file")),
    ("truncate", |held| {
        rustix::fs::ftruncate(held.open("file", OFlags::WRONLY)?, 1)?;
        held.read("file")
    }),
    ("readlink", |held| {
        let target = rustix::fs::readlinkat(&held.at, held.path("pointer"), Vec::new())?;
        Ok(target.into_string().unwrap())
    }),
    ("utimensat", |held| {
        let time = rustix::fs::Timespec { tv_sec: 5, tv_nsec: 0 };
        let times = Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(&held.at, held.path("file"), &times, AtFlags::empty())?;
        let stat = rustix::fs::statat(&held.at, held.path("file"), AtFlags::empty())?;
        Ok(stat.st_mtime.to_string())
    }),
    ("chown", |held| {
        let group = Some(Gid::from_raw(NOBODY));
        rustix::fs::chownat(&held.at, held.path("file"), None, group, AtFlags::empty())?;
        let stat = rustix::fs::statat(&held.at, held.path("file"), AtFlags::empty())?;
        Ok(stat.st_gid.to_string())
    }),
    ("setxattr and getxattr", |held| {
        let file = held.open("file", OFlags::RDONLY)?;
        rustix::fs::fsetxattr(&file, "user.x", b"y", XattrFlags::empty())?;
        let mut value = [0; 8];
        let size = rustix::fs::fgetxattr(&file, "user.x", &mut value)?;
        Ok(String::from_utf8_lossy(&value[..size]).into_owned())
    }),
    ("rename into another directory", |held| {
        let (old, new) = (held.path("spare"), held.path("kept/moved"));
        rustix::fs::renameat(&held.at, old, &held.at, new)?;
        held.read("kept/moved")
    }),
    ("rename of a directory into another", |held| {
        let (old, new) = (held.path("spare-dir"), held.path("kept/dir"));
        rustix::fs::renameat(&held.at, old, &held.at, new)?;
        held.read("kept/within")
    }),
    ("link from another directory", |held| {
        let (old, new) = (held.path("kept/within"), held.path("linked"));
        rustix::fs::linkat(&held.at, old, &held.at, new, AtFlags::empty())?;
        held.read("linked")
    }),
];

/// Makes a tree `NAME/b/c` with contents that tell which tree it is.
pub fn plant(root: &Path, name: &str, which: &str) {
    let dir = root.join(name).join("b/c");
    fs::create_dir_all(dir.join("kept")).unwrap();
    for file in ["file", "movable", "spare", "doomed"] {
        fs::write(dir.join(file), which).unwrap();
    }
    for hollow in ["hollow", "spare-dir"] {
        fs::create_dir(dir.join(hollow)).unwrap();
    }
    fs::write(dir.join("kept/within"), which).unwrap();
    fs::write(dir.join(format!("only-{which}")), "").unwrap();
    std::os::unix::fs::symlink(which, dir.join("pointer")).unwrap();
}

/// Everything below a directory, without times and inode numbers.
pub fn picture(dir: &Path) -> String {
    let mut entries: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    let mut all = String::new();
    for path in entries {
        let stat = path.symlink_metadata().unwrap();
        let size = if stat.is_dir() { 0 } else { stat.len() };
        let of = (stat.mode(), stat.uid(), stat.gid(), size);
        let text = if stat.is_file() { fs::read_to_string(&path).unwrap() } else { String::new() };
        all += &format!("{} {of:?} {text}\n", path.file_name().unwrap().display());
        if stat.is_dir() {
            all += &picture(&path);
        }
    }
    all
}

pub fn open_dir(path: &Path) -> OwnedFd {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

/// A user, and a group, that own nothing except what a test gives them.
pub const NOBODY: u32 = 12_345;

/// Runs `work` in a thread of its own, as the user [`NOBODY`].
pub fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let user = scope.spawn(|| {
            become_nobody();
            work()
        });
        user.join().unwrap()
    })
}

/// Gives this thread the user and the group [`NOBODY`].
pub fn become_nobody() {
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    set_thread_groups(&[]).unwrap();
    set_thread_res_gid(gid, gid, gid).unwrap();
    set_thread_res_uid(uid, uid, uid).unwrap();
}
