//! Replies to requests.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use zerocopy::{Immutable, IntoBytes};

use crate::device::rings::way::Way;
use crate::device::session::{Delivery, Reply, Session};
use crate::protocol::abi;
use crate::protocol::entry::Entry;
use crate::protocol::listing::Listing;

impl Reply {
    pub(crate) fn new(session: Arc<Session>, way: Way, unique: u64) -> Self {
        Self { session, way, unique, is_answered: false }
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
    /// which the thread cannot [step aside](crate::device::step_aside).
    pub fn queue(self, job: impl FnOnce(Self) + Send + 'static) {
        let session = Arc::clone(&self.session);
        session.queue(Box::new(move || job(self)));
    }

    fn structure(self, structure: &(impl IntoBytes + Immutable)) -> Delivery {
        self.send(0, &[structure.as_bytes()])
    }

    fn send(mut self, errno: i32, parts: &[&[u8]]) -> Delivery {
        self.is_answered = true;
        self.session.answer(self.way, self.unique, errno, parts)
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.is_answered {
            let errno = Errno::IO.raw_os_error();
            let _ = self.session.answer(self.way, self.unique, errno, &[]);
        }
    }
}
