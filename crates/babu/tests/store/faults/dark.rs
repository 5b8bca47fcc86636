//! Index files with an unreadable header, footer or tail. The database opens, and refuses only
//! reads in the spans of these files. Checkpoints continue around them. Nothing is lost, no deleted
//! entry comes back, and no answer is wrong.

use std::collections::BTreeMap;
use std::sync::Arc;

use babu::{Batch, Db, MemDisk, Options, ReadError};
use fastrand::Rng;

use crate::common::{contents, small_options};

const KEYS: u32 = 600;

/// A disk with bytes that can be damaged and mended, and the expected content of the database on
/// it.
struct Bench {
    disk: MemDisk,
    db: Option<Db>,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The damaged bytes: file, offset, and the original byte.
    damaged: Vec<(String, usize, u8)>,
}

fn options() -> Options {
    Options { block_bytes: 512, file_bytes: 2048, filter_prefix_bytes: 2, ..small_options() }
}

fn key(number: u32) -> Vec<u8> {
    [&b"k"[..], &number.to_be_bytes()].concat()
}

impl Bench {
    fn new() -> Bench {
        let mut bench =
            Bench { disk: MemDisk::new(), db: None, model: BTreeMap::new(), damaged: Vec::new() };
        bench.reopen();
        bench
    }

    fn db(&mut self) -> &mut Db {
        self.db.as_mut().unwrap()
    }

    fn reopen(&mut self) {
        if let Some(mut db) = self.db.take() {
            db.write().unwrap();
            db.syncer().sync().unwrap();
        }
        self.db = Some(Db::open(Arc::new(self.disk.clone()), options()).unwrap().0);
    }

    /// Gives all keys values that do not compress, so that they fill several files.
    fn fill(&mut self) {
        let (mut rng, mut batch) = (Rng::with_seed(1), Batch::new());
        for number in 0..KEYS {
            let value: Vec<u8> = (0..60).map(|_| rng.u8(..)).collect();
            batch.put(&key(number), &value);
        }
        self.db().apply(&batch, b"");
        self.db().checkpoint().unwrap();
    }

    fn change(&mut self, rng: &mut Rng) {
        let mut batch = Batch::new();
        for _ in 0..rng.usize(..40) {
            let at = key(rng.usize(..KEYS as usize) as u32);
            match rng.usize(..12) {
                0 => {
                    let to = [&at[..], &[0xFF; 1][..]].concat();
                    batch.delete_range(&at, &to);
                    self.model.retain(|key, _| *key < at || *key >= to);
                }
                1 => {
                    let to = key(rng.usize(..KEYS as usize) as u32).max(at.clone());
                    batch.delete_range(&at, &to);
                    self.model.retain(|key, _| *key < at || *key >= to);
                }
                2..4 => {
                    batch.delete(&at);
                    self.model.remove(&at);
                }
                _ => {
                    let value: Vec<u8> = (0..30).map(|_| rng.u8(..)).collect();
                    batch.put(&at, &value);
                    self.model.insert(at, value);
                }
            }
        }
        self.db().apply(&batch, b"");
    }

    fn index_files(&self) -> Vec<String> {
        self.disk.files().into_keys().filter(|name| name.starts_with("idx-")).collect()
    }

    /// Flips a byte in the header, in the footer, or at the end of the tail.
    fn darken(&mut self, rng: &mut Rng, name: &str) {
        let len = self.disk.files()[name].len();
        let at = match rng.usize(..3) {
            0 => rng.usize(..28),
            1 => len - 1 - rng.usize(..90),
            _ => len - 97,
        };
        self.flip(name, at);
    }

    fn flip(&mut self, name: &str, at: usize) {
        let old = self.disk.files()[name][at];
        self.damaged.push((name.to_owned(), at, old));
        self.put_byte(name, at, old ^ 0x55);
    }

    fn put_byte(&self, name: &str, at: usize, byte: u8) {
        use babu::Disk;
        self.disk.open(name).unwrap().write_at(at as u64, &[byte]).unwrap();
    }

    fn mend(&mut self) {
        let there = self.disk.files();
        for (name, at, old) in std::mem::take(&mut self.damaged).into_iter().rev() {
            if there.contains_key(&name) {
                self.put_byte(&name, at, old);
            }
        }
    }

    /// Asserts that each answer is right, or refused for a key in the span of a dark file. Counts
    /// the refused ones.
    fn assert_nothing_wrong(&mut self) -> usize {
        let dark: Vec<_> = self.db().passed_over().map(|d| d.keys.clone().unwrap()).collect();
        let mut refused = 0;
        self.db().settle();
        let db = self.db.as_ref().unwrap();
        for key in (0..KEYS).map(key) {
            match db.get(&key) {
                Ok(value) => assert_eq!(value.as_deref(), self.model.get(&key).map(|v| &v[..])),
                Err(ReadError::Damaged(damage)) => {
                    assert!(damage.keys.unwrap().contains(&key));
                    assert!(dark.iter().any(|span| span.contains(&key)));
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        refused
    }
}

#[test]
fn whatever_file_has_no_readable_end_the_database_opens_and_nothing_is_lost_or_comes_back() {
    let rounds = if std::env::var_os("PANDO_LONG").is_some() { 600 } else { 60 };
    let (mut dark, mut refused) = (0, 0);
    for seed in 0..rounds {
        let mut rng = Rng::with_seed(seed);
        let mut bench = Bench::new();
        for _ in 0..60 {
            bench.change(&mut rng);
            if rng.usize(..4) == 0 {
                bench.db().checkpoint().unwrap();
            }
            let files = bench.index_files();
            if rng.usize(..15) == 0 && !files.is_empty() {
                let name = files[rng.usize(..files.len())].clone();
                bench.darken(&mut rng, &name);
                bench.reopen();
                dark += bench.db().passed_over().count();
                refused += bench.assert_nothing_wrong();
            }
        }
        bench.db().checkpoint().unwrap();
        refused += bench.assert_nothing_wrong();
        bench.mend();
        bench.reopen();
        assert_eq!(
            bench.db().passed_over().count(),
            0,
            "{seed}: it is tried again after an opening"
        );
        let found: BTreeMap<_, _> = contents(bench.db()).unwrap().into_iter().collect();
        assert_eq!(found, bench.model, "{seed}");
        bench.db().checkpoint().unwrap();
        let found: BTreeMap<_, _> = contents(bench.db()).unwrap().into_iter().collect();
        assert_eq!(found, bench.model, "{seed}");
        drop(bench.db.take());
        assert!(babu::check(&bench.disk).unwrap().is_clean());
    }
    assert!(dark > 100 && refused > 100, "{dark} {refused}");
}

#[test]
fn a_range_that_ends_where_a_dark_file_begins_can_be_listed() {
    let mut bench = Bench::new();
    bench.fill();
    let files = bench.index_files();
    assert!(files.len() > 5);
    let len = bench.disk.files()[&files[2]].len();
    bench.flip(&files[2], len - 1);
    bench.reopen();
    let [damage] = &bench.db().passed_over().cloned().collect::<Vec<_>>()[..] else {
        panic!("one file is dark");
    };
    assert_eq!(damage.file, files[2]);
    let text = damage.to_string();
    assert!(text.contains("footer") && text.contains("affected are the keys from k"), "{text}");
    let span = damage.keys.clone().unwrap();
    let db = bench.db.as_ref().unwrap();
    let count = |from: &[u8], to: &[u8]| -> Result<usize, ReadError> {
        let mut count = 0;
        for entry in db.scan(from, Some(to)) {
            entry?;
            count += 1;
        }
        Ok(count)
    };
    let [before, behind] = [count(b"", &span.start).unwrap(), count(&span.end, b"l").unwrap()];
    assert!(before > 20 && behind > 20 && before + behind < KEYS as usize, "{before} {behind}");
    assert!(matches!(count(b"", b"l"), Err(ReadError::Damaged(_))));
}

#[test]
fn a_dark_file_goes_when_all_that_it_holds_is_deleted() {
    let mut bench = Bench::new();
    bench.fill();
    for name in bench.index_files() {
        bench.flip(&name, 3);
    }
    bench.reopen();
    assert!(bench.db().passed_over().count() > 5);
    let mut batch = Batch::new();
    batch.delete_range(b"", b"z");
    bench.db().apply(&batch, b"");
    bench.db().checkpoint().unwrap();
    assert_eq!(bench.db().passed_over().count(), 0);
    assert!(bench.index_files().is_empty() && contents(bench.db()).unwrap().is_empty());
}
