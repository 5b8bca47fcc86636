//! Objects of flushes that failed: none is left over, and none is deleted that may be needed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pando_data::{DataFs, Limits, Metadata, ObjectStore};
use pando_types::Errno;

use crate::common::{FILE, Shards, Store};

fn setup() -> (Arc<DataFs>, Arc<Shards>, Arc<Store>) {
    let store = Store::new("leftovers");
    let shards = Shards::new(&store);
    let metadata = Arc::clone(&shards) as Arc<dyn Metadata>;
    let objects = Arc::clone(&store) as Arc<dyn ObjectStore>;
    let fs = DataFs::new(metadata, objects, Limits::default());
    fs.created(&shards.create(FILE));
    fs.write(FILE, Some(0), &[7; 100_000], None).unwrap();
    (fs, shards, store)
}

fn objects(store: &Store) -> usize {
    store.inner.list(None).unwrap().map(Result::unwrap).count()
}

fn content(fs: &DataFs) -> Vec<u8> {
    fs.read(FILE, 0, 200_000).unwrap()
}

/// Runs maintenance until `is_done`.
fn until(fs: &Arc<DataFs>, is_done: impl Fn() -> bool) {
    let _maintenance = fs.maintain(Duration::from_millis(1)).unwrap();
    let began = Instant::now();
    while !is_done() {
        assert!(began.elapsed() < Duration::from_secs(30), "not within half a minute");
        std::thread::yield_now();
    }
}

#[test]
fn a_flush_that_the_shard_refuses_leaves_nothing_however_often_it_is_tried() {
    let (fs, shards, store) = setup();
    for errno in [Errno::ENOSPC, Errno::EACCES, Errno::EAGAIN] {
        *shards.broken.lock().unwrap() = Some(errno);
        for _ in 0..10 {
            assert_eq!(fs.flush(FILE), Err(errno));
            assert_eq!(objects(&store), 0, "{errno:?}");
        }
    }
    *shards.broken.lock().unwrap() = None;
    assert_eq!(fs.flush(FILE), Ok(()));
    assert_eq!((objects(&store), content(&fs)), (1, vec![7; 100_000]));
}

#[test]
fn what_a_flush_in_doubt_stored_stays_until_it_is_known_that_no_file_needs_it() {
    let (fs, shards, store) = setup();
    shards.in_doubt.store(true, Ordering::Relaxed);
    for _ in 0..10 {
        assert_eq!(fs.flush(FILE), Err(Errno::ETIMEDOUT));
        assert_eq!(objects(&store), 1, "the first attempt's, and no other's");
    }
    shards.in_doubt.store(false, Ordering::Relaxed);
    assert_eq!(fs.flush(FILE), Ok(()));
    until(&fs, || objects(&store) == 1);
    assert_eq!(content(&fs), vec![7; 100_000]);
}

#[test]
fn what_the_store_does_not_delete_is_deleted_later() {
    let (fs, shards, store) = setup();
    *shards.broken.lock().unwrap() = Some(Errno::ENOSPC);
    store.stuck.store(true, Ordering::Relaxed);
    assert_eq!(fs.flush(FILE), Err(Errno::ENOSPC));
    assert_eq!(objects(&store), 1);
    store.stuck.store(false, Ordering::Relaxed);
    until(&fs, || objects(&store) == 0);
}

/// A shard that cannot write its log says so. After its restart the log may have the write all the
/// same.
#[test]
fn what_a_shard_may_have_in_its_log_is_neither_deleted_nor_stored_again() {
    for is_made in [false, true] {
        let (fs, shards, store) = setup();
        *shards.broken.lock().unwrap() = Some(Errno::EIO);
        for _ in 0..10 {
            assert_eq!(fs.flush(FILE), Err(Errno::EIO));
            assert_eq!(objects(&store), 1);
        }
        *shards.broken.lock().unwrap() = None;
        if is_made {
            // After its restart another client lays other bytes over the write, and its objects are
            // deleted.
            shards.make_last(FILE);
            shards.overwrite(FILE, 0, &[8; 100_000]);
            fs.collect_garbage().unwrap();
        }
        assert_eq!(fs.flush(FILE), Ok(()));
        assert_eq!((objects(&store), content(&fs)), (1 + usize::from(is_made), vec![7; 100_000]));
    }
}

/// The file is written to after the failure, so the plan that was sent before is of other bytes.
#[test]
fn what_is_written_after_a_failure_is_stored() {
    let (fs, shards, store) = setup();
    *shards.broken.lock().unwrap() = Some(Errno::EIO);
    assert_eq!(fs.flush(FILE), Err(Errno::EIO));
    fs.write(FILE, Some(0), &[9; 100_000], None).unwrap();
    *shards.broken.lock().unwrap() = None;
    assert_eq!(fs.flush(FILE), Ok(()));
    assert_eq!((objects(&store), content(&fs)), (2, vec![9; 100_000]));
}

/// A program writes and syncs in a loop, whatever it is answered.
#[test]
fn a_program_that_goes_on_writing_does_not_fill_the_store_while_a_shard_fails() {
    let (fs, shards, store) = setup();
    *shards.broken.lock().unwrap() = Some(Errno::EIO);
    for n in 0..10 {
        fs.write(FILE, Some(n * 10_000), &[n as u8; 100_000], None).unwrap();
        assert_eq!(fs.flush(FILE), Err(Errno::EIO));
        assert_eq!(objects(&store), 1);
    }
    *shards.broken.lock().unwrap() = None;
    assert_eq!(fs.flush(FILE), Ok(()));
    let mut expected: Vec<u8> = (0..9).flat_map(|n| [n; 10_000]).collect();
    expected.extend([9; 100_000]);
    assert_eq!((objects(&store), content(&fs)), (2, expected));
}
