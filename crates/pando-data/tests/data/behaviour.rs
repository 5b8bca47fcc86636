//! Single promises of the data path.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pando_data::{
    Allocate, DataFs, Limits, LocalStore, Metadata, ObjectStore, RemoteStore, StoreError,
};
use pando_types::op::{INLINE_MAX, ObjectId, SLICE_MAX};
use pando_types::{Credentials, Errno, Ino, Kill, SetAttr, TimeSet, Timestamp};

use crate::common::{FILE, Folder, SHARDS_TIME, Shards, Store};

struct Setup {
    fs: Arc<DataFs>,
    shards: Arc<Shards>,
    store: Arc<Store>,
}

fn setup(limits: Limits) -> Setup {
    let store = Store::new("behaviour");
    let shards = Shards::new(&store);
    let fs = DataFs::new(
        Arc::clone(&shards) as Arc<dyn Metadata>,
        Arc::clone(&store) as Arc<dyn ObjectStore>,
        limits,
    );
    fs.created(&shards.create(FILE));
    Setup { fs, shards, store }
}

#[test]
fn small_files_are_inline_and_growing_ones_leave() {
    let Setup { fs, shards, store } = setup(Limits::default());
    fs.write(FILE, Some(0), &[1; INLINE_MAX as usize], None).unwrap();
    fs.flush(FILE).unwrap();
    assert!(shards.is_inline(FILE));
    assert_eq!(store.puts.load(Ordering::Relaxed), 0);
    fs.write(FILE, Some(INLINE_MAX), &[2], None).unwrap();
    fs.flush(FILE).unwrap();
    assert!(!shards.is_inline(FILE));
    assert_eq!(store.puts.load(Ordering::Relaxed), 1, "old bytes and new ones in one object");
    let bytes = fs.read(FILE, 0, 10_000).unwrap();
    assert_eq!(bytes.len() as u64, INLINE_MAX + 1);
    assert_eq!((bytes[0], bytes[INLINE_MAX as usize]), (1, 2));
}

#[test]
fn scattered_small_writes_share_an_object() {
    let Setup { fs, shards, store } = setup(Limits::default());
    for block in 0..100 {
        fs.write(FILE, Some(block * 10_000), &[block as u8; 100], None).unwrap();
    }
    fs.flush(FILE).unwrap();
    assert_eq!(store.puts.load(Ordering::Relaxed), 1);
    assert_eq!(shards.object_count(FILE), 1);
    assert_eq!(fs.read(FILE, 990_000, 100).unwrap(), [99; 100]);
    assert_eq!(fs.read(FILE, 980_100, 100).unwrap(), [0; 100]);
}

#[test]
fn writes_far_apart_do_not_share_an_object() {
    let Setup { fs, shards, store } = setup(Limits::default());
    for far in 0..10 {
        fs.write(FILE, Some(far * SLICE_MAX / 2), b"a", None).unwrap();
    }
    fs.flush(FILE).unwrap();
    assert_eq!(shards.object_count(FILE), 5, "the model of the shards checks how far");
    assert_eq!(store.puts.load(Ordering::Relaxed), 5);
}

#[test]
fn a_full_store_is_told_and_costs_nothing_once_there_is_room() {
    let limits = Limits { file_dirty_bytes: 100_000, ..Limits::default() };
    let Setup { fs, shards, store } = setup(limits);
    fs.write(FILE, Some(0), &[1; 90_000], None).unwrap();
    store.full.store(true, Ordering::Relaxed);
    assert_eq!(
        fs.write(FILE, Some(90_000), &[2; 20_000], None),
        Err(Errno::ENOSPC),
        "the writer hears of it"
    );
    assert_eq!(fs.flush(FILE), Err(Errno::ENOSPC), "close hears of it");
    assert_eq!(fs.fsync(FILE), Err(Errno::ENOSPC), "fsync hears of it");
    assert_eq!(fs.getattr(FILE).unwrap().size, 90_000, "the refused write left no trace");
    assert_eq!(fs.read(FILE, 89_999, 10).unwrap(), [1], "what was taken is still there");
    let set = SetAttr { size: Some(50_000), ..SetAttr::default() };
    assert_eq!(fs.setattr(&Credentials::ROOT, FILE, set).unwrap().size, 50_000, "truncation works");
    store.full.store(false, Ordering::Relaxed);
    fs.flush(FILE).unwrap();
    assert_eq!(shards.getattr(FILE).unwrap().size, 50_000);
    assert_eq!(fs.read(FILE, 0, 60_000).unwrap(), vec![1; 50_000]);
    assert_eq!(fs.lost_bytes(), 0);
}

#[test]
fn what_cannot_be_stored_by_the_last_close_is_counted_as_lost() {
    let Setup { fs, shards, store } = setup(Limits::default());
    fs.write(FILE, Some(0), &[1; 5000], None).unwrap();
    store.full.store(true, Ordering::Relaxed);
    assert_eq!(fs.flush(FILE), Err(Errno::ENOSPC));
    fs.release(FILE);
    assert_eq!((fs.lost_bytes(), fs.dirty_bytes()), (5000, 0));
    assert_eq!(shards.getattr(FILE).unwrap().size, 0);
}

#[test]
fn what_no_user_may_write_now_is_kept_until_one_may() {
    let Setup { fs, shards, store } = setup(Limits::default());
    fs.write(FILE, Some(0), &[1; 5000], None).unwrap();
    shards.refused.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        assert_eq!(fs.flush(FILE), Err(Errno::EACCES));
    }
    assert_eq!((fs.lost_bytes(), fs.dirty_bytes()), (0, 5000));
    let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
    assert_eq!((count(&store.puts), count(&store.deletes)), (3, 3), "nothing is left in the store");
    shards.refused.store(false, Ordering::Relaxed);
    fs.flush(FILE).unwrap();
    assert_eq!(shards.getattr(FILE).unwrap().size, 5000);
    assert_eq!(fs.read(FILE, 0, 9000).unwrap(), [1; 5000]);
}

#[test]
fn times_set_after_a_write_stay() {
    let Setup { fs, shards, .. } = setup(Limits::default());
    fs.write(FILE, Some(0), b"x", None).unwrap();
    let shown = fs.getattr(FILE).unwrap().mtime;
    assert_eq!(shown, SHARDS_TIME, "an unflushed write shows, by the clock of its shard");
    fs.flush(FILE).unwrap();
    assert_eq!(shards.getattr(FILE).unwrap().mtime, shown, "flushing does not change it");
    fs.write(FILE, Some(0), b"y", None).unwrap();
    let time = Timestamp::from_nanos(5_000_000_000);
    let set = SetAttr { mtime: Some(TimeSet::To(time)), ..SetAttr::default() };
    assert_eq!(fs.setattr(&Credentials::ROOT, FILE, set).unwrap().mtime, time);
    fs.flush(FILE).unwrap();
    assert_eq!(shards.getattr(FILE).unwrap().mtime, time);
}

const USERS: Option<Kill> = Some(Kill::All);

fn chmod(mode: u16) -> SetAttr {
    SetAttr { mode: Some(mode), ..SetAttr::default() }
}

/// A write clears setuid and setgid in the very request that stores it, and never by setting a
/// mode.
#[test]
fn what_a_user_wrote_takes_setuid_off_as_it_is_stored() {
    let Setup { fs, shards, .. } = setup(Limits::default());
    let mode = || shards.getattr(FILE).unwrap().mode;
    let by = Credentials::ROOT;
    fs.setattr(&by, FILE, chmod(0o6755)).unwrap();
    fs.write(FILE, Some(0), b"root's", None).unwrap();
    fs.flush(FILE).unwrap();
    assert_eq!(mode(), 0o6755, "one who keeps them");
    fs.write(FILE, Some(0), b"a user's", USERS).unwrap();
    assert_eq!(mode(), 0o6755);
    let changes = shards.changes.lock().unwrap().len();
    fs.flush(FILE).unwrap();
    assert_eq!(mode(), 0o755);
    fs.write(FILE, Some(9), b"root's", None).unwrap();
    fs.setattr(&by, FILE, chmod(0o6755)).unwrap();
    fs.flush(FILE).unwrap();
    assert_eq!(mode(), 0o6755, "what is over is over");
    assert_eq!(shards.changes.lock().unwrap().len(), changes + 1, "the chmod");
    let (punch, reserve) = (Allocate::PunchHole, Allocate::Reserve { keep_size: false });
    for what in [punch, reserve, Allocate::Zero { keep_size: false }] {
        shards.setattr(&by, FILE, chmod(0o6755)).unwrap();
        let end = shards.getattr(FILE).unwrap().size + 10;
        fs.fallocate(FILE, (0, end), what, USERS).unwrap();
        assert_eq!(mode(), 0o755, "{what:?}");
    }
    // Beyond the end there is nothing to make a hole of; the file's times change nevertheless.
    fs.fallocate(FILE, (1 << 20, 10), punch, None).unwrap();
    let touched = SetAttr { mtime: Some(TimeSet::Now), ..SetAttr::default() };
    assert_eq!(shards.changes.lock().unwrap().last(), Some(&touched));
    shards.setattr(&by, FILE, chmod(0o6755)).unwrap();
    fs.copy_range((FILE, 0), (FILE, 20), 5, USERS).unwrap();
    fs.flush(FILE).unwrap();
    assert_eq!(mode(), 0o755);
    shards.setattr(&by, FILE, chmod(0o6755)).unwrap();
    fs.write(FILE, Some(0), b"a user's", USERS).unwrap();
    let size = SetAttr { size: Some(0), ..SetAttr::default() };
    assert_eq!(fs.setattr(&by, FILE, size).unwrap().mode, 0o755, "although nothing is left of it");
}

/// A mode with set-id bits covers earlier writes, which do not clear these bits afterwards. If the
/// owner sets them on another mount, writes that are stored later clear them.
#[test]
fn a_file_made_a_program_has_what_was_written_until_then() {
    let Setup { fs, shards, .. } = setup(Limits::default());
    let by = Credentials::ROOT;
    fs.write(FILE, Some(0), b"a user's", USERS).unwrap();
    assert_eq!(fs.setattr(&by, FILE, chmod(0o4755)).unwrap().mode, 0o4755);
    assert_eq!(shards.getattr(FILE).unwrap().size, 8, "it was stored before");
    fs.flush(FILE).unwrap();
    assert_eq!(fs.getattr(FILE).unwrap().mode, 0o4755);
    fs.write(FILE, Some(0), b"once more", USERS).unwrap();
    let changes = shards.changes.lock().unwrap().len();
    fs.setattr(&by, FILE, chmod(0o600)).unwrap();
    assert_eq!(shards.getattr(FILE).unwrap().size, 8, "nothing to wait for");
    shards.setattr(&by, FILE, chmod(0o4711)).unwrap();
    assert_eq!(fs.getattr(FILE).unwrap().mode, 0o711, "nobody here is shown the program");
    assert_eq!(shards.getattr(FILE).unwrap().size, 9, "what was written is stored, which says so");
    let mut attr = shards.getattr(FILE).unwrap();
    shards.setattr(&by, FILE, chmod(0o4711)).unwrap();
    fs.write(FILE, Some(0), b"and again", USERS).unwrap();
    attr.mode = 0o4711;
    fs.show(&mut attr).unwrap();
    assert_eq!((attr.mode, shards.getattr(FILE).unwrap().mode), (0o711, 0o711), "nor by a name");
    assert_eq!(shards.changes.lock().unwrap().len(), changes + 3, "no mode was written here");
}

#[test]
fn writers_of_many_files_stay_within_the_budget() {
    let limits = Limits { dirty_bytes: 50_000, ..Limits::default() };
    let Setup { fs, shards, .. } = setup(limits);
    for number in 0..50 {
        let ino = Ino(1000 + number);
        fs.created(&shards.create(ino));
        fs.write(ino, Some(0), &[number as u8; 9000], None).unwrap();
        assert!(fs.dirty_bytes() <= 50_000);
    }
    fs.flush_all().unwrap();
    assert_eq!(fs.dirty_bytes(), 0);
    for number in 0..50 {
        assert_eq!(shards.getattr(Ino(1000 + number)).unwrap().size, 9000);
    }
}

#[test]
fn pages_are_kept_only_while_no_other_client_wrote() {
    let Setup { fs, shards, .. } = setup(Limits::default());
    let reopen = || {
        fs.release(FILE);
        fs.opened(&shards.getattr(FILE).unwrap()).keep_pages
    };
    assert!(reopen());
    fs.write(FILE, Some(0), b"mine", None).unwrap();
    assert!(reopen(), "the kernel saw these bytes");
    shards.write_data(FILE, None, Vec::new(), None, None).unwrap();
    assert!(!reopen(), "someone else's write");
    assert!(reopen());
    fs.forget(FILE);
    assert!(!reopen(), "the kernel has no pages of a forgotten file");
}

#[test]
fn a_damaged_object_is_an_error_not_data() {
    let Setup { fs, shards, store } = setup(Limits::default());
    fs.write(FILE, Some(0), &[7; 200_000], None).unwrap();
    fs.fsync(FILE).unwrap();
    let path = first_file(&store.folder.0);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[150_000] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(fs.read(FILE, 150_000, 10), Err(Errno::EIO));
    // Blocks that were read and checked stay in memory, so each look begins with an empty cache.
    let read = |offset, len| {
        let fresh = DataFs::new(shards.clone(), store.clone(), Limits::default());
        fresh.opened(&shards.getattr(FILE).unwrap());
        fresh.read(FILE, offset, len)
    };
    assert_eq!(read(0, 200_000), Err(Errno::EIO));
    assert_eq!(read(0, 10).unwrap(), [7; 10]);
    bytes[150_000] ^= 1;
    bytes.truncate(180_000);
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(read(0, 10), Err(Errno::EIO), "cut off");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(read(0, 10), Err(Errno::EIO), "missing");
}

fn first_file(path: &std::path::Path) -> std::path::PathBuf {
    let entry = std::fs::read_dir(path).unwrap().next().unwrap().unwrap();
    if entry.file_type().unwrap().is_dir() { first_file(&entry.path()) } else { entry.path() }
}

#[test]
fn every_store_keeps_the_same_promises() {
    let folder = Folder::new("stores");
    let crate_local = object_store::local::LocalFileSystem::new_with_prefix(&folder.0).unwrap();
    let stores: [Box<dyn ObjectStore>; 3] = [
        Box::new(LocalStore::open(&folder.0.join("ours")).unwrap()),
        Box::new(RemoteStore::new(Arc::new(crate_local), "theirs").unwrap()),
        Box::new(RemoteStore::new(Arc::new(object_store::memory::InMemory::new()), "m").unwrap()),
    ];
    for store in stores {
        for counter in [0, 1, 4095, 4096, u128::from(u64::MAX)] {
            let id = ObjectId(9 << 64 | counter);
            assert!(matches!(store.get_range(id, 0..1), Err(StoreError::Missing)));
            store.put(id, &[b"he", b"", b"llo"]).unwrap();
            assert_eq!(store.get_range(id, 1..5).unwrap(), b"ello");
            assert!(matches!(store.get_range(id, 1..6), Err(StoreError::Short)));
            store.sync().unwrap();
            store.delete(id).unwrap();
            store.delete(id).unwrap();
            assert!(matches!(store.get_range(id, 0..1), Err(StoreError::Missing)));
        }
    }
}

#[test]
fn many_unsynced_objects_are_synced_at_once() {
    let folder = Folder::new("sync");
    let store = LocalStore::open(&folder.0).unwrap();
    for counter in 0..200 {
        store.put(ObjectId(counter), &[b"x"]).unwrap();
    }
    store.sync().unwrap();
    store.put(ObjectId(1000), &[b"x"]).unwrap();
    store.delete(ObjectId(1000)).unwrap();
    store.sync().unwrap();
}
