//! The adaptor under a real kernel, over a tree in memory. These tests fail if mounting is
//! impossible. They leave nothing mounted.

mod common;
mod ways;

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::{Setup, setup};
use pando_client::block_on;
use pando_fuse::{Mounted, Options};
use pando_types::{Credentials, FileKind, Ino, Judge, Name, SetAttr, TimeSet};
use rustix::fs::{FallocateFlags, Gid, RenameFlags, Uid, XattrFlags};

/// Tests that start processes take turns. A process that starts closes the files of this program
/// that it does not inherit, those of other tests included. Such a close may take a report of a
/// loss.
static STARTS: Mutex<()> = Mutex::new(());

fn take_turns() -> MutexGuard<'static, ()> {
    STARTS.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Mount {
    path: PathBuf,
    mounted: Option<Mounted>,
    setup: Setup,
}

impl Mount {
    fn new(name: &str, options: &Options) -> Self {
        let path = std::env::temp_dir().join(format!("pando-fuse-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        let path = path.canonicalize().unwrap();
        let setup = setup();
        let mounted = pando_fuse::mount(setup.fs.clone(), &path, options)
            .unwrap_or_else(|error| panic!("this test needs to mount: {error}"));
        ways::check(&mounted);
        Self { path, mounted: Some(mounted), setup }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        drop(self.mounted.take());
        let _ = fs::remove_dir(&self.path);
    }
}

/// Other tests must not start processes meanwhile: see [`STARTS`].
#[test]
fn all_is_the_same_by_the_device() {
    let _turn = take_turns();
    ways::again_by_device("all_is_the_same_by_the_device");
}

#[test]
fn names() {
    let mount = Mount::new("names", &Options::default());
    let path = |name: &str| mount.path(name);
    fs::create_dir_all(path("a/b")).unwrap();
    fs::write(path("a/f"), "text").unwrap();
    fs::rename(path("a/f"), path("a/b/g")).unwrap();
    fs::hard_link(path("a/b/g"), path("h")).unwrap();
    assert_eq!(fs::metadata(path("h")).unwrap().nlink(), 2);
    symlink("a/b/g", path("s")).unwrap();
    assert_eq!(fs::read_link(path("s")).unwrap(), PathBuf::from("a/b/g"));
    assert_eq!(fs::read_to_string(path("s")).unwrap(), "text");
    let (dir, flags) = (File::open(&mount.path).unwrap(), RenameFlags::NOREPLACE);
    let taken = rustix::fs::renameat_with(&dir, "h", &dir, "s", flags);
    assert_eq!(taken, Err(rustix::io::Errno::EXIST));
    let whiteout = rustix::fs::renameat_with(&dir, "h", &dir, "w", RenameFlags::WHITEOUT);
    assert_eq!(whiteout, Err(rustix::io::Errno::INVAL));
    assert_eq!(fs::remove_dir(path("a/b")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    let long = "x".repeat(256);
    assert_eq!(fs::write(path(&long), "").unwrap_err().kind(), ErrorKind::InvalidFilename);
    drop(dir);
    fs::remove_dir_all(path("a")).unwrap();
    assert_eq!(fs::read_to_string(path("h")).unwrap(), "text");
    let stat = rustix::fs::statvfs(&mount.path).unwrap();
    assert!(stat.f_blocks > 0 && stat.f_namemax == 255);
}

#[test]
fn large_directories_are_listed_completely() {
    let _turn = take_turns();
    for (name, timeout) in [("list", 0), ("list-plus", 10)] {
        let timeout = Duration::from_secs(timeout);
        let options =
            Options { entry_timeout: timeout, attr_timeout: timeout, ..Options::default() };
        let mount = Mount::new(name, &options);
        let expected: BTreeSet<String> = (0..1500).map(|number| format!("file{number}")).collect();
        for name in &expected {
            File::create_new(mount.path(name)).unwrap();
        }
        let listed: Vec<_> = fs::read_dir(&mount.path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(listed.len(), expected.len());
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), expected);
        let output = Command::new("ls").arg("-la").arg(&mount.path).output().unwrap();
        assert!(output.status.success());
        assert_eq!(output.stdout.iter().filter(|&&byte| byte == b'\n').count(), 1503);
        for name in &expected {
            fs::remove_file(mount.path(name)).unwrap();
        }
        assert_eq!(fs::read_dir(&mount.path).unwrap().count(), 0);
    }
}

/// Another mount takes setuid off. This kernel has learnt of setuid by a listing. It must ask again
/// before it reports the file's mode.
#[test]
fn a_program_that_a_listing_tells_of_is_remembered_for_no_time() {
    let timeout = Duration::from_secs(60);
    let options = Options { entry_timeout: timeout, attr_timeout: timeout, ..Options::default() };
    let mount = Mount::new("list-programs", &options);
    let (fs, by) = (mount.setup.fs.clone(), Credentials::ROOT);
    let set = |ino, mode| {
        let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
        block_on(fs.setattr(&by, ino, set)).unwrap();
    };
    let [program, file] = ["program", "file"].map(|name| {
        let name = Name::new(name.as_bytes()).unwrap();
        block_on(fs.mknod(&by, Ino::ROOT, &name, FileKind::Regular, 0o755, 0)).unwrap().ino
    });
    set(program, 0o4755);
    assert_eq!(fs::read_dir(&mount.path).unwrap().count(), 2);
    set(program, 0o700);
    set(file, 0o700);
    let mode = |name| fs::metadata(mount.path(name)).unwrap().mode() & 0o7777;
    assert_eq!(mode("program"), 0o700);
    assert_eq!(mode("file"), 0o755, "the listing had told of it, or this test is of nothing");
}

#[test]
fn contents() {
    let mount = Mount::new("contents", &Options::default());
    let path = mount.path("f");
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    let data: Vec<u8> = (0..10_000_000u32).map(|n| (n * 7 % 253) as u8).collect();
    file.write_all(&data).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 10_000_000, "before anything is flushed");
    file.sync_all().unwrap();
    assert!(fs::read(&path).unwrap() == data);
    file.set_len(5000).unwrap();
    file.write_all_at(b"far", 20_000).unwrap();
    file.seek(SeekFrom::Start(4998)).unwrap();
    let mut rest = Vec::new();
    file.read_to_end(&mut rest).unwrap();
    assert_eq!(&rest[..2], &data[4998..5000]);
    assert!(rest[2..15_002].iter().all(|&byte| byte == 0));
    assert_eq!(&rest[15_002..], b"far");
    assert!(matches!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(0)), Ok(5000..=20_000)));
    let whole = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(10_000));
    assert_eq!(whole, Ok(20_000));

    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 1000, 2000).unwrap();
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 30_000).unwrap();
    drop(file);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 30_000);
    assert!(bytes[1000..3000].iter().all(|&byte| byte == 0) && bytes[..1000] == data[..1000]);

    let mut append = OpenOptions::new().append(true).open(&path).unwrap();
    append.write_all(b"one").unwrap();
    append.write_all(b"two").unwrap();
    drop(append);
    assert_eq!(&fs::read(&path).unwrap()[30_000..], b"onetwo");
    let copied = fs::copy(&path, mount.path("copy")).unwrap();
    assert_eq!(copied, 30_006);
    assert_eq!(fs::read(mount.path("copy")).unwrap(), fs::read(&path).unwrap());
    File::create(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
}

#[test]
fn every_open_is_released_and_every_lookup_forgotten() {
    let mut mount = Mount::new("counts", &Options::default());
    for number in 0..20 {
        fs::write(mount.path(&format!("f{number}")), vec![1; 10_000]).unwrap();
        fs::read(mount.path(&format!("f{number}"))).unwrap();
    }
    for number in 0..20 {
        fs::remove_file(mount.path(&format!("f{number}"))).unwrap();
    }
    let memory = &mount.setup.memory;
    mount.mounted.take().unwrap().unmount().map_err(|(error, _)| error).unwrap();
    assert_eq!(memory.opens.load(Ordering::Relaxed), 0);
    assert_eq!(mount.setup.fs.data().dirty_bytes(), 0);
}

#[test]
fn an_unlinked_open_file_is_still_there() {
    let mount = Mount::new("unlinked", &Options::default());
    let mut file =
        OpenOptions::new().read(true).write(true).create_new(true).open(mount.path("f")).unwrap();
    file.write_all(&[5; 9000]).unwrap();
    fs::remove_file(mount.path("f")).unwrap();
    file.write_all(b"more").unwrap();
    assert_eq!(file.metadata().unwrap().len(), 9004);
    let mut bytes = vec![0; 9004];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes[8999..], b"\x05more");
}

#[test]
fn a_full_store_is_reported_by_close_and_fsync() {
    let _turn = take_turns();
    let mount = Mount::new("full", &Options::default());
    mount.setup.store.full.store(true, Ordering::Relaxed);
    let path = mount.path("f");
    let mut file = File::create_new(&path).unwrap();
    file.write_all(&[1; 100_000]).unwrap();
    assert_eq!(file.sync_all().unwrap_err().kind(), ErrorKind::StorageFull);
    let closed = Command::new("sh")
        .arg("-c")
        .arg(format!("dd if=/dev/zero of={} bs=64k count=2", mount.path("g").display()))
        .output()
        .unwrap();
    assert!(!closed.status.success(), "dd closes its output and looks at the result");
    mount.setup.store.full.store(false, Ordering::Relaxed);
    file.sync_all().unwrap();
    drop(file);
    assert_eq!(fs::read(&path).unwrap(), vec![1; 100_000]);
}

/// Bytes are lost after their writer has gone on. The next close or sync of the file reports the
/// loss, even through a handle that only reads.
#[test]
fn a_loss_is_told_to_the_next_program_that_closes_or_syncs() {
    let _turn = take_turns();
    let mount = Mount::new("lost", &Options::default());
    let (data, shards) = (mount.setup.fs.data(), &mount.setup.memory.shards);
    let path = mount.path("f");
    let file = File::create_new(&path).unwrap();
    let lose = || {
        file.write_all_at(b"text", 0).unwrap();
        shards.stale.store(true, Ordering::Relaxed);
        data.flush_old(Duration::ZERO);
        shards.stale.store(false, Ordering::Relaxed);
    };
    lose();
    let reader = File::open(&path).unwrap();
    assert_eq!(reader.sync_all().unwrap_err().raw_os_error(), Some(5));
    reader.sync_all().unwrap();
    file.sync_all().unwrap();
    // `cp` checks what `close` returns for its source, too. The shell starts before the loss. To
    // start a process closes the descriptors that it does not inherit, and such a close would take
    // the report.
    let script = "echo ready; read go; for i in 1 2; do cp \"$0\" /dev/null; echo $?; done";
    let mut copying = Command::new("sh")
        .args(["-c", script])
        .arg(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(copying.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().unwrap(), "ready");
    lose();
    drop(copying.stdin.take());
    assert_eq!(said.collect::<Vec<_>>(), ["1", "0"]);
    copying.wait().unwrap();
    file.sync_all().unwrap();
    assert_eq!(data.lost_bytes(), 8);
}

#[test]
fn mappings_read_and_write() {
    let _turn = take_turns();
    let mount = Mount::new("mmap", &Options::default());
    let script = r#"
import mmap, sys
with open(sys.argv[1], "w+b") as f:
    f.truncate(20000)
    with mmap.mmap(f.fileno(), 20000) as m:
        m[10000:10005] = b"hello"
        m.flush()
        f.seek(10000)
        assert f.read(5) == b"hello"
        m[15000:15005] = b"world"
assert open(sys.argv[1], "rb").read()[15000:15005] == b"world"
"#;
    let path = mount.path("f");
    let output = Command::new("python3").arg("-c").arg(script).arg(&path).output();
    match output {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let bytes = fs::read(&path).unwrap();
            assert_eq!((bytes.len(), &bytes[10_000..10_005]), (20_000, &b"hello"[..]));
            assert_eq!(&bytes[15_000..15_005], b"world");
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "python3"),
    }
    // Running a program maps it, too.
    fs::copy("/bin/true", mount.path("true")).unwrap();
    fs::set_permissions(mount.path("true"), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(Command::new(mount.path("true")).status().unwrap().success());
}

#[test]
fn extended_attributes() {
    let mount = Mount::new("xattr", &Options::default());
    let path = mount.path("f");
    File::create_new(&path).unwrap();
    rustix::fs::setxattr(&path, "user.a", b"value", XattrFlags::empty()).unwrap();
    let mut buffer = vec![0; 100];
    assert_eq!(rustix::fs::getxattr(&path, "user.a", &mut buffer), Ok(5));
    assert_eq!(rustix::fs::getxattr_query(&path, "user.a"), Ok(5));
    assert_eq!(
        rustix::fs::getxattr(&path, "user.a", &mut buffer[..2]),
        Err(rustix::io::Errno::RANGE)
    );
    assert_eq!(rustix::fs::listxattr(&path, &mut buffer), Ok(7));
    assert_eq!(&buffer[..7], b"user.a\0");
    rustix::fs::removexattr(&path, "user.a").unwrap();
    assert_eq!(rustix::fs::getxattr(&path, "user.a", &mut buffer), Err(rustix::io::Errno::NODATA));
    let label = "security.selinux";
    assert_eq!(rustix::fs::getxattr_query(&path, label), Err(rustix::io::Errno::OPNOTSUPP));
    rustix::fs::setxattr(&path, label, b"label", XattrFlags::empty()).unwrap();
    assert_eq!(rustix::fs::getxattr_query(&path, label), Ok(5));
    // The list rw-r--r--, as `setfacl` would write it.
    let mut acl = 2u32.to_le_bytes().to_vec();
    for (tag, permissions) in [(1u16, 6u16), (4, 4), (0x20, 4)] {
        acl.extend(tag.to_le_bytes());
        acl.extend(permissions.to_le_bytes());
        acl.extend(u32::MAX.to_le_bytes());
    }
    let name = "system.posix_acl_access";
    let set = rustix::fs::setxattr(&path, name, &acl, XattrFlags::empty());
    assert_eq!(set, Err(rustix::io::Errno::OPNOTSUPP));
    assert_eq!(rustix::fs::getxattr_query(&path, name), Err(rustix::io::Errno::OPNOTSUPP));
}

#[test]
fn a_caller_is_judged_by_the_kernel_by_all_its_groups() {
    let _turn = take_turns();
    let mount = Mount::new("groups", &Options::default());
    // The file is in a directory of a group that is not the caller's first.
    fs::create_dir(mount.path("d")).unwrap();
    File::create_new(mount.path("d/f")).unwrap();
    std::os::unix::fs::chown(mount.path("d"), None, Some(8)).unwrap();
    fs::set_permissions(mount.path("d"), PermissionsExt::from_mode(0o750)).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid=1234", "--regid=1235", "--groups=7,8", "cat"])
        .arg(mount.path("d/f"))
        .output();
    match output {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let by = mount.setup.memory.last_by.lock().unwrap().clone();
            assert_eq!((by.uid, by.gid), (1234, 1235));
            let Judge::Powers(powers) = by.judge else { panic!("{:?}", by.judge) };
            assert_eq!((powers.groups, powers.capabilities), (vec![7, 8], 0));
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "setpriv"),
    }
}

/// Runs `work` in a thread of a user without capabilities.
fn as_stranger(work: impl FnOnce() + Send) {
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let (uid, gid) = (Uid::from_raw(61_002), Gid::from_raw(62_002));
            set_thread_groups(&[]).unwrap();
            set_thread_res_gid(gid, gid, gid).unwrap();
            set_thread_res_uid(uid, uid, uid).unwrap();
            work();
        });
        thread.join().unwrap();
    });
}

/// Setuid and setgid are taken off with the change itself, or by a request for just that. They are
/// never taken off by setting a mode.
#[test]
fn no_mode_is_written_that_no_program_asked_for() {
    let mount = Mount::new("setid", &Options::default());
    let path = mount.path("f");
    fs::write(&path, "text").unwrap();
    let shards = &mount.setup.memory.shards;
    let writing = || OpenOptions::new().write(true).open(&path).unwrap();
    let allocate = |flags| rustix::fs::fallocate(writing(), flags, 0, 100).unwrap();
    let acts: [&(dyn Fn() + Sync); 6] = [
        &|| writing().write_all(b"w").unwrap(),
        &|| writing().set_len(2).unwrap(),
        &|| allocate(FallocateFlags::empty()),
        &|| allocate(FallocateFlags::KEEP_SIZE),
        &|| allocate(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE),
        &|| drop(File::create(&path).unwrap()),
    ];
    for (number, act) in acts.iter().enumerate() {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o6777)).unwrap();
        shards.changes.lock().unwrap().clear();
        as_stranger(act);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o777, "{number}");
        let changes = std::mem::take(&mut *shards.changes.lock().unwrap());
        assert!(changes.iter().all(|set| set.mode.is_none()), "{number}: {changes:?}");
    }
    // A change of a file that is no program causes no further request.
    as_stranger(acts[0]);
    as_stranger(acts[3]);
    // Space that was there already changes nothing but the time.
    let touched = SetAttr { mtime: Some(TimeSet::Now), ..SetAttr::default() };
    assert!(shards.changes.lock().unwrap().drain(..).all(|set| set == touched));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6777)).unwrap();
    shards.changes.lock().unwrap().clear();
    std::os::unix::fs::chown(&path, Some(5), Some(6)).unwrap();
    let owner = SetAttr { uid: Some(5), gid: Some(6), ..SetAttr::default() };
    assert_eq!(*shards.changes.lock().unwrap(), [owner]);
}

#[test]
fn a_file_that_no_other_client_changed_stays_in_the_page_cache() {
    let mount = Mount::new("pages", &Options::default());
    let path = mount.path("f");
    fs::write(&path, vec![3; 100_000]).unwrap();
    fs::read(&path).unwrap();
    let calls = || mount.setup.memory.calls.load(Ordering::Relaxed);
    // The kernel tells of closed files when it likes, so one of several reads is undisturbed.
    let read = || {
        let before = calls();
        assert_eq!(fs::read(&path).unwrap().len(), 100_000);
        calls() - before
    };
    let cached = (0..8).map(|_| read()).min().unwrap();
    use pando_data::Metadata;
    let ino = pando_types::Ino(fs::metadata(&path).unwrap().ino());
    mount.setup.memory.shards.write_data(ino, None, Vec::new(), None, None).unwrap();
    let after = read();
    assert!(after > cached, "changed elsewhere: read anew ({after}, {cached})");
}

#[test]
fn the_end_of_a_mount_leaves_its_successor_at_the_same_path_alone() {
    let mut mount = Mount::new("successor", &Options::default());
    let old = mount.mounted.take().unwrap();
    fs::write(mount.path("f"), "old").unwrap();
    let held = File::open(mount.path("f")).unwrap();
    old.detach().unwrap();
    mount.setup = setup();
    let new = pando_fuse::mount(mount.setup.fs.clone(), &mount.path, &Options::default()).unwrap();
    mount.mounted = Some(new);
    fs::write(mount.path("f"), "new").unwrap();
    // The old session is not over yet.
    assert!(!old.is_over());
    old.request_unmount().unwrap();
    old.detach().unwrap();
    drop(held);
    drop(old);
    assert_eq!(fs::read_to_string(mount.path("f")).unwrap(), "new");
}
