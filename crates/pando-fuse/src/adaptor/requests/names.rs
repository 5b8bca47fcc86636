//! Requests about names.

use std::sync::Arc;

use pando_types::{Errno, Ino, Name};

use crate::adaptor::answers::failed;
use crate::adaptor::callers::Refused;
use crate::adaptor::convert::{errno, node_kind, permissions};
use crate::adaptor::state::inner::Inner;
use crate::device::session::Reply;
use crate::protocol::entry::Entry;
use crate::protocol::operation::Operation;
use crate::protocol::request::{Caller, Request};
use crate::vfs::files::OpenFlags;

/// Checks a name, or replies with its error and returns.
macro_rules! name {
    ($bytes:expr, $reply:expr) => {
        match Name::new($bytes) {
            Ok(name) => name,
            Err(error) => return failed($reply, error),
        }
    };
}

/// Changes a name by `$work`, and replies with `$answer` of its result. `$work` can use `$by`, the
/// credentials of the caller, and `$parent`, the directory. So can `$leaves`, the entries that a
/// file may leave.
macro_rules! changed {
    ($inner:expr, $reply:expr, $request:expr, |$this:ident, $by:ident, $parent:ident| $work:expr, $leaves:expr, $answer:expr) => {{
        let (caller, dir) = ($request.caller, $request.node);
        later!($inner, $reply, |$this, reply| {
            let $parent = Ino(dir);
            let leaving = $this.leaving($leaves);
            let result = judged!($this, caller, &[dir], |$by| $work.await);
            let outcome = result.as_ref().map(drop).map_err(|errno| *errno);
            leaving.left(outcome);
            $this.count_changes(&[dir]);
            let told = $answer(&$this, reply, result);
            $this.changed(&[dir], outcome, told);
        })
    }};
}

/// Replies with the node that `$work` makes or names.
macro_rules! made {
    ($inner:expr, $reply:expr, $request:expr, |$this:ident, $by:ident, $parent:ident| $work:expr) => {
        made!($inner, $reply, $request, |$this, $by, $parent| $work, |_| None)
    };
    ($inner:expr, $reply:expr, $request:expr, |$this:ident, $by:ident, $parent:ident| $work:expr, $leaves:expr) => {{
        let dir = $request.node;
        let answer = move |this: &Inner, reply: Reply, made| this.made(reply, dir, made);
        changed!($inner, $reply, $request, |$this, $by, $parent| $work, $leaves, answer)
    }};
}

/// Replies when `$work` has removed `$name`.
macro_rules! removed {
    ($inner:expr, $reply:expr, $request:expr, $name:expr, |$this:ident, $by:ident, $parent:ident| $work:expr) => {{
        let answer =
            |_: &Inner, reply: Reply, done: Result<(), Errno>| reply.done(done.map_err(errno));
        changed!(
            $inner,
            $reply,
            $request,
            |$this, $by, $parent| $work,
            |grounds| Some(($parent, grounds.key($name))),
            answer
        )
    }};
}

/// Handles a request about a name.
pub(crate) fn answer(inner: &Arc<Inner>, request: &Request<'_>, reply: Reply) {
    let (caller, node) = (request.caller, request.node);
    match request.operation {
        Operation::Lookup { name } => {
            let at = (node, name!(name, reply));
            later!(inner, reply, |this, reply| this.look_up(reply, caller, at).await);
        }
        Operation::Create { name, mode, flags, .. } => {
            let at = (node, name!(name, reply));
            let (mode, flags) = (permissions(mode), OpenFlags(flags));
            later!(inner, reply, |this, reply| this.create(reply, caller, at, mode, flags).await);
        }
        Operation::Rename { name, new_parent, new_name, flags } => {
            let from = (node, name!(name, reply));
            let to = (new_parent, name!(new_name, reply));
            later!(inner, reply, |this, reply| this.rename(reply, caller, from, to, flags).await);
        }
        Operation::Unlink { name } => {
            let name = name!(name, reply);
            removed!(inner, reply, request, &name, |this, by, dir| this.fs.unlink(by, dir, &name));
        }
        Operation::Rmdir { name } => {
            let name = name!(name, reply);
            removed!(inner, reply, request, &name, |this, by, dir| this.fs.rmdir(by, dir, &name));
        }
        _ => make(inner, request, reply),
    }
}

/// Handles a request that makes a node or a further name of one, without opening it.
fn make(inner: &Arc<Inner>, request: &Request<'_>, reply: Reply) {
    match request.operation {
        Operation::Mkdir { name, mode } => {
            let (name, mode) = (name!(name, reply), permissions(mode));
            made!(inner, reply, request, |this, by, dir| this.fs.mkdir(by, dir, &name, mode));
        }
        Operation::Mknod { name, mode, rdev } => {
            let name = name!(name, reply);
            let Some(kind) = node_kind(mode) else { return failed(reply, Errno::EINVAL) };
            let mode = permissions(mode);
            made!(inner, reply, request, |this, by, dir| {
                this.fs.mknod(by, dir, &name, kind, mode, rdev)
            });
        }
        Operation::Symlink { name, target } => {
            let (name, target) = (name!(name, reply), target.to_vec());
            made!(inner, reply, request, |this, by, dir| this.fs.symlink(by, dir, &name, &target));
        }
        Operation::Link { old, name } => {
            let name = name!(name, reply);
            made!(
                inner,
                reply,
                request,
                |this, by, dir| this.fs.link(by, Ino(old), dir, &name),
                |_| this.fs.namespace().lies_in(Ino(old))
            );
        }
        _ => failed(reply, Errno::ENOSYS),
    }
}

impl Inner {
    async fn look_up(&self, reply: Reply, caller: Caller, (dir, name): (u64, Name)) {
        let parent = Ino(dir);
        // A write that is stored meanwhile may be newer than what is found.
        let stored = self.fs.data().stored();
        let found = judged!(self, caller, &[dir], |by| { self.fs.lookup(by, parent, &name).await });
        match found {
            Ok(attr) => {
                let is_settled = stored == self.fs.data().stored() && self.is_settled(&attr);
                let _ = self.entry(reply, dir, &attr, is_settled);
            }
            Err(Errno::ENOENT) => self.absent(reply, dir),
            Err(error) => failed(reply, error),
        }
    }

    /// Replies that a name does not exist.
    fn absent(&self, reply: Reply, dir: u64) {
        let telling = self.memory.telling(reply.number());
        let timeout = telling.absence_timeout(dir);
        if timeout.is_zero() {
            return failed(reply, Errno::ENOENT);
        }
        // The reply names no node, so there is no lookup to take back.
        let _ = reply.entry(&Entry::absent(timeout));
    }

    async fn create(
        &self,
        reply: Reply,
        caller: Caller,
        (dir, name): (u64, Name),
        mode: u16,
        flags: OpenFlags,
    ) {
        let parent = Ino(dir);
        let created = judged!(self, caller, &[dir], |by| {
            self.fs.create(by, parent, &name, mode, flags).await
        });
        let outcome = created.as_ref().map(drop).map_err(|errno| *errno);
        self.count_changes(&[dir]);
        let told = match created {
            Ok(opened) => {
                self.appends(opened.attr.ino.0, &opened, flags);
                let is_settled = self.is_settled(&opened.attr);
                let delivery = {
                    let telling = self.memory.telling(reply.number());
                    let entry = self.entry_of(&telling, dir, &opened.attr, is_settled);
                    reply.created(&entry, self.new_handle(), self.open_flags(&opened))
                };
                if delivery.is_err() {
                    self.fs.release(opened.attr.ino).await;
                    self.forget(opened.attr.ino.0, 1);
                }
                delivery
            }
            Err(error) => reply.error(errno(error)),
        };
        self.changed(&[dir], outcome, told);
    }

    async fn rename(
        &self,
        reply: Reply,
        caller: Caller,
        from: (u64, Name),
        to: (u64, Name),
        flags: u32,
    ) {
        let (from, to) = ((from.0, &from.1), (to.0, &to.1));
        let (old, new) = ((Ino(from.0), from.1), (Ino(to.0), to.1));
        let dirs = [from.0, to.0];
        let dirs = if from.0 == to.0 { &dirs[..1] } else { &dirs[..] };
        let leaving = self.leaving(|on| [(old.0, on.key(old.1)), (new.0, on.key(new.1))]);
        let moved = judged!(self, caller, dirs, |by| { self.fs.rename(by, old, new, flags).await });
        leaving.left(moved);
        if from.0 != to.0 && moved.is_ok() {
            // What the kernel remembers of the names goes with them.
            self.names_left(&[old.0, new.0]);
        }
        self.count_changes(dirs);
        let told = reply.done(moved.map_err(errno));
        self.changed(dirs, moved, told);
    }
}
