//! What is tested.

use std::path::Path;
use std::process::Child;

use rustix::process::Signal;

use crate::serve::NO_MOUNTPOINT;
use crate::site::{Setup, Site, has_ended, signal, until, wait};

const ABORTED: i32 = rustix::io::Errno::CONNABORTED.raw_os_error();
const NOT_CONNECTED: i32 = rustix::io::Errno::NOTCONN.raw_os_error();
/// The kernel sets this bit in the numbers of requests that it sends again.
const RESENT: u64 = 1 << 63;

/// Requests that wait: what they are called, and a file for each. While a create waits, the kernel
/// lets nobody else into that directory. So that comes last.
const HELD: [(&str, &str); 4] = [("open", "f1"), ("read", "f2"), ("write", "f3"), ("create", "n1")];

pub fn all() {
    calls_under_way_are_answered_once_whatever_is_killed();
    calls_under_way_are_aborted_in_mode_clones_and_the_mount_lives();
    a_second_crash_is_as_good_as_the_first_one();
    nothing_is_resent_while_a_server_process_lives();
    a_mount_ends_if_nobody_serves_it_in_time();
    a_server_process_outlives_its_keeper();
    a_successor_that_never_got_the_mount_ends_with_the_keeper();
    a_keeper_ends_as_its_server_process_if_nothing_was_mounted();
    a_keeper_passes_on_that_it_shall_stop();
    an_unmount_while_nobody_serves_ends_all();
    // `./test` counts lines like this one.
    println!("test result: ok. 10 passed; 0 failed");
}

fn calls_under_way_are_answered_once_whatever_is_killed() {
    let mut site = Setup::new("resend", "2").start();
    site.put("hold");
    let mut programs = HELD.map(|(operation, name)| under_way(&site, 0, operation, name));
    let first = HELD.map(|(operation, _)| site.until_noted(0, "read", operation).number);
    site.kill(0);
    // This one is read by successors only, once the create is done.
    let mut late = site.begin("stat", "f9");
    for ((operation, _), number) in HELD.iter().zip(first) {
        let again = site.until_noted(1, "read", operation).number;
        assert_eq!(again, number | RESENT, "{operation}");
    }
    site.kill(1);
    for (operation, _) in HELD {
        site.until_noted(2, "read", operation);
    }
    site.remove("hold");
    for (program, (operation, _)) in programs.iter_mut().zip(HELD) {
        assert_eq!(wait(program), 0, "{operation}");
    }
    assert_eq!(wait(&mut late), 0);
    for (operation, _) in HELD {
        for what in ["ran", "answered"] {
            let lines = site.diary.of_kind(what, operation);
            assert_eq!(lines.iter().map(|line| line.generation).collect::<Vec<_>>(), [2], "{what}");
        }
    }
    site.unmount();
    assert_eq!(wait(&mut site.keeper), 0);
}

fn calls_under_way_are_aborted_in_mode_clones_and_the_mount_lives() {
    let mut site = Setup::new("clones", "2").start();
    for generation in 0..2 {
        site.put("hold");
        let mut programs =
            HELD.map(|(operation, name)| under_way(&site, generation, operation, name));
        site.kill(generation);
        site.until_noted(generation + 1, "began", "server");
        site.remove("hold");
        for (program, (operation, _)) in programs.iter_mut().zip(HELD) {
            // The kernel itself reads a page once more, if reading ahead has failed.
            let expected = if operation == "read" { 0 } else { ABORTED };
            assert_eq!(wait(program), expected, "{operation}");
        }
        site.until_served(generation + 1);
    }
    for (operation, name) in HELD {
        assert_eq!(site.act(operation, name), 0, "{operation}");
    }
    assert!(site.diary.lines().iter().all(|line| line.number & RESENT == 0));
    site.unmount();
    assert_eq!(wait(&mut site.keeper), 0);
}

fn a_second_crash_is_as_good_as_the_first_one() {
    let is_read_again = |fault| {
        let site = Setup { fault, ..Setup::new("resend", "1") }.start();
        let mut program = write_under_way(&site);
        site.kill(0);
        site.until_noted(1, "read", "write");
        site.kill(1);
        site.until_served(2);
        // What is sent again comes before this. There is one reader.
        assert_eq!(site.act("stat", "f9"), 0);
        let is_read = site.diary.of_kind("read", "write").iter().any(|line| line.generation == 2);
        if is_read {
            site.remove("hold");
            assert_eq!(wait(&mut program), 0);
        } else {
            drop(site);
            assert_eq!(wait(&mut program), ABORTED, "it waits for ever otherwise");
        }
        is_read
    };
    assert!(is_read_again("none"));
    assert!(!is_read_again("second-crash-not-resent"), "the planted fault is not found");
}

fn nothing_is_resent_while_a_server_process_lives() {
    let comes_twice = |fault| {
        let mut site = Setup { fault, ..Setup::new("resend", "1") }.start();
        let mut program = write_under_way(&site);
        site.put("hang-up");
        site.until_noted(0, "hung-up", "server");
        // The keeper passes this on after it has seen the end of the socket.
        signal(site.keeper_pid(), Signal::HUP);
        site.until_noted(0, "signal", "server");
        assert_eq!(site.act("stat", "f9"), 0);
        let comes_twice = site.diary.of_kind("read", "write").len() > 1;
        if !comes_twice {
            site.remove("hold");
            assert_eq!(wait(&mut program), 0);
            // The server process cannot say that all is over. A successor finds out.
            site.remove("hang-up");
            site.unmount();
            assert_eq!(wait(&mut site.keeper), 0);
        } else {
            drop(site);
            assert_eq!(wait(&mut program), ABORTED);
        }
        comes_twice
    };
    assert!(!comes_twice("none"));
    assert!(comes_twice("resend-before-death"), "the planted fault is not found");
}

fn a_mount_ends_if_nobody_serves_it_in_time() {
    for mode in ["resend", "clones"] {
        let mut site = Setup { lease: "500", ..Setup::new(mode, "1") }.start();
        let mut program = write_under_way(&site);
        site.put("fail");
        site.kill(0);
        assert_eq!(wait(&mut program), ABORTED, "{mode}");
        assert_eq!(wait(&mut site.keeper), 1, "{mode}");
        assert_eq!(site.act("stat", "f9"), NOT_CONNECTED, "{mode}");
        let starts = site.diary.of_kind("began", "server").len() - 1;
        assert!((1..=5).contains(&starts), "{starts} successors");
    }
}

fn a_server_process_outlives_its_keeper() {
    let mut site = Setup::new("resend", "1").start();
    let mut program = write_under_way(&site);
    site.keeper.kill().unwrap();
    site.keeper.wait().unwrap();
    assert_eq!(site.act("stat", "f9"), 0);
    site.remove("hold");
    assert_eq!(wait(&mut program), 0);
    site.unmount();
    let server = site.until_served(0);
    until("the server process ends", || has_ended(server));
}

fn a_successor_that_never_got_the_mount_ends_with_the_keeper() {
    let mut site = Setup::new("resend", "1").start();
    let mut program = write_under_way(&site);
    site.put("wait");
    site.kill(0);
    let successor = site.until_noted(1, "began", "server").number;
    site.keeper.kill().unwrap();
    site.keeper.wait().unwrap();
    assert_eq!(wait(&mut program), ABORTED);
    site.remove("wait");
    site.until_noted(1, "gave-up", "server");
    until("the successor ends", || has_ended(successor));
}

fn a_keeper_ends_as_its_server_process_if_nothing_was_mounted() {
    let dir = std::env::temp_dir().join(format!("pando-kept-{}-none", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let setup = Setup::new("resend", "1");
    let code = wait(&mut setup.keeper(Path::new("/no/such/directory"), &dir));
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(code, NO_MOUNTPOINT);
}

fn a_keeper_passes_on_that_it_shall_stop() {
    let mut site = Setup::new("resend", "2").start();
    assert_eq!(site.act("write", "f3"), 0);
    signal(site.keeper_pid(), Signal::TERM);
    assert_eq!(wait(&mut site.keeper), 0);
    assert!(!pando_fuse::is_mountpoint(&site.mountpoint).unwrap());
}

fn an_unmount_while_nobody_serves_ends_all() {
    for mode in ["resend", "clones"] {
        let mut site = Setup::new(mode, "1").start();
        site.put("wait");
        site.kill(0);
        site.until_noted(1, "began", "server");
        site.unmount();
        site.remove("wait");
        assert_eq!(wait(&mut site.keeper), 0, "{mode}");
    }
}

/// Begins a program, and waits until the server process of this generation has its request.
fn under_way(site: &Site, generation: u64, operation: &str, name: &str) -> Child {
    let program = site.begin(operation, name);
    site.until_noted(generation, "read", operation);
    program
}

/// Begins a write that waits.
fn write_under_way(site: &Site) -> Child {
    site.put("hold");
    under_way(site, 0, "write", "f3")
}
