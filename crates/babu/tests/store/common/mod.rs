//! Code that tests share: random keys and values, a model, and a store that runs beside the
//! model.

/// What a [`babu::Disk`] over `self.disk` leaves as it is: names of files.
macro_rules! names_as_below {
    () => {
        fn list(&self) -> std::io::Result<Vec<String>> {
            self.disk.list()
        }

        fn remove(&self, name: &str) -> std::io::Result<()> {
            self.disk.remove(name)
        }

        fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
            self.disk.rename(from, to)
        }

        fn sync_dir(&self) -> std::io::Result<()> {
            self.disk.sync_dir()
        }
    };
}
pub(crate) use names_as_below;

pub mod around;
pub mod crashes;
pub mod damages;
pub mod exports;
#[cfg(feature = "planted")]
pub mod found;
#[allow(dead_code, reason = "the crate's own tests use the rest")]
#[path = "../../../src/fuzz.rs"]
pub mod fuzz;
pub mod merges;
pub mod reads;
pub mod scrubs;
pub mod throttled;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use babu::{
    Batch, Change, CheckpointDone, CheckpointJob, Db, Definition, Durability, IndexId, Lsn,
    MemDisk, MergeDone, MergeJob, OpenError, Options, Part, Pattern, Recovered, RunError,
    Selection, View,
};
use fastrand::Rng;

/// A key from a small set. Lengths are below, at and above 16 and 30 bytes, which matter to a
/// tree.
pub fn some_key(rng: &mut Rng) -> Vec<u8> {
    let directory = [b'a' + rng.u8(..3); 16];
    let mut key = directory[..[16, 16, 16, 3, 0][rng.usize(..5)]].to_vec();
    let rest = [0, 1, 9, 9, 9, 13, 14, 15, 20][rng.usize(..9)];
    let fill = [0, 1, b'b'][rng.usize(..3)];
    key.resize(key.len() + rest, fill);
    if rest > 0 {
        *key.last_mut().unwrap() = [0, 1, 7, b'b', b'c', 255][rng.usize(..6)];
    }
    key
}

pub fn some_value(rng: &mut Rng) -> Vec<u8> {
    // Random values do not compress, so that little data fills many files.
    let len = [0, 3, 3, 10, 80][rng.usize(..5)];
    (0..len).map(|_| rng.u8(..)).collect()
}

pub fn some_batch(rng: &mut Rng) -> Batch {
    let mut batch = Batch::new();
    for _ in 0..rng.usize(..5) {
        match rng.usize(..12) {
            0..8 => batch.put(&some_key(rng), &some_value(rng)),
            8..11 => batch.delete(&some_key(rng)),
            _ => {
                let (a, b) = (some_key(rng), some_key(rng));
                batch.delete_range(a.clone().min(b.clone()).as_ref(), a.max(b).as_ref());
            }
        }
    }
    batch
}

pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Applies to `model` what a batch changes in the default index.
pub fn apply_to_model(model: &mut Model, batch: &Batch) {
    let mut world = World { indices: vec![std::mem::take(model)], ..World::default() };
    world.apply(batch);
    *model = world.indices.remove(0);
}

/// The expected state of a whole database: content by index, and persistent snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct World {
    pub indices: Vec<Model>,
    /// Content of each snapshot by index. It is empty for an index that the snapshot leaves out.
    pub snapshots: BTreeMap<String, Vec<Model>>,
}

impl World {
    pub fn new() -> World {
        World { indices: vec![Model::new()], ..World::default() }
    }

    pub fn apply(&mut self, batch: &Batch) {
        for change in batch {
            match change {
                Change::Put { index, key, value } => {
                    self.of(index).insert(key.to_vec(), value.to_vec());
                }
                Change::Delete { index, key } => {
                    self.of(index).remove(key);
                }
                Change::DeleteRange { index, from, to } => {
                    self.of(index).retain(|key, _| &key[..] < from || &key[..] >= to);
                }
                other => panic!("{other:?} in a batch"),
            }
        }
    }

    pub fn of(&mut self, index: IndexId) -> &mut Model {
        &mut self.indices[number(index)]
    }

    fn selected(&self, definition: &Definition) -> Vec<Model> {
        let select = |(position, model): (usize, &Model)| {
            let is_seen = definition.index.is_none_or(|index| number(index) == position);
            let is_in = |key: &[u8]| is_seen && definition.selection.has(key);
            model
                .iter()
                .filter(|(key, _)| is_in(key))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect()
        };
        self.indices.iter().enumerate().map(select).collect()
    }
}

/// Position of an index. Indices have opaque ids, and the tests use two of them.
fn number(index: IndexId) -> usize {
    usize::from(index != IndexId::DEFAULT)
}

/// The actual content of a database.
pub fn world(db: &Db) -> Result<World, babu::ReadError> {
    let mut world = World::default();
    for (index, _) in db.indices() {
        let model = db.scan_in(index, b"", None).map(owned).collect::<Result<_, _>>()?;
        world.indices.push(model);
    }
    for (name, snapshot) in db.snapshots() {
        // A snapshot knows the indices of its time. Later ones are empty in it.
        world.snapshots.insert(name.to_owned(), view_models(db, snapshot.view())?);
    }
    Ok(world)
}

pub fn view_models(db: &Db, view: &View) -> Result<Vec<Model>, babu::ReadError> {
    let of = |(index, _)| view.scan_in(index, b"", None).map(owned).collect();
    db.indices().map(of).collect()
}

type Pair = (Vec<u8>, Vec<u8>);

fn owned(
    entry: Result<(babu::Key, babu::Value<'_>), babu::ReadError>,
) -> Result<Pair, babu::ReadError> {
    entry.map(|(key, value)| (key.to_vec(), value.to_vec()))
}

/// Options with small sizes, so that little data fills many blocks and files, and blocks are
/// evicted.
pub fn small_options() -> Options {
    Options {
        log_chunk_bytes: 8192,
        reserve_bytes: 1024,
        ballast_bytes: 0,
        block_bytes: 256,
        file_bytes: 300,
        filter_prefix_bytes: 17,
        cache_bytes: 1024,
        durability: Durability::Process,
        database_id: 77,
        epoch_at_least: 0,
    }
}

pub fn open(disk: &MemDisk) -> Result<(Db, Recovered), OpenError> {
    Db::open(Arc::new(disk.clone()), small_options())
}

pub fn contents(db: &Db) -> Result<Model, babu::ReadError> {
    let iterated: Model = db
        .scan(b"", None)
        .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
        .collect::<Result<_, _>>()?;
    let mut visited = Model::new();
    db.scan(b"", None).visit(|key, value| {
        visited.insert(key.to_vec(), value.to_vec());
        ControlFlow::Continue(())
    })?;
    assert_eq!(visited, iterated);
    Ok(iterated)
}

/// A store at work, with the expected state after each group.
pub struct Run {
    pub db: Db,
    /// The state after group 0, 1, 2 …
    pub states: Vec<World>,
    pub batches: Vec<Batch>,
    pub job: Option<CheckpointJob>,
    pub done: Option<CheckpointDone>,
    pub merge: Option<MergeJob>,
    pub merged: Option<MergeDone>,
    /// Views that were taken, each with the content that it must always show.
    pub views: Vec<(View, Vec<Model>)>,
}

impl Run {
    pub fn new(db: Db) -> Run {
        let last = db.applied_lsn().0 as usize;
        let state = world(&db).unwrap();
        Run {
            db,
            states: vec![state; last + 1],
            batches: vec![Batch::new(); last],
            job: None,
            done: None,
            merge: None,
            merged: None,
            views: Vec::new(),
        }
    }

    pub fn world(&self) -> &World {
        self.states.last().unwrap()
    }

    pub fn model(&self) -> &Model {
        &self.world().indices[0]
    }

    pub fn apply(&mut self, batch: &Batch) {
        let meta = (self.states.len() as u64).to_le_bytes();
        // Every other group stays in the log alone until the next step. Reads settle it.
        let lsn = match self.states.len() % 2 {
            0 => self.db.apply_later(&mut batch.clone(), &meta),
            _ => self.db.apply(batch, &meta),
        };
        let batch = batch.clone();
        self.push(lsn.0, |world| world.apply(&batch));
        *self.batches.last_mut().unwrap() = batch;
    }

    /// Records the state after a group that was just applied.
    fn push(&mut self, lsn: u64, change: impl FnOnce(&mut World)) {
        assert_eq!(lsn as usize, self.states.len());
        let mut state = self.world().clone();
        change(&mut state);
        for models in state.snapshots.values_mut() {
            models.resize(state.indices.len(), Model::new());
        }
        self.states.push(state);
        self.batches.push(Batch::new());
    }

    /// Reads the log from a group on, and compares it with the applied groups. Returns the last
    /// group in the log.
    pub fn assert_log_from(&self, from: Lsn) -> Lsn {
        let mut next = from;
        for group in self.db.log_groups_from(from).unwrap() {
            let group = group.unwrap();
            assert_eq!(group.lsn, next);
            let is_record = group.batch.iter().any(|change| {
                use Change::{Delete, DeleteRange, Put};
                !matches!(change, Put { .. } | Delete { .. } | DeleteRange { .. })
            });
            if is_record {
                assert_eq!(group.batch.len(), 1);
            } else {
                assert_eq!(group.meta, next.0.to_le_bytes());
                assert_eq!(group.batch, self.batches[next.0 as usize - 1]);
            }
            next = next.next();
        }
        Lsn(next.0 - 1)
    }

    fn some_index(&self, rng: &mut Rng) -> IndexId {
        let indices: Vec<_> = self.db.indices().map(|(index, _)| index).collect();
        indices[rng.usize(..indices.len())]
    }

    /// Runs one random step. An error means that the disk failed, and that the store must not be
    /// used any more.
    pub fn step(&mut self, rng: &mut Rng) -> Result<(), String> {
        match rng.usize(..27) {
            0..10 => {
                let mut batch = Batch::new();
                self.fill(&mut batch, rng);
                self.db
                    .reserve(batch.log_bytes(8), babu::Priority::Normal)
                    .map_err(|error| error.to_string())?;
                self.apply(&batch);
            }
            10..13 => {
                self.db.write().map_err(|error| error.to_string())?;
            }
            13..16 => {
                self.db.syncer().sync().map_err(|error| error.to_string())?;
            }
            16 => {
                self.db.freeze().map_err(|error| error.to_string())?;
            }
            17 => {
                if self.job.is_none() && self.done.is_none() {
                    self.job = self.db.checkpoint_job();
                }
            }
            18 => {
                if let Some(job) = self.job.take() {
                    let done = job.run().map_err(|error| error.to_string())?;
                    self.done = Some(done);
                }
            }
            19 => {
                if let Some(done) = self.done.take() {
                    let retired = self.db.install(done);
                    retired.remove().map_err(|error| error.to_string())?;
                }
            }
            20 => self.step_snapshot(rng)?,
            21 => self.step_ingestion(rng)?,
            22 => {
                if self.world().indices.len() < 2 {
                    self.db.index("second").map_err(|error| error.to_string())?;
                    let lsn = self.db.applied_lsn().0;
                    self.push(lsn, |world| world.indices.push(Model::new()));
                }
            }
            23 => self.step_view(rng)?,
            _ => self.step_merge()?,
        }
        Ok(())
    }

    /// The next of the three steps of a merge, beside whatever a checkpoint does.
    pub fn step_merge(&mut self) -> Result<(), String> {
        if let Some(done) = self.merged.take() {
            self.db.install_merge(done).remove().map_err(|error| error.to_string())?;
        } else if let Some(job) = self.merge.take() {
            self.merged = Some(job.run().map_err(|error| error.to_string())?);
        } else {
            self.merge = self.db.merge_job();
        }
        Ok(())
    }

    /// Gives up what is under way.
    pub fn drop_jobs(&mut self) {
        (self.job, self.done) = (None, None);
        (self.merge, self.merged) = (None, None);
    }

    /// Applies a batch, takes or drops a snapshot, or ingests a run.
    pub fn step_change(&mut self, rng: &mut Rng) -> Result<(), String> {
        if rng.usize(..4) == 0 {
            return self.step_records(rng);
        }
        let mut batch = Batch::new();
        self.fill(&mut batch, rng);
        self.apply(&batch);
        Ok(())
    }

    /// Takes or drops a snapshot, or ingests a run.
    pub fn step_records(&mut self, rng: &mut Rng) -> Result<(), String> {
        match rng.usize(..2) {
            0 => self.step_snapshot(rng),
            _ => self.step_ingestion(rng),
        }
    }

    fn fill(&self, batch: &mut Batch, rng: &mut Rng) {
        if self.world().indices.len() < 2 {
            *batch = some_batch(rng);
            return;
        }
        for _ in 0..1 + rng.usize(..2) {
            let index = self.some_index(rng);
            for change in &some_batch(rng) {
                match change {
                    Change::Put { key, value, .. } => batch.put_in(index, key, value),
                    Change::Delete { key, .. } => batch.delete_in(index, key),
                    Change::DeleteRange { from, to, .. } => batch.delete_range_in(index, from, to),
                    other => panic!("{other:?} in a batch"),
                }
            }
        }
    }

    fn step_snapshot(&mut self, rng: &mut Rng) -> Result<(), String> {
        let name = ["first", "second", "third"][rng.usize(..3)];
        if self.world().snapshots.contains_key(name) {
            let lsn = self.db.drop_snapshot(name).map_err(|error| error.to_string())?;
            self.push(lsn.0, |world| drop(world.snapshots.remove(name)));
            return Ok(());
        }
        let bases: Vec<_> = self.world().snapshots.keys().cloned().collect();
        let definition = Definition {
            index: (rng.usize(..3) == 0).then(|| self.some_index(rng)),
            selection: match rng.usize(..4) {
                0 => Selection::prefix(&[b'a' + rng.u8(..3)]),
                1 => Selection::of([
                    Pattern::prefix(b"c"),
                    Pattern::parts([Part::Rest, Part::Bytes(vec![b'b']), Part::Any(3)]),
                ]),
                _ => Selection::all(),
            },
            base: (!bases.is_empty() && rng.bool())
                .then(|| bases[rng.usize(..bases.len())].clone()),
        };
        let lsn = self.db.snapshot(name, definition.clone()).map_err(|error| error.to_string())?;
        self.push(lsn.0, |world| {
            let selected = world.selected(&definition);
            world.snapshots.insert(name.to_owned(), selected);
        });
        Ok(())
    }

    fn step_ingestion(&mut self, rng: &mut Rng) -> Result<(), String> {
        let mut entries = Model::new();
        for _ in 0..rng.usize(..12) {
            entries.insert(some_key(rng), some_value(rng));
        }
        let run = self
            .db
            .ingestion()
            .write(|files| {
                for (key, value) in &entries {
                    files.put(key, value)?;
                }
                Ok::<_, RunError>(())
            })
            .map_err(|error| error.to_string())?;
        let index = self.some_index(rng);
        match self.db.ingest(index, run, &(self.states.len() as u64).to_le_bytes()) {
            Ok(lsn) => self.push(lsn.0, |world| world.of(index).extend(entries)),
            Err(babu::IngestError::Pending(run)) => {
                run.discard().map_err(|error| error.to_string())?;
            }
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    fn step_view(&mut self, rng: &mut Rng) -> Result<(), String> {
        if self.views.len() == 3 {
            let (view, expected) = self.views.remove(rng.usize(..3));
            let mut found = view_models(&self.db, &view).map_err(|error| error.to_string())?;
            found.truncate(expected.len());
            assert_eq!(found, expected, "a view has changed");
        }
        let expected = self.world().indices.clone();
        self.views.push((self.db.view(), expected));
        Ok(())
    }
}
