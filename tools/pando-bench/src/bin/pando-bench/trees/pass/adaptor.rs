//! Answers the kernel's requests from a folder.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pando_fuse::device::{
    Delivery, Entry, Errno, FileSystem, Listing, Operation, Reply, Request, Undelivered, abi,
};

use super::nodes::{Listed, Nodes, Open, ROOT};

pub struct PassFs(Mutex<Nodes>);

impl PassFs {
    pub fn new(folder: PathBuf) -> Self {
        Self(Mutex::new(Nodes::new(folder)))
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, node: u64) -> Result<PathBuf, Errno> {
        self.nodes().path(node).map(PathBuf::from).ok_or(Errno::STALE)
    }

    fn lookup(&self, parent: u64, name: &[u8], reply: Reply) -> Delivery {
        let found = self.path(parent).and_then(|parent| {
            let path = parent.join(OsStr::from_bytes(name));
            let attr = attributes(&fs::symlink_metadata(&path).map_err(|error| errno(&error))?);
            Ok((path, attr))
        });
        let (path, attr) = match found {
            Ok(found) => found,
            Err(errno) => return reply.error(errno),
        };
        // The kernel may forget the node before `reply` returns, so it is noted first.
        self.nodes().looked_up(attr.ino, path);
        let (entry_timeout, attr_timeout) = (Duration::ZERO, Duration::ZERO);
        let told = reply.entry(&Entry { node: attr.ino, attr, entry_timeout, attr_timeout });
        if told.is_err() {
            self.nodes().forget(attr.ino, 1);
        }
        told
    }

    fn open(&self, reply: Reply, opened: Result<Open, Errno>) -> Delivery {
        let handle = match opened {
            Ok(open) => self.nodes().open(open),
            Err(errno) => return reply.error(errno),
        };
        let told = reply.opened(handle, 0);
        if told.is_err() {
            self.nodes().close(handle);
        }
        told
    }

    fn read(&self, handle: u64, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let Some(Open::File(file)) = self.nodes().opened(handle) else {
            return Err(Errno::BADF);
        };
        let (mut bytes, mut length) = (vec![0; size as usize], 0);
        while length < bytes.len() {
            match file.read_at(&mut bytes[length..], offset + length as u64) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(errno(&error)),
            }
        }
        bytes.truncate(length);
        Ok(bytes)
    }

    fn list(&self, handle: u64, offset: u64, size: u32) -> Result<Listing, Errno> {
        let Some(Open::Directory(entries)) = self.nodes().opened(handle) else {
            return Err(Errno::BADF);
        };
        let mut listing = Listing::new(size);
        for (entry, position) in entries.iter().zip(1_u64..).skip(offset as usize) {
            if listing.add(entry.ino, position, entry.mode, &entry.name) {
                break;
            }
        }
        Ok(listing)
    }

    fn answer(&self, request: &Request<'_>, reply: Reply) -> Delivery {
        let node = request.node;
        match request.operation {
            Operation::Lookup { name } => self.lookup(node, name, reply),
            Operation::Getattr => match self.path(node).and_then(|path| stat(&path)) {
                Ok(attr) => reply.attr(attr, Duration::ZERO),
                Err(errno) => reply.error(errno),
            },
            Operation::Readlink => {
                let target = self
                    .path(node)
                    .and_then(|path| fs::read_link(path).map_err(|error| errno(&error)));
                say(reply, target, |reply, target| reply.data(target.as_os_str().as_bytes()))
            }
            Operation::Open { .. } => {
                let file = self
                    .path(node)
                    .and_then(|path| File::open(path).map_err(|error| errno(&error)));
                self.open(reply, file.map(|file| Open::File(Arc::new(file))))
            }
            Operation::Opendir => {
                let entries = self
                    .path(node)
                    .and_then(|path| entries(node, &path).map_err(|error| errno(&error)));
                self.open(reply, entries.map(|entries| Open::Directory(Arc::new(entries))))
            }
            Operation::Read { handle, offset, size } => {
                let read = self.read(handle, offset, size);
                say(reply, read, |reply, bytes| reply.data(&bytes))
            }
            Operation::Readdir { handle, offset, size, .. } => {
                let listed = self.list(handle, offset, size);
                say(reply, listed, |reply, listing| reply.listing(&listing))
            }
            Operation::Release { handle } | Operation::Releasedir { handle } => {
                self.nodes().close(handle);
                reply.ok()
            }
            Operation::Flush { .. } | Operation::Access { .. } => reply.ok(),
            Operation::Getxattr { .. } => reply.error(Errno::NODATA),
            _ => reply.error(Errno::NOSYS),
        }
    }
}

fn say<T>(
    reply: Reply,
    result: Result<T, Errno>,
    answer: impl FnOnce(Reply, T) -> Delivery,
) -> Delivery {
    match result {
        Ok(value) => answer(reply, value),
        Err(errno) => reply.error(errno),
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

fn stat(path: &std::path::Path) -> Result<abi::Attr, Errno> {
    Ok(attributes(&fs::symlink_metadata(path).map_err(|error| errno(&error))?))
}

/// All entries, with `.` and `..`. The kernel resolves `..` itself, so any number will do there.
fn entries(node: u64, path: &std::path::Path) -> io::Result<Vec<Listed>> {
    let directory = rustix::fs::FileType::Directory.as_raw_mode();
    let own = [(node, &b"."[..]), (ROOT, b"..")];
    let own = own.map(|(ino, name)| Listed { ino, mode: directory, name: name.to_vec() });
    let mut listed = Vec::from(own);
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
    let opened = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?;
    for entry in rustix::fs::Dir::new(opened)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            let mode = entry.file_type().as_raw_mode();
            listed.push(Listed { ino: entry.ino(), mode, name: name.to_vec() });
        }
    }
    Ok(listed)
}

fn attributes(found: &Metadata) -> abi::Attr {
    abi::Attr {
        ino: found.ino(),
        size: found.size(),
        blocks: found.blocks(),
        atime: found.atime().cast_unsigned(),
        mtime: found.mtime().cast_unsigned(),
        ctime: found.ctime().cast_unsigned(),
        atimensec: found.atime_nsec() as u32,
        mtimensec: found.mtime_nsec() as u32,
        ctimensec: found.ctime_nsec() as u32,
        mode: found.mode(),
        nlink: found.nlink() as u32,
        uid: found.uid(),
        gid: found.gid(),
        rdev: found.rdev() as u32,
        blksize: 4096,
        flags: 0,
    }
}

impl FileSystem for PassFs {
    fn handle(&self, request: &Request<'_>, reply: Reply) {
        // What was noted for an answer that did not arrive is taken back where it was noted.
        let (Ok(()) | Err(Undelivered)) = self.answer(request, reply);
    }

    fn forget(&self, node: u64, count: u64) {
        self.nodes().forget(node, count);
    }
}
