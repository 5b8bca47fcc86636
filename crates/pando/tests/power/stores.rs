//! Parts of Pando on the forgetful disk, one at a time, and that disk itself.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pando_data::{LocalStore, ObjectStore, StoreError};
use pando_fuse::Mounted;
use pando_fuse::device::Errno;
use pando_server::sessions::Sessions;
use pando_types::SessionId;
use pando_types::op::ObjectId;

use super::common::Scratch;
use super::served::{Kept, Served};

struct Bare {
    disk: Served,
    path: PathBuf,
    mounted: Option<Mounted>,
    _scratch: Scratch,
}

impl Bare {
    fn new() -> Self {
        let (scratch, disk) = (Scratch::new(), Served::new());
        let path = scratch.path().join("disk");
        fs::create_dir(&path).unwrap();
        let mounted = Some(disk.mount(&path));
        Self { disk, path, mounted, _scratch: scratch }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn sync(&self, path: &Path) {
        File::open(path).unwrap().sync_all().unwrap();
    }

    /// Takes the power away and restores it. No file on the disk may be open.
    fn lose_power(&mut self, kept: Kept) {
        self.disk.pull_after(0);
        self.disk.switch_off();
        self.disk.unmount(self.mounted.take().unwrap());
        self.disk.switch_on(&mut fastrand::Rng::with_seed(1), kept);
        self.mounted = Some(self.disk.mount(&self.path));
    }
}

#[test]
fn the_disk_forgets_what_was_not_synced_and_nothing_else() {
    let mut bare = Bare::new();
    for name in ["synced", "nameless", "written"] {
        let mut file = File::create(bare.at(name)).unwrap();
        file.write_all(&[1; 10_000]).unwrap();
        file.sync_data().unwrap();
        if name == "synced" {
            bare.sync(&bare.path);
        }
    }
    fs::rename(bare.at("nameless"), bare.at("renamed")).unwrap();
    fs::remove_file(bare.at("synced")).unwrap();
    bare.lose_power(Kept::Synced);
    let names: Vec<_> = fs::read_dir(&bare.path).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["synced"]);
    let file = File::options().read(true).write(true).open(bare.at("synced")).unwrap();
    assert_eq!(fs::read(bare.at("synced")).unwrap(), [1; 10_000]);
    file.write_all_at(&[2; 5000], 2500).unwrap();
    file.set_len(7000).unwrap();
    file.sync_data().unwrap();
    file.write_all_at(&[3; 5000], 2500).unwrap();
    file.set_len(9000).unwrap();
    drop(file);
    bare.lose_power(Kept::Synced);
    let expected = [vec![1; 2500], vec![2; 4500]].concat();
    assert_eq!(fs::read(bare.at("synced")).unwrap(), expected);
}

/// Shards write their logs through such memory, on file systems that keep their promises. Another
/// process writes here: a process that serves the pages which it waits for may wait for ever.
#[test]
fn written_memory_is_durable_once_it_was_synced() {
    const SCRIPT: &str = r#"
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 16384)
memory = mmap.mmap(file, 16384)
memory[0] = 7
os.fdatasync(file)
memory[5000] = 8
memory.flush()
memory[9000] = 9
print("written", flush=True)
sys.stdin.read()
"#;
    let mut bare = Bare::new();
    File::create(bare.at("file")).unwrap();
    bare.sync(&bare.path);
    let mut program = Command::new("python3");
    program.args(["-c", SCRIPT]).arg(bare.at("file"));
    let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "written\n");
    bare.disk.pull_after(0);
    bare.disk.switch_off();
    program.kill().unwrap();
    program.wait().unwrap();
    bare.lose_power(Kept::Synced);
    let found = fs::read(bare.at("file")).unwrap();
    assert_eq!((found[0], found[5000], found[9000], found.len()), (7, 8, 0, 16_384));
}

/// The kernel does not tell FUSE of `syncfs`.
#[test]
fn objects_are_synced_one_by_one_where_syncfs_does_nothing() {
    let mut bare = Bare::new();
    let id = |counter: u128| ObjectId(7 << 64 | counter);
    let folder = bare.at("objects");
    let store = LocalStore::open(&folder).unwrap();
    bare.sync(&bare.path);
    (0..100).for_each(|counter| store.put(id(counter), &[b"bytes"]).unwrap());
    store.sync().unwrap();
    store.put(id(5000), &[b"bytes"]).unwrap();
    drop(store);
    bare.lose_power(Kept::Synced);
    let store = LocalStore::open(&folder).unwrap();
    assert_eq!(store.list(None).unwrap().count(), 100);
    assert!((0..100).all(|counter| store.get_range(id(counter), 0..5).unwrap() == b"bytes"));
    // These objects are from a process that was killed.
    (100..103).for_each(|counter| store.put(id(counter * 4096), &[b"bytes"]).unwrap());
    drop(store);
    let store = LocalStore::open_unsure(&folder).unwrap();
    store.sync().unwrap();
    assert_eq!(store.syncs().whole, 0);
    drop(store);
    bare.lose_power(Kept::Synced);
    let store = LocalStore::open(&folder).unwrap();
    assert_eq!(store.list(None).unwrap().count(), 103);
    assert!((100..103).all(|n| store.get_range(id(n * 4096), 0..5).unwrap() == b"bytes"));
}

/// NFS reports only at `close` what it could not write back. The test also has more objects than
/// are kept open until their sync.
#[test]
fn an_object_whose_close_fails_is_not_put() {
    let bare = Bare::new();
    let id = |counter: u128| ObjectId(7 << 64 | counter);
    let store = LocalStore::open(&bare.at("objects")).unwrap();
    for count in [0, 100] {
        (0..count).for_each(|counter| store.put(id(counter), &[b"bytes"]).unwrap());
        bare.disk.fail_closes(Some(Errno::DQUOT));
        let put = store.put(id(200), &[b"bytes"]);
        assert!(matches!(put, Err(StoreError::Full)), "{put:?}");
        bare.disk.fail_closes(None);
        assert_eq!(store.list(None).unwrap().count() as u128, count);
    }
    store.sync().unwrap();
}

#[test]
fn a_session_that_has_begun_is_found_after_a_loss_of_power() {
    let mut bare = Bare::new();
    let path = bare.at("sessions");
    let sessions = Sessions::load(path.clone()).unwrap();
    sessions.begun(SessionId(7)).unwrap();
    bare.lose_power(Kept::Synced);
    assert_eq!(Sessions::load(path).unwrap().open(), [SessionId(7)]);
}
