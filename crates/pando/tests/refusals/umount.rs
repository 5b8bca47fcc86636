//! `pando umount` with every kind of path. It ends, and unmounts what it should and nothing else.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::mount::MountFlags;
use rustix::process::{Pid, Signal, kill_process};

use crate::assert_said;
use crate::common::locker::Locker;
use crate::common::site::{Site, suspend, until};
use crate::common::{Volume, all, is_mounted, mount_tmpfs, pando_within};

/// Maximum time that a command takes, with all its waits.
const SECONDS: u32 = 170;

fn umount(path: impl AsRef<OsStr>, extra: &[&str]) -> Output {
    pando_within(SECONDS).arg("umount").arg(path).args(extra).output().unwrap()
}

/// A site with one server and one mount.
fn mounted(extra: &[&str]) -> (Site, Pid) {
    let mut site = Site::new(&["all"], &[]);
    let mount = site.mount(extra);
    fs::write(site.at(0, "file"), "text").unwrap();
    (site, mount)
}

/// Waits until the kernel reports that the mount's process is gone.
fn is_dead(mount: &Path) {
    until("the mount is dead", || {
        let found = fs::metadata(mount).map_err(|error| error.raw_os_error());
        found.is_err_and(|errno| errno == Some(Errno::NOTCONN.raw_os_error()))
    });
}

/// Whether a process has ended, even if its parent has not noticed.
fn is_gone(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    stat.is_err()
        || stat
            .is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')))
}

/// A program with a folder as its working directory, until it is dropped.
struct Within(Child);

impl Within {
    fn new(folder: &Path) -> Self {
        Self(Command::new("sleep").arg("600").current_dir(folder).spawn().unwrap())
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_is_no_mount_of_pando_is_named_and_left_alone() {
    let (site, _) = mounted(&[]);
    let [folder, file, tmpfs, link] =
        ["folder", "file", "tmpfs", "link"].map(|n| site.scratch().join(n));
    fs::create_dir(&folder).unwrap();
    fs::create_dir(&tmpfs).unwrap();
    fs::create_dir(site.at(0, "dir")).unwrap();
    fs::write(&file, "text").unwrap();
    symlink(site.scratch().join("nowhere"), &link).unwrap();
    mount_tmpfs(&tmpfs, 1, MountFlags::empty());
    let missing = site.scratch().join("missing");
    let (below, inside) = (site.at(0, "dir"), site.at(0, "file"));
    let proc = Path::new("/proc").to_owned();
    for path in [&folder, &file, &tmpfs, &link, &missing, &below, &inside, &proc] {
        for extra in [&[][..], &["--force"]] {
            let said = format!("nothing of Pando is mounted at {}", path.display());
            assert_said(&umount(path, extra), 3, &[&said]);
        }
    }
    assert!(is_mounted(&tmpfs) && is_mounted(&site.mounts[0]));
    assert_eq!(fs::read_to_string(inside).unwrap(), "text");
}

#[test]
fn a_mount_is_unmounted_by_whatever_path_leads_to_it_and_once() {
    let mut site = Site::new(&["all"], &[]);
    let scratch = site.scratch().to_owned();
    fs::create_dir(scratch.join("elsewhere")).unwrap();
    symlink(scratch.join("plain"), scratch.join("link")).unwrap();
    symlink("link", scratch.join("elsewhere").join("second")).unwrap();
    symlink("../link", scratch.join("elsewhere").join("third")).unwrap();
    let absolute = |name: &[u8]| scratch.join(OsStr::from_bytes(name)).into_os_string();
    // The mount's place, and a path to it from `elsewhere`.
    let ways: [(&[u8], OsString); 13] = [
        (b"plain", absolute(b"plain")),
        (b"plain", absolute(b"plain/")),
        (b"plain", absolute(b"elsewhere/.././plain")),
        (b"plain", "../plain".into()),
        (b"plain", "../elsewhere/../plain/.".into()),
        (b"plain", absolute(b"link")),
        (b"plain", "../link/".into()),
        (b"plain", "third".into()),
        (b"elsewhere/here", "here".into()),
        (b"two  words and one", absolute(b"two  words and one")),
        (b"two  words and one", "../two  words and one".into()),
        (b"a\ttab, a \\040 and\na line", absolute(b"a\ttab, a \\040 and\na line")),
        (b"\xff\xfe \xc3\xbc", absolute(b"\xff\xfe \xc3\xbc")),
    ];
    for (number, (name, way)) in ways.into_iter().enumerate() {
        let path = scratch.join(OsStr::from_bytes(name));
        site.mount_at(site.folder.clone().as_os_str(), path.clone(), &[]);
        fs::write(path.join(number.to_string()), "text").unwrap();
        let by = || {
            let mut command = pando_within(SECONDS);
            command.arg("umount").arg(&way).current_dir(scratch.join("elsewhere"));
            command.output().unwrap()
        };
        let output = by();
        assert!(
            output.status.success() && all(&output).contains("all is stored"),
            "{}",
            all(&output)
        );
        assert!(!is_mounted(&path), "{way:?}");
        let again = by();
        assert!(all(&again).contains("nothing of Pando is mounted"), "{}", all(&again));
        assert_eq!(again.status.code(), Some(3));
    }
    let dangling = umount(scratch.join("elsewhere/second"), &[]);
    assert_said(&dangling, 3, &["nothing of Pando is mounted"]);
    let last = site.mount(&[]);
    let there = fs::read_dir(site.mounts.last().unwrap()).unwrap();
    assert_eq!(there.count(), 13);
    kill_process(last, Signal::KILL).unwrap();
}

#[test]
fn a_busy_mount_is_refused_and_lives_on() {
    let (mut site, _) = mounted(&[]);
    let path = site.mounts[0].clone();
    let mut file = File::options().append(true).open(site.at(0, "file")).unwrap();
    let refused = || {
        let shown = path.to_str().unwrap();
        assert_said(&umount(&path, &[]), 4, &[shown, "busy", "fuser -m", "pando umount --force"]);
        assert!(is_mounted(&path));
    };
    refused();
    file.write_all(b" and more").unwrap();
    file.sync_all().unwrap();
    drop(file);
    let within = Within::new(&path);
    refused();
    drop(within);
    assert_eq!(fs::read_to_string(site.at(0, "file")).unwrap(), "text and more");
    assert_said(&umount(&path, &[]), 0, &["all is stored"]);
    assert!(!is_mounted(&path));
    // The program's writes before the unmount are all stored.
    site.mount(&[]);
    let path = site.mounts[1].clone();
    let mut file = File::options().append(true).open(site.at(1, "file")).unwrap();
    file.write_all(b", and the end").unwrap();
    assert_said(&umount(&path, &["--force"]), 0, &["all is stored"]);
    assert!(!is_mounted(&path));
    drop(file);
    site.mount(&[]);
    assert_eq!(fs::read_to_string(site.at(2, "file")).unwrap(), "text and more, and the end");
}

#[test]
fn a_mount_whose_servers_are_gone_is_unmounted_all_the_same() {
    for (signal, way) in [(Signal::STOP, "mount-0"), (Signal::KILL, "link")] {
        let (site, _) = mounted(&["--timeout", "2"]);
        let link = site.scratch().join("link");
        symlink(&site.mounts[0], link).unwrap();
        let path = site.scratch().join(way);
        let file = File::open(&site.mounts[0]).unwrap();
        kill_process(site.processes[0], signal).unwrap();
        assert_said(&umount(&path, &[]), 4, &["busy", "--force"]);
        drop(file);
        // Servers would have to answer to tell where this path leads.
        let below = site.at(0, "file");
        let output = umount(&below, &[]);
        assert!(matches!(output.status.code(), Some(1 | 3)), "{}", all(&output));
        assert!(all(&output).contains(below.to_str().unwrap()), "{}", all(&output));
        // All that was written had been stored before.
        assert_said(&umount(&path, &[]), 0, &["all is stored"]);
        assert!(!is_mounted(&site.mounts[0]));
        assert_said(&umount(&path, &[]), 3, &["nothing of Pando is mounted"]);
        assert!(site.log().contains("the session could not be ended"), "{}", site.log());
    }
}

#[test]
fn what_could_not_be_stored_since_the_servers_are_gone_is_said() {
    let (site, process) = mounted(&["--timeout", "2"]);
    // A process of its own holds the file. Processes that other tests start here would inherit it,
    // and wait for its flush.
    let mut program = Locker::with(&site.at(0, "unsaved"));
    kill_process(site.processes[0], Signal::KILL).unwrap();
    assert_eq!(program.ask(&format!("write f {}", "7".repeat(100_000))), "ok");
    let output = umount(&site.mounts[0], &["--force"]);
    let (shown, pid) = (site.mounts[0].to_str().unwrap(), process.as_raw_nonzero().to_string());
    assert_said(&output, 1, &[shown, "100000 bytes", "not stored", &pid, "its log"]);
    assert!(!is_mounted(&site.mounts[0]));
    // The mount's process gives up, and its log says so.
    until("the log tells what is lost", || {
        site.log().contains("100000 bytes that programs wrote could not be stored")
    });
}

#[test]
fn forced_it_ends_within_5_seconds_whichever_process_does_not_answer() {
    for (signal, is_written) in [(Signal::STOP, true), (Signal::KILL, true), (Signal::STOP, false)]
    {
        let (site, process) = mounted(&[]);
        // A process of its own holds the file. A process that is started from here would inherit
        // it, and wait for its flush.
        let mut program = Locker::with(&site.at(0, "unsaved"));
        assert_eq!(program.ask("fsync f"), "ok");
        match signal {
            Signal::STOP => suspend(site.processes[0]),
            _ => kill_process(site.processes[0], signal).unwrap(),
        }
        if is_written {
            assert_eq!(program.ask(&format!("write f {}", "7".repeat(100_000))), "ok");
        }
        let begun = Instant::now();
        let output = umount(&site.mounts[0], &["--force"]);
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(5), "{took:?}");
        let kill = format!("`kill {}`", process.as_raw_nonzero());
        let words = ["is unmounted", "servers do not answer", &kill];
        match is_written {
            true => assert_said(&output, 1, &[&words[..], &["100000 bytes"]].concat()),
            false => assert_said(&output, 0, &[&words[..], &["all is stored"]].concat()),
        }
        assert!(!is_mounted(&site.mounts[0]));
        // The advice in the message works.
        until("it ends at a signal", || {
            let _ = kill_process(process, Signal::TERM);
            is_gone(process)
        });
        assert!(site.log().contains("the end was broken off"), "{}", site.log());
    }
}

#[test]
fn a_mount_whose_process_was_killed_is_cleared_away() {
    let (mut site, first) = mounted(&[]);
    let path = site.mounts[0].clone();
    let link = site.scratch().join("link");
    symlink(&path, &link).unwrap();
    kill_process(first, Signal::KILL).unwrap();
    is_dead(&path);
    assert_said(&umount(&link, &[]), 0, &[path.to_str().unwrap(), "its process was gone"]);
    assert!(!is_mounted(&path));
    assert_said(&umount(&link, &[]), 3, &["nothing of Pando is mounted"]);
    // A program still has a file open.
    let second = site.mount_at(site.folder.clone().as_os_str(), path.clone(), &[]);
    let file = File::open(path.join("file")).unwrap();
    kill_process(second, Signal::KILL).unwrap();
    is_dead(&path);
    assert_said(&umount(&path, &[]), 4, &["does not answer", "files open", "pando umount --force"]);
    assert!(is_mounted(&path));
    assert_said(&umount(&path, &["--force"]), 0, &["its process was gone"]);
    assert!(!is_mounted(&path));
    drop(file);
    // A new mount finds nothing in its way.
    site.mount_at(site.folder.clone().as_os_str(), path.clone(), &[]);
    assert_said(&umount(&path, &[]), 0, &["all is stored"]);
}

#[test]
fn a_mount_whose_process_is_suspended_is_not_waited_for_and_may_be_detached() {
    let (site, process) = mounted(&[]);
    let path = &site.mounts[0];
    let shown = path.to_str().unwrap();
    suspend(process);
    assert_said(&umount(path, &[]), 1, &[shown, "does not answer", "suspended", "umount --force"]);
    kill_process(process, Signal::CONT).unwrap();
    // The process does not unmount after it resumes.
    assert_eq!(fs::read_to_string(site.at(0, "file")).unwrap(), "text");
    assert!(is_mounted(path));
    suspend(process);
    assert_said(&umount(path, &["--force"]), 0, &[shown, "is detached"]);
    assert!(!is_mounted(path));
    kill_process(process, Signal::CONT).unwrap();
    until("it ends", || site.log().contains("is unmounted, all is stored"));
}

#[test]
fn a_dead_mount_of_a_volume_that_is_up_is_cleared_and_the_volume_stays_up() {
    let mut volume = Volume::up(&[]);
    fs::write(volume.mount.join("file"), "text").unwrap();
    let other = volume.scratch().join("other");
    let mut command = pando_within(60);
    command.arg("mount").arg(&volume.folder).arg(&other).args(["-d", "--json"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let pid = i32::try_from(summary["pid"].as_i64().unwrap()).unwrap();
    assert_eq!(fs::read_to_string(other.join("file")).unwrap(), "text");
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    is_dead(&other);
    assert_said(&umount(&other, &[]), 0, &[other.to_str().unwrap(), "its process was gone"]);
    assert!(!is_mounted(&other) && is_mounted(&volume.mount));
    assert_eq!(fs::read_to_string(volume.mount.join("file")).unwrap(), "text");
    // Unmounting the volume's own mount stops the volume.
    let file = File::open(volume.mount.join("file")).unwrap();
    assert_said(&umount(&volume.mount, &[]), 4, &["busy", "--force"]);
    drop(file);
    assert_said(&umount(&volume.mount, &[]), 0, &["is unmounted and stopped"]);
    assert!(!is_mounted(&volume.mount));
    assert_eq!(volume.status()["running"], false);
    volume.start(&[]);
    assert_eq!(fs::read_to_string(volume.mount.join("file")).unwrap(), "text");
}
