//! A store in which one read does not find its block in memory.

use std::cell::Cell;

use pando_core::{Halt, NotResident, Rows};

/// The store as the core reads it.
pub struct View<'a> {
    rows: &'a dyn Rows,
    missing: Cell<Option<u32>>,
}

impl<'a> View<'a> {
    /// A view in which read number `missing`, counted from 0, finds its block not in memory.
    #[must_use]
    pub const fn new(rows: &'a dyn Rows, missing: u32) -> Self {
        Self { rows, missing: Cell::new(Some(missing)) }
    }

    fn touch(&self) -> Result<(), Halt> {
        let left = self.missing.get();
        self.missing.set(left.and_then(|left| left.checked_sub(1)));
        match left {
            Some(0) => Err(Halt::NotResident(NotResident(0))),
            _ => Ok(()),
        }
    }
}

impl Rows for View<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Halt> {
        self.touch()?;
        self.rows.get(key)
    }

    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Halt> {
        self.touch()?;
        self.rows.scan(from, to, visit)
    }
}
