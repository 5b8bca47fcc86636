//! Input that must be refused, with clear messages.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{Scratch, TINY, Volume, all, pando};
use rustix::io::Errno;

fn errno<T>(result: io::Result<T>) -> Errno {
    let error = result.err().expect("it should fail");
    Errno::from_raw_os_error(error.raw_os_error().unwrap_or_else(|| panic!("{error}")))
}

#[test]
fn names_are_taken_and_refused_as_linux_does() {
    let volume = Volume::up(&TINY);
    let at = |name: &[u8]| volume.mount.join(OsStr::from_bytes(name));
    for name in [&[b'x'; 255][..], b"\xff\xfe\x80 not utf-8", b"\n", b"...", b" "] {
        fs::write(at(name), "content").unwrap();
        assert_eq!(fs::read(at(name)).unwrap(), b"content");
        let listed = fs::read_dir(&volume.mount).unwrap();
        assert!(listed.map(|e| e.unwrap().file_name()).any(|n| n.as_bytes() == name));
        fs::rename(at(name), at(b"other")).unwrap();
        fs::remove_file(at(b"other")).unwrap();
    }
    assert_eq!(errno(File::create(at(&[b'x'; 256]))), Errno::NAMETOOLONG);
    assert_eq!(errno(fs::create_dir(at(&[b'x'; 256]))), Errno::NAMETOOLONG);
    assert_eq!(errno(fs::metadata(at(&[b'x'; 256]))), Errno::NAMETOOLONG);
    assert_eq!(errno(File::open("")), Errno::NOENT);
    assert_eq!(errno(fs::rename(&volume.mount, volume.scratch().join("x"))), Errno::BUSY);
    assert!(fs::metadata(at(b"a\0b")).is_err());
    assert_eq!(errno(fs::metadata(at(b"no/such"))), Errno::NOENT);
}

#[test]
fn a_path_beyond_4096_bytes_is_refused_and_a_deeper_tree_works_step_by_step() {
    let volume = Volume::up(&TINY);
    let long: PathBuf = std::iter::repeat_n("x".repeat(200), 25).collect();
    assert_eq!(errno(fs::create_dir_all(volume.mount.join(&long))), Errno::NAMETOOLONG);
    let script =
        "for i in $(seq 25); do n=$(printf 'y%.0s' $(seq 200)); mkdir $n; cd -P -- $n; done
                  echo deep > file && cat file";
    assert_eq!(crate::common::shell(&volume.mount, script), "deep\n");
    crate::common::shell(&volume.mount, "rm -rf y* x*");
    assert_eq!(fs::read_dir(&volume.mount).unwrap().count(), 0);
}

#[test]
fn a_second_up_is_refused_and_names_the_process() {
    let mut volume = Volume::up(&TINY);
    let pid = volume.pid().unwrap().to_string();
    let elsewhere = volume.scratch().join("elsewhere");
    for detach in [&[][..], &["-d"]] {
        let mut command = pando();
        command.arg("up").arg(&volume.folder).arg("--mount").arg(&elsewhere).args(detach);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{}", all(&output));
        assert!(all(&output).contains(&pid) && all(&output).contains("pando down"));
    }
    volume.stop();
}

#[test]
fn what_is_in_the_way_of_a_mount_is_named() {
    let volume = Volume::up(&TINY);
    let scratch = Scratch::new();
    let folder = scratch.path().join("v");
    let up = |at: &Path, code: i32, said: &str| {
        let output = pando().arg("up").arg(&folder).arg("--mount").arg(at).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", all(&output));
        assert!(all(&output).contains(said), "{}", all(&output));
    };
    up(&volume.mount, 4, "already");
    up(Path::new("/proc"), 4, "already");
    let file = scratch.path().join("file");
    fs::write(&file, "x").unwrap();
    up(&file, 1, "not a directory");
    up(scratch.path(), 4, "not empty");
    up(&folder.join("inside"), 1, "within each other");
    assert!(fs::read_dir(&folder).is_err() || !folder.join("superblock").exists());
}

#[test]
fn folders_that_cannot_be_a_volume_are_named() {
    let scratch = Scratch::new();
    let mount = scratch.path().join("mnt");
    let up = |folder: &Path, said: &[&str]| {
        let mut command = pando();
        let output = command.arg("up").arg(folder).arg("--mount").arg(&mount).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", all(&output));
        for said in said {
            assert!(all(&output).contains(said), "{}", all(&output));
        }
    };
    up(Path::new("/sys/pando"), &["/sys/pando", "cannot"]);
    let other = scratch.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("thesis.tex"), "x").unwrap();
    up(&other, &["thesis.tex", "empty or a new folder"]);
    let read_only = scratch.path().join("ro");
    fs::create_dir(&read_only).unwrap();
    crate::common::mount_tmpfs(&read_only, 1, rustix::mount::MountFlags::RDONLY);
    up(&read_only.join("v"), &["Read-only", "writable"]);
    let output = pando().arg("status").arg(scratch.path().join("none")).output().unwrap();
    assert!(all(&output).contains("pando format"), "{}", all(&output));
}

#[test]
fn without_fuse_the_error_says_what_to_do() {
    let scratch = Scratch::new();
    let script = format!(
        "mount -t tmpfs none /dev && {} up {} --mount {}",
        env!("CARGO_BIN_EXE_pando"),
        scratch.path().join("v").display(),
        scratch.path().join("m").display()
    );
    let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", all(&output));
    assert!(all(&output).contains("/dev/fuse is missing"), "{}", all(&output));
    assert!(all(&output).contains("modprobe"), "{}", all(&output));
}

#[test]
fn a_flipped_byte_in_the_superblock_is_found() {
    let mut volume = Volume::up(&TINY);
    volume.stop();
    flip(&volume.folder.join("superblock"), 200);
    let output = volume.try_start(&[]);
    assert_eq!(output.status.code(), Some(5), "{}", all(&output));
    assert!(all(&output).contains("superblock: it is damaged"), "{}", all(&output));
}

#[test]
fn a_flipped_byte_in_a_log_is_found() {
    let mut volume = Volume::up(&[]);
    for n in 0..200 {
        fs::create_dir(volume.mount.join(n.to_string())).unwrap();
    }
    volume.stop();
    let logs = files(&volume.folder, "log-");
    let largest = logs.iter().max_by_key(|path| used_bytes(path)).unwrap();
    flip(largest, used_bytes(largest) / 2);
    let output = volume.try_start(&[]);
    assert_eq!(output.status.code(), Some(5), "{}", all(&output));
    let name = largest.file_name().unwrap().to_str().unwrap();
    assert!(all(&output).contains(name) && all(&output).contains("damaged"), "{}", all(&output));
}

#[test]
fn a_flipped_byte_in_an_index_is_found_and_never_passed_on() {
    let mut volume = Volume::up(&["--checkpoint-bytes", "100000"]);
    for n in 0..3_000 {
        fs::write(volume.mount.join(n.to_string()), n.to_string()).unwrap();
    }
    wait_for("an index file", || !files(&volume.folder, "idx-").is_empty());
    volume.stop();
    for index in files(&volume.folder, "idx-") {
        flip(&index, used_bytes(&index) / 3);
    }
    let output = volume.try_start(&[]);
    if !output.status.success() {
        assert_eq!(output.status.code(), Some(5), "{}", all(&output));
        assert!(all(&output).contains("idx-"), "{}", all(&output));
        return;
    }
    // Damage within a block shows when that block is read.
    let mut damaged = 0;
    for n in 0..3_000 {
        match fs::read_to_string(volume.mount.join(n.to_string())) {
            Ok(text) => assert_eq!(text, n.to_string()),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()), "{n}: {error}");
                damaged += 1;
            }
        }
    }
    assert!(damaged > 0);
    // Everything else works.
    assert!(damaged < 3_000);
    for n in 0..100 {
        let path = volume.mount.join(format!("new-{n}"));
        match fs::write(&path, "new") {
            Ok(()) => assert_eq!(fs::read_to_string(&path).unwrap(), "new"),
            Err(error) => assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error())),
        }
    }
    assert!((0..100).any(|n| volume.mount.join(format!("new-{n}")).exists()));
    let status = volume.status()["shards"].clone();
    let text = status.to_string();
    assert!(text.contains("idx-") && text.contains("damaged"), "{text}");
    let shards = status.as_array().expect("a list");
    assert!(shards.iter().all(|shard| shard["failed"].is_null()), "{text}");
    assert!(volume.log().contains("idx-"), "{}", volume.log());
}

#[test]
fn a_full_disk_is_said_and_after_room_is_made_all_goes_on() {
    let mut volume = Volume::on_small_disk(24);
    let sizes = ["--log-chunk-bytes", "262144", "--reserve-bytes", "131072"];
    volume.start(&sizes);
    let mut acknowledged = Vec::new();
    let refusal = loop {
        let path = volume.mount.join(format!("data-{}", acknowledged.len()));
        match store(&path, &[7; 300_000]) {
            Ok(()) => acknowledged.push(path),
            Err(error) => break error,
        }
        assert!(acknowledged.len() < 1_000);
    };
    assert_eq!(errno::<()>(Err(refusal)), Errno::NOSPC);
    let mut names = Vec::new();
    let refusal = loop {
        let path = volume.mount.join(format!("name-{:0>200}", names.len()));
        match fs::create_dir(&path) {
            Ok(()) => names.push(path),
            Err(error) => break error,
        }
        assert!(names.len() < 200_000);
    };
    assert_eq!(errno::<()>(Err(refusal)), Errno::NOSPC);
    for path in &acknowledged {
        assert_eq!(fs::read(path).unwrap(), vec![7; 300_000]);
    }
    // Calls that free space still work.
    for path in acknowledged.drain(..acknowledged.len() / 2) {
        fs::remove_file(path).unwrap();
    }
    let again = volume.mount.join("again");
    wait_for("room", || fs::create_dir(&again).is_ok());
    wait_for("room for data", || store(&again.join("x"), &[8; 300_000]).is_ok());
    assert!(!volume.status()["shards"].to_string().contains("FAILED"));
    volume.kill();
    volume.start(&sizes);
    assert_eq!(fs::read(again.join("x")).unwrap(), vec![8; 300_000]);
    assert!(acknowledged.iter().all(|path| fs::read(path).unwrap() == vec![7; 300_000]));
    assert!(names.iter().all(|path| path.is_dir()));
}

/// Writes and fsyncs a file, since an error of `close` would go unseen.
fn store(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    io::Write::write_all(&mut file, bytes)?;
    file.sync_all()
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn flip(path: &Path, offset: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
}

/// Files of all shards with names that begin with `prefix`.
fn files(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let shards = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let shards = shards.filter(|path| path.file_name().unwrap().as_bytes().starts_with(b"shard-"));
    let files = shards.flat_map(|shard| fs::read_dir(shard).unwrap().map(|e| e.unwrap().path()));
    files
        .filter(|path| path.file_name().unwrap().as_bytes().starts_with(prefix.as_bytes()))
        .collect()
}

/// Number of bytes up to the last one that is not zero.
fn used_bytes(path: &Path) -> u64 {
    let bytes = fs::read(path).unwrap();
    bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last as u64 + 1)
}
