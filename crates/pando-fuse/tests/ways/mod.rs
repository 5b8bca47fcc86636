//! Both ways that requests can come. A test program runs its tests by the way that the kernel
//! offers. If that is by rings, one test runs all others once more, by `/dev/fuse`.

#![allow(dead_code, reason = "not every program uses all of it")]

use std::io::Write;
use std::process::Command;

use pando_fuse::Mounted;

/// Whether rings are forbidden to this process.
fn are_forbidden() -> bool {
    std::env::var_os("PANDO_FUSE_RINGS").is_some_and(|value| value == "off")
}

/// Whether mounts of this process are to have rings.
pub fn rings_are_offered() -> bool {
    let is_enabled = std::fs::read("/sys/module/fuse/parameters/enable_uring")
        .is_ok_and(|value| value.starts_with(b"Y"));
    is_enabled && !are_forbidden()
}

/// Checks that a mount has the way that it is to have.
pub fn check(mounted: &Mounted) {
    assert_eq!(mounted.has_rings(), rings_are_offered(), "rings of io_uring");
}

/// Says something that is shown even if all tests pass.
pub fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "{what}");
}

/// Runs all tests of this program by `/dev/fuse`, except the one of this name. That one calls this.
pub fn again_by_device(own: &str) {
    if are_forbidden() {
        return;
    }
    if !rings_are_offered() {
        say("NOT TESTED: requests by rings. All tests of this program ran by /dev/fuse. \
             As root: echo Y > /sys/module/fuse/parameters/enable_uring");
        return;
    }
    let status = Command::new(std::env::current_exe().unwrap())
        .env("PANDO_FUSE_RINGS", "off")
        .args(["--skip", own])
        .status()
        .unwrap();
    assert!(status.success(), "by /dev/fuse: {status}");
}
