//! Two mounts of one volume: each sees what the other does, and outlives what the other holds open.

mod common;

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, Instant};

use common::{Scratch, all, pando, shell};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A volume with servers and mounts in the background. Nothing of it stays.
struct Site {
    folder: PathBuf,
    /// Servers and mounts, as they were started.
    processes: Vec<Pid>,
    mounts: Vec<PathBuf>,
    scratch: Scratch,
}

impl Site {
    /// Servers, one for each list of shards, and no mount.
    fn new(servers: &[&str], extra: &[&str]) -> Self {
        let scratch = Scratch::new();
        let folder = scratch.path().join("volume");
        let made = pando().arg("format").arg(&folder).args(["--shards", "4"]).output().unwrap();
        assert!(made.status.success(), "{}", all(&made));
        let (processes, mounts) = Default::default();
        let mut site = Self { folder, processes, mounts, scratch };
        for shards in servers {
            site.serve(shards, extra);
        }
        site
    }

    /// One server of all shards and two mounts.
    fn pair() -> Self {
        let mut site = Self::new(&["all"], &["--split-threshold", "40"]);
        site.mount(&[]);
        site.mount(&[]);
        site
    }

    fn note(&mut self, output: &Output) -> Pid {
        assert!(output.status.success(), "{}\n{}", all(output), self.log());
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        let pid = i32::try_from(summary["pid"].as_i64().unwrap()).unwrap();
        let pid = Pid::from_raw(pid).unwrap();
        self.processes.push(pid);
        pid
    }

    fn serve(&mut self, shards: &str, extra: &[&str]) -> Pid {
        let mut command = pando();
        command.arg("server").arg(&self.folder).args(["--shard", shards, "-d", "--json"]);
        let output = command.args(extra).output().unwrap();
        self.note(&output)
    }

    fn mount(&mut self, extra: &[&str]) -> Pid {
        let path = self.scratch.path().join(format!("mount-{}", self.mounts.len()));
        let log = self.scratch.path().join("mount-log");
        let mut command = pando();
        command.arg("mount").arg(&self.folder).arg(&path).args(["-d", "--json", "--log"]).arg(log);
        let output = command.args(extra).output().unwrap();
        self.mounts.push(path);
        self.note(&output)
    }

    fn at(&self, mount: usize, path: &str) -> PathBuf {
        self.mounts[mount].join(path)
    }

    fn log(&self) -> String {
        let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
        read(self.folder.join("run/log")) + &read(self.scratch.path().join("mount-log"))
    }

    /// Inodes on all shards, as the servers count them.
    fn inodes(&self) -> u64 {
        let output = pando().arg("status").arg(&self.folder).arg("--json").output().unwrap();
        let status: Value = serde_json::from_slice(&output.stdout).expect(&all(&output));
        let servers = status["servers"].as_array().unwrap().iter();
        let shards = servers.flat_map(|server| server["shards"].as_array().unwrap());
        shards.map(|shard| shard["inodes"].as_u64().unwrap()).sum()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
        for pid in self.processes.drain(..) {
            let _ = kill_process(pid, Signal::CONT);
            let _ = kill_process(pid, Signal::KILL);
        }
        for mount in &self.mounts {
            let _ = unmount(mount, UnmountFlags::DETACH);
        }
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(120), "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn each_sees_at_once_what_the_other_does() {
    let site = Site::pair();
    for round in 0..50 {
        let (here, there) = (round % 2, 1 - round % 2);
        let name = format!("d{round}");
        fs::create_dir(site.at(here, &name)).unwrap();
        fs::write(site.at(there, &format!("{name}/file")), format!("round {round}")).unwrap();
        assert_eq!(
            fs::read_to_string(site.at(here, &format!("{name}/file"))).unwrap(),
            format!("round {round}")
        );
        fs::rename(site.at(here, &name), site.at(here, &format!("{name}-moved"))).unwrap();
        assert_eq!(site.at(there, &name).metadata().unwrap_err().kind(), ErrorKind::NotFound);
        let moved = site.at(there, &format!("{name}-moved/file"));
        fs::set_permissions(&moved, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
        let seen = site.at(here, &format!("{name}-moved/file")).metadata().unwrap();
        assert_eq!(seen.mode() & 0o777, 0o640);
        fs::remove_file(moved).unwrap();
        fs::remove_dir(site.at(here, &format!("{name}-moved"))).unwrap();
        assert_eq!(fs::read_dir(&site.mounts[there]).unwrap().count(), 0);
    }
}

#[test]
fn what_was_closed_here_is_read_by_who_opens_it_there() {
    let site = Site::pair();
    let (one, two) = (site.at(0, "file"), site.at(1, "file"));
    let mut expected = Vec::new();
    for round in 0..20_usize {
        let bytes = vec![round as u8; 3000 * (round % 3 + 1)];
        let writer = if round % 2 == 0 { &one } else { &two };
        let mut file = File::options().create(true).append(true).open(writer).unwrap();
        file.write_all(&bytes).unwrap();
        drop(file);
        expected.extend(bytes);
        assert_eq!(fs::read(&one).unwrap(), expected);
        assert_eq!(fs::read(&two).unwrap(), expected);
    }
    File::options().write(true).open(&two).unwrap().set_len(100).unwrap();
    assert_eq!(fs::read(&one).unwrap(), expected[..100]);
}

#[test]
fn a_file_removed_here_stays_usable_where_it_is_open() {
    let site = Site::pair();
    fs::write(site.at(0, "file"), vec![7; 20_000]).unwrap();
    let before = site.inodes();
    let mut open = File::options().read(true).write(true).open(site.at(1, "file")).unwrap();
    fs::remove_file(site.at(0, "file")).unwrap();
    assert_eq!(site.at(1, "file").metadata().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(open.metadata().unwrap().nlink(), 0);
    open.seek(SeekFrom::End(0)).unwrap();
    open.write_all(b"more").unwrap();
    open.sync_all().unwrap();
    open.seek(SeekFrom::Start(0)).unwrap();
    let mut content = Vec::new();
    open.read_to_end(&mut content).unwrap();
    assert_eq!((content.len(), &content[20_000..]), (20_004, &b"more"[..]));
    assert_eq!(site.inodes(), before);
    drop(open);
    until("the file goes with its last open", || site.inodes() == before - 1);
}

#[test]
fn a_file_renamed_or_replaced_here_is_the_same_where_it_is_open() {
    let site = Site::pair();
    for name in ["old", "other"] {
        fs::write(site.at(0, name), name).unwrap();
    }
    fs::create_dir(site.at(0, "dir")).unwrap();
    let old = File::options().read(true).write(true).open(site.at(1, "old")).unwrap();
    let other = File::open(site.at(1, "other")).unwrap();
    let ino = old.metadata().unwrap().ino();
    // To another directory, over a file that is open there as well.
    fs::rename(site.at(0, "other"), site.at(0, "dir/new")).unwrap();
    fs::rename(site.at(0, "old"), site.at(0, "dir/new")).unwrap();
    assert_eq!(old.metadata().unwrap().ino(), ino);
    old.write_all_at(b"OLD, and more", 0).unwrap();
    old.sync_all().unwrap();
    assert_eq!(fs::read_to_string(site.at(0, "dir/new")).unwrap(), "OLD, and more");
    let mut content = [0; 5];
    other.read_exact_at(&mut content, 0).unwrap();
    assert_eq!(&content, b"other");
    assert_eq!(other.metadata().unwrap().nlink(), 0);
}

#[test]
fn of_two_that_make_the_same_name_one_wins() {
    let site = Site::pair();
    let make = |mount: usize| {
        let names = (0..300).map(|n| site.at(mount, &format!("name-{n}")));
        let won = names.map(|path| File::options().write(true).create_new(true).open(path));
        won.map(|result| match result {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
            Err(error) => panic!("{error}"),
        })
        .collect::<Vec<_>>()
    };
    let (one, two) = std::thread::scope(|scope| {
        let other = scope.spawn(|| make(1));
        (make(0), other.join().unwrap())
    });
    assert!(one.iter().zip(&two).all(|(one, two)| one != two));
    for mount in [0, 1] {
        assert_eq!(fs::read_dir(&site.mounts[mount]).unwrap().count(), 300);
    }
}

#[test]
fn a_directory_removed_here_is_gone_for_who_is_in_it_there() {
    let site = Site::pair();
    fs::create_dir(site.at(0, "dir")).unwrap();
    let script = format!(
        "cd dir; rmdir {}; ! touch file 2>error; ! ls . 2>/dev/null | grep .; mkdir {}; ! touch file",
        site.at(1, "dir").display(),
        site.at(1, "dir").display()
    );
    // What it complains about goes to a file that cannot be made either: the shell says so.
    shell(&site.mounts[0], &script.replace(" 2>error", " 2>/dev/null"));
    assert_eq!(fs::read_dir(site.at(1, "dir")).unwrap().count(), 0);
}

#[test]
fn while_a_server_is_stopped_others_go_on_and_what_waits_ends_with_its_time() {
    let mut site = Site::new(&["0", "1,2,3"], &[]);
    let stopped = site.processes[1];
    site.mount(&["--timeout", "2"]);
    // Of enough directories, some live on each shard.
    for number in 0..24 {
        fs::create_dir(site.at(0, &format!("dir-{number}"))).unwrap();
    }
    kill_process(stopped, Signal::STOP).unwrap();
    let mut results = Vec::new();
    std::thread::scope(|scope| {
        let attempts: Vec<_> = (0..24)
            .map(|number| {
                let path = site.at(0, &format!("dir-{number}/file"));
                scope.spawn(move || File::create_new(path).map(drop))
            })
            .collect();
        results.extend(attempts.into_iter().map(|attempt| attempt.join().unwrap()));
    });
    let timed_out = |result: &&std::io::Result<()>| {
        result.as_ref().is_err_and(|error| error.kind() == ErrorKind::TimedOut)
    };
    let (late, made) = (
        results.iter().filter(timed_out).count(),
        results.iter().filter(|result| result.is_ok()).count(),
    );
    assert_eq!(late + made, 24, "{results:?}");
    assert!(late > 0 && made > 0, "{late} late, {made} made");
    kill_process(stopped, Signal::CONT).unwrap();
    // It goes on by itself; what was given up may have happened, and is decided.
    for number in 0..24 {
        let path = site.at(0, &format!("dir-{number}/file"));
        until("it answers again", || match File::create_new(&path) {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::AlreadyExists,
        });
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn what_a_dead_mount_held_open_goes_with_its_lease() {
    let mut site = Site::new(&["all"], &["--lease-ms", "1500"]);
    let dead = site.mount(&[]);
    site.mount(&[]);
    let before = site.inodes();
    fs::write(site.at(0, "file"), "x").unwrap();
    let open = File::open(site.at(0, "file")).unwrap();
    fs::remove_file(site.at(1, "file")).unwrap();
    assert_eq!(site.inodes(), before + 1);
    kill_process(dead, Signal::KILL).unwrap();
    until("the orphan is removed", || site.inodes() == before);
    drop(open);
    // The other mount did not sleep through its own lease.
    fs::write(site.at(1, "file"), "y").unwrap();
}

#[test]
fn a_mount_that_slept_through_its_lease_goes_on() {
    let mut site = Site::new(&["all"], &["--lease-ms", "700"]);
    let sleeper = site.mount(&[]);
    site.mount(&[]);
    fs::write(site.at(0, "kept"), "kept").unwrap();
    fs::write(site.at(0, "lost"), "lost").unwrap();
    let before = site.inodes();
    let kept = File::options().read(true).write(true).open(site.at(0, "kept")).unwrap();
    let lost = File::open(site.at(0, "lost")).unwrap();
    fs::remove_file(site.at(1, "lost")).unwrap();
    kill_process(sleeper, Signal::STOP).unwrap();
    // The orphan goes only with the sleeper's session.
    until("the session ends", || site.inodes() == before - 1);
    kill_process(sleeper, Signal::CONT).unwrap();
    fs::write(site.at(0, "new"), "new").unwrap();
    assert_eq!(fs::read_to_string(site.at(1, "new")).unwrap(), "new");
    kept.write_all_at(b"KEPT", 0).unwrap();
    kept.sync_all().unwrap();
    assert_eq!(fs::read_to_string(site.at(1, "kept")).unwrap(), "KEPT");
    assert!(lost.metadata().is_err());
    // It is held open under the new session: the other cannot take it away.
    fs::remove_file(site.at(1, "kept")).unwrap();
    let mut content = [0; 4];
    kept.read_exact_at(&mut content, 0).unwrap();
    assert_eq!(&content, b"KEPT");
}
