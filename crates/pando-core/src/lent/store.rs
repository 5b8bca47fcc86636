//! The rows of lent parts, at their holder.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use core::ops::Range;
use pando_types::{DirId, Order};

use crate::contract::{Halt, Rows, Write};
use crate::records::keys::{self, Kind};
use crate::records::record::{Entry, Record};

/// Rows in memory. Those of some files were not lent along: reading one of them is an error, never
/// an absence.
#[derive(Default, Debug)]
pub struct LentStore {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Files of which xattrs and data were not lent along, by order.
    cold: BTreeSet<(DirId, Order)>,
    /// The file of which a row was missed.
    missed: Cell<Option<(DirId, Order)>>,
    /// Bytes of keys and values.
    bytes: usize,
    #[cfg(feature = "planted")]
    planted: Option<crate::Planted>,
}

/// Whether rows of this kind are lent only when asked for.
fn is_cold_kind(kind: u8) -> bool {
    [Kind::Xattr, Kind::Inline, Kind::Slice].iter().any(|it| *it as u8 == kind)
}

impl LentStore {
    /// Takes in a row of a part. The file of an entry is cold if it has other rows.
    pub fn load(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<(), Halt> {
        if let Some((dir, order)) = keys::entry_of(&key)
            && let Some(inode) = Entry::decode(&value)?.file()
            && (inode.has_xattrs || !inode.is_inline || inode.attr.size > 0)
        {
            self.cold.insert((dir, order));
        }
        self.put(key, value);
        Ok(())
    }

    /// Notes that all rows of a file are here.
    pub fn warm(&mut self, dir: DirId, order: Order) {
        self.cold.remove(&(dir, order));
    }

    /// Whether the rows of a file are to be fetched.
    pub fn is_cold(&self, dir: DirId, order: Order) -> bool {
        self.cold.contains(&(dir, order))
    }

    /// Takes which file was missed since the last call.
    pub fn take_missed(&self) -> Option<(DirId, Order)> {
        self.missed.take()
    }

    /// Bytes of all rows.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.bytes += key.len() + value.len();
        let key_bytes = key.len();
        if let Some(old) = self.rows.insert(key, value) {
            self.bytes -= key_bytes + old.len();
        }
    }

    fn delete(&mut self, key: &[u8]) {
        if let Some(old) = self.rows.remove(key) {
            self.bytes -= key.len() + old.len();
        }
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) {
        let keys: Vec<_> = self.range(from, to).map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.delete(&key);
        }
    }

    /// Applies a write of a directory's rows; others are the shard's own, and are left out. Returns
    /// whether it was one.
    pub fn apply(&mut self, write: Write) -> bool {
        match write {
            Write::Put(key, value) if keys::dir_of(&key).is_some() => {
                // A name that is vacant now may get another file, with rows of its own.
                if let Some((dir, order)) = keys::entry_of(&key)
                    && self.is_cold(dir, order)
                    && Entry::decode(&value).is_ok_and(|entry| entry.file().is_none())
                {
                    self.warm(dir, order);
                }
                self.put(key, value);
            }
            Write::Delete(key) if keys::dir_of(&key).is_some() => {
                if let Some((dir, order)) = keys::entry_of(&key) {
                    self.warm(dir, order);
                }
                self.delete(&key);
            }
            Write::DeleteRange(from, to) if keys::dir_of(&from).is_some() => {
                self.delete_range(&from, &to);
            }
            _ => return false,
        }
        true
    }

    /// Drops all rows of a part.
    pub fn drop_part(&mut self, dir: DirId, orders: &Range<u64>, has_content: bool) {
        if has_content {
            self.delete_range(&keys::dir(dir, Kind::Content, 0), &keys::dir(dir, Kind::Header, 0));
        }
        self.delete(&keys::dir(dir, Kind::Header, orders.start));
        for kind in keys::MOVING {
            let (from, to) = keys::dir_range(dir, kind, orders);
            self.delete_range(&from, &to);
        }
        let of_part = self.cold.range((dir, Order(orders.start))..(dir, Order(orders.end)));
        for file in of_part.copied().collect::<Vec<_>>() {
            self.cold.remove(&file);
        }
    }

    fn range(&self, from: &[u8], to: &[u8]) -> impl Iterator<Item = (&Vec<u8>, &Vec<u8>)> {
        use core::ops::Bound::{Excluded, Included};
        // An empty range must not be asked of the map.
        let to = if to < from { from } else { to };
        self.rows.range::<[u8], _>((Included(from), Excluded(to)))
    }

    /// Plants a fault, for tests.
    #[cfg(feature = "planted")]
    pub const fn plant(&mut self, fault: crate::Planted) {
        self.planted = Some(fault);
    }

    /// Fails if the row at `key` is one that was not lent along.
    fn is_lent(&self, key: &[u8]) -> Result<(), Halt> {
        #[cfg(feature = "planted")]
        if self.planted == Some(crate::Planted::NotLentIsAbsent) {
            return Ok(());
        }
        if keys::kind_of(key).is_some_and(is_cold_kind)
            && let (Some(dir), Some(order)) = (keys::dir_of(key), keys::order_of(key))
            && self.cold.contains(&(dir, order))
        {
            self.missed.set(Some((dir, order)));
            return Err(Halt::Unreadable(String::from("this row was not lent along")));
        }
        Ok(())
    }
}

impl Rows for LentStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Halt> {
        self.is_lent(key)?;
        Ok(self.rows.get(key).cloned())
    }

    fn view(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<(), Halt> {
        self.is_lent(key)?;
        if let Some(value) = self.rows.get(key) {
            see(value);
        }
        Ok(())
    }

    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Halt> {
        self.is_lent(from)?;
        for (key, value) in self.range(from, to) {
            if !visit(key, value) {
                break;
            }
        }
        Ok(())
    }
}
