//! Random operations on a file, compared with an array of bytes, while other clients and threads
//! interfere.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pando_data::{Allocate, DataFs, Limits, Metadata, ObjectStore, Seek};
use pando_types::{Credentials, SetAttr};

use super::{FILE, Shards, Store};

const SIZE_MAX: u64 = 300_000;

struct Run {
    fs: Arc<DataFs>,
    shards: Arc<Shards>,
    model: Vec<u8>,
    numbers: fastrand::Rng,
}

impl Run {
    fn step(&mut self, step: u64) {
        let numbers = &mut self.numbers;
        // Mostly around the limit of inline files, sometimes far beyond.
        let reach = [100, 5_000, 20_000, SIZE_MAX][numbers.usize(..4)];
        let (offset, len) = (numbers.u64(..reach), 1 + numbers.u64(..reach / 2));
        let end = (offset + len).min(SIZE_MAX);
        let fs = &self.fs;
        match numbers.u64(..12) {
            0..=3 => {
                let data: Vec<u8> = (offset..end).map(|at| (at ^ step) as u8 | 1).collect();
                fs.write(FILE, Some(offset), &data, None).unwrap();
                self.lay(offset, &data);
            }
            4 => {
                let data = vec![step as u8; (len as usize).min(2000)];
                let at = fs.write(FILE, None, &data, None).unwrap();
                assert_eq!(at, self.model.len() as u64, "where an append goes");
                self.lay(self.model.len() as u64, &data);
            }
            5 => {
                let set = SetAttr { size: Some(offset), ..SetAttr::default() };
                let attr = fs.setattr(&Credentials::ROOT, FILE, set).unwrap();
                self.model.resize(offset as usize, 0);
                assert_eq!(attr.size, offset, "the size");
            }
            6 => {
                let zero = numbers.bool();
                let what =
                    if zero { Allocate::Zero { keep_size: false } } else { Allocate::PunchHole };
                fs.fallocate(FILE, (offset, end - offset), what, None).unwrap();
                if zero && self.model.len() < end as usize {
                    self.model.resize(end as usize, 0);
                }
                let end = self.model.len().min(end as usize);
                if (offset as usize) < end {
                    self.model[offset as usize..end].fill(0);
                }
            }
            7 => fs.flush(FILE).unwrap(),
            8 => {
                fs.release(FILE);
                let attr = self.shards.getattr(FILE).unwrap();
                assert_eq!(attr.size, self.model.len() as u64, "a closed file is flushed");
                fs.opened(&attr);
            }
            9 => {
                fs.collect_garbage().unwrap();
            }
            10 => {
                let to = numbers.u64(..reach);
                let copied = fs
                    .copy_range((FILE, offset), (FILE, to), (end - offset).min(1000), None)
                    .unwrap();
                let from = (offset as usize).min(self.model.len());
                let data = self.model[from..from + copied as usize].to_vec();
                self.lay(to, &data);
            }
            _ => self.check_seek(offset),
        }
        self.check(offset, end);
    }

    fn lay(&mut self, offset: u64, data: &[u8]) {
        let end = offset as usize + data.len();
        if !data.is_empty() && self.model.len() < end {
            self.model.resize(end, 0);
        }
        if !data.is_empty() {
            self.model[offset as usize..end].copy_from_slice(data);
        }
    }

    fn check(&self, offset: u64, end: u64) {
        let size = self.model.len() as u64;
        assert_eq!(self.fs.getattr(FILE).unwrap().size, size, "the size");
        let read = self.fs.read(FILE, offset, end - offset).unwrap();
        let expected = &self.model[offset.min(size) as usize..end.min(size) as usize];
        assert!(read == expected, "bytes {offset}..{end}");
    }

    fn check_seek(&self, offset: u64) {
        let size = self.model.len() as u64;
        let hole = self.fs.seek(FILE, offset, Seek::Hole);
        assert_eq!(hole.is_ok(), offset < size);
        if let Ok(hole) = hole {
            assert!((offset..=size).contains(&hole));
        }
        let data = self.fs.seek(FILE, offset, Seek::Data).unwrap_or(size.max(offset));
        let skipped = self.model.get(offset as usize..data as usize).unwrap_or_default();
        assert!(skipped.iter().all(|&byte| byte == 0), "only zeros are skipped");
    }
}

/// Runs one seed. After so many writes each time, another client changes the data; 0: never.
pub fn run(seed: u64, interfere_every: u64) {
    let store = Store::new("model");
    let shards = Shards::new(&store);
    shards.interfere_every.store(interfere_every, Ordering::Relaxed);
    let limits = Limits {
        file_dirty_bytes: 60_000,
        dirty_bytes: 100_000,
        cache_bytes: 300_000,
        ..Limits::default()
    };
    let metadata: Arc<dyn Metadata> = Arc::clone(&shards) as _;
    let fs = DataFs::new(metadata, Arc::clone(&store) as Arc<dyn ObjectStore>, limits);
    fs.created(&shards.create(FILE));
    let numbers = fastrand::Rng::with_seed(seed);
    let mut run = Run { fs, shards, model: Vec::new(), numbers };
    for step in 0..150 {
        run.step(step);
    }
    run.fs.fsync(FILE).unwrap();
    assert_eq!(run.fs.dirty_bytes(), 0);
    assert_eq!(run.fs.lost_bytes(), 0);
    run.check(0, SIZE_MAX);
    run.fs.collect_garbage().unwrap();
    let used = run.shards.object_count(FILE);
    let stored = count_files(&store.folder.0);
    assert_eq!(stored, used, "nothing is left behind, nothing is missing");
}

fn count_files(path: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(path).unwrap().map(Result::unwrap);
    entries
        .map(
            |entry| {
                if entry.file_type().unwrap().is_dir() { count_files(&entry.path()) } else { 1 }
            },
        )
        .sum()
}

/// Two mounts, one after the other.
pub fn what_another_mount_wrote_is_read() {
    let store = Store::new("another");
    let shards = Shards::new(&store);
    let mount = || {
        let metadata: Arc<dyn Metadata> = Arc::clone(&shards) as _;
        DataFs::new(metadata, Arc::clone(&store) as Arc<dyn ObjectStore>, Limits::default())
    };
    let (here, there) = (mount(), mount());
    here.created(&shards.create(FILE));
    here.write(FILE, Some(0), b"old", None).unwrap();
    here.flush(FILE).unwrap();
    assert_eq!(here.read(FILE, 0, 3).unwrap(), b"old");
    there.opened(&shards.getattr(FILE).unwrap());
    there.write(FILE, Some(0), b"new", None).unwrap();
    there.flush(FILE).unwrap();
    here.opened(&shards.getattr(FILE).unwrap());
    assert_eq!(here.read(FILE, 0, 3).unwrap(), b"new", "another mount wrote that");
}
