//! Replies to requests.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use zerocopy::{Immutable, IntoBytes};

use super::abi;
use super::session::Session;

/// Sends the answer to one request. Any thread may send it, at any time. A `Reply` that is dropped
/// unused answers `EIO`.
///
/// Every answer tells whether it reached the kernel. If it did not ([`Undelivered`]), the kernel
/// does not know what was done. Then a node that was looked up must be forgotten, and a handle
/// released.
#[must_use = "a request wants an answer"]
pub struct Reply {
    session: Arc<Session>,
    channel: usize,
    unique: u64,
    is_answered: bool,
}

/// The answer did not reach the kernel. The request was answered before because its caller was
/// interrupted, or the kernel has closed the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Undelivered;

/// Whether an answer reached the kernel.
pub type Delivery = Result<(), Undelivered>;

/// A node with its attributes, and how long the kernel may remember both.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Number of the node towards the kernel; 0 for a name that does not exist.
    pub node: u64,
    /// Attributes of the node.
    pub attr: abi::Attr,
    /// How long the kernel may remember that the name leads to this node.
    pub entry_timeout: Duration,
    /// How long the kernel may remember the attributes.
    pub attr_timeout: Duration,
}

impl Entry {
    /// Tells that a name does not exist. The kernel may remember that for `entry_timeout`.
    #[must_use]
    pub fn absent(entry_timeout: Duration) -> Self {
        let attr = abi::Attr::default();
        Self { node: 0, attr, entry_timeout, attr_timeout: Duration::ZERO }
    }

    fn out(&self) -> abi::EntryOut {
        abi::EntryOut {
            nodeid: self.node,
            generation: 0,
            entry_valid: self.entry_timeout.as_secs(),
            attr_valid: self.attr_timeout.as_secs(),
            entry_valid_nsec: self.entry_timeout.subsec_nanos(),
            attr_valid_nsec: self.attr_timeout.subsec_nanos(),
            attr: self.attr,
        }
    }
}

impl Reply {
    pub(super) fn new(session: Arc<Session>, channel: usize, unique: u64) -> Self {
        Self { session, channel, unique, is_answered: false }
    }

    /// Replies with an error.
    pub fn error(self, errno: Errno) -> Delivery {
        self.send(errno.raw_os_error(), &[])
    }

    /// Whether the caller still waits, and no signal came to it. Operations that wait for long poll
    /// this.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.session.pending.is_wanted(self.unique)
    }

    /// Replies to GETLK with the conflicting lock.
    pub fn lock(self, lk: abi::FileLock) -> Delivery {
        self.structure(&abi::LkOut { lk })
    }

    /// Replies with success.
    pub fn ok(self) -> Delivery {
        self.send(0, &[])
    }

    /// Replies with success or with the error.
    pub fn done(self, result: Result<(), Errno>) -> Delivery {
        match result {
            Ok(()) => self.ok(),
            Err(errno) => self.error(errno),
        }
    }

    /// Replies with bytes: contents, a link's target, an extended attribute.
    pub fn data(self, bytes: &[u8]) -> Delivery {
        self.send(0, &[bytes])
    }

    /// Replies with a node. It counts as looked up once more from then on.
    pub fn entry(self, entry: &Entry) -> Delivery {
        self.structure(&entry.out())
    }

    /// Replies with attributes, which the kernel may remember for `timeout`.
    pub fn attr(self, attr: abi::Attr, timeout: Duration) -> Delivery {
        let (attr_valid, attr_valid_nsec) = (timeout.as_secs(), timeout.subsec_nanos());
        self.structure(&abi::AttrOut { attr_valid, attr_valid_nsec, dummy: 0, attr })
    }

    /// Replies with a handle. The kernel releases it later.
    pub fn opened(self, fh: u64, open_flags: u32) -> Delivery {
        self.structure(&abi::OpenOut { fh, open_flags, backing_id: 0 })
    }

    /// Replies with a node that was made and opened. It counts as looked up once more.
    pub fn created(self, entry: &Entry, fh: u64, open_flags: u32) -> Delivery {
        let open = abi::OpenOut { fh, open_flags, backing_id: 0 };
        self.send(0, &[entry.out().as_bytes(), open.as_bytes()])
    }

    /// Replies with the number of bytes written or copied.
    pub fn written(self, size: u32) -> Delivery {
        self.structure(&abi::WriteOut { size, padding: 0 })
    }

    /// Replies with a position in a file, or with a count of bytes in 64 bits.
    pub fn offset(self, offset: u64) -> Delivery {
        self.structure(&abi::OffsetOut { offset })
    }

    /// Replies with the sizes of the file system.
    pub fn statfs(self, sizes: &abi::StatfsOut) -> Delivery {
        self.structure(sizes)
    }

    /// Replies with the length of an extended attribute.
    pub fn xattr_size(self, size: u32) -> Delivery {
        self.structure(&abi::XattrOut { size, padding: 0 })
    }

    /// Replies with a part of a directory's listing.
    pub fn listing(self, listing: &Listing) -> Delivery {
        self.send(0, &[&listing.bytes])
    }

    /// Handles this request in a future. This thread polls it first. If it is not ready, the task
    /// runner goes on with it.
    pub fn run<F>(self, work: impl FnOnce(Self) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let session = Arc::clone(&self.session);
        session.tasks.begin(work(self));
    }

    /// Handles this request in another thread, which may wait for any time. It is for work for
    /// which the thread cannot [step aside](super::step_aside).
    pub fn queue(self, job: impl FnOnce(Self) + Send + 'static) {
        let session = Arc::clone(&self.session);
        session.queue(Box::new(move || job(self)));
    }

    fn structure(self, structure: &(impl IntoBytes + Immutable)) -> Delivery {
        self.send(0, &[structure.as_bytes()])
    }

    fn send(mut self, errno: i32, parts: &[&[u8]]) -> Delivery {
        self.is_answered = true;
        self.session.answer(self.channel, self.unique, errno, parts)
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.is_answered {
            let errno = Errno::IO.raw_os_error();
            let _ = self.session.answer(self.channel, self.unique, errno, &[]);
        }
    }
}

/// Entries of a directory, up to the size that the kernel has room for.
#[derive(Debug)]
pub struct Listing {
    bytes: Vec<u8>,
    size: usize,
}

impl Listing {
    /// Makes an empty listing with room for `size` bytes.
    #[must_use]
    pub fn new(size: u32) -> Self {
        let size = size as usize;
        Self { bytes: Vec::with_capacity(size.min(1 << 16)), size }
    }

    /// Whether the listing has no entry.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Adds an entry; the listing goes on at `position` after it. The type is taken from `mode`.
    /// Returns true if there is no room.
    pub fn add(&mut self, ino: u64, position: u64, mode: u32, name: &[u8]) -> bool {
        self.push(None, ino, position, mode, name)
    }

    /// Adds an entry with attributes; the listing goes on at `position` after it. With `entry` the
    /// node counts as looked up. `.` and `..` come without. Returns true if there is no room.
    pub fn add_plus(
        &mut self,
        entry: Option<&Entry>,
        ino: u64,
        position: u64,
        mode: u32,
        name: &[u8],
    ) -> bool {
        let out = entry.map(Entry::out).unwrap_or_default();
        self.push(Some(&out), ino, position, mode, name)
    }

    fn push(
        &mut self,
        out: Option<&abi::EntryOut>,
        ino: u64,
        off: u64,
        mode: u32,
        name: &[u8],
    ) -> bool {
        let dirent = abi::Dirent { ino, off, namelen: name.len() as u32, kind: mode >> 12 & 15 };
        let head = out.map_or(&[][..], IntoBytes::as_bytes);
        let len = (head.len() + size_of::<abi::Dirent>() + name.len()).next_multiple_of(8);
        let end = self.bytes.len() + len;
        if end > self.size {
            return true;
        }
        self.bytes.extend_from_slice(head);
        self.bytes.extend_from_slice(dirent.as_bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.resize(end, 0);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_padded_and_stop_where_there_is_no_room() {
        let mut listing = Listing::new(24 + 8 + 24 + 8);
        assert!(!listing.add(5, 1, 0o040_000, b"a"));
        assert!(!listing.add(6, 2, 0o100_644, b"12345678"));
        assert!(listing.add(7, 3, 0o100_644, b""));
        assert_eq!(listing.bytes.len(), 64);
        assert_eq!(listing.bytes[16..24], [1, 0, 0, 0, 4, 0, 0, 0], "as little-endian machines");
        assert!(Listing::new(152).add_plus(None, 1, 1, 0, b"1"), "152 bytes and one, padded");
        assert!(!Listing::new(160).add_plus(None, 1, 1, 0, b"1"));
    }
}
