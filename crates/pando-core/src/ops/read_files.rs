//! Where the bytes of many files of a directory are, for a client that reads one after the other.

use alloc::vec::Vec;
use pando_types::op::{FILES_BYTES_MAX, FILES_MAX, FILES_SLICES_MAX};
use pando_types::peer::{EntryValue, Inode};
use pando_types::reply::{Body, Layout};
use pando_types::{Credentials, DirRef, Errno, FileKind, Name, Order};

use crate::contract::Halt;
use crate::namespace::inode::{self, Loc};
use crate::namespace::perm;
use crate::records::keys::{self, Kind};
use crate::records::record::{Entry, Record};
use crate::state::ctx::Ctx;
use crate::state::shard::Shard;
use crate::state::stop::Stop;

/// Bytes that a slice counts for.
const SLICE: usize = 64;

impl Shard {
    pub(crate) fn read_files(
        &mut self,
        ctx: &Ctx<'_>,
        dir: DirRef,
        (from, bytes): (Order, u32),
        credentials: &Credentials,
    ) -> Result<Body, Stop> {
        let header = match self.own(ctx, dir, from) {
            Err(Stop::Wait(_)) => return Err(Errno::EAGAIN.into()),
            header => header?,
        };
        if perm::judges_alone(credentials) {
            perm::check_dir(&header.inherit, credentials, perm::R | perm::X)?;
        }
        let owned = header.range().end;
        // What becomes of a locked name is in doubt.
        let locked = self.locks.first_name(dir.id, &(from.base().0..owned), None);
        let end = locked.unwrap_or(owned).max(from.0);
        let (files, mut next) = files_in(ctx, dir, (from.0, end))?;
        let mut left = bytes.min(FILES_BYTES_MAX) as usize;
        let mut told = Vec::with_capacity(files.len());
        for (order, name, inode) in files {
            if perm::check_held(&inode.attr, credentials, perm::R).is_err() {
                continue;
            }
            let loc = Loc::Name { dir: dir.id, order, name: name.clone(), crowded: false };
            let Some(layout) = layout(ctx, &loc, inode)? else { continue };
            let size = layout.inline.len() + layout.slices.len() * SLICE;
            if size > left && !told.is_empty() {
                next = order.0;
                break;
            }
            left = left.saturating_sub(size);
            told.push((name, layout));
        }
        Ok(Body::Files(told, Order(next)))
    }
}

/// A file, with the order of its entry and its name.
type File = (Order, Name, Inode);

/// Regular files with inodes in entries of these orders, and the order at which more may come.
fn files_in(ctx: &Ctx<'_>, dir: DirRef, (from, end): (u64, u64)) -> Result<(Vec<File>, u64), Halt> {
    let (start, stop) = keys::dir_range(dir.id, Kind::Entry, &(from..end));
    let (mut files, mut bad) = (Vec::new(), None);
    ctx.scan(&start, &stop, &mut |key, value| {
        match (keys::order_of(key), Entry::decode(value)) {
            (Some(order), Ok(Entry { is: Some((name, EntryValue::File(inode))), .. }))
                if inode.attr.kind == FileKind::Regular =>
            {
                files.push((order, name, inode));
            }
            (_, Err(halt)) => bad = Some(halt),
            _ => {}
        }
        bad.is_none() && files.len() < FILES_MAX
    })?;
    let next = match files.last() {
        Some((order, ..)) if files.len() == FILES_MAX => order.0 + 1,
        _ => end,
    };
    bad.map_or(Ok((files, next)), Err)
}

/// Where all bytes of a file are. `None`: in too many slices.
fn layout(ctx: &Ctx<'_>, loc: &Loc, inode: Inode) -> Result<Option<Layout>, Halt> {
    let mut slices = Vec::new();
    if !inode.is_inline {
        inode::visit_slices(ctx, loc, 0, u64::MAX, &mut |slice| {
            slices.push(slice);
            slices.len() <= FILES_SLICES_MAX
        })?;
    }
    if slices.len() > FILES_SLICES_MAX {
        return Ok(None);
    }
    let inline = inode::inline(ctx, loc, &inode)?;
    let (is_inline, until) = (inode.is_inline, u64::MAX);
    Ok(Some(Layout { attr: inode.attr, is_inline, inline, slices, until }))
}
