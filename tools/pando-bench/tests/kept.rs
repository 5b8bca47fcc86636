//! Mounts the null file system behind a keeper, and kills what serves it. These tests fail where
//! mounting is impossible. They leave no mount behind.

mod common;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::{Scratch, bench};
use pando_fuse::is_mountpoint;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

/// Far more time than anything here needs.
const LIMIT: Duration = Duration::from_secs(60);

/// A null file system behind a keeper. Nothing of it is left, even if a test fails.
struct Kept {
    path: PathBuf,
    keeper: Child,
    _scratch: Scratch,
}

fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(begun.elapsed() < LIMIT, "{what}: it takes too long");
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl Kept {
    fn new() -> Self {
        let scratch = Scratch::new();
        let path = scratch.path().join("mount");
        fs::create_dir(&path).unwrap();
        let mut keeper = bench();
        keeper.arg("null").arg(&path).arg("--keep").stdout(Stdio::piped());
        let mut keeper = keeper.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let kept = Self { path, keeper, _scratch: scratch };
        assert!(line.contains("mount"), "this test needs to mount: {line}");
        kept
    }

    /// The process that serves, if there is one.
    fn server(&self) -> Option<i32> {
        let pid = self.keeper.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        children.trim().parse().ok()
    }

    /// Kills the process that serves, and waits until it is gone.
    fn kill(&self) {
        let server = until("a process serves", || self.server());
        kill_process(Pid::from_raw(server).unwrap(), Signal::KILL).unwrap();
        until("a killed process ends", || {
            (!Path::new(&format!("/proc/{server}")).exists()).then_some(())
        });
    }

    fn stop(mut self) {
        kill_process(Pid::from_child(&self.keeper), Signal::TERM).unwrap();
        assert!(self.keeper.wait().unwrap().success());
        assert!(!is_mountpoint(&self.path).unwrap());
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let server = self.server();
        let _ = (self.keeper.kill(), self.keeper.wait());
        if let Some(server) = server.and_then(Pid::from_raw) {
            let _ = kill_process(server, Signal::KILL);
        }
    }
}

#[test]
fn a_successor_has_the_tree_and_the_numbers_of_its_predecessor() {
    let kept = Kept::new();
    let path = |name: &str| kept.path.join(name);
    let (long, target) = ("n".repeat(255), "t".repeat(3000));
    fs::create_dir(path("d")).unwrap();
    fs::create_dir(path("d/e")).unwrap();
    fs::write(path("d/e/file"), "12345").unwrap();
    fs::set_permissions(path("d/e/file"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::write(path("d").join(&long), "1").unwrap();
    fs::write(path("gone"), "1").unwrap();
    fs::remove_file(path("gone")).unwrap();
    symlink(&target, path("link")).unwrap();
    let mut open = File::create_new(path("d/open")).unwrap();
    let inside = File::open(path("d/e")).unwrap();
    let look = || {
        let look_at = |name: &str| {
            let found = fs::symlink_metadata(path(name)).unwrap();
            (found.ino(), found.mode(), found.len(), found.mtime_nsec())
        };
        let mut names: Vec<_> =
            fs::read_dir(path("d")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        (
            ["d", "d/e", "d/e/file", "link"].map(look_at),
            names,
            fs::read_dir(&kept.path).unwrap().count(),
        )
    };
    let before = look();
    assert_eq!((before.0[2].2, before.2), (5, 2));
    for round in 1..=2 {
        kept.kill();
        assert_eq!(look(), before);
        assert_eq!(fs::read_link(path("link")).unwrap().as_os_str(), &target[..]);
        // What was open is the same, and so is a directory that a program is in.
        open.write_all(b"123").unwrap();
        assert_eq!(open.metadata().unwrap().len(), 3 * round);
        assert_eq!(open.metadata().unwrap().ino(), fs::metadata(path("d/open")).unwrap().ino());
        openat(&inside, "file", OFlags::RDONLY, Mode::empty()).unwrap();
        // A new number is that of no other node.
        fs::write(path("new"), "").unwrap();
        let new = fs::metadata(path("new")).unwrap().ino();
        assert!(before.0.iter().all(|&(ino, ..)| ino != new));
        fs::remove_file(path("new")).unwrap();
    }
    drop((open, inside));
    kept.stop();
}

/// What a program knows of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    There(u64),
    Gone,
    /// A call about it was under way when the server process died.
    Unknown,
}

#[test]
fn what_was_answered_before_a_kill_holds_after_it() {
    const KILLS: u32 = 2;
    let kept = Kept::new();
    let (calls, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
    let known = std::thread::scope(|scope| {
        let program = scope.spawn(|| run(&kept.path, &calls, &is_over));
        for _ in 0..KILLS {
            let begun = calls.load(Ordering::Relaxed);
            until("a program goes on", || {
                let is_dead = program.is_finished();
                (is_dead || calls.load(Ordering::Relaxed) > begun + 20).then_some(())
            });
            kept.kill();
        }
        is_over.store(true, Ordering::Relaxed);
        program.join().unwrap()
    });
    let unknown = known.values().filter(|&&known| known == Known::Unknown).count();
    assert!(unknown as u32 <= KILLS, "more calls failed than were under way: {unknown}");
    assert!(known.len() > 30);
    let mut left: BTreeMap<String, u64> = BTreeMap::new();
    for entry in fs::read_dir(&kept.path).unwrap() {
        let entry = entry.unwrap();
        left.insert(entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len());
    }
    for (name, known) in known {
        let found = left.remove(&name);
        match known {
            Known::There(len) => assert_eq!(found, Some(len), "{name}"),
            Known::Gone => assert_eq!(found, None, "{name}"),
            Known::Unknown => {}
        }
    }
    assert!(left.is_empty(), "nobody has made these: {left:?}");
    kept.stop();
}

/// Creates files, writes into them and removes some, until it is told to end.
fn run(path: &Path, calls: &AtomicU32, is_over: &AtomicBool) -> BTreeMap<String, Known> {
    // The null file system has no rows: what was under way runs twice, or not at all.
    let excused = [Errno::EXIST, Errno::NOENT, Errno::CONNABORTED].map(Errno::raw_os_error);
    let mut known = BTreeMap::new();
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        number += 1;
        let name = format!("{number}");
        let file = path.join(&name);
        let len = number % 7;
        let done = File::create_new(&file)
            .and_then(|mut made| made.write_all(&b"1234567"[..len]))
            .and_then(|()| if number % 3 == 0 { fs::remove_file(&file) } else { Ok(()) });
        let state = match done {
            Ok(()) if number % 3 == 0 => Known::Gone,
            Ok(()) => Known::There(len as u64),
            Err(error) => {
                let is_excused = error.raw_os_error().is_some_and(|raw| excused.contains(&raw));
                assert!(is_excused, "{name}: {error}");
                Known::Unknown
            }
        };
        known.insert(name, state);
        calls.fetch_add(1, Ordering::Relaxed);
    }
    known
}
