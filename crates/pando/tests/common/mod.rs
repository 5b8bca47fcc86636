//! A volume in a temporary folder, mounted by the real program. Nothing of it is left behind,
//! however a test ends.
#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::collections::HashSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

pub mod exposition;
pub mod keeper;
pub mod lan;
pub mod locker;
pub mod model;
pub mod namespace;
pub mod programs;
pub mod random;
pub mod site;
pub mod worker;

/// Sizes that are so small that splits and checkpoints happen all the time.
pub const TINY: [&str; 4] = ["--split-threshold", "40", "--checkpoint-bytes", "60000"];

/// The program under test.
pub fn pando() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pando"));
    // Killed mounts leave their sockets: the folder keeps those apart from the system's.
    command.env("PANDO_RUN", Path::new(env!("CARGO_TARGET_TMPDIR")).join("run"));
    // Keys of the user who runs the tests are not found.
    command.env("XDG_CONFIG_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("config"));
    command
}

/// Says that something cannot be tested on this machine. `./test` shows it at its end; the test
/// harness would not show what a test prints that passes.
pub fn not_tested(why: &str) {
    use std::io::Write as _;
    let test = std::thread::current();
    let line = format!("\nNOT TESTED: {}: {why}\n", test.name().unwrap_or("?"));
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// A user other than root.
pub const USER: u32 = 1234;

/// Runs the program as [`USER`], with a `PATH` and arguments. `run` is its folder for sockets.
/// `None`: that user may not run the program on this machine, so nothing is tested.
pub fn as_user(run: &Path) -> Option<impl Fn(&str, &[&str]) -> Output> {
    let run_it = move |path: &str, arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups"]);
        command.arg("env").arg(format!("PATH={path}")).env("PANDO_RUN", run);
        command.arg(pando().get_program()).args(arguments).output()
    };
    if !run_it("/", &["--version"]).is_ok_and(|output| output.status.success()) {
        not_tested(&format!("user {USER} may not run {}", env!("CARGO_BIN_EXE_pando")));
        return None;
    }
    Some(move |path: &str, arguments: &[&str]| run_it(path, arguments).expect("it has run before"))
}

/// The program under test, which is killed (exit code 137) after this many seconds. It must end
/// long before.
pub fn pando_within(seconds: u32) -> Command {
    let program = pando();
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", &seconds.to_string()]).arg(program.get_program());
    for (name, value) in program.get_envs() {
        command.env(name, value.unwrap());
    }
    command
}

/// Whether something is mounted at `path`, by the kernel's list. The mount itself is not asked, so
/// it need not answer.
pub fn is_mounted(path: &Path) -> bool {
    let list = fs::read("/proc/self/mountinfo").unwrap();
    let mut paths =
        list.split(|&byte| byte == b'\n').filter_map(|line| line.split(|&b| b == b' ').nth(4));
    paths.any(|listed| unescaped(listed) == path.as_os_str().as_bytes())
}

/// Undoes the octal escapes of `/proc` (`\040` is a space).
fn unescaped(listed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = listed;
    while let Some((&byte, tail)) = rest.split_first() {
        let is_escape = byte == b'\\';
        let digits = if is_escape { &tail[..3] } else { &[] };
        let code = digits.iter().fold(0, |code, digit| code * 8 + u32::from(digit - b'0'));
        bytes.push(if is_escape { code as u8 } else { byte });
        rest = &tail[digits.len()..];
    }
    bytes
}

/// A folder that is removed at the end, with everything that is mounted in it.
pub struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Makes a folder on a disk of `megabytes`.
    pub fn small_disk(&self, megabytes: u64) -> PathBuf {
        let path = self.path().join("disk");
        fs::create_dir(&path).unwrap();
        mount_tmpfs(&path, megabytes, MountFlags::empty());
        path
    }
}

pub fn mount_tmpfs(path: &Path, megabytes: u64, flags: MountFlags) {
    let size = std::ffi::CString::new(format!("size={megabytes}m")).unwrap();
    mount("tmpfs", path, "tmpfs", flags, size.as_c_str()).expect("mounting a tmpfs needs root");
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let root = self.folder.path().to_owned();
        let list = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let inside = list.lines().filter_map(|line| line.split(' ').nth(4));
        let inside = inside.filter(|path| Path::new(path).starts_with(&root));
        for path in inside.collect::<Vec<_>>().into_iter().rev() {
            let _ = unmount(path, UnmountFlags::DETACH);
        }
    }
}

/// A volume of `pando up`, which may run or not.
pub struct Volume {
    pub folder: PathBuf,
    pub mount: PathBuf,
    pid: Option<Pid>,
    // Dropped last: the folder is removed after the process is gone.
    scratch: Scratch,
}

impl Volume {
    /// A volume that runs. `extra` are more arguments for `pando up`.
    pub fn up(extra: &[&str]) -> Self {
        let mut volume = Self::down();
        volume.start(extra);
        volume
    }

    /// A volume that does not run yet.
    pub fn down() -> Self {
        let scratch = Scratch::new();
        let (folder, mount) = (scratch.path().join("volume"), scratch.path().join("mnt"));
        Self { folder, mount, pid: None, scratch }
    }

    /// A volume that does not run yet, on a disk of `megabytes`.
    pub fn on_small_disk(megabytes: u64) -> Self {
        let mut volume = Self::down();
        volume.folder = volume.scratch.small_disk(megabytes).join("volume");
        volume
    }

    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    pub fn start(&mut self, extra: &[&str]) {
        let output = self.try_start(extra);
        assert!(output.status.success(), "{}", all(&output));
    }

    pub fn try_start(&mut self, extra: &[&str]) -> Output {
        let mut command = pando();
        command.arg("up").arg(&self.folder).arg("--mount").arg(&self.mount);
        let output = command.args(["-d", "--json"]).args(extra).output().unwrap();
        if output.status.success() {
            let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
            let pid = i32::try_from(summary["pid"].as_i64().unwrap()).unwrap();
            self.pid = Pid::from_raw(pid);
        }
        output
    }

    /// Kills the process with `SIGKILL`, and returns when it is gone.
    pub fn kill(&mut self) {
        let Some(pid) = self.pid.take() else { return };
        let _ = kill_process(pid, Signal::KILL);
        // The process is not a child of this one, so it cannot be waited for. Its file lock ends
        // with its last thread.
        let Ok(lock) = fs::File::open(self.folder.join("run/lock")) else { return };
        let begun = Instant::now();
        while rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(30), "the process does not die");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn pid(&self) -> Option<i32> {
        self.pid.map(|pid| pid.as_raw_nonzero().get())
    }

    /// Runs `pando down`.
    pub fn stop(&mut self) {
        let output = pando().arg("down").arg(&self.folder).output().unwrap();
        assert!(output.status.success(), "{}\n{}", all(&output), self.log());
        self.pid = None;
    }

    pub fn status(&self) -> Value {
        let output = pando().arg("status").arg(&self.folder).arg("--json").output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", all(&output)))
    }

    pub fn info(&self, path: &Path) -> Value {
        let output = pando().arg("info").arg(path).arg("--json").output().unwrap();
        assert!(output.status.success(), "{}", all(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The status of the volume's mount, from `pando status`.
    pub fn mount_status(&self) -> Value {
        let output = pando().arg("status").arg(&self.mount).arg("--json").output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", all(&output)))
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("run/log")).unwrap_or_default()
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log of the volume:\n{}", self.log());
        }
        self.kill();
        let _ = unmount(&self.mount, UnmountFlags::DETACH);
    }
}

/// Runs a shell script in `folder`, which must succeed. Returns its standard output.
pub fn shell(folder: &Path, script: &str) -> String {
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", script])
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("HOME", folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}\n{}", all(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Exit status and both outputs of a process, as text.
pub fn all(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// How the manifests of two trees differ; empty if they do not.
pub fn differences(one: &Path, other: &Path) -> Vec<String> {
    let manifest = |path: &Path| {
        let output = pando().arg("manifest").arg(path).output().unwrap();
        assert!(output.status.success(), "{}", all(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (one, other) = (manifest(one), manifest(other));
    assert!(one.len() > 1, "nothing to compare");
    let (here, there): (HashSet<_>, HashSet<_>) = (one.iter().collect(), other.iter().collect());
    let gone = one.iter().filter(|line| !there.contains(line)).map(|line| format!("- {line}"));
    let new = other.iter().filter(|line| !here.contains(line)).map(|line| format!("+ {line}"));
    gone.chain(new).take(20).collect()
}

/// Waits until no kernel answers with attributes of a directory from before the call. With several
/// mounts a kernel may use them for one unit of its time, which is rounded up to 10 ms at most
/// (docs/SEMANTICS.md).
pub fn outlive_attributes() {
    std::thread::sleep(std::time::Duration::from_millis(20));
}
