//! A mount is away while another one wants what it has.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use crate::common::site::{suspend, until};
use crate::{count, make, names, site};

/// Longest time for which a mount that is away may delay others, with room for a slow machine.
const DELAYS: Duration = Duration::from_secs(20);

/// What a mount had answered and not sent when it was fenced is lost: it is named, and programs
/// hear of it. It is not merged into what others have done since.
#[test]
fn what_a_fenced_mount_had_not_sent_is_named_and_told_once() {
    let mut site = site(2);
    let (server, holder) = (site.processes[0], site.processes[1]);
    fs::write(site.at(0, "dir/kept"), "text").unwrap();
    let dir = File::open(site.at(0, "dir")).unwrap();
    until("all is sent", || count(&site.mounts[0], "lent_unsent") == 0);
    // Nothing leaves the mount from here on.
    kill_process(server, Signal::KILL).unwrap();
    make(&dir, "lost");
    // A process that is started now would inherit the handle, and wait for the suspended mount.
    drop(dir);
    suspend(holder);
    site.serve("all", &[]);
    let begun = Instant::now();
    fs::write(site.at(1, "dir/others"), "text").unwrap();
    let (waited, found) = (begun.elapsed(), names(&site.at(1, "dir")));
    kill_process(holder, Signal::CONT).unwrap();
    assert!(waited < DELAYS, "{waited:?}");
    assert_eq!(found, ["kept", "others"]);
    until("the loss is named", || count(&site.mounts[0], "lent_set_aside") > 0);
    assert_eq!(names(&site.at(0, "dir")), ["kept", "others"]);
    assert!(site.log().contains(r#"the creation of "lost""#), "{}", site.log());
    let dir = File::open(site.at(0, "dir")).unwrap();
    assert_eq!(dir.sync_all().unwrap_err().raw_os_error(), Some(5));
    dir.sync_all().unwrap();
    assert_eq!(fs::read_to_string(site.at(0, "dir/kept")).unwrap(), "text");
}
