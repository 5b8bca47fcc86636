//! Bytes that could not be stored: of which files, and which calls tell it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use pando_data::{DataFs, Limits, Loss, Metadata, ObjectStore};
use pando_types::{Errno, Ino, Name};

use crate::common::{FILE, Shards, Store};

struct Setup {
    fs: Arc<DataFs>,
    shards: Arc<Shards>,
    store: Arc<Store>,
}

fn setup() -> Setup {
    let store = Store::new("losses");
    let shards = Shards::new(&store);
    let metadata = Arc::clone(&shards) as Arc<dyn Metadata>;
    let limits = Limits { file_dirty_bytes: 100_000, ..Limits::default() };
    let fs = DataFs::new(metadata, Arc::clone(&store) as Arc<dyn ObjectStore>, limits);
    fs.created(&shards.create(FILE));
    Setup { fs, shards, store }
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

#[test]
fn a_loss_in_the_background_is_told_once_and_only_of_its_file() {
    let Setup { fs, shards, .. } = setup();
    let other = Ino(200);
    fs.created(&shards.create(other));
    let began = SystemTime::now();
    for sync in [DataFs::flush as fn(&DataFs, Ino) -> _, DataFs::fsync] {
        fs.write(FILE, Some(0), b"x", None).unwrap();
        shards.stale.store(true, Ordering::Relaxed);
        fs.flush_old(Duration::ZERO);
        shards.stale.store(false, Ordering::Relaxed);
        assert!(fs.has_untold_loss(FILE) && !fs.has_untold_loss(other));
        assert_eq!(sync(&fs, other), Ok(()));
        assert_eq!(sync(&fs, FILE), Err(Errno::EIO));
        assert_eq!(sync(&fs, FILE), Ok(()));
        assert!(!fs.has_untold_loss(FILE));
    }
    assert_eq!(fs.lost_bytes(), 2);
    let [Loss { ino, bytes, since, errno, .. }] = fs.losses()[..] else { panic!("one file") };
    assert_eq!((ino, bytes, errno), (FILE, 2, Errno::ESTALE));
    assert!(began <= since && since <= SystemTime::now());
}

#[test]
fn a_loss_outlives_a_last_close_that_told_no_program() {
    let Setup { fs, shards, store } = setup();
    fs.write(FILE, Some(0), &[1; 5000], None).unwrap();
    store.full.store(true, Ordering::Relaxed);
    fs.release(FILE);
    store.full.store(false, Ordering::Relaxed);
    assert_eq!((fs.lost_bytes(), fs.dirty_bytes()), (5000, 0));
    fs.opened(&shards.getattr(FILE).unwrap());
    assert_eq!(fs.losses()[0].errno, Errno::ENOSPC);
    assert_eq!(fs.fsync(FILE), Err(Errno::EIO));
    assert_eq!(fs.fsync(FILE), Ok(()));
}

/// A program that was told at `close`, and writes again when there is room, is told that all went
/// well this time.
#[test]
fn what_a_close_has_told_is_not_told_again() {
    let Setup { fs, shards, store } = setup();
    fs.write(FILE, Some(0), &[1; 5000], None).unwrap();
    store.full.store(true, Ordering::Relaxed);
    assert_eq!(fs.flush(FILE), Err(Errno::ENOSPC));
    fs.flush_old(Duration::ZERO);
    fs.release(FILE);
    store.full.store(false, Ordering::Relaxed);
    assert_eq!((fs.lost_bytes(), fs.losses().len()), (5000, 1));
    fs.opened(&shards.getattr(FILE).unwrap());
    fs.write(FILE, Some(0), &[1; 5000], None).unwrap();
    assert_eq!(fs.flush(FILE), Ok(()));
    // No program has heard of a loss of bytes written after the last error.
    store.full.store(true, Ordering::Relaxed);
    fs.write(FILE, Some(0), &[1; 5000], None).unwrap();
    assert_eq!(fs.flush(FILE), Err(Errno::ENOSPC));
    fs.write(FILE, Some(9000), &[1; 5000], None).unwrap();
    fs.release(FILE);
    assert!(fs.has_untold_loss(FILE));
}

#[test]
fn a_close_that_loses_the_rest_says_why_and_nothing_after() {
    let Setup { fs, shards, .. } = setup();
    fs.write(FILE, Some(0), b"x", None).unwrap();
    shards.stale.store(true, Ordering::Relaxed);
    assert_eq!(fs.flush(FILE), Err(Errno::ESTALE));
    assert_eq!(fs.flush(FILE), Ok(()));
    // A failed write reports itself. The next close reports the loss of earlier writes.
    fs.write(FILE, Some(0), &[1; 90_000], None).unwrap();
    assert_eq!(fs.write(FILE, Some(90_000), &[1; 20_000], None), Err(Errno::ESTALE));
    assert_eq!(fs.flush(FILE), Err(Errno::EIO));
    assert_eq!(fs.flush(FILE), Ok(()));
}

#[test]
fn the_names_of_a_lost_file_are_asked_for() {
    let Setup { fs, shards, .. } = setup();
    fs.write(FILE, Some(0), b"x", None).unwrap();
    shards.stale.store(true, Ordering::Relaxed);
    fs.flush_old(Duration::ZERO);
    let [Loss { path, is_whole_path: false, .. }] = &fs.losses()[..] else { panic!() };
    assert_eq!(*path, [name("file100")]);
    let _maintenance = fs.maintain(Duration::from_millis(1)).unwrap();
    let began = Instant::now();
    while !fs.losses()[0].is_whole_path {
        assert!(began.elapsed() < Duration::from_secs(30));
        std::thread::yield_now();
    }
    assert_eq!(fs.losses()[0].path, [name("folder"), name("file100")]);
}

#[test]
fn further_files_are_counted() {
    let Setup { fs, shards, .. } = setup();
    let inos: Vec<Ino> = (1000..3000).map(Ino).collect();
    for &ino in &inos {
        fs.created(&shards.create(ino));
        fs.write(ino, Some(0), b"x", None).unwrap();
    }
    shards.stale.store(true, Ordering::Relaxed);
    inos.iter().for_each(|&ino| fs.release(ino));
    assert_eq!((fs.lost_bytes(), fs.losses().len()), (2000, 1024));
    shards.stale.store(false, Ordering::Relaxed);
    for &ino in &inos {
        fs.opened(&shards.getattr(ino).unwrap());
        assert_eq!(fs.flush(ino), Err(Errno::EIO), "all the same");
        assert_eq!(fs.flush(ino), Ok(()));
    }
}

/// While shards do not answer, a file that cannot be flushed stores no object at each attempt, and
/// is not tried all the time.
#[test]
fn a_flush_that_fails_again_and_again_stores_nothing_more() {
    let Setup { fs, shards, store } = setup();
    let puts = || store.puts.load(Ordering::Relaxed);
    fs.write(FILE, Some(0), &[1; 50_000], None).unwrap();
    shards.in_doubt.store(true, Ordering::Relaxed);
    for _ in 0..50 {
        fs.flush_old(Duration::ZERO);
        assert_eq!(fs.flush(FILE), Err(Errno::ETIMEDOUT));
    }
    assert_eq!(puts(), 1, "the first attempt is in doubt: no other would be let through");
    shards.in_doubt.store(false, Ordering::Relaxed);
    fs.flush(FILE).unwrap();
    assert_eq!(puts(), 2);
    fs.write(FILE, Some(0), &[2; 50_000], None).unwrap();
    store.full.store(true, Ordering::Relaxed);
    let tried = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&tried);
    *store.before.lock().unwrap() = Some(Box::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    (0..200).for_each(|_| fs.flush_due(Duration::ZERO));
    assert!(tried.load(Ordering::Relaxed) < 10, "a second after the first, then later and later");
    store.full.store(false, Ordering::Relaxed);
    fs.flush(FILE).unwrap();
    assert_eq!(fs.read(FILE, 0, 1).unwrap(), [2], "who asks is not put off");
}

/// Shards had acknowledged changes, and have lost them.
#[test]
fn a_change_that_shards_have_lost_is_told_once_by_file_and_directory() {
    let Setup { fs, .. } = setup();
    let dir = Ino(300);
    for ino in [FILE, dir] {
        fs.is_lost(ino);
        assert_eq!(fs.fsync(ino), Err(Errno::EIO));
        assert_eq!(fs.fsync(ino), Ok(()));
    }
    fs.is_lost(FILE);
    assert_eq!(fs.flush(FILE), Err(Errno::EIO));
    assert_eq!(fs.flush(FILE), Ok(()));
    assert_eq!(fs.lost_bytes(), 0);
}

/// The same data version comes again, for other contents.
#[test]
fn contents_that_shards_have_lost_are_asked_for_again() {
    let Setup { fs, shards, store } = setup();
    fs.write(FILE, Some(0), b"lost", None).unwrap();
    fs.flush(FILE).unwrap();
    assert_eq!(fs.read(FILE, 0, 10).unwrap(), b"lost");
    let version = shards.getattr(FILE).unwrap().data_version;
    // The file is as it was before, and another client writes it.
    let other = DataFs::new(
        Arc::clone(&shards) as Arc<dyn Metadata>,
        Arc::clone(&store) as Arc<dyn ObjectStore>,
        Limits::default(),
    );
    other.created(&shards.create(FILE));
    other.write(FILE, Some(0), b"new", None).unwrap();
    other.flush(FILE).unwrap();
    let attr = shards.getattr(FILE).unwrap();
    assert_eq!(attr.data_version, version);
    fs.taken_back(FILE);
    assert!(!fs.opened(&attr).keep_pages);
    assert_eq!(fs.read(FILE, 0, 10).unwrap(), b"new");
}
