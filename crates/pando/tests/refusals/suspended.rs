//! Suspended processes: each command ends within 5 s, and says what to do.

use std::ffi::OsStr;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::site::{Site, suspend};
use crate::common::{Volume, all, pando_within};

/// Checks that the command ends in time, with this code and these words.
fn ends(arguments: &[&OsStr], code: i32, words: &[&str]) {
    let begun = Instant::now();
    let output = pando_within(60).args(arguments).output().unwrap();
    let (took, said) = (begun.elapsed(), all(&output));
    assert!(took < Duration::from_secs(5), "{took:?} {arguments:?} {said}");
    assert_eq!(output.status.code(), Some(code), "{arguments:?} {said}");
    for word in words {
        assert!(said.contains(word), "{arguments:?}: no `{word}` in: {said}");
    }
}

/// A process that is suspended until this is dropped, so that a failing test leaves nothing that
/// hangs.
struct Suspended(Pid);

impl Suspended {
    fn new(process: Pid) -> Self {
        suspend(process);
        Self(process)
    }

    fn advice(&self) -> String {
        format!("`kill -CONT {}`", self.0.as_raw_nonzero())
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

#[test]
fn a_volume_that_is_up_and_suspended() {
    let mut volume = Volume::up(&[]);
    let file = volume.mount.join("file");
    fs::write(&file, "text").unwrap();
    let process = Suspended::new(Pid::from_raw(volume.pid().unwrap()).unwrap());
    let advice = process.advice();
    let words = ["does not answer", &advice];
    for (command, path) in [
        ("status", &volume.folder),
        ("status", &volume.mount),
        ("info", &file),
        ("sync", &file),
        ("down", &volume.folder),
    ] {
        ends(&[command.as_ref(), path.as_ref()], 1, &words);
    }
    drop(process);
    // The process runs no command after it resumes.
    assert_eq!(fs::read_to_string(&file).unwrap(), "text");
    volume.stop();
}

#[test]
fn a_mount_that_is_suspended() {
    let mut site = Site::new(&["all"], &[]);
    let mount = site.mount(&[]);
    let file = site.at(0, "file");
    fs::write(&file, "text").unwrap();
    let process = Suspended::new(mount);
    let advice = process.advice();
    for (command, path) in [("status", &site.mounts[0]), ("info", &file)] {
        ends(&[command.as_ref(), path.as_ref()], 1, &["does not answer", &advice]);
    }
}

#[test]
fn servers_that_are_suspended() {
    let mut site = Site::new(&["0,1", "2,3"], &[]);
    site.mount(&["--timeout", "never"]);
    let file = site.at(0, "file");
    fs::write(&file, "text").unwrap();
    let (first, second) = (site.processes[0], site.processes[1]);
    for server in [first, second] {
        let process = Suspended::new(server);
        let words = ["NOT REACHED", &process.advice(), "durability os"];
        ends(&["status".as_ref(), site.folder.as_ref()], 1, &words);
    }
    let (one, two) = (Suspended::new(first), Suspended::new(second));
    ends(&["status".as_ref(), site.folder.as_ref()], 1, &["does not answer", &one.advice()]);
    // The mount is awake, but its servers send no answer.
    ends(&["info".as_ref(), file.as_ref()], 1, &[file.to_str().unwrap(), "does not answer"]);
    ends(&["status".as_ref(), site.mounts[0].as_ref()], 0, &["is mounted at"]);
    drop(two);
    // The server that is awake stops, and the other one is named.
    ends(&["down".as_ref(), site.folder.as_ref()], 1, &["not all servers", &one.advice()]);
    drop(one);
    let down = pando_within(60).arg("down").arg(&site.folder).output().unwrap();
    assert!(down.status.success(), "{}", all(&down));
}
