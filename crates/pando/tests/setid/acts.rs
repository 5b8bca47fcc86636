//! The operations on a file, and the look at its mode.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, FallocateFlags, Gid, Mode, OFlags, StatxFlags, Timespec, Timestamps, UTIME_NOW, Uid,
    XattrFlags, openat,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
use rustix::pipe::SpliceFlags;

use crate::actors::{GROUP, OTHER, OTHER_GROUP, OWNER};

/// Length of the files, bytes.
pub const LEN: u64 = 5000;
/// Size of a disk block, bytes.
const BLOCK: usize = 4096;

/// The file that is acted on: a name in a directory. A file `source` is beside it.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    pub dir: BorrowedFd<'a>,
    pub name: &'a str,
}

/// What an act keeps open until its effect was looked at.
type Kept = Result<Option<OwnedFd>, Errno>;

/// The kinds of files that an act is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum To {
    Regular,
    /// Every kind that has a mode.
    Moded,
    All,
}

/// The act's name, the kinds of files that it is for, and the function.
pub type Act = (&'static str, To, fn(Node<'_>) -> Kept);

impl Node<'_> {
    fn open(self, flags: OFlags) -> Result<OwnedFd, Errno> {
        openat(self.dir, self.name, flags, Mode::empty())
    }

    fn source(self) -> Result<OwnedFd, Errno> {
        openat(self.dir, "source", OFlags::RDONLY, Mode::empty())
    }

    fn writing(self, work: impl FnOnce(&OwnedFd) -> Result<(), Errno>) -> Kept {
        let fd = self.open(OFlags::RDWR)?;
        work(&fd)?;
        Ok(Some(fd))
    }

    fn chown(self, uid: Option<u32>, gid: Option<u32>) -> Kept {
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        rustix::fs::chownat(self.dir, self.name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(None)
    }

    fn chmod(self, mode: u32) -> Kept {
        rustix::fs::chmodat(self.dir, self.name, Mode::from_raw_mode(mode), AtFlags::empty())?;
        Ok(None)
    }

    fn allocate(self, flags: FallocateFlags, offset: u64, len: u64) -> Kept {
        self.writing(|fd| rustix::fs::fallocate(fd, flags, offset, len))
    }

    fn touch(self, time: Timespec) -> Kept {
        let times = Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(self.dir, self.name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(None)
    }

    /// `truncate(2)`, through the file's path.
    fn truncate(self, len: i64) -> Kept {
        let path = format!("/proc/self/fd/{}/{}", self.dir.as_raw_fd(), self.name);
        let path = CString::new(path).unwrap();
        // SAFETY: the path is a string that ends with a NUL, and outlives the call.
        let result = unsafe { libc::truncate(path.as_ptr(), len) };
        if result == 0 { Ok(None) } else { Err(Errno::from_io_error(&last_error()).unwrap()) }
    }

    fn map(self, fd: &OwnedFd) -> Result<(), Errno> {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let null = std::ptr::null_mut();
        // SAFETY: a new mapping, wherever the system wants it, of a file that is not cut meanwhile.
        let page = unsafe { rustix::mm::mmap(null, BLOCK, prot, flags, fd, 0) }?;
        // SAFETY: the mapping is BLOCK bytes, and nothing else has a reference to it.
        unsafe { page.cast::<u8>().write_volatile(b'm') };
        // SAFETY: the mapping is BLOCK bytes from `mmap`, and nothing refers to it after `munmap`.
        unsafe {
            rustix::mm::msync(page, BLOCK, MsyncFlags::SYNC)?;
            rustix::mm::munmap(page, BLOCK)
        }
    }

    /// Permission bits as the kernel remembers them for access decisions. The call asks for neither
    /// size nor times, so it does not refresh them.
    pub fn mode(self) -> u32 {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let seen = rustix::fs::statx(self.dir, self.name, flags, StatxFlags::MODE).unwrap();
        u32::from(seen.stx_mode) & 0o7777
    }
}

fn last_error() -> std::io::Error {
    std::io::Error::last_os_error()
}

fn direct(fd: &OwnedFd) -> Result<(), Errno> {
    let buffer = vec![b'd'; 2 * BLOCK];
    let start = buffer.as_ptr().align_offset(BLOCK);
    rustix::io::pwrite(fd, &buffer[start..start + BLOCK], 0).map(drop)
}

fn splice(fd: &OwnedFd) -> Result<(), Errno> {
    let (read, write) = rustix::pipe::pipe()?;
    rustix::io::write(&write, b"spliced")?;
    rustix::pipe::splice(read.as_fd(), None, fd, None, 7, SpliceFlags::empty()).map(drop)
}

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
const GIVEN: Timespec = Timespec { tv_sec: 1000, tv_nsec: 0 };

pub const ACTS: [Act; 54] = [
    // These change nothing.
    ("open to write", To::Regular, |f| f.writing(|_| Ok(()))),
    ("read", To::Regular, |f| {
        let fd = f.open(OFlags::RDONLY)?;
        rustix::io::read(&fd, &mut [0_u8; 10])?;
        Ok(Some(fd))
    }),
    ("write of nothing", To::Regular, |f| f.writing(|fd| rustix::io::write(fd, b"").map(drop))),
    ("utimes now", To::All, |f| f.touch(NOW)),
    ("utimes", To::All, |f| f.touch(GIVEN)),
    ("setxattr", To::Regular, |f| {
        f.writing(|fd| rustix::fs::fsetxattr(fd, "user.a", b"b", XattrFlags::empty()))
    }),
    ("link", To::Regular, |f| {
        let new = format!("{}-link", f.name);
        rustix::fs::linkat(f.dir, f.name, f.dir, new, AtFlags::empty())?;
        Ok(None)
    }),
    ("rename and back", To::All, |f| {
        let new = format!("{}-new", f.name);
        rustix::fs::renameat(f.dir, f.name, f.dir, &new)?;
        rustix::fs::renameat(f.dir, &new, f.dir, f.name)?;
        Ok(None)
    }),
    // These change contents.
    ("write", To::Regular, |f| f.writing(|fd| rustix::io::write(fd, b"w").map(drop))),
    ("write far", To::Regular, |f| f.writing(|fd| rustix::io::pwrite(fd, b"w", 9000).map(drop))),
    ("write twice", To::Regular, |f| {
        f.writing(|fd| {
            rustix::io::write(fd, b"w")?;
            rustix::io::write(fd, b"w").map(drop)
        })
    }),
    ("append", To::Regular, |f| {
        let fd = f.open(OFlags::WRONLY | OFlags::APPEND)?;
        rustix::io::write(&fd, b"a")?;
        Ok(Some(fd))
    }),
    ("write and fsync", To::Regular, |f| {
        f.writing(|fd| {
            rustix::io::write(fd, b"w")?;
            rustix::fs::fsync(fd)
        })
    }),
    ("direct write", To::Regular, |f| {
        let fd = f.open(OFlags::WRONLY | OFlags::DIRECT)?;
        direct(&fd)?;
        Ok(Some(fd))
    }),
    ("write to memory", To::Regular, |f| f.writing(|fd| f.map(fd))),
    ("splice", To::Regular, |f| f.writing(splice)),
    ("sendfile", To::Regular, |f| {
        f.writing(|fd| rustix::fs::sendfile(fd, f.source()?, None, 100).map(drop))
    }),
    ("copy_file_range", To::Regular, |f| {
        f.writing(|fd| rustix::fs::copy_file_range(f.source()?, None, fd, None, 100).map(drop))
    }),
    ("truncate", To::Regular, |f| f.truncate(10)),
    ("truncate to grow", To::Regular, |f| f.truncate(20_000)),
    ("truncate to the same", To::Regular, |f| f.truncate(LEN as i64)),
    ("ftruncate", To::Regular, |f| f.writing(|fd| rustix::fs::ftruncate(fd, 10))),
    ("ftruncate to the same", To::Regular, |f| f.writing(|fd| rustix::fs::ftruncate(fd, LEN))),
    ("open truncating", To::Regular, |f| f.open(OFlags::WRONLY | OFlags::TRUNC).map(Some)),
    ("creat", To::Regular, |f| {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        openat(f.dir, f.name, flags, Mode::RWXU).map(Some)
    }),
    ("open truncating to read", To::Regular, |f| f.open(OFlags::RDONLY | OFlags::TRUNC).map(Some)),
    ("fallocate", To::Regular, |f| f.allocate(FallocateFlags::empty(), 0, 9000)),
    ("fallocate inside", To::Regular, |f| f.allocate(FallocateFlags::empty(), 0, 10)),
    ("fallocate keeping size", To::Regular, |f| f.allocate(FallocateFlags::KEEP_SIZE, 0, 9000)),
    ("fallocate punching", To::Regular, |f| {
        f.allocate(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, 4096)
    }),
    ("fallocate zeroing", To::Regular, |f| f.allocate(FallocateFlags::ZERO_RANGE, 0, 9000)),
    ("fallocate zeroing keeping size", To::Regular, |f| {
        f.allocate(FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, 0, 9000)
    }),
    ("fallocate collapsing", To::Regular, |f| f.allocate(FallocateFlags::COLLAPSE_RANGE, 0, 4096)),
    ("fallocate inserting", To::Regular, |f| f.allocate(FallocateFlags::INSERT_RANGE, 0, 4096)),
    // These change owners.
    ("chown to another", To::All, |f| f.chown(Some(OTHER), None)),
    ("chown to root", To::All, |f| f.chown(Some(0), Some(0))),
    ("chgrp to another", To::All, |f| f.chown(None, Some(OTHER_GROUP))),
    ("chown to another and group", To::All, |f| f.chown(Some(OTHER), Some(OTHER_GROUP))),
    ("chown to the same", To::All, |f| f.chown(Some(OWNER), None)),
    ("chgrp to the same", To::All, |f| f.chown(None, Some(GROUP))),
    ("chown to the same both", To::All, |f| f.chown(Some(OWNER), Some(GROUP))),
    ("chown to nothing", To::All, |f| f.chown(None, None)),
    ("fchown to nothing", To::Regular, |f| f.writing(|fd| rustix::fs::fchown(fd, None, None))),
    ("fchown to the same", To::Regular, |f| {
        let group = Gid::from_raw(GROUP);
        f.writing(|fd| rustix::fs::fchown(fd, None, Some(group)))
    }),
    // These change modes.
    ("chmod 0755", To::Moded, |f| f.chmod(0o755)),
    ("chmod 4755", To::Moded, |f| f.chmod(0o4755)),
    ("chmod 2755", To::Moded, |f| f.chmod(0o2755)),
    ("chmod 6745", To::Moded, |f| f.chmod(0o6745)),
    ("chmod 0000", To::Moded, |f| f.chmod(0)),
    // Two acts, one after the other.
    ("write, then chmod 4755", To::Regular, |f| {
        f.writing(|fd| {
            rustix::io::write(fd, b"w")?;
            f.chmod(0o4755).map(drop)
        })
    }),
    ("chmod 6755, then write", To::Regular, |f| {
        f.writing(|fd| {
            f.chmod(0o6755)?;
            rustix::io::write(fd, b"w").map(drop)
        })
    }),
    ("write, then truncate", To::Regular, |f| {
        f.writing(|fd| {
            rustix::io::write(fd, b"w")?;
            rustix::fs::ftruncate(fd, 0)
        })
    }),
    ("chown to another, then write", To::Regular, |f| {
        f.writing(|fd| {
            f.chown(None, Some(OTHER_GROUP))?;
            rustix::io::write(fd, b"w").map(drop)
        })
    }),
    ("write, then fallocate", To::Regular, |f| {
        f.writing(|fd| {
            rustix::io::write(fd, b"w")?;
            rustix::fs::fallocate(fd, FallocateFlags::empty(), 0, 9000)
        })
    }),
];
