//! Actions around each sync of a log.

use std::io;
use std::sync::{Arc, Mutex};

use babu::{Around, Batch, Db, Lsn, MemDisk};

use super::open;

pub fn put(db: &mut Db, number: u8) -> Lsn {
    let mut batch = Batch::new();
    batch.put(&[number], b"value");
    db.apply(&batch, b"");
    db.write().unwrap()
}

/// Notes how many syncs the disk had run at each call. If it has a database, it also writes a
/// group.
pub struct Noting {
    disk: MemDisk,
    before: Mutex<Vec<u64>>,
    after: Mutex<u32>,
    pub meanwhile: Mutex<Option<Db>>,
}

impl Noting {
    pub fn around(db: &Db, disk: &MemDisk) -> Arc<Noting> {
        let disk = disk.clone();
        let (before, after, meanwhile) = Default::default();
        let noting = Arc::new(Noting { disk, before, after, meanwhile });
        db.syncer().set_around(noting.clone());
        noting
    }

    pub fn calls(&self) -> (usize, u32) {
        (self.before.lock().unwrap().len(), *self.after.lock().unwrap())
    }
}

impl Around for Noting {
    fn before(&self) -> io::Result<()> {
        self.before.lock().unwrap().push(self.disk.counters().syncs);
        if let Some(db) = &mut *self.meanwhile.lock().unwrap() {
            put(db, 99);
        }
        Ok(())
    }

    fn after(&self) {
        *self.after.lock().unwrap() += 1;
    }
}

/// Asserts that each sync of the log first makes durable what the log relies on.
pub fn accompanied() {
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk).unwrap();
    let noting = Noting::around(&db, &disk);
    let syncer = db.syncer();
    let mut calls = 0;
    let mut expect_one_more = |how: &str, syncs_before: u64| {
        calls += 1;
        assert_eq!(noting.calls(), (calls, calls as u32), "{how}");
        assert!(
            noting.before.lock().unwrap()[calls - 1] <= syncs_before,
            "{how}: it came too late"
        );
    };
    let syncs = disk.counters().syncs;
    let last = put(&mut db, 1);
    syncer.sync_to(last).unwrap();
    expect_one_more("one group", syncs);
    syncer.sync_to(last).unwrap();
    syncer.sync().unwrap();
    assert_eq!(noting.calls(), (1, 1), "a mark relies on nothing");

    let syncs = disk.counters().syncs;
    put(&mut db, 2);
    db.freeze().unwrap();
    syncer.sync().unwrap();
    expect_one_more("a log that has ended", syncs);

    // The checkpoint syncs its index files before the log.
    put(&mut db, 3);
    db.freeze().unwrap();
    let durable = db.durable_lsn();
    let job = db.checkpoint_job().unwrap();
    let done = job.run().unwrap();
    expect_one_more("a checkpoint", disk.counters().syncs);
    assert!(db.durable_lsn() > durable, "it has synced the log");
    db.install(done).remove().unwrap();
}
