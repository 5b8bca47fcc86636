//! What a service manager hears of a process in the foreground.

use rustix::process::{Signal, kill_process};

use crate::common::site::{Site, until};
use crate::common::{Volume, all, is_mounted, pando};
use crate::manager::Manager;

#[test]
fn a_server_says_when_it_is_ready_alive_and_stopping() {
    let site = Site::new(&[], &[]);
    let manager = Manager::at_path(site.scratch());
    let mut command = pando();
    command.arg("server").arg(&site.folder).args(["--shard", "all"]);
    manager.start(command).followed_by(&manager, "shards 0,1,2,3 of");
}

#[test]
fn a_mount_says_so_over_an_abstract_socket_and_is_usable_when_it_does() {
    let mut site = Site::new(&["all"], &[]);
    let manager = Manager::abstract_of(site.scratch());
    // Each line of a message is one for the manager, so the path's newline must not be told.
    let path = site.scratch().join("tree\nMAINPID=1");
    site.mounts.push(path.clone());
    let mut command = pando();
    command.arg("mount").arg(&site.folder).arg(&path);
    let service = manager.start(command);
    service.followed_by(&manager, "tree MAINPID=1");
    assert!(!is_mounted(&path));
}

#[test]
fn a_volume_in_one_process_says_so_too() {
    let volume = Volume::down();
    let manager = Manager::at_path(volume.scratch());
    let mut command = pando();
    command.arg("up").arg(&volume.folder).arg("--mount").arg(&volume.mount);
    manager.start(command).followed_by(&manager, "is mounted at");
    assert!(!is_mounted(&volume.mount));
}

#[test]
fn a_mount_whose_servers_are_away_is_alive() {
    let mut site = Site::new(&["all"], &[]);
    let manager = Manager::at_path(site.scratch());
    let path = site.scratch().join("tree");
    site.mounts.push(path.clone());
    let mut command = pando();
    command.arg("mount").arg(&site.folder).arg(&path).args([
        "--timeout",
        "never",
        "--sync-metadata",
    ]);
    let service = manager.start(command);
    assert_eq!(manager.hear_news()[0], "READY=1");
    kill_process(site.processes[0], Signal::KILL).unwrap();
    // This waits for the servers, so it is ended by the end of the mount.
    let waiting = std::thread::spawn(move || std::fs::create_dir(path.join("dir")));
    let pending = || {
        let mut command = pando();
        let output = command.arg("status").arg(&site.mounts[0]).arg("--json").output().unwrap();
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        told["counters"]["pending"].as_u64().unwrap()
    };
    until("a program waits", || pending() > 0);
    // What was told before that does not count.
    while !manager.hears_nothing() {}
    manager.socket.set_nonblocking(false).unwrap();
    for _ in 0..3 {
        assert_eq!(manager.hear(), "WATCHDOG=1");
    }
    drop(service);
    assert!(waiting.join().unwrap().is_err());
}

#[test]
fn a_process_in_the_background_tells_no_manager() {
    let mut site = Site::new(&["all"], &[]);
    let manager = Manager::at_path(site.scratch());
    let path = site.scratch().join("tree");
    site.mounts.push(path.clone());
    let mut command = pando();
    command.arg("mount").arg(&site.folder).arg(&path).arg("-d");
    command.env("NOTIFY_SOCKET", &manager.address).env("WATCHDOG_USEC", "1000");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    let output = pando().arg("umount").arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    assert!(manager.hears_nothing());
}
