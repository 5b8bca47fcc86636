//! A volume with a mount that holds, and a mount that joins it.

use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::Pid;
use serde_json::Value;

use crate::common::site::until;
use crate::common::{Volume, all, pando};

/// What `pando status` says of a mount.
pub fn status(mount: &Path) -> Value {
    let output = pando().arg("status").arg(mount).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Whether the kernel of the volume's mount may remember names and attributes.
pub fn holds(volume: &Volume) -> bool {
    status(&volume.mount)["counters"]["holds"] == 1
}

/// A volume that is up, whose mount holds.
pub fn holding(extra: &[&str]) -> Volume {
    let volume = Volume::up(extra);
    until("it holds", || holds(&volume));
    volume
}

/// Another mount of the volume.
pub struct Joined {
    pub mount: PathBuf,
    pub pid: Pid,
}

impl Joined {
    pub fn new(volume: &Volume) -> Self {
        let path = volume.scratch().join("joined");
        let mut command = pando();
        command.arg("mount").arg(&volume.folder).arg(&path).args(["-d", "--json"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", all(&output));
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        let pid = Pid::from_raw(told["pid"].as_i64().unwrap() as i32).unwrap();
        Self { mount: path, pid }
    }

    pub fn leave(self) {
        let output = pando().arg("umount").arg(&self.mount).output().unwrap();
        assert!(output.status.success(), "{}", all(&output));
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        let _ = unmount(&self.mount, UnmountFlags::DETACH);
    }
}
