//! Exports: a state in a folder of its own is the state, whole, or is refused.

use std::sync::Arc;

use babu::{Db, Definition, ExportError, Inspection, MemDisk, Options, RealDisk};
use fastrand::Rng;

use crate::common::exports::{self, Way, inspected};
use crate::common::{Model, Run, contents, open};

/// Twenty times as many on request.
fn seeds(count: u64) -> std::ops::Range<u64> {
    0..count * if std::env::var_os("PANDO_LONG").is_some() { 20 } else { 1 }
}

#[test]
fn views_and_snapshots_of_all_kinds_are_exported_with_all_rows() {
    seeds(20).for_each(exports::agree);
}

#[test]
fn a_crash_at_any_change_leaves_a_whole_export_or_one_that_is_refused() {
    let (mut refused, mut whole) = (0, 0);
    for seed in seeds(12) {
        let way = [Way::Link, Way::Copy][seed as usize % 2];
        let (more_refused, more_whole) = exports::crash_everywhere(seed, way);
        refused += more_refused;
        whole += more_whole;
    }
    assert!(refused > 100 && whole > 24, "{refused} {whole}");
}

#[test]
fn files_in_index_files_are_linked_and_only_trees_are_written() {
    let (mut run, _) = exports::database(1);
    run.drop_jobs();
    run.db.checkpoint().unwrap();
    let view = run.db.view();
    let export = |run: &Run, view: &babu::View, way: Way| {
        let disk = MemDisk::new();
        let mut steps = Vec::new();
        let exported =
            run.db.export_job(view).run(&*way.on(&disk), &mut |done| steps.push(*done)).unwrap();
        assert_eq!(steps.last(), Some(&exported));
        assert_eq!(steps.len() as u64, exported.all_files);
        assert_eq!(exported.files, exported.all_files);
        (exported, disk.counters())
    };
    let (linked, counters) = export(&run, &view, Way::Link);
    assert!(linked.linked_bytes > 500, "{linked:?}");
    assert_eq!((linked.copied_bytes, linked.written_bytes), (0, 0));
    assert_eq!(counters.writes, 1, "the manifest");
    let (copied, _) = export(&run, &view, Way::Copy);
    assert_eq!((copied.copied_bytes, copied.linked_bytes), (linked.linked_bytes, 0));

    let mut batch = babu::Batch::new();
    batch.put(b"new", b"row");
    run.db.apply(&batch, b"");
    let view = run.db.view();
    let (more, _) = export(&run, &view, Way::Link);
    assert_eq!(more.linked_bytes, linked.linked_bytes);
    assert!((1..500).contains(&more.written_bytes), "{more:?}");
}

#[test]
fn writers_checkpoints_and_merges_go_on_beside_an_export_and_change_nothing_in_it() {
    let (mut lost, mut gone) = (0, 0);
    for seed in seeds(30) {
        let way = [Way::Link, Way::Copy][seed as usize % 2];
        let mut rng = Rng::with_seed(seed);
        let (mut run, view) = exports::database(seed);
        let expected = run.world().indices.clone();
        let job = run.db.export_job(&view);
        drop(view);
        let disk = MemDisk::new();
        let exported = job
            .run(&*way.on(&disk), &mut |_| {
                // All files are written again, and the old ones are removed.
                (0..8).for_each(|_| run.step_change(&mut rng).unwrap());
                run.drop_jobs();
                run.db.checkpoint().unwrap();
            })
            .unwrap();
        assert_eq!(inspected(&disk).unwrap(), expected, "seed {seed}");
        let report = babu::check_deep(&disk).unwrap();
        assert!(report.is_clean(), "seed {seed}: {report:?}");
        // A file that had lost its name before was copied from the handle.
        gone += u64::from(way == Way::Link && exported.copied_bytes > 0);
        lost += u64::from(exported.linked_bytes > 0);
        let disk = disk.crash_power(&mut || 0);
        assert_eq!(inspected(&disk).unwrap(), expected, "seed {seed}");
    }
    assert!(lost > 0 && gone > 0, "{lost} {gone}");
}

#[test]
fn folders_that_are_not_empty_are_refused_and_failures_leave_nothing() {
    let (run, view) = exports::database(2);
    let job = run.db.export_job(&view);
    let disk = MemDisk::with_files([("letter", &b"mine"[..])]);
    let error = job.run(&disk, &mut |_| {}).unwrap_err();
    assert!(matches!(&error, ExportError::Occupied(name) if name == "letter"), "{error}");
    assert_eq!(disk.files().len(), 1);

    let whole = MemDisk::new();
    job.run(&whole, &mut |_| {}).unwrap();
    let changes = whole.counters().changes;
    for n in 1..=changes {
        let disk = MemDisk::new();
        disk.fail_at(n);
        let error = job.run(&disk, &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("simulated I/O error"), "{error}");
        // The last two are the renaming and its sync.
        match matches!(error, ExportError::Unknown(_)) {
            true => assert!(n + 1 >= changes),
            false => assert!(disk.files().is_empty(), "change {n}: {:?}", disk.files().keys()),
        }
    }
    // A full disk.
    let disk = MemDisk::new();
    disk.full_after(100);
    let error = job.run(&*Way::Copy.on(&disk), &mut |_| {}).unwrap_err();
    assert!(matches!(&error, ExportError::Failed(error) if error.is_full()), "{error}");
    assert!(disk.files().is_empty());
}

#[test]
fn folders_of_one_file_system_share_their_files() {
    use std::os::unix::fs::MetadataExt;
    let folder = std::env::temp_dir().join(format!("babu-export-{}", std::process::id()));
    let source = Arc::new(RealDisk::open(folder.join("source")).unwrap());
    let (mut db, _) = Db::open(source, Options::default()).unwrap();
    let mut batch = babu::Batch::new();
    (0..2000u32).for_each(|number| batch.put(&number.to_be_bytes(), b"value"));
    db.apply(&batch, b"");
    db.snapshot("monday", Definition::all()).unwrap();
    db.checkpoint().unwrap();
    let expected = contents(&db).unwrap();
    let view = db.find_snapshot("monday").unwrap().view().clone();

    let target = RealDisk::open(folder.join("target")).unwrap();
    let exported = db.export_job(&view).run(&target, &mut |_| {}).unwrap();
    assert!(exported.linked_bytes > 0 && exported.copied_bytes == 0, "{exported:?}");
    let file = Inspection::new(&target, 1 << 20).unwrap().files().remove(0).name;
    let inode = |side: &str| std::fs::metadata(folder.join(side).join(&file)).unwrap().ino();
    assert_eq!(inode("source"), inode("target"));

    // The kernel copies a file that has lost its name.
    std::fs::remove_file(folder.join("source").join(&file)).unwrap();
    let copy = RealDisk::open(folder.join("copy")).unwrap();
    let exported = db.export_job(&view).run(&copy, &mut |_| {}).unwrap();
    assert!(exported.copied_bytes > 0, "{exported:?}");
    assert!(babu::check_deep(&copy).unwrap().is_clean());
    assert_eq!(inspected(&copy).unwrap().as_slice(), std::slice::from_ref(&expected));

    // It is a database of its own.
    batch.clear();
    batch.delete_range(b"", &[255; 5]);
    let (mut other, _) = Db::open(Arc::new(target), Options::default()).unwrap();
    other.apply(&batch, b"");
    other.checkpoint().unwrap();
    assert_eq!(contents(&other).unwrap(), Model::new());
    assert_eq!(inspected(&copy).unwrap().as_slice(), std::slice::from_ref(&expected));
    assert_eq!(contents(&db).unwrap(), expected);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn an_export_of_nothing_is_an_empty_database() {
    let (mut db, _) = open(&MemDisk::new()).unwrap();
    let view = db.view();
    let disk = MemDisk::new();
    db.export_job(&view).run(&disk, &mut |_| {}).unwrap();
    assert_eq!(inspected(&disk).unwrap(), [Model::new()]);
}
