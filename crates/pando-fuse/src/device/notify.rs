//! Notifications: messages to the kernel that it did not ask for.

use std::io;
use std::sync::{Arc, Weak};

use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::device::rings::way::Way;
use crate::device::session::Session;
use crate::device::staffing::is_in_reader_pool;
use crate::protocol::abi::{self, notify};

/// Tells the kernel what is out of date. To drop pages, the kernel takes locks of the file. A
/// caller that waits for an answer may hold such a lock. So [`inval_inode`](Self::inval_inode)
/// fails with [`io::ErrorKind::Deadlock`] on threads that answer requests.
#[derive(Clone, Debug)]
pub struct Notifier(pub(crate) Weak<Session>);

impl Notifier {
    /// Invalidates a node's attributes, and `len` bytes of its pages from `offset` on. A `len` of 0
    /// means all further pages. A negative `offset` means no pages.
    pub fn inval_inode(&self, ino: u64, offset: i64, len: i64) -> io::Result<()> {
        if is_in_reader_pool() {
            let text = "the kernel is not to be told anything by a thread that it waits for";
            return Err(io::Error::new(io::ErrorKind::Deadlock, text));
        }
        let out = abi::InvalInodeOut { ino, off: offset, len };
        self.say(notify::INVAL_INODE, &[out.as_bytes()])
    }

    /// Invalidates a node's attributes and all its pages. It waits until no page is being read from
    /// this mount. With a [process for it](crate::drop_pages()), this process can still be killed
    /// meanwhile.
    pub fn drop_pages(&self, ino: u64) -> io::Result<()> {
        let session: Arc<Session> = self.0.upgrade().ok_or(Errno::NODEV)?;
        match session.drop_pages(ino) {
            None => self.inval_inode(ino, 0, 0),
            // The kernel does not know the node.
            Some(Ok(()) | Err(Errno::NOENT)) => Ok(()),
            Some(Err(errno)) => Err(errno.into()),
        }
    }

    /// Invalidates a node's attributes, but no pages. Any thread may call this. The kernel waits
    /// for no lock that a caller of this mount may hold.
    pub fn forget_attributes(&self, ino: u64) -> io::Result<()> {
        let out = abi::InvalInodeOut { ino, off: -1, len: 0 };
        self.say(notify::INVAL_INODE, &[out.as_bytes()])
    }

    /// The same. Returns whether the kernel knows the node.
    pub(crate) fn forget_attributes_of_known(&self, ino: u64) -> io::Result<bool> {
        let session: Arc<Session> = self.0.upgrade().ok_or(Errno::NODEV)?;
        let out = abi::InvalInodeOut { ino, off: -1, len: 0 };
        match session.write(Way::Channel(0), 0, notify::INVAL_INODE, &[out.as_bytes()]) {
            Err(Errno::NOENT) => Ok(false),
            other => Ok(other.map(|_| true)?),
        }
    }

    /// The highest number of a request that was read so far.
    pub(crate) fn newest_request(&self) -> u64 {
        self.0.upgrade().map_or(0, |session| session.pending.newest())
    }

    /// Whether the request with this number is still unanswered.
    pub fn awaits_answer(&self, request: u64) -> bool {
        self.0.upgrade().is_some_and(|session| session.pending.contains(request))
    }

    /// Invalidates all names: the kernel looks each up anew at its next use. Any thread may call
    /// this. `EINVAL` before Linux 6.16.
    pub fn forget_names(&self) -> io::Result<()> {
        self.say(notify::INC_EPOCH, &[])
    }

    fn say(&self, code: i32, parts: &[&[u8]]) -> io::Result<()> {
        let session: Arc<Session> = self.0.upgrade().ok_or(Errno::NODEV)?;
        match session.write(Way::Channel(0), 0, code, parts) {
            // The kernel does not know the node, so nothing of it is out of date.
            Err(Errno::NOENT) => Ok(()),
            other => Ok(other?),
        }
    }
}
