//! Answers of several requests: nodes, attributes, contents, errors.

use pando_types::{Attr, Errno, FileKind, Ino, Name};

use crate::adaptor::convert::{errno, file_attr};
use crate::adaptor::state::inner::Inner;
use crate::device::session::{Delivery, Reply};
use crate::protocol::abi;
use crate::protocol::entry::Entry;
use crate::remembered::memory::Telling;
use crate::vfs::file_system::StatFs;

/// Unit of sizes in `statfs`, bytes.
const STATFS_BLOCK: u32 = 4096;
/// Number of free inodes that `statfs` reports. There is no real limit.
const INODES_FREE: u64 = 1 << 40;

impl Inner {
    /// Replies with a node that a name leads to. The reply counts as one lookup. If it does not
    /// arrive, the lookup is taken back. A caller decides `is_settled` before it calls, and without
    /// the lock below: that may wait for a disk, and a recall would wait for that, too.
    pub(crate) fn entry(&self, reply: Reply, dir: u64, attr: &Attr, is_settled: bool) -> Delivery {
        let delivery = {
            let telling = self.memory.telling(reply.number());
            reply.entry(&self.entry_of(&telling, dir, attr, is_settled))
        };
        if delivery.is_err() {
            self.forget(attr.ino.0, 1);
        }
        delivery
    }

    /// Replies with a node that was made, or with the error.
    pub(crate) fn made(&self, reply: Reply, dir: u64, result: Result<Attr, Errno>) -> Delivery {
        match result {
            Ok(attr) => self.entry(reply, dir, &attr, self.is_settled(&attr)),
            Err(error) => reply.error(errno(error)),
        }
    }

    pub(crate) fn attr(&self, reply: Reply, result: Result<Attr, Errno>, was_settled: bool) {
        match result {
            Ok(attr) => {
                let is_settled = was_settled && self.is_settled(&attr);
                let telling = self.memory.telling(reply.number());
                let entry = self.lies_in(&telling, &attr);
                let timeout = telling.attributes(&attr, entry, is_settled);
                ignore(reply.attr(file_attr(&attr), timeout));
            }
            Err(error) => failed(reply, error),
        }
    }

    /// The entry in which a file lies, where it matters.
    fn lies_in(&self, telling: &Telling<'_>, attr: &Attr) -> Option<(Ino, u64)> {
        let asks = telling.asks_for_entry() && attr.kind != FileKind::Directory && attr.nlink == 1;
        asks.then(|| self.fs.namespace().lies_in(attr.ino)).flatten()
    }

    /// The answer that a name in `dir` leads to this.
    pub(crate) fn entry_of(
        &self,
        telling: &Telling<'_>,
        dir: u64,
        attr: &Attr,
        is_settled: bool,
    ) -> Entry {
        let entry = self.lies_in(telling, attr);
        Entry {
            node: attr.ino.0,
            attr: file_attr(attr),
            entry_timeout: telling.entry_timeout(dir, attr.kind),
            attr_timeout: telling.entry_attributes(attr, entry, is_settled),
        }
    }
}

/// Ignores a failed delivery where nothing is to be undone.
pub(crate) fn ignore(_: Delivery) {}

pub(crate) fn failed(reply: Reply, error: Errno) {
    ignore(reply.error(errno(error)));
}

pub(crate) fn empty(reply: Reply, result: Result<(), Errno>) {
    ignore(reply.done(result.map_err(errno)));
}

pub(crate) fn data(reply: Reply, result: Result<Vec<u8>, Errno>) {
    match result {
        Ok(bytes) => ignore(reply.data(&bytes)),
        Err(error) => failed(reply, error),
    }
}

pub(crate) fn xattr(reply: Reply, size: u32, limit: usize, result: Result<Vec<u8>, Errno>) {
    match result {
        Ok(value) if value.len() > limit => ignore(reply.error(rustix::io::Errno::TOOBIG)),
        Ok(value) if size == 0 => ignore(reply.xattr_size(value.len() as u32)),
        Ok(value) if value.len() > size as usize => ignore(reply.error(rustix::io::Errno::RANGE)),
        Ok(value) => ignore(reply.data(&value)),
        Err(error) => failed(reply, error),
    }
}

pub(crate) fn statfs(reply: Reply, result: Result<StatFs, Errno>) {
    let blocks = |bytes: u64| bytes / u64::from(STATFS_BLOCK);
    match result {
        Ok(stat) => ignore(reply.statfs(&abi::StatfsOut {
            blocks: blocks(stat.total),
            bfree: blocks(stat.free),
            bavail: blocks(stat.available),
            files: stat.inodes.saturating_add(INODES_FREE),
            ffree: INODES_FREE,
            bsize: STATFS_BLOCK,
            namelen: Name::MAX_LEN as u32,
            frsize: STATFS_BLOCK,
            ..Default::default()
        })),
        Err(error) => failed(reply, error),
    }
}
