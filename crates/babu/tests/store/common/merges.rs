//! Small flushes on a large bottom, with merges beside them, compared with a sorted map.

use std::io;
use std::sync::{Arc, Mutex};

use babu::{Batch, Db, Disk, DiskFile, MemDisk, Options};
use fastrand::Rng;

use super::{Model, apply_to_model, contents, small_options};

const KEYS: u32 = 1200;

/// A disk that does something when the next index file is made.
#[derive(Clone, Default)]
struct Hooked {
    disk: MemDisk,
    hook: Arc<Mutex<Option<Hook>>>,
}

type Hook = Box<dyn FnOnce() + Send>;

impl Disk for Hooked {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let hook = match name.starts_with("idx-") {
            true => self.hook.lock().unwrap().take(),
            false => None,
        };
        if let Some(hook) = hook {
            hook();
        }
        self.disk.create(name)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.disk.open(name)
    }

    crate::common::names_as_below!();
}

impl Hooked {
    /// Runs `outer`, and `inner` in the middle of it, when it makes its first file. If it makes
    /// none, `inner` follows.
    fn run_within<A, B: Send + 'static>(
        &self,
        outer: impl FnOnce() -> A,
        inner: impl FnOnce() -> B + Send + 'static,
    ) -> (A, B) {
        let made = Arc::new(Mutex::new(None));
        let keep = made.clone();
        let hook: Hook = Box::new(move || *keep.lock().unwrap() = Some(inner()));
        *self.hook.lock().unwrap() = Some(hook);
        let outer = outer();
        if let Some(hook) = self.hook.lock().unwrap().take() {
            hook();
        }
        let inner = made.lock().unwrap().take().unwrap();
        (outer, inner)
    }
}

fn open(disk: &Hooked) -> Db {
    let options = Options { file_bytes: 4096, ..small_options() };
    Db::open(Arc::new(disk.clone()), options).unwrap().0
}

/// What a process that dies now leaves behind.
fn copy(disk: &Hooked) -> Hooked {
    let files = disk.disk.files();
    let files = files.iter().map(|(name, bytes)| (&name[..], &bytes[..]));
    Hooked { disk: MemDisk::with_files(files), ..Hooked::default() }
}

fn key(number: u32) -> Vec<u8> {
    [&[b'k'; 16][..], &number.to_be_bytes()].concat()
}

fn put(batch: &mut Batch, rng: &mut Rng, number: u32) {
    let value: Vec<u8> = (0..40).map(|_| rng.u8(..)).collect();
    batch.put(&key(number), &value);
}

/// A few changes near each other. Many keys are deleted, and some come again.
fn change(db: &mut Db, rng: &mut Rng, model: &mut Model) {
    let mut batch = Batch::new();
    for _ in 0..1 + rng.usize(..12) {
        let number = rng.u32(..KEYS);
        match rng.usize(..20) {
            0 => batch.delete_range(&key(number), &key(number + rng.u32(..20))),
            1..9 => batch.delete(&key(number)),
            _ => put(&mut batch, rng, number),
        }
    }
    db.apply(&batch, b"");
    apply_to_model(model, &batch);
}

fn flush(db: &mut Db) {
    db.freeze().unwrap();
    if let Some(job) = db.checkpoint_job() {
        let done = job.run().unwrap();
        db.install(done).remove().unwrap();
    }
}

/// Asserts that the database has the same content at each step of merges and of flushes beside
/// them, and after a restart at any of these. Returns how many levels there were at most.
pub fn agree(seed: u64) -> usize {
    let mut rng = Rng::with_seed(seed);
    let disk = Hooked::default();
    let (mut db, mut model) = (open(&disk), Model::new());
    let mut batch = Batch::new();
    (0..KEYS).for_each(|number| put(&mut batch, &mut rng, number));
    db.apply(&batch, b"");
    apply_to_model(&mut model, &batch);
    db.checkpoint().unwrap();
    let mut most = 0;
    for _ in 0..40 {
        change(&mut db, &mut rng, &mut model);
        flush(&mut db);
        most = most.max(db.stats().levels.len());
        let Some(merge) = db.merge_job() else { continue };
        assert!(db.merge_job().is_none(), "one at a time");
        // Each begins and ends before, within and after the other.
        change(&mut db, &mut rng, &mut model);
        db.freeze().unwrap();
        let job = db.checkpoint_job().unwrap();
        let (merged, done) = match rng.usize(..3) {
            0 => disk.run_within(|| merge.run().unwrap(), || job.run().unwrap()),
            1 => {
                let (done, merged) =
                    disk.run_within(|| job.run().unwrap(), || merge.run().unwrap());
                (merged, done)
            }
            _ => (merge.run().unwrap(), job.run().unwrap()),
        };
        let same = |db: &Db| assert_eq!(contents(db).unwrap(), model, "all that is merged");
        same(&open(&copy(&disk)));
        match rng.usize(..4) {
            0 => drop((merged, done)),
            1 => {
                db.install(done).remove().unwrap();
                same(&db);
                db.install_merge(merged).remove().unwrap();
            }
            2 => {
                db.install_merge(merged).remove().unwrap();
                same(&db);
                drop(done);
            }
            _ => {
                db.install_merge(merged).remove().unwrap();
                same(&db);
                db.install(done).remove().unwrap();
            }
        }
        same(&db);
    }
    flush(&mut db);
    assert_eq!(contents(&db).unwrap(), model, "all that is merged");
    for (number, found) in (0..KEYS).map(|number| (number, db.get(&key(number)).unwrap())) {
        let expected = model.get(&key(number)).map(|value| &value[..]);
        assert_eq!(found.as_deref(), expected, "all that is merged: {number}");
    }
    // What was published and merged away before it was installed is removed, too.
    let files = disk.disk.files().into_keys().filter(|name| name.starts_with("idx-"));
    assert_eq!(files.count() as u64, db.stats().file_count, "files that nothing names");
    drop(db);
    let reopened = copy(&disk);
    assert!(babu::check_deep(&reopened.disk).unwrap().is_clean());
    assert_eq!(contents(&open(&reopened)).unwrap(), model, "all that is merged");
    most
}
