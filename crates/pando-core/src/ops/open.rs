//! Open and release: a file lives as long as a session has it open.

use alloc::vec::Vec;
use pando_types::op::{AccessMask, FileAt, FileRef};
use pando_types::reply::{Body, Found};
use pando_types::{Credentials, DirRef, Errno, FileKind, Kill, Name, Order, SessionId};

use crate::namespace::attrs::take_off;
use crate::namespace::inode::{self, Loc};
use crate::namespace::perm;
use crate::ops::lookup::Answer;
use crate::records::record::OpenAt;
use crate::state::ctx::Ctx;
use crate::state::lock_key::LockKey;
use crate::state::namespace::shreds::Under;
use crate::state::shard::Shard;
use crate::state::stop::Stop;

impl Shard {
    pub(crate) fn open(
        &mut self,
        ctx: &mut Ctx<'_>,
        file: &FileRef,
        access: AccessMask,
        (truncate, kill): (bool, Option<Kill>),
        session: SessionId,
        credentials: &Credentials,
    ) -> Result<Body, Stop> {
        let (loc, mut inode) = self.find_inode(ctx, file)?;
        perm::check_attr(&inode.attr, credentials, access)?;
        if truncate {
            if inode.attr.kind != FileKind::Regular {
                return Err(Errno::EINVAL.into());
            }
            perm::check_attr(&inode.attr, credentials, perm::W)?;
            let kill = perm::kill_by_content(&inode.attr, credentials, kill);
            Self::resize(ctx, &loc, &mut inode, 0)?;
            take_off(&mut inode.attr, kill);
            inode.attr.change += 1;
            inode::put(ctx, &loc, &inode);
        }
        self.add_open(ctx, file.ino, session, loc.open_at());
        Ok(Body::Attr(inode.attr))
    }

    /// Runs [`pando_types::op::Op::OpenName`]: looks a name up, and opens it if it leads to a file
    /// here.
    pub(crate) fn open_name(
        &mut self,
        ctx: &mut Ctx<'_>,
        (dir, name): (DirRef, &Name),
        access: AccessMask,
        truncate: (bool, Option<Kill>),
        session: SessionId,
        credentials: &Credentials,
    ) -> Result<Body, Stop> {
        let found = match self.lookup(ctx, dir, name, credentials, Answer::Plain)? {
            Body::Found(Found::File(attr)) if attr.kind != FileKind::Symlink => attr.ino,
            other => return Ok(other),
        };
        let file = FileRef { ino: found, at: FileAt::Name(dir, name.clone()) };
        self.open(ctx, &file, access, truncate, session, credentials)
    }

    /// Where an inode is that the session has open under the name in the request, unless a lock is
    /// in the way. Opens move with their inode, so the entry need not be read.
    fn open_under_name(
        &mut self,
        ctx: &Ctx<'_>,
        file: &FileRef,
        session: SessionId,
    ) -> Option<OpenAt> {
        let FileAt::Name(dir, name) = &file.at else { return None };
        let at = self.namespace.opens.place(file.ino)?;
        let base = self.order(name);
        let is_there =
            matches!(at, OpenAt::Name(id, order) if id == dir.id && Order(order).base() == base);
        (is_there
            && self.namespace.opens.count_of(file.ino, session) > 0
            && self.own(ctx, *dir, base).is_ok()
            && self.locks.free(LockKey::Name(dir.id, base.0)).is_ok())
        .then_some(at)
    }

    pub(crate) fn release(
        &mut self,
        ctx: &mut Ctx<'_>,
        file: &FileRef,
        session: SessionId,
    ) -> Result<Body, Stop> {
        if let Some(at) = self.open_under_name(ctx, file, session) {
            self.close_one(ctx, file.ino, session, at);
            return Ok(Body::Done);
        }
        let (loc, inode) = self.find_inode(ctx, file)?;
        let holders = self.drop_open(ctx, file.ino, session, loc.open_at());
        if let Loc::Link(_) = loc
            && inode.attr.nlink == 0
            && holders.is_empty()
        {
            self.destroy_link(ctx, &inode, Under::Nothing)?;
        }
        Ok(Body::Done)
    }

    /// Runs [`pando_types::op::Op::ReleaseAll`]: closes files that need no further look. Returns
    /// the indices of the others.
    pub(crate) fn release_all(
        &mut self,
        ctx: &mut Ctx<'_>,
        files: &[FileRef],
        session: SessionId,
    ) -> Result<Body, Stop> {
        ctx.expect(files.len());
        let mut left = Vec::new();
        for (nth, file) in files.iter().enumerate() {
            // The table of opens shows the state before this request, so it is right only for the
            // first close of an inode.
            let is_first = files[..nth].iter().all(|other| other.ino != file.ino);
            match self.open_under_name(ctx, file, session).filter(|_| is_first) {
                Some(at) => self.close_one(ctx, file.ino, session, at),
                None => left.push(nth as u32),
            }
        }
        Ok(Body::Left(left))
    }
}
