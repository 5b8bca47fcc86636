//! Programs that wait for an answer that does not come, on a real mount. These tests fail if
//! mounting is impossible. They leave nothing mounted.

mod gated;
mod ways;

use std::fs;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gated::Gated;
use pando_fuse::{Mounted, Options};
use pando_fuse::{is_mountpoint, mount_filesystem};
use rustix::process::{Pid, Signal, kill_process};

/// Far more time than a killed program needs.
const LIMIT: Duration = Duration::from_secs(60);

struct Mount {
    path: PathBuf,
    fs: Gated,
    mounted: Option<Mounted>,
}

impl Mount {
    fn new(name: &str) -> Self {
        Self::with_threads(name, 1)
    }

    fn with_threads(name: &str, threads: usize) -> Self {
        let path =
            std::env::temp_dir().join(format!("pando-signals-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        let (path, gated) = (path.canonicalize().unwrap(), Gated::default());
        let options = Options { threads, ..Options::default() };
        let mounted = mount_filesystem(Arc::new(gated.clone()), &path, &options)
            .unwrap_or_else(|error| panic!("this test needs to mount: {error}"));
        ways::check(&mounted);
        Self { path, fs: gated, mounted: Some(mounted) }
    }

    fn path(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    fn spawn(&self, script: &str) -> Program {
        // Tests that run in the background may ignore interrupts, and programs inherit that.
        let child = Command::new("env")
            .args(["--default-signal=INT", "sh", "-c", script])
            .env("D", &self.path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Program(child)
    }

    fn goes_on(&self) {
        assert_eq!(fs::metadata(self.path("file")).unwrap().len(), 5);
        let missing = fs::metadata(self.path("missing")).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }

    fn unmount(mut self) {
        self.mounted.take().unwrap().unmount().map_err(|(error, _)| error).unwrap();
        self.fs.until("the session ends", |counts| counts.is_ended);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        drop(self.mounted.take());
        assert!(!is_mountpoint(&self.path).unwrap_or(true) || std::thread::panicking());
        let _ = fs::remove_dir(&self.path);
    }
}

#[test]
fn all_is_the_same_by_the_device() {
    ways::again_by_device("all_is_the_same_by_the_device");
}

/// A program that is killed when the test ends.
struct Program(Child);

impl Program {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    fn end(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < LIMIT, "a program does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        // This does not wait: if the test has failed, the program may not end before the mount
        // does.
        let _ = self.0.try_wait();
    }
}

#[test]
fn a_program_that_waits_can_be_killed() {
    let mount = Mount::new("killed");
    let mut waiting = 0;
    // A lookup and a create wait; each program is ended by each signal, one of which the keyboard
    // sends.
    for script in ["exec stat $D/stuck", "exec touch $D/new"] {
        for signal in [Signal::KILL, Signal::INT, Signal::TERM] {
            let mut program = mount.spawn(script);
            waiting += 1;
            mount.fs.until("it waits", |counts| counts.waiting == waiting);
            program.signal(signal);
            assert_eq!(program.end().signal(), Some(signal.as_raw()), "{script}");
            mount.goes_on();
        }
    }
    // Operations without a caller end, and leave nothing behind.
    mount.fs.open();
    mount.fs.until("all are undone", |counts| counts.undelivered == waiting);
    let fs = mount.fs.clone();
    mount.unmount();
    fs.until("no open is left", |counts| counts.opens == 0);
}

#[test]
fn a_program_whose_close_waits_can_be_killed() {
    let mount = Mount::new("close");
    mount.fs.hold("flush");
    // The program kills itself. It flushes on its way out, where no signal reaches it.
    let mut program = mount.spawn("exec 3<$D/file; kill -9 $$");
    mount.fs.until("it closes", |counts| counts.waiting == 1);
    assert_eq!(program.end().signal(), Some(Signal::KILL.as_raw()));
    mount.goes_on();
    mount.fs.open();
    mount.unmount();
}

#[test]
fn a_signal_that_is_handled_cuts_short_after_a_while() {
    let mount = Mount::new("handled");
    let script = r#"exec python3 -c '
import os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7))
os.stat(os.environ["D"] + "/stuck")
'"#;
    let mut program = mount.spawn(script);
    mount.fs.until("it waits", |counts| counts.waiting == 1);
    program.signal(Signal::USR1);
    assert_eq!(program.end().code(), Some(7));
    mount.goes_on();
    mount.fs.open();
    mount.unmount();
}

#[test]
fn a_mount_that_a_program_waits_for_stays_and_is_unmounted_afterwards() {
    let mount = Mount::new("busy");
    let mut program = mount.spawn("exec stat $D/stuck");
    mount.fs.until("it waits", |counts| counts.waiting == 1);
    let busy = mount.mounted.as_ref().unwrap().request_unmount().unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::ResourceBusy);
    mount.goes_on();
    mount.fs.open();
    assert!(program.end().success());
    mount.unmount();
}

#[test]
fn a_waiting_program_hears_of_the_end() {
    for (name, threads) in [("end-one", 1), ("end-more", 3)] {
        let mut mount = Mount::with_threads(name, threads);
        let mut program = mount.spawn("exec 3<$D/file; touch $D/new");
        mount.fs.until("it waits", |counts| counts.waiting == 1);
        // As when the process of the mount stops: the gate stays closed.
        drop(mount.mounted.take());
        mount.fs.until("the session ends", |counts| counts.is_ended);
        assert_eq!(program.end().code(), Some(1));
    }
}

#[test]
fn the_kernel_is_told_what_is_out_of_date_but_not_while_it_waits() {
    let mount = Mount::new("told");
    mount.goes_on();
    let notifier = mount.mounted.as_ref().unwrap().notifier();
    notifier.inval_inode(2, 0, 0).unwrap();
    notifier.inval_inode(1_000, 0, 0).expect("the kernel has never heard of it");
    mount.fs.notify_with(notifier);
    let access = rustix::fs::access(&mount.path, rustix::fs::Access::READ_OK);
    assert_eq!(access, Err(rustix::io::Errno::DEADLK));
    mount.goes_on();
    mount.unmount();
}
