//! Contents of files: which bytes are in which object, and inline bytes (docs/design/objects.md). A
//! write is a list of pieces that replace ranges of the present content.
//!
//! A mount reads and writes as user 0, because access was checked when the file was opened. A
//! request on behalf of a user is checked ([`perm::check_held`]). A key can limit its holder to
//! certain users. Such a client reads and writes only what these users may, or own.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use pando_types::op::{
    FILE_SIZE_MAX, FileRef, INLINE_MAX, LAYOUT_SLICES_MAX, ObjectRange, Payload, Piece, SLICE_MAX,
};
use pando_types::peer::Inode;
use pando_types::reply::{Body, Improper, Layout, Refusal, Slice};
use pando_types::{Credentials, Errno, FileKind, Kill, SessionId, Timestamp};

use crate::contract::Halt;
use crate::namespace::attrs::take_off;
use crate::namespace::inode::{self, Loc};
use crate::namespace::perm::{self, check_time};
use crate::state::ctx::Ctx;
use crate::state::shard::Shard;
use crate::state::stop::Stop;

/// A change of a file's content, from [`pando_types::op::Op::WriteData`].
pub struct Change<'a> {
    pub base: Option<u64>,
    pub pieces: &'a [Piece],
    pub mtime: Option<Timestamp>,
    pub kill: Option<Kill>,
}

impl Shard {
    pub(crate) fn read_data(
        &mut self,
        ctx: &Ctx<'_>,
        file: &FileRef,
        (offset, len): (u64, u64),
        credentials: &Credentials,
    ) -> Result<Body, Stop> {
        let (loc, inode) = self.find_inode(ctx, file)?;
        if inode.attr.kind != FileKind::Regular {
            return Err(Errno::EINVAL.into());
        }
        perm::check_held(&inode.attr, credentials, perm::R)?;
        let end = offset.saturating_add(len).min(inode.attr.size);
        let mut layout = Layout {
            is_inline: inode.is_inline,
            inline: inode::inline(ctx, &loc, &inode)?,
            slices: Vec::new(),
            until: u64::MAX,
            attr: inode.attr,
        };
        if !layout.is_inline && offset < end {
            let first = offset.saturating_sub(SLICE_MAX);
            inode::visit_slices(ctx, &loc, first, end, &mut |slice| {
                if slice.offset + slice.range.len <= offset {
                    return true;
                }
                let is_room = layout.slices.len() < LAYOUT_SLICES_MAX;
                if is_room {
                    layout.slices.push(slice);
                } else {
                    layout.until = slice.offset;
                }
                is_room
            })?;
        }
        Ok(Body::Layout(layout))
    }

    pub(crate) fn write_data(
        &mut self,
        ctx: &mut Ctx<'_>,
        file: &FileRef,
        &Change { base, pieces, mtime, kill }: &Change<'_>,
        session: SessionId,
        credentials: &Credentials,
    ) -> Result<Body, Stop> {
        let (loc, mut inode) = self.find_inode(ctx, file)?;
        if inode.attr.kind != FileKind::Regular {
            return Err(Errno::EINVAL.into());
        }
        perm::check_held(&inode.attr, credentials, perm::W)?;
        if base.is_some_and(|version| version != inode.attr.data_version) {
            return Err(Refusal::DataChanged.into());
        }
        for piece in pieces {
            check_piece(piece)?;
            self.check_object(piece, session)?;
        }
        check_time(mtime.unwrap_or_default())?;
        let before = inode.attr.size;
        if pieces.iter().any(|p| matches!(p.payload, Payload::Object(_))) && inode.is_inline {
            leave_inline(ctx, &loc, &mut inode, base)?;
        }
        if inode.is_inline {
            write_inline(ctx, &loc, &mut inode, pieces)?;
        } else {
            write_slices(ctx, &loc, &mut inode, pieces)?;
        }
        ctx.add_bytes(inode.attr.size.wrapping_sub(before).cast_signed());
        let kill = perm::kill_by_content(&inode.attr, credentials, kill);
        #[cfg(feature = "planted")]
        let kill = kill.filter(|_| !self.is_planted(crate::Planted::SetuidKept));
        take_off(&mut inode.attr, kill);
        #[cfg(feature = "planted")]
        let (was, version) = (inode.attr.mtime, inode.attr.data_version);
        inode.attr.mtime = mtime.unwrap_or(ctx.time);
        inode.attr.ctime = ctx.time;
        inode.attr.data_version += 1;
        #[cfg(feature = "planted")]
        match self.planted {
            Some(crate::Planted::TimeStays) => inode.attr.mtime = was,
            Some(crate::Planted::DataVersionStays) => inode.attr.data_version = version,
            _ => {}
        }
        inode.attr.change += 1;
        inode::put(ctx, &loc, &inode);
        Ok(Body::Attr(inode.attr))
    }

    /// Checks that a piece names only an object of the request's own session: see
    /// [`crate::requests::admission`].
    fn check_object(&mut self, piece: &Piece, session: SessionId) -> Result<(), Refusal> {
        match &piece.payload {
            Payload::Object(range) if range.object.session() != session => {
                self.counters.improper[Improper::ForeignObject as usize] += 1;
                Err(Improper::ForeignObject.into())
            }
            _ => Ok(()),
        }
    }

    /// Changes the size of a regular file, with its times and its data version.
    pub(crate) fn resize(
        ctx: &mut Ctx<'_>,
        loc: &Loc,
        inode: &mut Inode,
        size: u64,
    ) -> Result<(), Stop> {
        if size < inode.attr.size {
            if inode.is_inline {
                let mut bytes = inode::inline(ctx, loc, inode)?;
                bytes.truncate(usize::try_from(size).unwrap_or(usize::MAX));
                inode::put_inline(ctx, loc, &bytes);
            } else {
                let mut cover = Cover::load(ctx, loc, size, inode.attr.size)?;
                cover.clear(size, u64::MAX);
                cover.store(ctx, loc);
            }
        }
        ctx.add_bytes(size.wrapping_sub(inode.attr.size).cast_signed());
        inode.attr.size = size;
        inode.attr.mtime = ctx.time;
        inode.attr.ctime = ctx.time;
        inode.attr.data_version += 1;
        Ok(())
    }
}

fn len(payload: &Payload) -> u64 {
    match payload {
        Payload::Inline(bytes) => bytes.len() as u64,
        Payload::Object(range) => range.len,
        Payload::Hole(len) => *len,
    }
}

fn check_piece(piece: &Piece) -> Result<(), Errno> {
    let end = piece.offset.checked_add(len(&piece.payload)).ok_or(Errno::EFBIG)?;
    match &piece.payload {
        Payload::Object(r) if r.len == 0 || r.len > SLICE_MAX => Err(Errno::EINVAL),
        Payload::Object(r) if r.offset.checked_add(r.len).is_none_or(|e| e > r.object_len) => {
            Err(Errno::EINVAL)
        }
        Payload::Hole(_) => Ok(()),
        _ if end > FILE_SIZE_MAX => Err(Errno::EFBIG),
        _ => Ok(()),
    }
}

/// Prepares a file for its first object: deletes the inline bytes. The pieces must have been made
/// from these bytes, so `base` is required if there are any.
fn leave_inline(
    ctx: &mut Ctx<'_>,
    loc: &Loc,
    inode: &mut Inode,
    base: Option<u64>,
) -> Result<(), Stop> {
    let bytes = inode::inline(ctx, loc, inode)?;
    if !bytes.is_empty() {
        if base.is_none() {
            return Err(Refusal::DataChanged.into());
        }
        inode::put_inline(ctx, loc, &[]);
    }
    inode.is_inline = false;
    Ok(())
}

fn write_inline(
    ctx: &mut Ctx<'_>,
    loc: &Loc,
    inode: &mut Inode,
    pieces: &[Piece],
) -> Result<(), Stop> {
    let mut bytes = inode::inline(ctx, loc, inode)?;
    for piece in pieces {
        let end = piece.offset.saturating_add(len(&piece.payload));
        match &piece.payload {
            Payload::Inline(new) if end <= INLINE_MAX => {
                let (from, to) = (piece.offset as usize, end as usize);
                if bytes.len() < to {
                    bytes.resize(to, 0);
                }
                bytes[from..to].copy_from_slice(new);
                inode.attr.size = inode.attr.size.max(end);
            }
            Payload::Hole(_) => {
                let from = piece.offset.min(bytes.len() as u64) as usize;
                let to = end.min(bytes.len() as u64) as usize;
                bytes[from..to].fill(0);
            }
            _ => return Err(Refusal::DataChanged.into()),
        }
    }
    inode::put_inline(ctx, loc, &bytes);
    Ok(())
}

fn write_slices(
    ctx: &mut Ctx<'_>,
    loc: &Loc,
    inode: &mut Inode,
    pieces: &[Piece],
) -> Result<(), Stop> {
    let from = pieces.iter().map(|p| p.offset).min().unwrap_or(0);
    let to = pieces.iter().map(|p| p.offset.saturating_add(len(&p.payload))).max().unwrap_or(0);
    let mut cover = if from >= inode.attr.size {
        Cover::default() // appending: nothing is there
    } else {
        Cover::load(ctx, loc, from, to)?
    };
    for piece in pieces {
        let end = piece.offset.saturating_add(len(&piece.payload));
        match &piece.payload {
            Payload::Inline(_) => return Err(Refusal::DataChanged.into()),
            Payload::Hole(_) => cover.clear(piece.offset, end),
            Payload::Object(range) => {
                cover.clear(piece.offset, end);
                cover.now.insert(piece.offset, *range);
                inode.attr.size = inode.attr.size.max(end);
            }
        }
    }
    cover.store(ctx, loc);
    Ok(())
}

/// The slices around a range that changes: as they were, and as they will be.
#[derive(Default)]
struct Cover {
    old: BTreeMap<u64, ObjectRange>,
    now: BTreeMap<u64, ObjectRange>,
    /// Number of slices that were examined.
    #[cfg(test)]
    looks: usize,
}

impl Cover {
    /// Loads the slices that may touch `from..to`, and those that may share an object with these.
    /// Two ranges of one object never lie farther apart than the longest object.
    fn load(ctx: &Ctx<'_>, loc: &Loc, from: u64, to: u64) -> Result<Self, Halt> {
        let (first, last) = (from.saturating_sub(2 * SLICE_MAX), to.saturating_add(SLICE_MAX));
        let old: BTreeMap<_, _> = inode::slices_in(ctx, loc, first, last)?
            .into_iter()
            .map(|slice| (slice.offset, slice.range))
            .collect();
        Ok(Self {
            now: old.clone(),
            old,
            #[cfg(test)]
            looks: 0,
        })
    }

    /// The slices that reach into `from..to`. Slices never overlap, so only the last of those that
    /// begin before `from` may.
    fn touched(&self, from: u64, to: u64) -> Vec<(u64, ObjectRange)> {
        let before = self.now.range(..from).next_back();
        let before = before.filter(|(offset, range)| *offset + range.len > from);
        before.into_iter().chain(self.now.range(from..to)).map(|(o, r)| (*o, *r)).collect()
    }

    /// Cuts `from..to` out of the slices. It examines only the slices that it changes, and one
    /// more.
    fn clear(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let touched = self.touched(from, to);
        #[cfg(test)]
        {
            self.looks += 1 + touched.len();
        }
        for (offset, range) in touched {
            self.now.remove(&offset);
            let end = offset + range.len;
            if offset < from {
                self.now.insert(offset, ObjectRange { len: from - offset, ..range });
            }
            if end > to {
                let skipped = to - offset;
                let rest = ObjectRange {
                    offset: range.offset + skipped,
                    len: range.len - skipped,
                    ..range
                };
                self.now.insert(to, rest);
            }
        }
    }

    fn store(self, ctx: &mut Ctx<'_>, loc: &Loc) {
        for (offset, range) in &self.old {
            if !self.now.contains_key(offset) {
                inode::delete_slice(ctx, loc, &Slice { offset: *offset, range: *range });
            }
        }
        for (offset, range) in &self.now {
            if self.old.get(offset) != Some(range) {
                inode::put_slice(ctx, loc, &Slice { offset: *offset, range: *range });
            }
        }
        let alive: BTreeSet<_> = self.now.values().map(|range| range.object).collect();
        let dead: BTreeSet<_> =
            self.old.values().map(|range| range.object).filter(|o| !alive.contains(o)).collect();
        for object in dead {
            inode::put_garbage(ctx, object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ops::Range;
    use pando_types::op::ObjectId;

    fn range(object: u128, offset: u64, len: u64) -> ObjectRange {
        ObjectRange {
            object: ObjectId(object),
            offset,
            len,
            object_len: 1 << 20,
            store: 0,
            key: 0,
            codec: 0,
        }
    }

    #[test]
    fn what_is_laid_over_cuts_what_was_there() {
        type Left = &'static [(u64, Range<u64>)];
        let cases: [(u64, u64, Left); 5] = [
            (0, 100, &[]),
            (0, 10, &[(10, 10..100)]),
            (90, 200, &[(0, 0..90)]),
            (40, 60, &[(0, 0..40), (60, 60..100)]),
            (100, 200, &[(0, 0..100)]),
        ];
        for (from, to, expected) in cases {
            let mut cover = Cover::default();
            cover.now.insert(0, range(1, 0, 100));
            cover.clear(from, to);
            let part = |r: &ObjectRange| r.offset..r.offset + r.len;
            let left: Vec<_> = cover.now.iter().map(|(at, r)| (*at, part(r))).collect();
            assert_eq!(left, expected, "{from}..{to}");
        }
    }

    #[test]
    fn many_pieces_look_at_few_slices_each() {
        const MANY: u64 = 20_000;
        let mut cover = Cover::default();
        // Ascending, descending, and over what is there.
        for n in (0..MANY).chain((0..MANY).rev()).chain((0..MANY).map(|n| n * 7_919 % MANY)) {
            let offset = n * 10;
            cover.clear(offset, offset + 7);
            cover.now.insert(offset, range(n.into(), 0, 7));
        }
        cover.clear(3, MANY * 10 - 5);
        assert_eq!(cover.now.len(), 2, "the ends of the first and of the last");
        assert!(cover.looks <= 10 * MANY as usize, "{} looks", cover.looks);
    }
}
