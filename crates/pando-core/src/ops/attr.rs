//! Attributes of files.

use pando_types::op::{AccessMask, FILE_SIZE_MAX, FileRef};
use pando_types::reply::Body;
use pando_types::{Credentials, Errno, FileKind, Kill, SetAttr};

use crate::namespace::attrs::{apply, take_off};
use crate::namespace::{inode, perm};
use crate::state::ctx::Ctx;
use crate::state::shard::Shard;
use crate::state::stop::Stop;

impl Shard {
    pub(crate) fn getattr(&mut self, ctx: &Ctx<'_>, file: &FileRef) -> Result<Body, Stop> {
        Ok(Body::Attr(self.find_inode(ctx, file)?.1.attr))
    }

    pub(crate) fn access(
        &mut self,
        ctx: &Ctx<'_>,
        file: &FileRef,
        mask: AccessMask,
        credentials: &Credentials,
    ) -> Result<Body, Stop> {
        perm::check_attr(&self.find_inode(ctx, file)?.1.attr, credentials, mask)?;
        Ok(Body::Done)
    }

    pub(crate) fn setattr(
        &mut self,
        ctx: &mut Ctx<'_>,
        file: &FileRef,
        set: &SetAttr,
        credentials: &Credentials,
    ) -> Result<Body, Stop> {
        let (loc, mut inode) = self.find_inode(ctx, file)?;
        let set = perm::check_setattr(&inode.attr, set, credentials)?;
        let kill = perm::kill_by_setattr(&inode.attr, &set, credentials);
        let is_only_kill = set == SetAttr { kill: set.kill, ..SetAttr::default() };
        if is_only_kill && set.kill.is_some() && kill.is_none() && Kill::concerns(inode.attr.mode) {
            // The caller is not the owner. It is a `chown(-1, -1)`, or a kernel's notice before a
            // change of content.
            return Ok(Body::Attr(inode.attr));
        }
        if let Some(size) = set.size {
            match inode.attr.kind {
                FileKind::Regular if size > FILE_SIZE_MAX => return Err(Errno::EFBIG.into()),
                FileKind::Regular => Self::resize(ctx, &loc, &mut inode, size)?,
                _ => return Err(Errno::EINVAL.into()),
            }
        }
        take_off(&mut inode.attr, kill);
        apply(&mut inode.attr, &set, ctx.time);
        inode::put(ctx, &loc, &inode);
        Ok(Body::Attr(inode.attr))
    }

    pub(crate) fn readlink(&mut self, ctx: &Ctx<'_>, file: &FileRef) -> Result<Body, Stop> {
        let (loc, inode) = self.find_inode(ctx, file)?;
        if inode.attr.kind != FileKind::Symlink {
            return Err(Errno::EINVAL.into());
        }
        Ok(Body::Bytes(inode::inline(ctx, &loc, &inode)?))
    }
}
