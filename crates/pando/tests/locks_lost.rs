//! A mount with locks that is suspended for longer than its lease. This test has a program to
//! itself. No process may be started meanwhile, since one that inherits a file of the suspended
//! mount would wait for it.

mod common;

use std::fs;

use common::locker::Locker;
use common::site::{Site, suspend};
use rustix::process::{Signal, kill_process};

#[test]
fn locks_that_were_lost_are_not_pretended_to_be_held() {
    let mut site = Site::new(&["all"], &["--lease-ms", "700"]);
    // Others would wait longer for a suspended mount that remembers (docs/design/read-grants.md).
    // After 9 s, the first `fsync` below says `EIO`, which docs/STATUS.md tells of.
    let sleeper = site.mount(&["--sync-metadata"]);
    site.mount(&["--sync-metadata"]);
    for name in ["file", "other", "free"] {
        fs::write(site.at(1, name), "before").unwrap();
    }
    let [mut a, mut b] = [0, 1].map(|mount| Locker::with(&site.at(mount, "file")));
    a.open("g", &site.at(0, "other"));
    a.open("h", &site.at(0, "free"));
    b.open("g", &site.at(1, "other"));
    assert_eq!(a.ask("flock f ex try"), "ok");
    assert_eq!(a.ask("try g w 0 10"), "ok");
    // The bytes are written, and not yet sent to the shards.
    assert_eq!(a.ask("write f stale"), "ok");
    assert_eq!(b.ask("flock f ex try"), "EAGAIN");
    suspend(sleeper);
    // These locks are granted once the suspended mount's session is over.
    assert_eq!(b.ask("flock f ex wait"), "ok");
    assert_eq!(b.ask("wait g w 0 10"), "ok");
    assert_eq!(b.ask("write f fresh"), "ok");
    assert_eq!(b.ask("fsync f"), "ok");
    kill_process(sleeper, Signal::CONT).unwrap();
    // Bytes that were written under the lost lock overwrite nothing that was written since.
    assert_eq!(a.ask("fsync f"), "ESTALE");
    assert_eq!(a.ask("try h w 0 0"), "ok", "of a file without lost locks all is well");
    for words in ["flock f sh try", "flock f un try", "try g w 20 5", "try g u 0 0"] {
        assert_eq!(a.ask(words), "EIO", "{words}");
    }
    assert_eq!(a.ask("write f again"), "ok", "as it is not stored yet");
    assert_eq!(a.ask("fsync f"), "ESTALE");
    assert_eq!(b.ask("flock f un try"), "ok");
    // After a program closes the file and opens it again, it can lock it.
    assert_eq!(a.ask("close f"), "ok");
    assert_eq!(a.ask("close g"), "ok");
    a.open("f", &site.at(0, "file"));
    a.open("g", &site.at(0, "other"));
    assert_eq!(a.ask("flock f ex wait"), "ok");
    assert_eq!(a.ask("read f"), "freshe");
    assert_eq!(a.ask("try g w 5 1"), "EAGAIN");
    assert_eq!(b.ask("try g u 0 0"), "ok");
    assert_eq!(a.ask("try g w 5 1"), "ok");
    assert!(
        site.log().contains("2 programs or open files have lost their locks"),
        "{}",
        site.log()
    );
}
