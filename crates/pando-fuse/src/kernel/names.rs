//! Operations on names. The way to their directory must be what the kernel takes it for ([`super::super::ways`]).

use std::sync::Arc;
use std::time::Duration;

use pando_types::{Attr, Errno, FileKind, Name};

use super::{Inner, empty, failed};
use crate::device::{Caller, Operation, Reply, Request};
use crate::kernel::convert::{node_kind, permissions};
use crate::kernel::ways::{Step, passing};
use crate::vfs::OpenFlags;

/// How long the kernel may remember which directory a name leads to. It is told when that changes, and finds out when it
/// uses it before.
const DIRECTORIES_KEPT: Duration = Duration::from_secs(24 * 3600);
const RENAME_EXCHANGE: u32 = 2;

/// Checks a name, or answers what is wrong with it.
macro_rules! name {
    ($bytes:expr, $reply:expr) => {
        match Name::new($bytes) {
            Ok(name) => name,
            Err(error) => return failed($reply, error),
        }
    };
}

/// Answers with what `$work` makes of a name: `$by` and `$parent` are who does it, and in which directory.
macro_rules! named {
    ($inner:expr, $reply:expr, $request:expr, $name:ident, |$this:ident, $by:ident, $parent:ident| $work:expr, $answer:expr) => {{
        let (caller, dir) = ($request.caller, $request.node);
        later!($inner, $reply, |$this, reply| {
            let mut passage =
                $this.ways.enter($this.fs.namespace(), caller, Step::Name(dir, $name.clone()));
            let $parent = $this.ways.ino(dir);
            let result = passing!(passage, |$by| $work.await);
            $answer(&$this, reply, result);
        })
    }};
}

/// Answers a request.
pub(super) fn answer(inner: &Arc<Inner>, request: &Request<'_>, reply: Reply) {
    let of_file = |this: &Inner, reply, made: Result<Attr, Errno>| this.file(reply, made);
    let is_done = |_: &Inner, reply, result| empty(reply, result);
    let (caller, node) = (request.caller, request.node);
    match request.operation {
        Operation::Lookup { name } => {
            let at = (node, name!(name, reply));
            later!(inner, reply, |this, reply| this.look_up(reply, caller, at).await);
        }
        Operation::Create { name, mode, flags } => {
            let at = (node, name!(name, reply));
            let (mode, flags) = (permissions(mode), OpenFlags(flags));
            later!(inner, reply, |this, reply| this.create(reply, caller, at, mode, flags).await);
        }
        Operation::Mkdir { name, mode } => {
            let at = (node, name!(name, reply));
            let mode = permissions(mode);
            later!(inner, reply, |this, reply| this.mkdir(reply, caller, at, mode).await);
        }
        Operation::Rename { name, new_parent, new_name, flags } => {
            let from = (node, name!(name, reply));
            let to = (new_parent, name!(new_name, reply));
            later!(inner, reply, |this, reply| this.rename(reply, caller, from, to, flags).await);
        }
        Operation::Mknod { name, mode, rdev } => {
            let name = name!(name, reply);
            let Some(kind) = node_kind(mode) else { return failed(reply, Errno::EINVAL) };
            let mode = permissions(mode);
            named!(
                inner,
                reply,
                request,
                name,
                |this, by, parent| this.fs.mknod(by, parent, &name, kind, mode, rdev),
                of_file
            );
        }
        Operation::Symlink { name, target } => {
            let (name, target) = (name!(name, reply), target.to_vec());
            named!(
                inner,
                reply,
                request,
                name,
                |this, by, parent| this.fs.symlink(by, parent, &name, &target),
                of_file
            );
        }
        Operation::Link { old, name } => {
            let name = name!(name, reply);
            named!(
                inner,
                reply,
                request,
                name,
                |this, by, parent| this.fs.link(by, this.ways.ino(old), parent, &name),
                of_file
            );
        }
        Operation::Unlink { name } => {
            let name = name!(name, reply);
            named!(
                inner,
                reply,
                request,
                name,
                |this, by, parent| this.fs.unlink(by, parent, &name),
                is_done
            );
        }
        Operation::Rmdir { name } => {
            let name = name!(name, reply);
            named!(
                inner,
                reply,
                request,
                name,
                |this, by, parent| this.fs.rmdir(by, parent, &name),
                is_done
            );
        }
        _ => failed(reply, Errno::ENOSYS),
    }
}

impl Inner {
    async fn look_up(&self, reply: Reply, caller: Caller, (dir, name): (u64, Name)) {
        let mut passage =
            self.ways.enter(self.fs.namespace(), caller, Step::Look(dir, name.clone()));
        let parent = self.ways.ino(dir);
        let is_brief = self.options.attr_timeout.is_zero();
        let found = passing!(passage, |by| match is_brief {
            true => self.fs.lookup_brief(by, parent, &name).await,
            false => self.fs.lookup(by, parent, &name).await,
        });
        let entry = match &found {
            Ok(attr) if attr.kind == FileKind::Directory => {
                let (node, is_sure) = self.ways.found(&passage, attr);
                let kept = if is_sure { DIRECTORIES_KEPT } else { Duration::ZERO };
                Ok(self.entry_of(node, attr, kept))
            }
            Ok(attr) => Ok(self.file_entry(attr)),
            Err(error) => Err(*error),
        };
        let node = entry.as_ref().map(|entry| entry.node).map_err(|errno| *errno);
        self.ways.arrived(&passage, node);
        match entry {
            Ok(entry) => self.entry(reply, &entry),
            Err(error) => failed(reply, error),
        }
    }

    async fn create(
        &self,
        reply: Reply,
        caller: Caller,
        (dir, name): (u64, Name),
        mode: u16,
        flags: OpenFlags,
    ) {
        let mut passage =
            self.ways.enter(self.fs.namespace(), caller, Step::Name(dir, name.clone()));
        let parent = self.ways.ino(dir);
        let created = passing!(passage, |by| self.fs.create(by, parent, &name, mode, flags).await);
        match created {
            Ok(opened) => {
                let entry = self.file_entry(&opened.attr);
                if reply.created(&entry, self.new_handle(), self.open_flags(&opened)).is_err() {
                    self.fs.release(opened.attr.ino).await;
                    self.forget(entry.node, 1);
                }
            }
            Err(error) => failed(reply, error),
        }
    }

    async fn mkdir(&self, reply: Reply, caller: Caller, (dir, name): (u64, Name), mode: u16) {
        let mut passage =
            self.ways.enter(self.fs.namespace(), caller, Step::Name(dir, name.clone()));
        let parent = self.ways.ino(dir);
        match passing!(passage, |by| self.fs.mkdir(by, parent, &name, mode).await) {
            Ok(attr) => {
                let node = self.ways.made((dir, &name), &attr);
                self.entry(reply, &self.entry_of(node, &attr, Duration::ZERO));
            }
            Err(error) => failed(reply, error),
        }
    }

    async fn rename(
        &self,
        reply: Reply,
        caller: Caller,
        from: (u64, Name),
        to: (u64, Name),
        flags: u32,
    ) {
        let mut passage =
            self.ways.enter(self.fs.namespace(), caller, Step::Move(from.clone(), to.clone()));
        let (from, to) = ((from.0, &from.1), (to.0, &to.1));
        let old = (self.ways.ino(from.0), from.1);
        let new = (self.ways.ino(to.0), to.1);
        match passing!(passage, |by| self.fs.rename(by, old, new, flags).await) {
            Ok(()) => {
                let is_exchange = flags & RENAME_EXCHANGE != 0;
                let moved = self.ways.renamed(self.fs.namespace(), from, to, is_exchange).await;
                // The kernel moves what it has when it hears of it.
                if reply.done(Ok(())).is_err() {
                    self.ways.abandon(&moved);
                }
            }
            Err(error) => failed(reply, error),
        }
    }
}
