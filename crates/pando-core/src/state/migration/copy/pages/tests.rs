use alloc::collections::BTreeMap;
use alloc::vec;
use pando_types::{DirId, DirRef, Epoch, Ino, Lsn, PartitionIndex};

use super::*;
use crate::contract::{Now, Rows};

const DIR: DirRef = DirRef { id: DirId([7; 16]), ino: Ino(9) };

#[derive(Default)]
struct Store(BTreeMap<Vec<u8>, Vec<u8>>);

impl Rows for Store {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Halt> {
        Ok(self.0.get(key).cloned())
    }

    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Halt> {
        for (key, value) in self.0.range(from.to_vec()..to.to_vec()) {
            if !visit(key, value) {
                break;
            }
        }
        Ok(())
    }
}

fn now() -> Now {
    Now::at(0, Epoch(1), Lsn(0), Lsn(0))
}

fn key(kind: Kind, order: u64) -> Vec<u8> {
    keys::dir(DIR.id, kind, order)
}

fn put(kind: Kind, order: u64) -> Write {
    Write::Put(key(kind, order), vec![1])
}

fn copy() -> Copy {
    Copy::new(DIR, PartitionIndex(0), 10..20, 0)
}

/// Entries 8 to 21, and slices of 12 and 19. The half has orders 10 to 19.
fn store() -> Store {
    let mut store = Store::default();
    for order in 8..22 {
        store.0.insert(key(Kind::Entry, order), vec![order as u8]);
    }
    for order in [9, 12, 19, 20] {
        store.0.insert(key(Kind::Slice, order), vec![order as u8]);
    }
    store
}

#[test]
fn pages_are_bounded_and_hold_every_row_of_the_half_once() {
    let store = store();
    let ctx = Ctx::new(now(), &store);
    for most in [1, 2, 3, 5, 11, 12, 13, 100] {
        let (mut copy, mut read) = (copy(), Vec::new());
        while copy.is_copying() {
            let page = copy.read_page(&ctx, most, u64::MAX).unwrap();
            assert!(page.len() <= most);
            read.extend(page);
        }
        let orders = (10..20).map(|order| key(Kind::Entry, order));
        let slices = [12, 19].map(|order| key(Kind::Slice, order));
        let expected: Vec<_> = orders.chain(slices).collect();
        let read: Vec<_> = read
            .into_iter()
            .map(|row| match row {
                RowChange::Put(key, _) => key,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(read, expected, "{most}");
    }
}

#[test]
fn large_rows_end_a_page() {
    let mut store = store();
    for order in 10..20 {
        store.0.insert(key(Kind::Inline, order), vec![0; PAGE_BYTES / 4]);
    }
    let ctx = Ctx::new(now(), &store);
    let mut copy = copy();
    while copy.is_copying() {
        let page = copy.read_page(&ctx, 1000, u64::MAX).unwrap();
        let large = page.iter().filter(|row| matches!(row, RowChange::Put(_, v) if v.len() > 9));
        assert!(large.count() <= 4);
    }
}

#[test]
fn only_changes_behind_the_cursor_and_within_the_half_are_noted() {
    let store = store();
    let ctx = Ctx::new(now(), &store);
    let mut copy = copy();
    copy.read_page(&ctx, 3, u64::MAX).unwrap(); // 10, 11, 12
    for (write, expected) in [
        (put(Kind::Entry, 9), 0),
        (put(Kind::Entry, 13), 0),
        (put(Kind::Slice, 11), 0),
        (put(Kind::Header, 11), 0),
        (Write::Put(keys::dir(DirId([8; 16]), Kind::Entry, 11), vec![]), 0),
        (put(Kind::Entry, 12), 1),
        (put(Kind::Entry, 12), 1),
        (Write::Delete(key(Kind::Entry, 10)), 2),
        (Write::DeleteRange(key(Kind::Entry, 13), key(Kind::Entry, 15)), 2),
        (Write::DeleteRange(key(Kind::Entry, 0), key(Kind::Entry, 10)), 2),
        (Write::DeleteRange(key(Kind::Entry, 0), key(Kind::Slice, 99)), 3),
    ] {
        copy.note(&write);
        assert_eq!(copy.dirty.len(), expected, "{write:?}");
    }
    let mut clipped = key(Kind::Entry, 12);
    clipped.push(0);
    assert_eq!(copy.dirty.ranges, [(key(Kind::Entry, 10), clipped)]);

    while copy.is_copying() {
        copy.read_page(&ctx, 3, u64::MAX).unwrap();
    }
    copy.note(&put(Kind::Slice, 19));
    copy.note(&put(Kind::Slice, 20));
    assert_eq!(copy.dirty.len(), 4);
}

#[test]
fn changes_go_as_rows_are_now_ranges_first() {
    let mut store = store();
    let mut copy = copy();
    while copy.is_copying() {
        let ctx = Ctx::new(now(), &store);
        copy.read_page(&ctx, 100, u64::MAX).unwrap();
    }
    for order in [14, 11, 17] {
        copy.note(&put(Kind::Entry, order));
    }
    copy.note(&Write::DeleteRange(key(Kind::Slice, 12), key(Kind::Slice, 13)));
    store.0.insert(key(Kind::Entry, 14), vec![99]);
    store.0.remove(&key(Kind::Entry, 17));
    let ctx = Ctx::new(now(), &store);
    let mut taken = Vec::new();
    while copy.dirty.len() > 0 {
        let page = copy.dirty.take(&ctx, 2).unwrap();
        assert!((1..=2).contains(&page.len()));
        taken.extend(page);
    }
    let expected = [
        RowChange::DeleteRange(key(Kind::Slice, 12), key(Kind::Slice, 13)),
        RowChange::Put(key(Kind::Entry, 11), vec![11]),
        RowChange::Put(key(Kind::Entry, 14), vec![99]),
        RowChange::Delete(key(Kind::Entry, 17)),
    ];
    assert_eq!(taken, expected);
}
