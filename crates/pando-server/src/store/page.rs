//! Records page by page, past blocks that cannot be read: for callers that want all records.

use std::ops::{ControlFlow, Range};

use babu::ReadError;

use crate::store::records::Store;

/// Longest key of a store, bytes.
const KEY_MAX: usize = u16::MAX as usize;

/// Some records of a shard, in key order.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Page {
    /// Keys with their values.
    pub rows: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether there are no records beyond.
    pub is_last: bool,
    /// The records that come next cannot be read. Then `rows` is empty, and the next page begins
    /// after the gap.
    pub gap: Option<Gap>,
}

/// A range of keys with records that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The range.
    pub keys: Range<Vec<u8>>,
    /// The reason, with the name of the file.
    pub why: String,
}

impl Store {
    /// Reads records from the key `from` on: about `bytes` of them, at least one. `Err`: the store
    /// cannot be read, and no range of keys can be skipped.
    pub fn page(&self, from: &[u8], bytes: usize) -> Result<Page, String> {
        let mut to = vec![0xff; KEY_MAX];
        let mut gap: Option<Gap> = None;
        loop {
            let mut page = Page { is_last: gap.is_none(), ..Page::default() };
            let mut size = 0;
            let read = self.db.scan(from, Some(&to)).visit(|key, value| {
                if size >= bytes && size > 0 {
                    page.is_last = false;
                    return ControlFlow::Break(());
                }
                size += key.len() + value.len();
                page.rows.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            });
            let Err(error) = read else {
                page.gap = gap.filter(|_| page.rows.is_empty());
                return Ok(page);
            };
            let why = error.to_string();
            self.note_unreadable(&error);
            let ReadError::Damaged(damage) = error else { return Err(why) };
            let Some(keys) = damage.keys else { return Err(why) };
            let is_here = *keys.start <= *from;
            to.clone_from(&keys.start);
            gap = Some(Gap { keys: *keys, why });
            if is_here {
                return Ok(Page { gap, ..Page::default() });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use babu::{Disk, MemDisk, Options};
    use pando_core::contract::{GroupMeta, Rows as _, Write};

    use super::*;

    fn key(number: u32) -> Vec<u8> {
        [&b"key"[..], &number.to_be_bytes()].concat()
    }

    fn put(store: &mut Store, numbers: impl Iterator<Item = u32>) {
        let writes: Vec<_> = numbers.map(|n| Write::Put(key(n), key(n).repeat(9))).collect();
        store.apply(&writes, &GroupMeta::default());
        store.write().unwrap();
    }

    fn checkpoint(store: &mut Store) {
        let done = store.begin_checkpoint().unwrap().unwrap().run().unwrap();
        store.install(done).remove().unwrap();
    }

    /// The keys of all pages of about `bytes`, and the gaps.
    fn pages(store: &Store, bytes: usize) -> (Vec<Vec<u8>>, Vec<Range<Vec<u8>>>) {
        let (mut found, mut gaps, mut from) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let page = store.page(&from, bytes).unwrap();
            if let Some(gap) = page.gap {
                assert!(page.rows.is_empty() && !page.is_last && gap.why.contains("idx-"));
                from.clone_from(&gap.keys.end);
                gaps.push(gap.keys);
                continue;
            }
            found.extend(page.rows.into_iter().map(|(key, _)| key));
            if page.is_last {
                return (found, gaps);
            }
            from = [found.last().unwrap(), &[0][..]].concat();
        }
    }

    #[test]
    fn pages_have_all_that_can_be_read_and_name_what_cannot() {
        let disk = MemDisk::new();
        let options = Options { block_bytes: 512, file_bytes: 4096, ..Options::default() };
        let (mut store, _) = Store::over(Arc::new(disk.clone()), options).unwrap();
        put(&mut store, 0..1000);
        checkpoint(&mut store);
        put(&mut store, (0..1000).step_by(7));
        checkpoint(&mut store);
        for name in disk.files().keys().filter(|name| name.starts_with("idx-")).step_by(3) {
            disk.open(name).unwrap().write_at(700, b"damage").unwrap();
        }
        // Newer records, some of which can be told from the damaged ones.
        put(&mut store, (0..1000).step_by(50));
        for bytes in [1, 500, 1 << 20] {
            let (found, gaps) = pages(&store, bytes);
            assert!(gaps.len() > 3);
            assert!(found.is_sorted_by(|a, b| a < b));
            let found: BTreeSet<_> = found.into_iter().collect();
            for key in (0..1000).map(key) {
                let is_lost = gaps.iter().any(|gap| gap.contains(&key));
                assert_ne!(found.contains(&key), is_lost, "{key:?}");
                assert!(is_lost || store.get(&key).unwrap().is_some());
            }
        }
        // A checkpoint that reads the damaged blocks reports them, too.
        let known = store.unreadable();
        assert!(known > 3);
        put(&mut store, 0..1000);
        checkpoint(&mut store);
        assert!(store.unreadable() >= known);
    }
}
