//! Extended attributes of files and directories.

use alloc::vec::Vec;
use pando_types::op::{Target, XATTR_NAME_MAX, XATTR_TOTAL_MAX, XATTR_VALUE_MAX, XattrMode};
use pando_types::reply::Body;
use pando_types::{Attr, Credentials, Errno, FileKind, Judge};

use crate::namespace::{inode, perm};
use crate::records::keys::{self, Kind};
use crate::records::record::{Record, Xattrs};
use crate::state::ctx::Ctx;
use crate::state::lock_key::LockKey;
use crate::state::shard::Shard;
use crate::state::stop::Stop;

impl Shard {
    fn xattrs(&mut self, ctx: &Ctx<'_>, target: &Target) -> Result<(Attr, Xattrs), Stop> {
        match target {
            Target::File(file) => {
                let (loc, inode) = self.find_inode(ctx, file)?;
                let xattrs = inode::xattrs(ctx, &loc, &inode)?;
                Ok((inode.attr, xattrs))
            }
            Target::Dir(dir) => {
                self.content_is_settled(dir.id)?;
                let content = self.content(ctx, *dir)?;
                let xattrs = ctx.load(&keys::dir(dir.id, Kind::DirXattr, 0))?.unwrap_or_default();
                Ok((content.base, xattrs))
            }
        }
    }

    pub(crate) fn get_xattr(
        &mut self,
        ctx: &Ctx<'_>,
        target: &Target,
        name: &[u8],
        credentials: &Credentials,
    ) -> Result<Body, Stop> {
        let (attr, xattrs) = self.xattrs(ctx, target)?;
        check_name(&attr, name, credentials, perm::R)?;
        match xattrs.0.iter().find(|(n, _)| n == name) {
            Some((_, value)) => Ok(Body::Bytes(value.clone())),
            None => Err(Errno::ENODATA.into()),
        }
    }

    /// Lists all names; names in `trusted.` only for user 0.
    pub(crate) fn list_xattr(
        &mut self,
        ctx: &Ctx<'_>,
        target: &Target,
        credentials: &Credentials,
    ) -> Result<Body, Stop> {
        let (_, xattrs) = self.xattrs(ctx, target)?;
        let names = xattrs.0.into_iter().map(|(name, _)| name);
        let seen = names.filter(|name| credentials.uid == 0 || !name.starts_with(b"trusted."));
        Ok(Body::Names(seen.collect()))
    }

    /// Sets an attribute, or removes it if `value` is `None`.
    pub(crate) fn set_xattr(
        &mut self,
        ctx: &mut Ctx<'_>,
        target: &Target,
        (name, value): (&[u8], Option<&Vec<u8>>),
        mode: XattrMode,
        credentials: &Credentials,
    ) -> Result<Body, Stop> {
        let (attr, mut xattrs) = self.xattrs(ctx, target)?;
        check_name(&attr, name, credentials, perm::W)?;
        change(&mut xattrs.0, name, value, mode)?;
        self.store_xattrs(ctx, target, &xattrs)?;
        Ok(Body::Done)
    }

    fn store_xattrs(
        &mut self,
        ctx: &mut Ctx<'_>,
        target: &Target,
        xattrs: &Xattrs,
    ) -> Result<(), Stop> {
        let key = match target {
            Target::File(file) => {
                let (loc, mut inode) = self.find_inode(ctx, file)?;
                inode.has_xattrs = !xattrs.0.is_empty();
                inode.attr.ctime = ctx.time;
                inode.attr.change += 1;
                inode::put(ctx, &loc, &inode);
                loc.key(Kind::Xattr)
            }
            Target::Dir(dir) => {
                self.locks.free(LockKey::Home(dir.id))?;
                let mut content = self.content(ctx, *dir)?;
                content.base.ctime = ctx.time;
                content.base.change += 1;
                self.put_content(ctx, dir.id, &content);
                keys::dir(dir.id, Kind::DirXattr, 0)
            }
        };
        if xattrs.0.is_empty() {
            ctx.delete(key);
        } else {
            ctx.put(key, xattrs.encode());
        }
        Ok(())
    }
}

fn change(
    xattrs: &mut Vec<(Vec<u8>, Vec<u8>)>,
    name: &[u8],
    value: Option<&Vec<u8>>,
    mode: XattrMode,
) -> Result<(), Errno> {
    let at = xattrs.binary_search_by(|(n, _)| n.as_slice().cmp(name));
    match (at, value, mode) {
        (Ok(_), _, XattrMode::Create) => return Err(Errno::EEXIST),
        (Err(_), _, XattrMode::Replace) => return Err(Errno::ENODATA),
        (_, Some(value), _) if value.len() > XATTR_VALUE_MAX => return Err(Errno::ERANGE),
        (Ok(at), Some(value), _) => xattrs[at].1.clone_from(value),
        (Err(at), Some(value), _) => xattrs.insert(at, (name.to_vec(), value.clone())),
        (Ok(at), None, _) => {
            xattrs.remove(at);
        }
        (Err(_), None, _) => return Err(Errno::ENODATA),
    }
    let total: usize = xattrs.iter().map(|(n, v)| n.len() + v.len()).sum();
    if total > XATTR_TOTAL_MAX { Err(Errno::ENOSPC) } else { Ok(()) }
}

/// Checks access to an attribute by its name space (`xattr_permission`). `user.` is for files and
/// directories, with the file's permissions. `trusted.` is for user 0. `security.` may be read by
/// all and written by the owner. Other name spaces, such as ACLs, are `EOPNOTSUPP`.
fn check_name(attr: &Attr, name: &[u8], credentials: &Credentials, mask: u8) -> Result<(), Errno> {
    if name.is_empty() || name.len() > XATTR_NAME_MAX {
        return Err(Errno::ERANGE);
    }
    let write = mask == perm::W;
    let spaces: [&[u8]; 2] = [b"trusted.", b"security."];
    // The caller's kernel judges these name spaces by capabilities alone, whatever the attributes.
    let is_decided = !matches!(credentials.judge, Judge::Shard(_));
    if is_decided && spaces.iter().any(|space| name.starts_with(space)) {
        return Ok(());
    }
    let owner = perm::owns(attr.into(), credentials);
    if name.starts_with(b"user.") && name.len() > 5 {
        if !matches!(attr.kind, FileKind::Regular | FileKind::Directory) {
            return Err(if write { Errno::EPERM } else { Errno::ENODATA });
        }
        if attr.kind == FileKind::Directory && attr.mode & 0o1000 != 0 && write && !owner {
            return Err(Errno::EPERM);
        }
        return perm::check_attr(attr, credentials, mask);
    }
    if name.starts_with(b"trusted.") {
        return match (credentials.uid, write) {
            (0, _) => Ok(()),
            (_, true) => Err(Errno::EPERM),
            (_, false) => Err(Errno::ENODATA),
        };
    }
    if name.starts_with(b"security.") {
        return if write && !owner { Err(Errno::EPERM) } else { Ok(()) };
    }
    Err(Errno::EOPNOTSUPP)
}
