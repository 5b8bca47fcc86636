//! Requests about contents, and the closing of files. The thread that read a request runs it. If
//! something has to be stored first, the thread steps aside, so that names need not wait for
//! contents.

use std::sync::Arc;

use pando_types::op::INLINE_MAX;
use pando_types::{Errno, Ino, Judged, Kill};

use crate::adaptor::answers::{data, empty, failed, ignore};
use crate::adaptor::convert::kill;
use crate::adaptor::state::closing::Closed;
use crate::adaptor::state::inner::{Adaptor, Inner};
use crate::device::session::Reply;
use crate::device::staffing::step_aside;
use crate::protocol::abi::write;
use crate::protocol::operation::Operation;
use crate::protocol::request::{Caller, Request};
use crate::vfs::file_system::Vfs;
use crate::vfs::files::OpenFlags;

/// Largest number of bytes that one request copies.
const COPY_MAX: u64 = 64 << 20;

impl Inner {
    /// Takes setuid and setgid off a file before its contents change. If the kernel knows the file
    /// as a program, then shards and kernel know that it is none once this returns. For any other
    /// file this does nothing, since the later request to store carries `kill`, too.
    pub(crate) fn kill(&self, ino: Ino, kill: Option<Kill>) -> Result<(), Errno> {
        let Some(kill) = kill.filter(|_| self.memory.is_program(ino.0)) else { return Ok(()) };
        self.fs.data().kill(ino, kill)?;
        self.killed(ino.0);
        Ok(())
    }

    /// Which bits a change of contents takes off, if the caller has no `CAP_FSETID`. A setgid bit
    /// without group execution stays if the file is of a group of the caller.
    pub(crate) fn killed_by(&self, caller: Caller, node: u64) -> Kill {
        let is_other = |told: &Judged| Kill::concerns(told.mode) && told.gid != caller.gid;
        let told = self.memory.told_of(node).filter(is_other);
        let of = told.filter(|told| self.powers_of(caller).is_some_and(|by| by.in_group(told.gid)));
        of.map_or(kill(caller), |told| Kill::UnlessOf(told.gid))
    }

    /// Notes that shards have taken setuid or setgid off a file that the kernel may know as a
    /// program.
    pub(crate) fn killed(&self, node: u64) {
        // This order matters: what the kernel is told from now on counts again.
        self.memory.no_program(node);
        self.forget_attributes_of(node);
    }

    /// Which bits a change takes off if the request does not tell about `CAP_FSETID`. Only user 0
    /// is assumed to have it. For a user 0 without it, the kernel sends a SETATTR.
    fn killed_unflagged(&self, caller: Caller, node: u64) -> Option<Kill> {
        (caller.uid != 0).then(|| self.killed_by(caller, node))
    }

    /// Releases one closed file.
    pub(crate) fn release(&self, reply: Reply, ino: Ino) {
        let fs = Arc::clone(&self.fs);
        reply.run(move |reply| async move {
            fs.release(ino).await;
            empty(reply, Ok(()));
        });
    }

    /// Releases closed files together.
    pub(crate) fn release_all(&self, closed: Vec<Closed>) {
        let (mut replies, inos): (Vec<_>, Vec<_>) = closed.into_iter().unzip();
        let Some(last) = replies.pop() else { return };
        let fs = Arc::clone(&self.fs);
        last.run(move |last| async move {
            fs.release_all(&inos).await;
            replies.into_iter().chain([last]).for_each(|reply| empty(reply, Ok(())));
        });
    }
}

impl Adaptor {
    /// Handles operations on contents.
    pub(crate) fn contents(&self, request: &Request<'_>, reply: Reply) {
        let node = Ino(request.node);
        match request.operation {
            // Small reads are mostly of inline data, or of a block at hand. With a local store,
            // stepping aside cost a large read nothing when measured. The longest wait of other
            // requests was shorter with it.
            Operation::Read { offset, size, .. } => {
                self.aside_if(u64::from(size) > INLINE_MAX, reply, move |fs, reply| {
                    data(reply, fs.read(node, offset, size));
                });
            }
            Operation::Write { offset, data, write_flags, flags } => {
                self.write(request, reply, (offset, data), write_flags, OpenFlags(flags));
            }
            Operation::Flush { lock_owner } => self.flush(reply, node, lock_owner),
            Operation::Release { handle } if self.0.locking.is_used() => {
                self.release_locked(reply, node, handle);
            }
            Operation::Release { .. } => self.release(reply, node),
            Operation::Fsyncdir => self.fsync_directory(reply, node),
            Operation::Fsync => {
                self.aside(reply, move |fs, reply| empty(reply, fs.fsync(node)));
            }
            Operation::Fallocate { offset, len, mode } => {
                self.fallocate(request, reply, (offset, len), mode);
            }
            Operation::Lseek { offset, whence } => self.seek(reply, node, offset, whence),
            Operation::CopyFileRange { offset, to, to_offset, len, wide } => {
                let to = (Ino(to), to_offset);
                self.copy_range(request.caller, reply, (node, offset), to, len, wide);
            }
            _ => failed(reply, Errno::ENOSYS),
        }
    }

    fn write(
        &self,
        request: &Request<'_>,
        reply: Reply,
        (offset, data): (u64, &[u8]),
        write_flags: u32,
        flags: OpenFlags,
    ) {
        let node = Ino(request.node);
        // Pages written through a mapping go to their place, even if the handle appends.
        let from_mapping = write_flags & write::CACHE != 0;
        let appends = &self.0.memory.appends;
        let append = !from_mapping && flags.is_append() && appends.is_append(request.node, offset);
        // The kernel takes this for the size before it sends the next request.
        let end = offset.saturating_add(data.len() as u64);
        if append {
            appends.appended(request.node, end);
        } else {
            appends.written(request.node, end);
        }
        let kills = write_flags & write::KILL_SUIDGID != 0;
        let kill = kills.then(|| self.0.killed_by(request.caller, request.node));
        let work = move |inner: &Inner, reply: Reply, data: &[u8]| {
            let written = inner.kill(node, kill);
            let write = |()| match append {
                true => inner.fs.append(node, offset, data, kill),
                false => inner.fs.write(node, offset, data, kill),
            };
            match written.and_then(write) {
                Ok(()) => ignore(reply.written(data.len() as u32)),
                Err(error) => failed(reply, error),
            }
        };
        if self.0.fs.data().write_waits(node, data.len() as u64) && !step_aside() {
            let (inner, data) = (Arc::clone(&self.0), data.to_vec());
            reply.queue(move |reply| work(&inner, reply, &data));
        } else {
            work(&self.0, reply, data);
        }
    }

    /// Stores a file because a descriptor of it is closed. If an owner of locks ends with the
    /// descriptor, its locks go once the file is stored.
    fn flush(&self, reply: Reply, node: Ino, lock_owner: u64) {
        let ending = self.0.locking.flushed(node, lock_owner);
        let ending = ending.map(|ending| (Arc::clone(&self.0), ending));
        self.aside_if(self.0.fs.data().flush_waits(node), reply, move |fs, reply| {
            let flushed = fs.flush(node);
            let Some((inner, ending)) = ending else { return empty(reply, flushed) };
            if flushed.is_err() && !fs.data().is_stored(node) {
                inner.end_when_stored(node, vec![ending]);
                return empty(reply, flushed);
            }
            reply.run(move |reply| async move {
                // This waits for as long as a call may take. The rest happens after the reply.
                inner.let_go(node, &ending).await;
                empty(reply, flushed);
                inner.end_owner(node, ending).await;
            });
        });
    }

    fn fsync_directory(&self, reply: Reply, node: Ino) {
        let inner = Arc::clone(&self.0);
        self.aside(reply, move |fs, reply| {
            let synced = fs.fsync(node);
            // Nothing of a removed directory is left to be made durable.
            let is_gone = |errno| inner.removed(node.0, errno).is_some();
            empty(reply, synced.or_else(|errno| if is_gone(errno) { Ok(()) } else { Err(errno) }));
        });
    }

    fn fallocate(&self, request: &Request<'_>, reply: Reply, range: (u64, u64), mode: u32) {
        let node = Ino(request.node);
        self.0.memory.appends.written(node.0, range.0.saturating_add(range.1));
        let inner = Arc::clone(&self.0);
        let kill = inner.killed_unflagged(request.caller, node.0);
        self.aside(reply, move |fs, reply| {
            let done = inner.kill(node, kill);
            empty(reply, done.and_then(|()| fs.fallocate(node, range, mode, kill)));
        });
    }

    fn seek(&self, reply: Reply, node: Ino, offset: u64, whence: u32) {
        self.aside(reply, move |fs, reply| {
            // The offset is negative as a signed number.
            let offset = if i64::try_from(offset).is_ok() { Ok(offset) } else { Err(Errno::ENXIO) };
            match offset.and_then(|offset| fs.seek(node, offset, whence)) {
                Ok(offset) => ignore(reply.offset(offset)),
                Err(error) => failed(reply, error),
            }
        });
    }

    /// Copies a range of a file. With `wide`, the answer's count has 64 bits.
    fn copy_range(
        &self,
        caller: Caller,
        reply: Reply,
        from: (Ino, u64),
        to: (Ino, u64),
        len: u64,
        wide: bool,
    ) {
        // A bound keeps requests short; the caller comes again for the rest.
        let len = len.min(COPY_MAX);
        self.0.memory.appends.written(to.0.0, to.1.saturating_add(len));
        let inner = Arc::clone(&self.0);
        let kill = inner.killed_unflagged(caller, to.0.0);
        self.aside(reply, move |fs, reply| {
            let copied = inner.kill(to.0, kill);
            match copied.and_then(|()| fs.copy_range(from, to, len, kill)) {
                Ok(copied) if wide => ignore(reply.offset(copied)),
                Ok(copied) => ignore(reply.written(copied as u32)),
                Err(error) => failed(reply, error),
            }
        });
    }

    /// Releases a closed file.
    pub(crate) fn release(&self, reply: Reply, node: Ino) {
        if self.0.fs.data().flush_waits(node) {
            let inner = Arc::clone(&self.0);
            self.aside(reply, move |_, reply| inner.release(reply, node));
        } else {
            self.0.release_all(self.0.closing.put_off(reply, node));
        }
    }

    /// Releases a closed file while some files have locks. If owners of locks end with it, the
    /// release is not postponed.
    fn release_locked(&self, reply: Reply, node: Ino, handle: u64) {
        let ending = self.0.locking.released(node, handle);
        if ending.is_empty() {
            return self.release(reply, node);
        }
        let inner = Arc::clone(&self.0);
        self.aside_if(self.0.fs.data().flush_waits(node), reply, move |fs, reply| {
            fs.data().hand_on(node);
            let is_stored = fs.data().is_stored(node);
            reply.run(move |reply| async move {
                if is_stored {
                    for ending in ending {
                        inner.end_owner(node, ending).await;
                    }
                    inner.fs.release(node).await;
                } else {
                    inner.fs.release(node).await;
                    inner.end_when_stored(node, ending);
                }
                empty(reply, Ok(()));
            });
        });
    }

    /// Runs work that waits. This thread gives up its post first. If no thread can be spared,
    /// another thread runs the work later.
    pub(crate) fn aside(&self, reply: Reply, work: impl FnOnce(&Arc<Vfs>, Reply) + Send + 'static) {
        if step_aside() {
            work(&self.0.fs, reply);
        } else {
            let fs = Arc::clone(&self.0.fs);
            reply.queue(move |reply| work(&fs, reply));
        }
    }

    /// Runs `work`, aside if it `waits`.
    pub(crate) fn aside_if(
        &self,
        waits: bool,
        reply: Reply,
        work: impl FnOnce(&Arc<Vfs>, Reply) + Send + 'static,
    ) {
        if waits {
            self.aside(reply, work);
        } else {
            work(&self.0.fs, reply);
        }
    }
}
