//! Cursors: walking through a shard's rows page by page, at several places at once.

use std::rc::Rc;

use pando_types::ShardIndex;

use crate::rows::source::{Row, Rows};

/// A place in a shard's rows. Cursors share pages. So rows of several kinds of one small directory
/// are read once.
#[derive(Clone)]
pub struct Cursor {
    shard: ShardIndex,
    page: Rc<Vec<Row>>,
    at: usize,
    is_last: bool,
    bytes: usize,
}

impl Cursor {
    /// A cursor at the first row from key `from` on. Pages have about `bytes` bytes.
    pub fn new(
        rows: &mut dyn Rows,
        shard: ShardIndex,
        from: &[u8],
        bytes: usize,
    ) -> Result<Self, String> {
        let page = rows.page(shard, from, bytes)?;
        Ok(Self { shard, page: Rc::new(page.rows), at: 0, is_last: page.is_last, bytes })
    }

    /// The row at the cursor; `None` at the end.
    pub fn peek(&mut self, rows: &mut dyn Rows) -> Result<Option<&Row>, String> {
        while self.at == self.page.len() && !self.is_last {
            let Some((last, _)) = self.page.last() else { break };
            let mut after = last.clone();
            after.push(0);
            *self = Self::new(rows, self.shard, &after, self.bytes)?;
        }
        Ok(self.page.get(self.at))
    }

    /// Moves behind the row at the cursor.
    pub fn step(&mut self) {
        self.at = (self.at + 1).min(self.page.len());
    }

    /// Returns the row at the cursor, and moves behind it.
    pub fn next(&mut self, rows: &mut dyn Rows) -> Result<Option<Row>, String> {
        let row = self.peek(rows)?.cloned();
        self.step();
        Ok(row)
    }

    /// Returns the row at the cursor and moves behind it, if its key begins with `prefix`.
    pub fn next_in(&mut self, rows: &mut dyn Rows, prefix: &[u8]) -> Result<Option<Row>, String> {
        match self.peek(rows)? {
            Some((key, _)) if key.starts_with(prefix) => self.next(rows),
            _ => Ok(None),
        }
    }

    /// Moves forward to the first row from `key` on.
    pub fn seek(&mut self, rows: &mut dyn Rows, key: &[u8]) -> Result<(), String> {
        if self.holds(key) {
            self.at += self.page[self.at..].partition_point(|(k, _)| k.as_slice() < key);
            return Ok(());
        }
        *self = Self::new(rows, self.shard, key, self.bytes)?;
        Ok(())
    }

    /// Another cursor, at the first row from `key` on, which must lie ahead. Further pages of it
    /// have about `bytes` bytes.
    pub fn fork(&self, rows: &mut dyn Rows, key: &[u8], bytes: usize) -> Result<Self, String> {
        let mut fork = Self { bytes, ..self.clone() };
        fork.seek(rows, key)?;
        Ok(fork)
    }

    /// Whether the first row from `key` on is in this page, or does not exist.
    fn holds(&self, key: &[u8]) -> bool {
        self.is_last || self.page.last().is_some_and(|(last, _)| last.as_slice() >= key)
    }
}

/// Value of one key.
pub fn get(rows: &mut dyn Rows, shard: ShardIndex, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let first = rows.page(shard, key, 1)?.rows.into_iter().next();
    Ok(first.filter(|(k, _)| k == key).map(|(_, value)| value))
}

/// Visits rows from `from` up to, not including, `to`, until `visit` answers false.
pub fn scan(
    rows: &mut dyn Rows,
    shard: ShardIndex,
    (from, to): (&[u8], &[u8]),
    visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> Result<(), String> {
    let mut cursor = Cursor::new(rows, shard, from, 64 << 10)?;
    while let Some((key, value)) = cursor.peek(rows)? {
        if key.as_slice() >= to || !visit(key, value) {
            break;
        }
        cursor.step();
    }
    Ok(())
}

/// All rows from `from` up to, not including, `to`.
pub fn range(
    rows: &mut dyn Rows,
    shard: ShardIndex,
    from: &[u8],
    to: &[u8],
) -> Result<Vec<Row>, String> {
    let mut found = Vec::new();
    scan(rows, shard, (from, to), &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        true
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::source::Page;

    struct Few(u8);

    impl Rows for Few {
        fn page(&mut self, _: ShardIndex, from: &[u8], bytes: usize) -> Result<Page, String> {
            let all = (0..self.0).map(|n| (vec![n], vec![n]));
            let mut rest: Vec<Row> = all.filter(|(key, _)| key.as_slice() >= from).collect();
            let is_last = rest.len() <= bytes;
            rest.truncate(bytes);
            Ok(Page { rows: rest, is_last, gap: None })
        }
    }

    #[test]
    fn a_cursor_passes_every_row_once_whatever_the_pages() {
        for bytes in 1..8 {
            let mut rows = Few(6);
            let mut cursor = Cursor::new(&mut rows, ShardIndex(0), &[1], bytes).unwrap();
            let mut fork = cursor.fork(&mut rows, &[3], 2).unwrap();
            let mut seen = Vec::new();
            while let Some((key, _)) = cursor.next(&mut rows).unwrap() {
                seen.push(key[0]);
            }
            assert_eq!(seen, [1, 2, 3, 4, 5], "{bytes}");
            assert_eq!(fork.next(&mut rows).unwrap().unwrap().0, [3]);
            fork.seek(&mut rows, &[5]).unwrap();
            assert_eq!(fork.next(&mut rows).unwrap().unwrap().0, [5]);
            assert_eq!(fork.next(&mut rows).unwrap(), None);
        }
    }
}
