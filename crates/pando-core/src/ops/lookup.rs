//! Lookup: what a name leads to.

use pando_types::peer::EntryValue;
use pando_types::reply::{Body, Found};
use pando_types::{Credentials, DirRef, Errno, Name};

use crate::ctx::{Ctx, Stop};
use crate::locks::LockKey;
use crate::shard::Shard;
use crate::{names, perm};

impl Shard {
    pub(crate) fn lookup(
        &mut self,
        ctx: &Ctx<'_>,
        dir: DirRef,
        name: &Name,
        by: &Credentials,
    ) -> Result<Body, Stop> {
        let order = self.order(name);
        let header = self.own(ctx, dir, order)?;
        perm::check_dir(&header.inherit, by, perm::X)?;
        self.locks.free(LockKey::Name(dir.id, order.0))?;
        match names::find(ctx, dir.id, order, name)? {
            Some(entry) => Ok(Body::Found(found(entry.value))),
            None => Err(Errno::ENOENT.into()),
        }
    }
}

/// As clients see an entry.
pub fn found(value: EntryValue) -> Found {
    match value {
        EntryValue::File(inode) => Found::File(inode.attr),
        EntryValue::Linked(ino, kind) => Found::Linked(ino, kind),
        EntryValue::Dir(access) => Found::Dir(access),
    }
}
