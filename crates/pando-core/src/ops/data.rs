//! Where a file's bytes are (DESIGN §11). Data changes are ranges laid over what is there.

use alloc::collections::BTreeMap;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use pando_types::op::{FILE_SIZE_MAX, FileRef, INLINE_MAX, ObjectRange, Payload, Piece, SLICE_MAX};
use pando_types::peer::Inode;
use pando_types::reply::{Body, Layout, Refusal, Slice};
use pando_types::{Credentials, Errno, FileKind, Kill, Timestamp};

use crate::contract::Halt;
use crate::ctx::{Ctx, Stop};
use crate::inode::{self, Loc};
use crate::ops::attr;
use crate::perm;
use crate::shard::Shard;

impl Shard {
    pub(crate) fn read_data(
        &mut self,
        ctx: &Ctx<'_>,
        file: &FileRef,
        offset: u64,
        len: u64,
    ) -> Result<Body, Stop> {
        let (loc, inode) = self.find_inode(ctx, file)?;
        if inode.attr.kind != FileKind::Regular {
            return Err(Errno::EINVAL.into());
        }
        let end = offset.saturating_add(len).min(inode.attr.size);
        let mut layout = Layout {
            is_inline: inode.is_inline,
            inline: inode::inline(ctx, &loc, &inode)?,
            slices: Vec::new(),
            attr: inode.attr,
        };
        if !layout.is_inline && offset < end {
            layout.slices = inode::slices_in(ctx, &loc, offset.saturating_sub(SLICE_MAX), end)?;
            layout.slices.retain(|s| s.offset < end && s.offset + s.range.len > offset);
        }
        Ok(Body::Layout(layout))
    }

    pub(crate) fn write_data(
        &mut self,
        ctx: &mut Ctx<'_>,
        file: &FileRef,
        (base, pieces): (Option<u64>, &[Piece]),
        mtime: Option<Timestamp>,
        kill: Option<Kill>,
        by: &Credentials,
    ) -> Result<Body, Stop> {
        let (loc, mut inode) = self.find_inode(ctx, file)?;
        if inode.attr.kind != FileKind::Regular {
            return Err(Errno::EINVAL.into());
        }
        if base.is_some_and(|version| version != inode.attr.data_version) {
            return Err(Refusal::DataChanged.into());
        }
        for piece in pieces {
            check_piece(piece)?;
        }
        let before = inode.attr.size;
        if pieces.iter().any(|p| matches!(p.payload, Payload::Object(_))) && inode.is_inline {
            leave_inline(ctx, &loc, &mut inode, base)?;
        }
        if inode.is_inline {
            write_inline(ctx, &loc, &mut inode, pieces)?;
        } else {
            write_slices(ctx, &loc, &mut inode, pieces)?;
        }
        ctx.stat.1 += inode.attr.size.wrapping_sub(before).cast_signed();
        let kill = perm::kill_by_content(&inode.attr, by, kill);
        attr::take_off(&mut inode.attr, kill);
        inode.attr.mtime = mtime.unwrap_or(ctx.time);
        inode.attr.ctime = ctx.time;
        inode.attr.data_version += 1;
        inode.attr.change += 1;
        inode::put(ctx, &loc, &inode);
        Ok(Body::Attr(inode.attr))
    }

    /// Changes the size of a regular file, and its times.
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
        ctx.stat.1 += size.wrapping_sub(inode.attr.size).cast_signed();
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

/// The first object of a file: its inline bytes go, and the pieces must have been made from them.
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

/// The slices around a changed range: as they were, and as they are to be.
#[derive(Default)]
struct Cover {
    old: BTreeMap<u64, ObjectRange>,
    now: BTreeMap<u64, ObjectRange>,
}

impl Cover {
    /// Loads whatever may touch `from..to`, and whatever may share an object with that: an object's ranges never lie
    /// farther apart than one may be long.
    fn load(ctx: &Ctx<'_>, loc: &Loc, from: u64, to: u64) -> Result<Self, Halt> {
        let (first, last) = (from.saturating_sub(2 * SLICE_MAX), to.saturating_add(SLICE_MAX));
        let old: BTreeMap<_, _> = inode::slices_in(ctx, loc, first, last)?
            .into_iter()
            .map(|slice| (slice.offset, slice.range))
            .collect();
        Ok(Self { now: old.clone(), old })
    }

    fn clear(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let touched: Vec<_> = self
            .now
            .range(..to)
            .filter(|(offset, range)| *offset + range.len > from)
            .map(|(offset, range)| (*offset, *range))
            .collect();
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
        type Left = &'static [(u64, u64, u64)];
        let cases: [(u64, u64, Left); 5] = [
            (0, 100, &[]),
            (0, 10, &[(10, 10, 90)]),
            (90, 200, &[(0, 0, 90)]),
            (40, 60, &[(0, 0, 40), (60, 60, 40)]),
            (100, 200, &[(0, 0, 100)]),
        ];
        for (from, to, expected) in cases {
            let mut cover = Cover::default();
            cover.now.insert(0, range(1, 0, 100));
            cover.clear(from, to);
            let left: Vec<_> = cover.now.iter().map(|(o, r)| (*o, r.offset, r.len)).collect();
            assert_eq!(left, expected, "{from}..{to}");
        }
    }
}
