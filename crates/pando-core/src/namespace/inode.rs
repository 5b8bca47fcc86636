//! Files: where an inode and its cold rows (xattrs, inline data, slices) are; reading, writing and
//! removing them.

use alloc::vec::Vec;
use pando_types::op::{FileAt, FileRef, ObjectId};
use pando_types::peer::{EntryValue, Inode, InodeRows};
use pando_types::reply::{Refusal, Slice};
use pando_types::{DirId, Errno, Ino, Name, Order};

use crate::contract::Halt;
use crate::namespace::names::{self, FoundEntry};
use crate::records::keys::{self, Kind};
use crate::records::record::{OpenAt, Record, Xattrs};
use crate::state::ctx::Ctx;
use crate::state::lock_key::LockKey;
use crate::state::namespace::shreds::Under;
use crate::state::shard::Shard;
use crate::state::stop::Stop;

/// Where an inode's records are on this shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Loc {
    /// In an entry, with its cold rows at the entry's order.
    Name { dir: DirId, order: Order, name: Name, crowded: bool },
    /// At its link shard, under its number.
    Link(Ino),
}

impl Loc {
    pub fn of_entry(dir: DirId, found: &FoundEntry, name: &Name) -> Self {
        Self::Name { dir, order: found.order, name: name.clone(), crowded: found.crowded }
    }

    /// Key of the inode's record of a kind.
    pub fn key(&self, kind: Kind) -> Vec<u8> {
        match self {
            Self::Name { dir, order, .. } => keys::dir(*dir, kind, order.0),
            Self::Link(ino) => keys::link(*ino, kind),
        }
    }

    fn slice_key(&self, offset: u64) -> Vec<u8> {
        let mut key = self.key(Kind::Slice);
        key.extend_from_slice(&offset.to_be_bytes());
        key
    }

    pub fn open_at(&self) -> OpenAt {
        match self {
            Self::Name { dir, order, .. } => OpenAt::Name(*dir, order.0),
            Self::Link(_) => OpenAt::Link,
        }
    }
}

/// Writes the inode itself: its hot record.
pub fn put(ctx: &mut Ctx<'_>, loc: &Loc, inode: &Inode) {
    match loc {
        Loc::Name { dir, order, name, crowded } => {
            let value = EntryValue::File(inode.clone());
            let found = FoundEntry { order: *order, value: value.clone(), crowded: *crowded };
            names::update(ctx, *dir, &found, name, value);
        }
        Loc::Link(_) => ctx.put(loc.key(Kind::Entry), inode.encode()),
    }
}

/// All slices of a file, ascending by offset.
pub fn slices(ctx: &Ctx<'_>, loc: &Loc) -> Result<Vec<Slice>, Halt> {
    slices_in(ctx, loc, 0, u64::MAX)
}

/// Slices of a file that begin at offsets in `from..to`, ascending.
pub fn slices_in(ctx: &Ctx<'_>, loc: &Loc, from: u64, to: u64) -> Result<Vec<Slice>, Halt> {
    let mut slices = Vec::new();
    visit_slices(ctx, loc, from, to, &mut |slice| {
        slices.push(slice);
        true
    })?;
    Ok(slices)
}

/// Visits slices of a file that begin at offsets in `from..to`, ascending, until `visit` returns
/// false.
pub fn visit_slices(
    ctx: &Ctx<'_>,
    loc: &Loc,
    from: u64,
    to: u64,
    visit: &mut dyn FnMut(Slice) -> bool,
) -> Result<(), Halt> {
    let mut bad = None;
    let (from, to) = (loc.slice_key(from), loc.slice_key(to));
    ctx.scan(&from, &to, &mut |_, value| match Slice::decode(value) {
        Ok(slice) => visit(slice),
        Err(halt) => {
            bad = Some(halt);
            false
        }
    })?;
    bad.map_or(Ok(()), Err)
}

pub fn put_slice(ctx: &mut Ctx<'_>, loc: &Loc, slice: &Slice) {
    ctx.put(loc.slice_key(slice.offset), slice.encode());
}

pub fn delete_slice(ctx: &mut Ctx<'_>, loc: &Loc, slice: &Slice) {
    ctx.delete(loc.slice_key(slice.offset));
}

pub fn inline(ctx: &Ctx<'_>, loc: &Loc, inode: &Inode) -> Result<Vec<u8>, Halt> {
    if !inode.is_inline || inode.attr.size == 0 {
        return Ok(Vec::new());
    }
    Ok(ctx.get(&loc.key(Kind::Inline))?.unwrap_or_default())
}

pub fn put_inline(ctx: &mut Ctx<'_>, loc: &Loc, bytes: &[u8]) {
    if bytes.is_empty() {
        ctx.delete(loc.key(Kind::Inline));
    } else {
        ctx.put(loc.key(Kind::Inline), bytes.to_vec());
    }
}

pub fn xattrs(ctx: &Ctx<'_>, loc: &Loc, inode: &Inode) -> Result<Xattrs, Halt> {
    if !inode.has_xattrs {
        return Ok(Xattrs::default());
    }
    Ok(ctx.load(&loc.key(Kind::Xattr))?.unwrap_or_default())
}

/// All cold rows of an inode. The opens are left empty.
pub fn rows(ctx: &Ctx<'_>, loc: &Loc, inode: &Inode) -> Result<InodeRows, Halt> {
    Ok(InodeRows {
        xattrs: xattrs(ctx, loc, inode)?.0,
        inline: inline(ctx, loc, inode)?,
        slices: if inode.is_inline { Vec::new() } else { slices(ctx, loc)? },
        opens: Vec::new(),
    })
}

pub fn put_rows(ctx: &mut Ctx<'_>, loc: &Loc, rows: &InodeRows) {
    if !rows.xattrs.is_empty() {
        ctx.put(loc.key(Kind::Xattr), Xattrs(rows.xattrs.clone()).encode());
    }
    if !rows.inline.is_empty() {
        ctx.put(loc.key(Kind::Inline), rows.inline.clone());
    }
    for slice in &rows.slices {
        put_slice(ctx, loc, slice);
    }
}

/// What becomes of the objects that dropped slices name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Objects {
    /// They are garbage, since the file is gone.
    Garbage,
    /// They have moved with the rows.
    Moved,
}

/// Deletes the cold rows of an inode.
pub fn drop_rows(
    ctx: &mut Ctx<'_>,
    loc: &Loc,
    inode: &Inode,
    objects: Objects,
) -> Result<(), Halt> {
    if !inode.is_inline {
        for slice in slices(ctx, loc)? {
            delete_slice(ctx, loc, &slice);
            if objects == Objects::Garbage {
                put_garbage(ctx, slice.range.object);
            }
        }
    }
    drop_others(ctx, loc, inode);
    Ok(())
}

/// Deletes the cold rows of an inode, except slices, and takes the file out of the counts for
/// statfs.
pub fn drop_others(ctx: &mut Ctx<'_>, loc: &Loc, inode: &Inode) {
    if inode.has_xattrs {
        ctx.delete(loc.key(Kind::Xattr));
    }
    if inode.is_inline && inode.attr.size > 0 {
        ctx.delete(loc.key(Kind::Inline));
    }
    ctx.stat.0 -= 1;
    ctx.add_bytes(inode.attr.size.cast_signed().wrapping_neg());
}

/// Records that an object can be deleted once this change is durable.
pub fn put_garbage(ctx: &mut Ctx<'_>, object: ObjectId) {
    ctx.put(keys::garbage(object), alloc::vec![1]);
}

impl Shard {
    /// The inode that a request names. Refuses with `NotUnderName` if it is not where the request
    /// says. Waits if a transaction has locked it.
    pub(crate) fn find_inode(
        &mut self,
        ctx: &Ctx<'_>,
        file: &FileRef,
    ) -> Result<(Loc, Inode), Stop> {
        match &file.at {
            FileAt::Name(dir, name) => {
                let order = self.order(name);
                match self.own(ctx, *dir, order) {
                    // The directory is gone, but an open file may have outlived it.
                    Err(Stop::Refuse(Refusal::Errno(Errno::ESTALE))) => {
                        return Err(Refusal::NotUnderName.into());
                    }
                    other => other?,
                };
                self.locks.free_for(LockKey::Name(dir.id, order.0), self.shredder())?;
                match names::find(ctx, dir.id, order, name)? {
                    Some(found) => match &found.value {
                        EntryValue::File(inode) if inode.attr.ino == file.ino => {
                            Ok((Loc::of_entry(dir.id, &found, name), inode.clone()))
                        }
                        _ => Err(Refusal::NotUnderName.into()),
                    },
                    None => Err(Refusal::NotUnderName.into()),
                }
            }
            FileAt::Link => {
                self.locks.free_for(LockKey::Link(file.ino), self.shredder())?;
                match self.link_inode(ctx, file.ino)? {
                    Some(inode) => Ok((Loc::Link(file.ino), inode)),
                    // The inode is gone, or it has left its link shard and the client does not know
                    // yet.
                    None => Err(Refusal::NotUnderName.into()),
                }
            }
        }
    }

    /// The inode of a file on its link shard; `None`: it is not here.
    pub(crate) fn link_inode(&self, ctx: &Ctx<'_>, ino: Ino) -> Result<Option<Inode>, Halt> {
        ctx.load(&keys::link(ino, Kind::Entry))
    }

    /// Removes an inode from its link shard for good, with its cold rows.
    pub(crate) fn destroy_link(
        &self,
        ctx: &mut Ctx<'_>,
        inode: &Inode,
        under: Under,
    ) -> Result<(), Halt> {
        let loc = Loc::Link(inode.attr.ino);
        self.drop_file(ctx, &loc, inode, under)?;
        ctx.delete(loc.key(Kind::Entry));
        Ok(())
    }
}
