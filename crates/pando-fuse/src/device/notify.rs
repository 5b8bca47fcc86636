//! What is said to the kernel without being asked.

use std::io;
use std::sync::{Arc, Weak};

use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::abi::{self, notify};
use super::crew::is_crew;
use super::session::Session;

/// Tells the kernel what is out of date. It may take locks of the directory or file meant, which
/// whoever waits for an answer may hold: threads that answer requests are refused with
/// [`io::ErrorKind::Deadlock`].
#[derive(Clone, Debug)]
pub struct Notifier(pub(super) Weak<Session>);

impl Notifier {
    /// Attributes of a node, and its pages from `offset` on: `len` bytes, 0 for all; with a
    /// negative offset no pages.
    pub fn inval_inode(&self, ino: u64, offset: i64, len: i64) -> io::Result<()> {
        let out = abi::InvalInodeOut { ino, off: offset, len };
        self.send(notify::INVAL_INODE, &[out.as_bytes()])
    }

    /// Attributes of a node and all its pages: waits until nobody reads one of them from here. If
    /// this process is killed meanwhile it ends all the same, where there is a [process for
    /// it](super::drop_pages()).
    pub fn drop_pages(&self, ino: u64) -> io::Result<()> {
        let session: Arc<Session> = self.0.upgrade().ok_or(Errno::NODEV)?;
        match session.drop_pages(ino) {
            None => self.inval_inode(ino, 0, 0),
            // It does not know the node.
            Some(Ok(()) | Err(Errno::NOENT)) => Ok(()),
            Some(Err(errno)) => Err(errno.into()),
        }
    }

    /// Attributes of a node, no pages. Any thread may say so: the kernel waits for nothing that a
    /// caller of ours holds.
    pub fn forget_attributes(&self, ino: u64) -> io::Result<()> {
        let out = abi::InvalInodeOut { ino, off: -1, len: 0 };
        self.say(notify::INVAL_INODE, &[out.as_bytes()])
    }

    /// Whether whoever made the request with this number still waits for its answer.
    pub fn awaits_answer(&self, request: u64) -> bool {
        self.0.upgrade().is_some_and(|session| session.pending.contains(request))
    }

    /// All names: each is asked for anew when next used. `EINVAL` before Linux 6.16. Any thread may
    /// say so.
    pub fn forget_names(&self) -> io::Result<()> {
        self.say(notify::INC_EPOCH, &[])
    }

    /// A name in a directory: it is dropped, also where a file below is open.
    pub fn inval_entry(&self, parent: u64, name: &[u8]) -> io::Result<()> {
        self.entry(parent, name, 0)
    }

    /// A name in a directory: it is asked for anew when next used, and keeps what is mounted on it.
    /// From Linux 6.2 on.
    pub fn expire_entry(&self, parent: u64, name: &[u8]) -> io::Result<()> {
        self.entry(parent, name, notify::EXPIRE_ONLY)
    }

    /// A name is gone, and so is what it led to, if that still is `child`: watchers hear of a
    /// removal.
    pub fn delete(&self, parent: u64, child: u64, name: &[u8]) -> io::Result<()> {
        let out = abi::DeleteOut { parent, child, namelen: name.len() as u32, padding: 0 };
        self.send(notify::DELETE, &[out.as_bytes(), name, b"\0"])
    }

    fn entry(&self, parent: u64, name: &[u8], flags: u32) -> io::Result<()> {
        let out = abi::InvalEntryOut { parent, namelen: name.len() as u32, flags };
        self.send(notify::INVAL_ENTRY, &[out.as_bytes(), name, b"\0"])
    }

    fn send(&self, code: i32, parts: &[&[u8]]) -> io::Result<()> {
        if is_crew() {
            let text = "the kernel is not to be told anything by a thread that it waits for";
            return Err(io::Error::new(io::ErrorKind::Deadlock, text));
        }
        self.say(code, parts)
    }

    fn say(&self, code: i32, parts: &[&[u8]]) -> io::Result<()> {
        let session: Arc<Session> = self.0.upgrade().ok_or(Errno::NODEV)?;
        match session.write(0, 0, code, parts) {
            // It does not know the node or name, so nothing of it is out of date.
            Err(Errno::NOENT) => Ok(()),
            other => Ok(other?),
        }
    }
}
