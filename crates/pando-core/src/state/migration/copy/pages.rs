//! The pages of a copy: unread rows, rows that changed after they were sent, outcomes.

use alloc::vec::Vec;
use pando_types::peer::RowChange;

use super::dirty::PAGE_BYTES;
use super::moved::Moved;
use super::{Copy, Phase};
use crate::contract::{Halt, Row, Write};
use crate::records::keys::{self, Kind};
use crate::state::ctx::Ctx;
use crate::state::migration::hash_slot_rows::{belongs, read_page};

impl Copy {
    /// Takes out one page of changes, with rows as they are now. The changes are those of the
    /// present round or, in its absence, all.
    pub fn take_changes(&mut self, ctx: &Ctx<'_>, most: usize) -> Result<Vec<RowChange>, Halt> {
        let is_round = self.todo.len() > 0;
        let changes = if is_round { &mut self.todo } else { &mut self.dirty };
        let mut rows = changes.take(ctx, most)?;
        if let Moved::HashSlot(_) = self.moved {
            let mut all = core::mem::take(&mut rows).into_iter();
            all.try_for_each(|row| {
                if belongs(ctx, &row)? {
                    rows.push(row);
                }
                Ok(())
            })?;
        }
        Ok(rows)
    }

    /// Takes out one page of outcomes, if more than `most` bytes of them are left.
    pub fn take_outcomes(&mut self, most: usize) -> Vec<RowChange> {
        let rows = self.outcomes.get_or_insert_default();
        let size_of = |(key, value): &Row| key.len() + value.len();
        let mut left: usize = rows.iter().map(size_of).sum();
        let (mut page, mut bytes) = (Vec::new(), 0);
        while left > most
            && bytes < most
            && let Some(row) = rows.pop()
        {
            (left, bytes) = (left - size_of(&row), bytes + size_of(&row));
            page.push(RowChange::Put(row.0, row.1));
        }
        page
    }

    /// Takes the next page while some rows have never been read, and says whether it is one of
    /// changes. Of a hash slot, `rate` bytes a second are read at most.
    pub fn next_page(
        &mut self,
        ctx: &Ctx<'_>,
        most: usize,
        (dirty_rows, rate): (usize, u64),
    ) -> Result<(Vec<RowChange>, bool), Halt> {
        self.sent_changes = self.is_turn_of_changes(ctx.now.nanos, dirty_rows);
        let rows = match self.sent_changes {
            true => self.take_changes(ctx, most)?,
            false => self.read_page(ctx, most, rate)?,
        };
        self.round_size += rows.len();
        Ok((rows, self.sent_changes))
    }

    /// Takes the next page of unread rows, which may be empty. Of a hash slot, `rate` bytes a
    /// second are read at most.
    fn read_page(&mut self, ctx: &Ctx<'_>, most: usize, rate: u64) -> Result<Vec<RowChange>, Halt> {
        let rows = self.read_rows(ctx, most)?;
        if let Moved::HashSlot(_) = self.moved {
            let bytes: usize = rows.iter().map(size_of_row).sum();
            let nanos = (bytes as u128 * 1_000_000_000 / u128::from(rate.max(1))) as u64;
            self.next_page_at = ctx.now.nanos.saturating_add(nanos);
        }
        Ok(rows)
    }

    /// Whether it is too soon for the next page.
    pub(super) fn is_too_soon(&self, now: u64, dirty_rows: usize) -> bool {
        self.is_copying() && self.is_early(now) && !self.has_many_changes(dirty_rows)
    }

    /// Whether the next page is one of changes, of which `dirty_rows` are too many. At most every
    /// other page is, unless it is too soon for unread rows. So the unread rows come to an end,
    /// however fast others change.
    fn is_turn_of_changes(&self, now: u64, dirty_rows: usize) -> bool {
        self.has_many_changes(dirty_rows) && (!self.sent_changes || self.is_early(now))
    }

    fn is_early(&self, now: u64) -> bool {
        self.phase == Phase::Open && now < self.next_page_at
    }

    fn has_many_changes(&self, dirty_rows: usize) -> bool {
        self.dirty.len() > dirty_rows / 4
    }

    fn read_rows(&mut self, ctx: &Ctx<'_>, most: usize) -> Result<Vec<RowChange>, Halt> {
        let (dir, orders) = match &self.moved {
            Moved::Half { dir, orders, .. } => (dir.id, orders.clone()),
            Moved::HashSlot(hash_slot) => {
                let Some(from) = self.cursor.take() else { return Ok(Vec::new()) };
                let (rows, next) = read_page(ctx, *hash_slot, from, most)?;
                self.cursor = next;
                return Ok(rows);
            }
        };
        let (mut rows, mut bytes) = (Vec::new(), 0);
        let mut last = Vec::new();
        let mut from = self.cursor.clone();
        while let Some(first) = from {
            let Some(at) =
                keys::MOVING.iter().position(|k| keys::kind_of(&first) == Some(*k as u8))
            else {
                break;
            };
            let (_, to) = keys::dir_range(dir, keys::MOVING[at], &orders);
            let mut is_full = false;
            ctx.scan(&first, &to, &mut |key, value| {
                bytes += key.len() + value.len();
                rows.push(RowChange::Put(key.to_vec(), value.to_vec()));
                is_full = rows.len() >= most || bytes >= PAGE_BYTES;
                if is_full {
                    last = key.to_vec();
                }
                !is_full
            })?;
            if is_full {
                last.push(0);
                self.cursor = Some(last);
                return Ok(rows);
            }
            let next: Option<&Kind> = keys::MOVING.get(at + 1);
            from = next.map(|kind| keys::dir_range(dir, *kind, &orders).0);
        }
        self.cursor = None;
        Ok(rows)
    }

    /// Notes a change of the store, if it concerns a row that was sent.
    pub(in crate::state::migration) fn note(&mut self, write: &Write) {
        match write {
            Write::Put(key, _) | Write::Delete(key) => {
                let is_sent = self.cursor.as_ref().is_none_or(|cursor| key < cursor);
                if is_sent && self.moved.may_move(key) {
                    self.dirty.keys.insert(key.clone());
                }
            }
            Write::DeleteRange(from, to) => {
                for (first, end) in self.moved.ranges() {
                    let end = self.cursor.clone().map_or(end.clone(), |cursor| cursor.min(end));
                    let (first, end) = (first.max(from.clone()), end.min(to.clone()));
                    if first < end {
                        self.dirty.ranges.push((first, end));
                    }
                }
            }
        }
    }
}

fn size_of_row(row: &RowChange) -> usize {
    match row {
        RowChange::Put(key, value) => key.len() + value.len(),
        RowChange::Delete(key) => key.len(),
        RowChange::DeleteRange(from, to) => from.len() + to.len(),
    }
}

#[cfg(test)]
mod tests;
