//! Listings. A page is one scan (BabuDB §III.A) within the partition that holds its first order. It
//! ends at the partition's end, at the limit, or at a locked name.

use alloc::vec::Vec;
use pando_types::op::PAGE_MAX;
use pando_types::reply::{Body, Listed};
use pando_types::{Credentials, DirRef, Order};

use crate::namespace::perm;
use crate::ops::lookup::found;
use crate::records::keys::{self, Kind};
use crate::records::record::{Entry, Record};
use crate::state::ctx::Ctx;
use crate::state::lock_key::LockKey;
use crate::state::shard::Shard;
use crate::state::stop::Stop;

impl Shard {
    pub(crate) fn read_dir(
        &mut self,
        ctx: &Ctx<'_>,
        dir: DirRef,
        (from, limit): (Order, u32),
        credentials: &Credentials,
        by_path: bool,
    ) -> Result<Body, Stop> {
        let header = self.own(ctx, dir, from)?;
        if by_path {
            perm::check_dir(&header.inherit, credentials, perm::R)?;
        } else {
            // A caller that lists by ino has opened the directory before.
            perm::check_listing(&header.inherit, credentials)?;
        }
        let (owned, is_empty) = (header.range().end, header.entries == 0);
        // The target of a locked name is in doubt. So the page ends before that name, and the next
        // page waits. A removed name that keeps its lock for slices is gone already, and is
        // skipped.
        let locked = self.locks.first_name(dir.id, &(from.base().0..owned), Some(self.shredder()));
        if let Some(order) = locked
            && order <= from.0
        {
            return Err(Stop::Wait(LockKey::Name(dir.id, order)));
        }
        let end = locked.unwrap_or(owned);
        let limit = limit.clamp(1, PAGE_MAX) as usize;
        let mut page = Vec::with_capacity(limit.min(64));
        let mut bad = None;
        let (start, stop) = keys::dir_range(dir.id, Kind::Entry, &(from.0..end));
        // Deleted records may still slow the store's scan. So a scan that finds nothing can take
        // longest.
        let stop = if is_empty { start.clone() } else { stop };
        ctx.scan(&start, &stop, &mut |key, value| {
            match (keys::order_of(key), Entry::decode(value)) {
                (Some(order), Ok(Entry { is: Some((name, value)), .. })) => {
                    page.push(Listed { order, name, found: found(value) });
                }
                (_, Err(halt)) => bad = Some(halt),
                _ => {}
            }
            bad.is_none() && page.len() < limit
        })?;
        if let Some(halt) = bad {
            return Err(halt.into());
        }
        let next = match page.last() {
            Some(last) if page.len() == limit => last.order.0 + 1,
            _ => end,
        };
        Ok(Body::Page(page, (next < Order::END).then_some(Order(next))))
    }
}
