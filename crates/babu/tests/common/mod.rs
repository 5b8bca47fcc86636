//! What the tests share: a small random generator, a model, and a store driven beside it.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::BTreeMap;
use std::sync::Arc;

use babu::{
    Batch, Change, CheckpointDone, CheckpointJob, Db, MemDisk, OpenError, Options, Recovered,
};

/// xorshift64*.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Keys from a small set, of all lengths that matter to a tree: below, at and above 16 and 30 bytes.
    pub fn key(&mut self) -> Vec<u8> {
        let directory = [b'a' + self.below(3) as u8; 16];
        let mut key = directory[..[16, 16, 16, 3, 0][self.below(5)]].to_vec();
        let rest = [0, 1, 9, 9, 9, 13, 14, 15, 20][self.below(9)];
        let fill = [0, 1, b'b'][self.below(3)];
        key.resize(key.len() + rest, fill);
        if rest > 0 {
            *key.last_mut().unwrap() = [0, 1, 7, b'b', b'c', 255][self.below(6)];
        }
        key
    }

    pub fn value(&mut self) -> Vec<u8> {
        // Of the kind that does not compress, so that little data is enough for many files.
        let len = [0, 3, 3, 10, 80][self.below(5)];
        (0..len).map(|_| self.next() as u8).collect()
    }

    pub fn batch(&mut self) -> Batch {
        let mut batch = Batch::new();
        for _ in 0..self.below(5) {
            match self.below(12) {
                0..8 => batch.put(&self.key(), &self.value()),
                8..11 => batch.delete(&self.key()),
                _ => {
                    let (a, b) = (self.key(), self.key());
                    batch.delete_range(a.clone().min(b.clone()).as_ref(), a.max(b).as_ref());
                }
            }
        }
        batch
    }
}

pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

pub fn apply_to_model(model: &mut Model, batch: &Batch) {
    for change in batch {
        match change {
            Change::Put { key, value, .. } => {
                model.insert(key.to_vec(), value.to_vec());
            }
            Change::Delete { key, .. } => {
                model.remove(key);
            }
            Change::DeleteRange { from, to, .. } => {
                model.retain(|key, _| &key[..] < from || &key[..] >= to);
            }
            other => panic!("{other:?} in a batch"),
        }
    }
}

/// Small sizes, so that little data makes many blocks and files, and eviction happens.
pub fn small_options() -> Options {
    Options {
        log_chunk_bytes: 8192,
        reserve_bytes: 1024,
        block_bytes: 256,
        file_bytes: 300,
        filter_prefix_bytes: 17,
        cache_bytes: 1024,
        database_id: 77,
    }
}

pub fn open(disk: &MemDisk) -> Result<(Db, Recovered), OpenError> {
    Db::open(Arc::new(disk.clone()), small_options())
}

pub fn contents(db: &Db) -> Result<Model, babu::ReadError> {
    db.scan(b"", None)
        .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
        .collect()
}

/// A store at work, with the state after each group, and what it has promised.
pub struct Run {
    pub db: Db,
    /// State after group 0, 1, 2 …
    pub states: Vec<Model>,
    pub batches: Vec<Batch>,
    pub job: Option<CheckpointJob>,
    pub done: Option<CheckpointDone>,
}

impl Run {
    pub fn new(db: Db) -> Run {
        let last = db.applied_lsn().0 as usize;
        let state = contents(&db).unwrap();
        Run {
            db,
            states: vec![state; last + 1],
            batches: vec![Batch::new(); last],
            job: None,
            done: None,
        }
    }

    pub fn model(&self) -> &Model {
        self.states.last().unwrap()
    }

    pub fn apply(&mut self, batch: &Batch) {
        let lsn = self.db.apply(batch, &(self.states.len() as u64).to_le_bytes());
        assert_eq!(lsn.0 as usize, self.states.len());
        let mut state = self.model().clone();
        apply_to_model(&mut state, batch);
        self.states.push(state);
        self.batches.push(batch.clone());
    }

    /// One random step. An error means that the disk failed; the store is then not to be used further.
    pub fn step(&mut self, rng: &mut Rng) -> Result<(), String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        match rng.below(20) {
            0..10 => {
                let batch = rng.batch();
                self.db
                    .reserve(batch.log_bytes(8), babu::Priority::Normal)
                    .map_err(|e| text(&e))?;
                self.apply(&batch);
            }
            10..13 => {
                self.db.write().map_err(|e| text(&e))?;
            }
            13..16 => {
                self.db.syncer().sync().map_err(|e| text(&e))?;
            }
            16 => {
                self.db.freeze().map_err(|e| text(&e))?;
            }
            17 => {
                if self.job.is_none() && self.done.is_none() {
                    self.job = self.db.checkpoint_job();
                }
            }
            18 => {
                if let Some(job) = self.job.take() {
                    let done = job.run().map_err(|e| text(&e))?;
                    self.done = Some(done);
                }
            }
            _ => {
                if let Some(done) = self.done.take() {
                    let retired = self.db.install(done);
                    retired.remove().map_err(|e| text(&e))?;
                }
            }
        }
        Ok(())
    }
}
