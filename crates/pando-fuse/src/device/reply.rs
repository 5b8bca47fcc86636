//! Answers.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use zerocopy::{Immutable, IntoBytes};

use super::abi;
use super::session::Session;

/// Where the answer to one request goes. It may be given by any thread, at any time; dropped
/// without one, it says `EIO`.
///
/// Every answer tells whether it arrived. If it did not ([`Undelivered`]), the kernel knows nothing
/// of what was done: a node that was looked up must be forgotten, a handle released.
#[must_use = "a request wants an answer"]
pub struct Reply {
    session: Arc<Session>,
    channel: usize,
    unique: u64,
    is_answered: bool,
}

/// The kernel had its answer already (the caller was interrupted), or is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Undelivered;

/// Whether an answer arrived.
pub type Delivery = Result<(), Undelivered>;

/// A node, and for how long what is said of it holds.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its number towards the kernel.
    pub node: u64,
    /// Its attributes.
    pub attr: abi::Attr,
    /// For how long the name leads there.
    pub entry_timeout: Duration,
    /// For how long the attributes are these.
    pub attr_timeout: Duration,
}

impl Entry {
    /// That a name leads nowhere, which holds for so long.
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

    /// It failed.
    pub fn error(self, errno: Errno) -> Delivery {
        self.send(errno.raw_os_error(), &[])
    }

    /// Whether somebody waits for the answer who was not sent a signal since: for operations that
    /// wait for long.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.session.pending.is_wanted(self.unique)
    }

    /// What is in the way of a lock.
    pub fn lock(self, lk: abi::FileLock) -> Delivery {
        self.structure(&abi::LkOut { lk })
    }

    /// It is done.
    pub fn ok(self) -> Delivery {
        self.send(0, &[])
    }

    /// As [`Self::ok`] or [`Self::error`].
    pub fn done(self, result: Result<(), Errno>) -> Delivery {
        match result {
            Ok(()) => self.ok(),
            Err(errno) => self.error(errno),
        }
    }

    /// Bytes: contents, a link's target, an extended attribute.
    pub fn data(self, bytes: &[u8]) -> Delivery {
        self.send(0, &[bytes])
    }

    /// A node, which from then on counts as looked up once more.
    pub fn entry(self, entry: &Entry) -> Delivery {
        self.structure(&entry.out())
    }

    /// Attributes.
    pub fn attr(self, attr: abi::Attr, timeout: Duration) -> Delivery {
        let (attr_valid, attr_valid_nsec) = (timeout.as_secs(), timeout.subsec_nanos());
        self.structure(&abi::AttrOut { attr_valid, attr_valid_nsec, dummy: 0, attr })
    }

    /// A handle, which is to be released.
    pub fn opened(self, fh: u64, open_flags: u32) -> Delivery {
        self.structure(&abi::OpenOut { fh, open_flags, backing_id: 0 })
    }

    /// A node that was made, looked up and opened.
    pub fn created(self, entry: &Entry, fh: u64, open_flags: u32) -> Delivery {
        let open = abi::OpenOut { fh, open_flags, backing_id: 0 };
        self.send(0, &[entry.out().as_bytes(), open.as_bytes()])
    }

    /// So many bytes were written or copied.
    pub fn written(self, size: u32) -> Delivery {
        self.structure(&abi::WriteOut { size, padding: 0 })
    }

    /// A position in a file, or a count of bytes in 64 bits.
    pub fn offset(self, offset: u64) -> Delivery {
        self.structure(&abi::OffsetOut { offset })
    }

    /// Sizes of the file system.
    pub fn statfs(self, sizes: &abi::StatfsOut) -> Delivery {
        self.structure(sizes)
    }

    /// How long an extended attribute is.
    pub fn xattr_size(self, size: u32) -> Delivery {
        self.structure(&abi::XattrOut { size, padding: 0 })
    }

    /// A part of a directory.
    pub fn listing(self, listing: &Listing) -> Delivery {
        self.send(0, &[&listing.bytes])
    }

    /// Goes on with this request in a future: on this thread as long as it is ready, later by
    /// another one.
    pub fn run<F>(self, work: impl FnOnce(Self) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let session = Arc::clone(&self.session);
        session.tasks.begin(work(self));
    }

    /// Goes on with this request in some other thread, which may wait for as long as it likes: for
    /// when there is none to [step aside](super::step_aside) for.
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

/// Entries of a directory, up to the size the kernel has room for.
#[derive(Debug)]
pub struct Listing {
    bytes: Vec<u8>,
    size: usize,
}

impl Listing {
    /// An empty one with room for `size` bytes.
    #[must_use]
    pub fn new(size: u32) -> Self {
        let size = size as usize;
        Self { bytes: Vec::with_capacity(size.min(1 << 16)), size }
    }

    /// Whether nothing was added.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Adds an entry after which a listing goes on at `position`; `mode` tells what it is. True if
    /// there is no room.
    pub fn add(&mut self, ino: u64, position: u64, mode: u32, name: &[u8]) -> bool {
        self.push(None, ino, position, mode, name)
    }

    /// The same in a listing with attributes. With an entry it counts as looked up; `.` and `..`
    /// come without.
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
