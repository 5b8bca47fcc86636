//! Exports of random databases, on disks that can crash.

use std::io;
use std::sync::Arc;

use babu::{Db, Disk, DiskFile, ExportError, Exported, Inspection, MemDisk, View};
use fastrand::Rng;

use super::{Model, Run, open, owned, world};

/// How whole files come into an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Link,
    Copy,
}

impl Way {
    /// The disk, as one that can share files with others, or cannot.
    pub fn on(self, disk: &MemDisk) -> Box<dyn Disk> {
        match self {
            Way::Link => Box::new(disk.clone()),
            Way::Copy => Box::new(Unlinked { disk: disk.clone() }),
        }
    }
}

/// A disk that shares no files with others.
struct Unlinked {
    disk: MemDisk,
}

impl Disk for Unlinked {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.disk.create(name)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.disk.open(name)
    }

    names_as_below!();
}

/// What the tools read from a folder, by index.
pub fn inspected(disk: &dyn Disk) -> Result<Vec<Model>, babu::OpenError> {
    let inspection = Inspection::new(disk, 1 << 20)?;
    let view = inspection.view();
    let of = |(index, _)| view.scan_in(index, b"", None).map(owned).collect();
    Ok(inspection.indices().map(of).collect::<Result<_, _>>()?)
}

/// Exports a state to an empty disk, and compares all rows. A snapshot does not know indices that
/// were made after it: they are empty in `expected`.
fn compare(db: &Db, view: &View, expected: &[Model], way: Way, what: &str) -> Exported {
    let disk = MemDisk::new();
    let exported = db.export_job(view).run(&*way.on(&disk), &mut |_| {}).unwrap();
    let mut found = inspected(&disk).unwrap();
    found.resize(expected.len(), Model::new());
    assert_eq!(found, expected, "all that is exported, {what}");
    let report = babu::check_deep(&disk).unwrap();
    assert!(report.is_clean(), "{what}: {report:?}");
    // What lost its power then is the same.
    let disk = disk.crash_power(&mut || 0);
    let (mut db, recovered) = open(&disk).unwrap();
    assert_eq!((recovered.last_lsn, recovered.checkpoint_lsn), (view.lsn(), view.lsn()));
    let mut found = world(&db).unwrap().indices;
    found.resize(expected.len(), Model::new());
    assert_eq!(found, expected, "a database of it, {what}");
    // It goes on like any other.
    let before = world(&db).unwrap();
    db.checkpoint().unwrap();
    assert_eq!(world(&db).unwrap(), before, "{what}");
    exported
}

/// Exports views and snapshots of a database at work.
pub fn agree(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let mut run = Run::new(open(&MemDisk::new()).unwrap().0);
    for step in 0..60 {
        run.step(&mut rng).unwrap();
        if step % 6 != 5 {
            continue;
        }
        let way = [Way::Link, Way::Copy][rng.usize(..2)];
        let what = format!("seed {seed}, step {step}, {way:?}");
        let view = run.db.view();
        let world = run.world();
        compare(&run.db, &view, &world.indices, way, &what);
        for (name, snapshot) in run.db.snapshots() {
            let what = format!("{what}, {name}");
            compare(&run.db, snapshot.view(), &world.snapshots[name], way, &what);
        }
    }
}

/// A database with files, ingested ones, and trees.
pub fn database(seed: u64) -> (Run, View) {
    let mut rng = Rng::with_seed(seed);
    let mut run = Run::new(open(&MemDisk::new()).unwrap().0);
    while run.db.stats().file_count < 3 || run.db.stats().levels.len() < 2 {
        run.step(&mut rng).unwrap();
    }
    run.step_change(&mut rng).unwrap();
    let view = run.db.view();
    (run, view)
}

/// Crashes at every change of an export. The folder then has the whole state, or is refused.
/// Returns how many crashes left an export that is refused, and how many a whole one.
pub fn crash_everywhere(seed: u64, way: Way) -> (u64, u64) {
    let (run, view) = database(seed);
    let job = run.db.export_job(&view);
    let disk = MemDisk::new();
    job.run(&*way.on(&disk), &mut |_| {}).unwrap();
    let changes = disk.counters().changes;
    let (mut refused, mut whole) = (0, 0);
    for n in 1..=changes + 1 {
        for power in [false, true] {
            let disk = MemDisk::new();
            disk.crash_at(n);
            let ended = job.run(&*way.on(&disk), &mut |_| {});
            assert_eq!(ended.is_ok(), n > changes, "{ended:?}");
            let mut rng = Rng::with_seed(seed * 10_000 + n);
            let disk = match power {
                true => disk.crash_power(&mut || rng.u64(..)),
                false => disk.crash_process(),
            };
            let context = format!("seed {seed}, change {n} of {changes}, {way:?}, power {power}");
            match is_whole(&disk, &run.world().indices, &context) {
                true => whole += 1,
                false => refused += 1,
            }
            assert!(n <= changes || disk.files().contains_key("MANIFEST"), "{context}: it is lost");
        }
    }
    (refused, whole)
}

/// True if the folder has the whole state. Else asserts that all refuse it, or that it is empty.
fn is_whole(disk: &MemDisk, expected: &[Model], context: &str) -> bool {
    let files = disk.files();
    if files.contains_key("MANIFEST") {
        let found = inspected(disk).map_err(|error| error.to_string());
        let found = found.as_deref().map_err(Clone::clone);
        assert_eq!(found, Ok(expected), "{context}: an export that passes for whole");
        let report = babu::check_deep(disk).unwrap();
        assert!(report.is_clean(), "{context}: {report:?}");
        return true;
    }
    if files.is_empty() {
        return false;
    }
    assert!(files.contains_key(babu::UNFINISHED_EXPORT), "{context}: {:?}", files.keys());
    let report = babu::check(disk).unwrap();
    let says = |message: &str| message.contains("export again");
    assert!(report.damage.iter().any(|damage| says(&damage.what)), "{context}: {report:?}");
    assert!(says(&inspected(disk).unwrap_err().to_string()), "{context}");
    let opened = Db::open(Arc::new(disk.clone()), super::small_options());
    assert!(opened.is_err_and(|error| says(&error.to_string())), "{context}");
    assert_eq!(disk.files(), files, "{context}: looking at it changes nothing");
    let (db, view) = {
        let (mut db, _) = open(&MemDisk::new()).unwrap();
        let view = db.view();
        (db, view)
    };
    let again = db.export_job(&view).run(disk, &mut |_| {});
    assert!(matches!(again, Err(ExportError::Unfinished)), "{context}: {again:?}");
    false
}
