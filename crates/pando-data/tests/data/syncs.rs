//! What storing costs, and which threads wait for it.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use pando_data::{DataFs, Limits, LocalStore, Metadata, ObjectStore, SyncObjects, Syncs};
use pando_types::op::ObjectId;
use pando_types::{Attr, Credentials, SetAttr, TimeSet, Timestamp};

use crate::common::{FILE, Folder, Shards, Store};

/// Stores an object and syncs it. Returns the number of syncs.
fn cost(store: &LocalStore, counter: u128) -> u64 {
    let before = store.syncs().single;
    store.put(ObjectId(7 << 64 | counter), &[b"x"]).unwrap();
    store.sync().unwrap();
    store.syncs().single - before
}

#[test]
fn folders_are_synced_once_and_not_for_each_object() {
    let folder = Folder::new("syncs");
    let store = LocalStore::open(&folder.0).unwrap();
    let first = cost(&store, 0);
    let each = cost(&store, 1);
    assert!(each <= 2, "the object, and its folder where names are not synced with their file");
    assert_eq!(first, each + 2, "the names of two folders");
    assert!((2..50).all(|counter| cost(&store, counter) == each));
    assert_eq!(cost(&store, 4096), each + 1, "another folder of the same session");
    assert_eq!(store.syncs().whole, 0);
    // After a restart it is not known what the earlier process has synced.
    let again = LocalStore::open(&folder.0).unwrap();
    assert_eq!(cost(&again, 50), first);
    assert_eq!(cost(&again, 51), each);
}

#[test]
fn a_folder_that_was_made_again_is_synced_again() {
    let folder = Folder::new("remade");
    let store = LocalStore::open(&folder.0).unwrap();
    let first = cost(&store, 0);
    store.delete(ObjectId(7 << 64)).unwrap();
    assert!(!is_there(&folder.0, "0000000000000007/0"));
    assert_eq!(cost(&store, 1), first - 1, "the session's folder stayed");
    // As a mount does that deletes another mount's garbage.
    let other = LocalStore::open(&folder.0).unwrap();
    other.delete(ObjectId(7 << 64 | 1)).unwrap();
    assert_eq!(cost(&store, 2), first - 1);
    assert_eq!(cost(&store, 3), first - 2);
}

#[test]
fn what_was_put_before_a_kill_is_synced_after_it() {
    let folder = Folder::new("killed");
    let empty = LocalStore::open_unsure(&folder.0).unwrap();
    empty.sync().unwrap();
    assert_eq!(empty.syncs(), Syncs::default(), "there was nobody before");
    for counter in 0..3 {
        empty.put(ObjectId(7 << 64 | counter), &[b"x"]).unwrap();
    }
    drop(empty);
    let again = LocalStore::open_unsure(&folder.0).unwrap();
    again.sync().unwrap();
    assert_eq!(again.syncs(), Syncs { single: 0, whole: 1 });
    again.sync().unwrap();
    assert_eq!(again.syncs().whole, 1, "once");
}

fn is_there(folder: &Path, name: &str) -> bool {
    folder.join(name).exists()
}

thread_local! {
    /// Whether this thread has called its hook before a wait, since the last look.
    static STEPPED: Cell<bool> = const { Cell::new(false) };
    /// Told when this thread is about to wait.
    static TELL: Cell<Option<Sender<()>>> = const { Cell::new(None) };
}

fn step() {
    STEPPED.set(true);
    if let Some(tell) = TELL.take() {
        tell.send(()).unwrap();
    }
}

struct Setup {
    fs: Arc<DataFs>,
    shards: Arc<Shards>,
    store: Arc<Store>,
}

fn setup(attr: impl FnOnce(&Shards) -> Attr) -> Setup {
    let store = Store::new("waits");
    let shards = Shards::new(&store);
    let limits = Limits { sync_objects: SyncObjects::BeforeCommit, ..Limits::default() };
    let metadata = Arc::clone(&shards) as Arc<dyn Metadata>;
    let fs = DataFs::new(metadata, Arc::clone(&store) as Arc<dyn ObjectStore>, limits);
    fs.created(&attr(&shards));
    Setup { fs, shards, store }
}

/// A thread that reads requests hands them on before it stores or syncs an object, whatever led
/// there.
#[test]
fn a_thread_that_stores_an_object_steps_aside_first() {
    let Setup { fs, shards, store } = setup(|shards| shards.create(FILE));
    pando_client::before_park(step);
    *store.before.lock().unwrap() =
        Some(Box::new(|| assert!(STEPPED.get(), "others wait for this thread")));
    let stored = |what: &str| {
        assert!(STEPPED.replace(false), "{what}");
        store.puts.swap(0, Ordering::Relaxed)
    };
    fs.write(FILE, Some(0), &[1; 10_000], None).unwrap();
    assert!(!STEPPED.get(), "nothing to wait for");
    fs.flush(FILE).unwrap();
    assert_eq!(stored("close"), 1);
    fs.write(FILE, Some(0), b"few", None).unwrap();
    let set = SetAttr { mtime: Some(TimeSet::To(Timestamp::from_nanos(5))), ..SetAttr::default() };
    fs.setattr(&Credentials::ROOT, FILE, set).unwrap();
    assert_eq!(stored("utimes"), 1);
    fs.write(FILE, Some(0), b"few", None).unwrap();
    fs.release(FILE);
    assert_eq!(stored("the last close"), 1);
    fs.opened(&shards.getattr(FILE).unwrap());
    fs.write(FILE, Some(0), b"few", None).unwrap();
    fs.fsync(FILE).unwrap();
    assert_eq!(stored("fsync"), 1);
}

/// A few bytes written over a file in objects become an object, and the flush waits for its sync.
#[test]
fn a_small_write_into_objects_is_known_to_wait() {
    let Setup { fs, shards, .. } = setup(|shards| shards.create(FILE));
    fs.write(FILE, Some(0), b"few", None).unwrap();
    assert!(!fs.flush_waits(FILE), "a small file goes into the request itself");
    fs.write(FILE, Some(0), &[1; 10_000], None).unwrap();
    assert!(fs.flush_waits(FILE));
    fs.flush(FILE).unwrap();
    assert!(!fs.flush_waits(FILE), "nothing to store");
    fs.write(FILE, Some(0), b"few", None).unwrap();
    assert!(fs.flush_waits(FILE));
    fs.release(FILE);
    fs.opened(&shards.getattr(FILE).unwrap());
    assert!(!fs.flush_waits(FILE));
    fs.write(FILE, Some(0), b"few", None).unwrap();
    assert!(
        fs.flush_waits(FILE),
        "nobody has asked yet how it is kept, but it is too large for a row"
    );
}

/// A call about a file that another thread flushes hands requests on before it waits for the flush.
#[test]
fn a_thread_that_waits_for_a_flush_of_another_steps_aside_first() {
    let Setup { fs, store, .. } = setup(|shards| shards.create(FILE));
    fs.write(FILE, Some(0), &[1; 10_000], None).unwrap();
    let (arrived, arrives) = channel();
    let (go, goes) = channel();
    *store.before.lock().unwrap() = Some(Box::new(move || {
        let _ = arrived.send(());
        let _ = goes.recv_timeout(Duration::from_secs(20));
    }));
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| fs.flush(FILE));
        arrives.recv().unwrap();
        pando_client::before_park(step);
        TELL.set(Some(go));
        // The flush goes on when this thread announces its wait, and otherwise much later.
        assert_eq!(fs.getattr(FILE).unwrap().size, 10_000);
        assert!(STEPPED.get());
        flush.join().unwrap().unwrap();
    });
}
