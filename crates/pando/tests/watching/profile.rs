//! `pando profile`: who is named, and that it ends.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::site::{Site, until};
use crate::common::{USER, Volume, all, pando};

/// A process that works for ever, as another user.
struct Worker(Child);

impl Worker {
    fn begin(folder: &Path) -> Self {
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups"]);
        command.args(["bash", "-c", "while echo x >theirs; do :; done"]).current_dir(folder);
        Self(command.spawn().unwrap())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Both this process and another one work as long as the profile runs. So both are in it, however
/// slow the machine is.
fn check_who(mount: &Path) {
    fs::set_permissions(mount, fs::Permissions::from_mode(0o777)).unwrap();
    let worker = Worker::begin(mount);
    let mut command = pando();
    command.arg("profile").arg(mount).args(["--seconds", "3", "--json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        fs::create_dir(mount.join("ours")).unwrap();
        fs::remove_dir(mount.join("ours")).unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    let profile: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = profile["rows"].as_array().unwrap();
    let own = fs::read_to_string("/proc/self/comm").unwrap();
    let find = |user: u32, pid: u32, operation: &str| {
        let found = rows.iter().find(|row| {
            (&row["user"], &row["process"]) == (&user.into(), &pid.into())
                && row["operation"] == operation
        });
        found.unwrap_or_else(|| panic!("no {operation} of {pid}: {profile:#}"))
    };
    let ours = find(0, std::process::id(), "MKDIR");
    assert_eq!(ours["command"], own.trim_end(), "{profile:#}");
    assert!(ours["count"].as_u64() > Some(0) && ours["nanos"].as_u64() > Some(0), "{ours}");
    let theirs = rows.iter().find(|row| row["user"] == USER && row["process"] == worker.0.id());
    assert_eq!(theirs.expect("the worker")["command"], "bash", "{profile:#}");
    // It ran for as long as was said, by the mount's clock.
    assert!(profile["nanos"].as_u64() <= Some(3_000_000_000), "{profile:#}");
}

#[test]
fn processes_and_users_are_named_on_mounts_of_both_kinds() {
    let volume = Volume::up(&[]);
    check_who(&volume.mount);
    let mut site = Site::new(&["all"], &[]);
    site.mount(&[]);
    check_who(&site.mounts[0]);
}

#[test]
fn a_signal_ends_it_early_and_the_next_one_begins() {
    let volume = Volume::up(&[]);
    for _ in 0..2 {
        let mut command = pando();
        command.arg("profile").arg(&volume.mount).args(["--seconds", "3600"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let status = format!("/proc/{}/status", child.id());
        until("it catches signals", || {
            assert!(child.try_wait().unwrap().is_none());
            let status = fs::read_to_string(&status).unwrap();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
            u64::from_str_radix(caught.trim(), 16).unwrap() >> (Signal::INT.as_raw() - 1) & 1 == 1
        });
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", all(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(" of waiting\n"), "{text}");
        // No terminal, no words aside.
        assert!(output.stderr.is_empty(), "{text}");
    }
}
