//! Serves a [`Vfs`](crate::Vfs) as a file system of the [`device`](crate::device): each request
//! becomes one call.
//!
//! Requests about names are futures. They are ready at once if the shard is in this process and
//! free. Requests about contents run on the thread that read them. If such a request has to store
//! something, the thread steps aside first, so that names need not wait for contents.

use std::sync::atomic::Ordering;

use crate::adaptor::requests::names;
use crate::adaptor::state::closing::may_overtake_a_close;
use crate::adaptor::state::holding::Holding;
use crate::adaptor::state::inner::Adaptor;
use crate::device::session::{Counts, FileSystem, Reply};
use crate::device::staffing::step_aside;
use crate::mounting::mounted::Mounted;
use crate::protocol::operation::Operation;
use crate::protocol::request::Request;

impl Adaptor {
    /// Completes the adaptor after the file system is mounted.
    pub(crate) fn mounted(&self, mounted: &Mounted) {
        let notifier = mounted.notifier();
        self.0.memory.set_forgets_names(notifier.forget_names().is_ok());
        let _ = self.0.notifier.set(notifier);
        let _ = self.0.device.set(mounted.device().to_owned());
        if self.0.fs.namespace().may_hold() {
            // Without the thread, the mount never holds, which is slower.
            *self.0.holding() = Holding::start(&self.0).ok();
            // Without that one, the kernel remembers only while the session holds.
            *self.0.grounding() = self.0.watch_grounds().ok().flatten();
        }
    }
}

impl FileSystem for Adaptor {
    fn handle(&self, request: &Request<'_>, reply: Reply) {
        if !may_overtake_a_close(&request.operation) {
            while self.has_put_off() {
                self.catch_up();
            }
        }
        match &request.operation {
            Operation::Read { .. }
            | Operation::Write { .. }
            | Operation::Flush { .. }
            | Operation::Release { .. }
            | Operation::Fsync
            | Operation::Fsyncdir
            | Operation::Fallocate { .. }
            | Operation::Lseek { .. }
            | Operation::CopyFileRange { .. } => self.contents(request, reply),
            Operation::Lookup { .. }
            | Operation::Symlink { .. }
            | Operation::Mknod { .. }
            | Operation::Mkdir { .. }
            | Operation::Unlink { .. }
            | Operation::Rmdir { .. }
            | Operation::Rename { .. }
            | Operation::Link { .. }
            | Operation::Create { .. } => names::answer(&self.0, request, reply),
            Operation::Getxattr { .. }
            | Operation::Listxattr { .. }
            | Operation::Setxattr { .. }
            | Operation::Removexattr { .. } => self.xattrs(request, reply),
            Operation::Getlk(lock) => self.getlk(request, reply, *lock),
            Operation::Setlk { lock, waits } => self.setlk(request, reply, *lock, *waits),
            _ => self.nodes(request, reply),
        }
    }

    fn keeps_locks(&self) -> bool {
        self.0.fs.namespace().keeps_locks()
    }

    fn forget(&self, node: u64, count: u64) {
        self.0.forget(node, count);
    }

    fn thread_begins(&self) {
        // Requests about the contents of an open file wait for their shard on the thread itself.
        pando_client::before_park(|| _ = step_aside());
    }

    fn afterwards(&self) {
        self.0.fs.namespace().afterwards();
    }

    fn has_put_off(&self) -> bool {
        self.0.closing.has_some()
    }

    fn catch_up(&self) {
        self.0.release_all(self.0.closing.take());
    }

    fn end(&self) {
        self.0.is_over.store(true, Ordering::Release);
        drop(self.0.holding().take());
        drop(self.0.grounding().take());
        // Data that cannot be stored here is counted as lost. No caller is left to hear the error.
        let _ = self.0.fs.shut_down();
    }

    fn counters(&self) -> Counts {
        vec![
            ("nodes", self.0.fs.namespace().known().len() as u64),
            ("holds", u64::from(self.0.memory.holds())),
        ]
    }
}
