use alloc::vec;
use pando_types::peer::EntryValue;
use pando_types::reply::Access;
use pando_types::{Epoch, FileKind, Ino, Lsn, Name};

use super::*;
use crate::contract::{Now, Rows};
use crate::records::record::Entry;

const DIR: DirId = DirId([7; 16]);
const ORDERS: Range<u64> = 10..20;

/// An empty store.
struct Nothing;

impl Rows for Nothing {
    fn get(&self, _: &[u8]) -> Result<Option<Vec<u8>>, Halt> {
        Ok(None)
    }

    fn scan(
        &self,
        _: &[u8],
        _: &[u8],
        _: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Halt> {
        Ok(())
    }
}

/// Two entries that came with an earlier page.
struct Two;

impl Rows for Two {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Halt> {
        let here = [11, 12].into_iter().find(|order| entry_key(*order) == key);
        Ok(here.map(|_| file()))
    }

    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Halt> {
        for key in [11, 12].map(entry_key).iter().filter(|key| from <= &**key && &***key < to) {
            visit(key, &file());
        }
        Ok(())
    }
}

fn entry_key(order: u64) -> Vec<u8> {
    keys::dir(DIR, Kind::Entry, order)
}

fn entry(value: EntryValue) -> Vec<u8> {
    Entry { crowded: false, is: Some((Name::new(b"n").unwrap(), value)) }.encode()
}

fn file() -> Vec<u8> {
    entry(EntryValue::Linked(Ino(5), FileKind::Regular))
}

fn dir() -> Vec<u8> {
    let dir = DirRef { id: DirId([8; 16]), ino: Ino(6) };
    entry(EntryValue::Dir(Access { dir, mode: 0o755, uid: 0, gid: 0 }))
}

fn taken(store: &dyn Rows, before: Tally, rows: Vec<RowChange>) -> Result<Tally, Halt> {
    let now = Now::at(0, Epoch(1), Lsn(0), Lsn(0));
    let (mut ctx, mut tally) = (Ctx::new(now, store), before);
    take_rows(&mut ctx, DIR, &ORDERS, rows, &mut tally)?;
    Ok(tally)
}

fn tally(entries: u64, subdirs: u64) -> Tally {
    Tally { entries, subdirs, ..Tally::default() }
}

#[test]
fn each_name_counts_once_however_often_it_comes() {
    let put = |order, value| RowChange::Put(entry_key(order), value);
    let rows = vec![put(10, file()), put(13, dir()), put(10, dir()), put(13, file())];
    assert_eq!(taken(&Nothing, tally(0, 0), rows), Ok(tally(2, 1)));
    let rows = vec![put(10, file()), put(11, dir()), RowChange::Delete(entry_key(12))];
    assert_eq!(taken(&Two, tally(2, 0), rows), Ok(tally(2, 1)));
    let rows = vec![RowChange::Delete(entry_key(15)), RowChange::Delete(entry_key(11))];
    assert_eq!(taken(&Two, tally(2, 0), rows), Ok(tally(1, 0)));
}

#[test]
fn names_in_deleted_ranges_count_no_more() {
    let whole = RowChange::DeleteRange(entry_key(10), entry_key(20));
    let one = RowChange::DeleteRange(entry_key(12), entry_key(13));
    let again = RowChange::Put(entry_key(12), file());
    let rows = vec![one.clone(), whole.clone(), again];
    assert_eq!(taken(&Two, tally(2, 0), rows), Ok(tally(1, 0)));
    assert_eq!(taken(&Two, tally(2, 0), vec![one]), Ok(tally(1, 0)));
    let slices = |order| keys::dir(DIR, Kind::Slice, order);
    let rows = vec![RowChange::DeleteRange(slices(11), slices(12))];
    assert_eq!(taken(&Two, tally(2, 0), rows), Ok(tally(2, 0)));
}

#[test]
fn rows_of_another_range_are_refused() {
    for key in [entry_key(9), entry_key(20), keys::dir(DirId([9; 16]), Kind::Entry, 11)] {
        assert!(taken(&Nothing, tally(0, 0), vec![RowChange::Put(key, file())]).is_err());
    }
}
