//! Syncs from other threads, at chosen moments.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use babu::{Around, Batch, Db, Disk, DiskFile, Durability, Lsn, MemDisk, Options};

use crate::common::around::{Noting, accompanied, put};
use crate::common::{contents, open, small_options};

type Gate = Arc<Mutex<Option<(SyncSender<()>, Receiver<()>)>>>;

/// A disk that can stop the syncs of its files. While the gate is armed, the next sync reports that
/// it has begun, and waits for permission to go on.
#[derive(Clone)]
struct GateDisk {
    disk: MemDisk,
    gate: Gate,
}

struct GateFile {
    file: Box<dyn DiskFile>,
    gate: Gate,
}

impl GateDisk {
    fn wrap(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(GateFile { file, gate: self.gate.clone() })
    }

    /// Arms the gate for one sync. Returns the receiver of its begin, and the sender of its
    /// permission.
    fn arm(&self) -> (Receiver<()>, SyncSender<()>) {
        let (begun, has_begun) = sync_channel(1);
        let (go, may_go) = sync_channel(1);
        *self.gate.lock().unwrap() = Some((begun, may_go));
        (has_begun, go)
    }
}

impl Disk for GateDisk {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.wrap(self.disk.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.wrap(self.disk.open(name)?))
    }

    crate::common::names_as_below!();
}

impl DiskFile for GateFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, buffer)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()?;
        let armed = self.gate.lock().unwrap().take();
        if let Some((begun, may_go)) = armed {
            begun.send(()).unwrap();
            may_go.recv().unwrap();
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }
}

#[test]
fn a_sync_promises_only_what_was_written_before_it_began() {
    for freezes in 0..3 {
        let disk = GateDisk { disk: MemDisk::new(), gate: Arc::default() };
        let (mut db, _) = Db::open(Arc::new(disk.clone()), small_options()).unwrap();
        put(&mut db, 1);
        let (begun, go) = disk.arm();
        std::thread::scope(|scope| {
            let syncer = db.syncer();
            let first = scope.spawn(move || syncer.sync());
            begun.recv().unwrap();
            // Write more during the sync, perhaps into a new log.
            for number in 0..freezes {
                put(&mut db, 10 + number);
                db.freeze().unwrap();
            }
            put(&mut db, 2);
            assert_eq!(db.durable_lsn(), Lsn(0));
            go.send(()).unwrap();
            assert_eq!(first.join().unwrap().unwrap(), Lsn(1));
        });
        assert_eq!(db.durable_lsn(), Lsn(1));
        let written = db.written_lsn();
        assert_eq!(db.syncer().sync().unwrap(), written);
        let expected = contents(&db).unwrap();
        // Drop all that is not durable.
        let disk = disk.disk.crash_power(&mut || 0);
        let (db, recovered) = open(&disk).unwrap();
        assert_eq!(recovered.last_lsn, written, "{freezes} freezes");
        assert_eq!(contents(&db).unwrap(), expected);
    }
}

#[test]
fn callers_that_wait_for_a_sync_share_the_next_one() {
    let disk = GateDisk { disk: MemDisk::new(), gate: Arc::default() };
    let (mut db, _) = Db::open(Arc::new(disk.clone()), small_options()).unwrap();
    put(&mut db, 1);
    let before = disk.disk.counters().syncs;
    let (begun, go) = disk.arm();
    std::thread::scope(|scope| {
        let syncer = db.syncer();
        scope.spawn(move || syncer.sync().unwrap());
        begun.recv().unwrap();
        let wanted = put(&mut db, 2);
        for _ in 0..8 {
            let syncer = db.syncer();
            scope.spawn(move || assert!(syncer.sync().unwrap() >= wanted));
        }
        go.send(()).unwrap();
    });
    assert_eq!(db.durable_lsn(), Lsn(2));
    assert_eq!(disk.disk.counters().syncs, before + 2);
}

#[test]
fn a_group_that_is_durable_already_waits_for_no_sync_though_more_is_written() {
    let disk = GateDisk { disk: MemDisk::new(), gate: Arc::default() };
    let (mut db, _) = Db::open(Arc::new(disk.clone()), small_options()).unwrap();
    let syncer = db.syncer();
    let first = put(&mut db, 1);
    assert_eq!(syncer.sync_to(first).unwrap(), first);
    put(&mut db, 2);
    db.freeze().unwrap();
    let last = put(&mut db, 3);
    let before = disk.disk.counters();
    assert_eq!(syncer.sync_to(first).unwrap(), first);
    assert_eq!(syncer.sync_to(Lsn(0)).unwrap(), first);
    assert_eq!(disk.disk.counters(), before);
    // It does not even wait for a running sync.
    let (begun, go) = disk.arm();
    std::thread::scope(|scope| {
        let other = syncer.clone();
        let under_way = scope.spawn(move || other.sync_to(Lsn(2)).unwrap());
        begun.recv().unwrap();
        assert_eq!(syncer.sync_to(first).unwrap(), first);
        go.send(()).unwrap();
        assert_eq!(under_way.join().unwrap(), last);
    });
    let (db, recovered) = open(&disk.disk.crash_power(&mut || 0)).unwrap();
    assert_eq!((recovered.last_lsn, contents(&db).unwrap().len()), (last, 3));
}

#[test]
fn callers_that_wait_for_groups_of_their_own_share_one_sync() {
    let disk = GateDisk { disk: MemDisk::new(), gate: Arc::default() };
    let (mut db, _) = Db::open(Arc::new(disk.clone()), small_options()).unwrap();
    put(&mut db, 1);
    let before = disk.disk.counters().syncs;
    let (begun, go) = disk.arm();
    std::thread::scope(|scope| {
        let syncer = db.syncer();
        scope.spawn(move || syncer.sync_to(Lsn(1)).unwrap());
        begun.recv().unwrap();
        for number in 2..10 {
            let (syncer, wanted) = (db.syncer(), put(&mut db, number));
            scope.spawn(move || assert!(syncer.sync_to(wanted).unwrap() >= wanted));
        }
        go.send(()).unwrap();
    });
    assert_eq!(db.durable_lsn(), Lsn(9));
    assert_eq!(disk.disk.counters().syncs, before + 2);
}

#[test]
fn a_group_that_was_never_written_is_refused_after_a_failure_and_a_mistake_before() {
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk).unwrap();
    let syncer = db.syncer();
    let durable = syncer.sync_to(put(&mut db, 1)).unwrap();
    let mistake = std::panic::AssertUnwindSafe(|| syncer.sync_to(Lsn(2)));
    assert!(std::panic::catch_unwind(mistake).is_err());
    disk.fail_at(1);
    let lsn = db.apply(&Batch::new(), b"");
    let fatal = db.write().unwrap_err();
    assert_eq!(syncer.sync_to(lsn), Err(fatal));
    assert_eq!(syncer.sync_to(durable), Ok(durable), "what is durable remains so");
}

#[test]
fn with_durability_against_loss_of_power_a_write_that_has_returned_is_durable() {
    let options = Options { durability: Durability::Power, ..small_options() };
    let disk = MemDisk::new();
    let (mut db, _) = Db::open(Arc::new(disk.clone()), options).unwrap();
    for number in 1..20 {
        assert_eq!(put(&mut db, number), db.durable_lsn());
        if number % 5 == 0 {
            db.apply(&Batch::new(), b"");
            db.freeze().unwrap();
            assert!(db.durable_lsn() < db.written_lsn());
            // The write has nothing to write, and still makes all groups durable.
            assert_eq!(db.write().unwrap(), db.durable_lsn());
        }
    }
    let before = disk.counters();
    db.write().unwrap();
    assert_eq!(disk.counters(), before, "nothing to do");
    let expected = (db.written_lsn(), contents(&db).unwrap());
    let (db, recovered) = open(&disk.crash_power(&mut || 0)).unwrap();
    assert_eq!((recovered.last_lsn, contents(&db).unwrap()), expected);
}

#[test]
fn whichever_thread_syncs_the_log_what_it_relies_on_is_made_durable_before() {
    accompanied();
}

#[test]
fn a_group_written_while_others_are_prepared_for_is_not_durable_with_them() {
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk).unwrap();
    let noting = Noting::around(&db, &disk);
    let syncer = db.syncer();
    let last = put(&mut db, 1);
    *noting.meanwhile.lock().unwrap() = Some(db);
    assert_eq!(syncer.sync_to(last).unwrap(), last);
    let db = noting.meanwhile.lock().unwrap().take().unwrap();
    assert_eq!((db.written_lsn(), db.durable_lsn()), (last.next(), last));
    assert_eq!(syncer.sync().unwrap(), last.next());
    assert_eq!(noting.calls(), (2, 2));
}

#[test]
fn what_cannot_be_made_durable_before_a_sync_ends_writing() {
    struct Failing;
    impl Around for Failing {
        fn before(&self) -> io::Result<()> {
            Err(io::Error::other("object 5 is unreadable"))
        }

        fn after(&self) {}
    }
    let (mut db, _) = open(&MemDisk::new()).unwrap();
    db.syncer().set_around(Arc::new(Failing));
    let last = put(&mut db, 1);
    let fatal = db.syncer().sync_to(last).unwrap_err();
    assert!(fatal.to_string().contains("object 5"), "{fatal}");
    assert!(db.durable_lsn() < last);
    assert_eq!(db.fatal(), Some(fatal));
}
