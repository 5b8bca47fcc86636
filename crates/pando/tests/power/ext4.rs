//! ext4 on a file of the forgetful disk. Unlike that disk, ext4 lets a shard's log be written
//! through mapped memory.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::common::{all, not_tested};

const SIZE: u64 = 192 << 20;

/// A mounted ext4. Dropping it unmounts it, whatever the disk answers.
pub struct Ext4 {
    device: String,
    path: PathBuf,
}

/// Whether there are loop devices. Containers may have none.
pub fn is_possible() -> bool {
    let is_possible = Path::new("/dev/loop-control").exists();
    if !is_possible {
        not_tested("there are no loop devices, so the volume is never on ext4");
    }
    is_possible
}

/// Makes an ext4 in a file, durably.
pub fn make(image: &Path) {
    let file = File::create(image).unwrap();
    file.set_len(SIZE).unwrap();
    let mut command = Command::new("mkfs.ext4");
    command.args(["-q", "-F", "-N", "8192", "-J", "size=4"]);
    run(command.args(["-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"]).arg(image));
    file.sync_all().unwrap();
    File::open(image.parent().unwrap()).unwrap().sync_all().unwrap();
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", all(&output));
    String::from_utf8(output.stdout).unwrap()
}

impl Ext4 {
    pub fn mount(image: &Path, path: &Path) -> Self {
        let device = run(Command::new("losetup").args(["--find", "--show"]).arg(image));
        let mounted = Self { device: device.trim().to_owned(), path: path.to_owned() };
        mount(&*mounted.device, path, "ext4", MountFlags::empty(), None).expect("ext4 recovers");
        mounted
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        if unmount(&self.path, UnmountFlags::empty()).is_err() {
            let _ = unmount(&self.path, UnmountFlags::DETACH);
        }
        let _ = Command::new("losetup").args(["--detach", &self.device]).status();
    }
}
