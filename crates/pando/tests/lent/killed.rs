//! A mount is killed with changes that no shard has.

use std::fs::{self, File};
use std::path::PathBuf;

use rustix::fs::{AtFlags, renameat, unlinkat};
use rustix::process::{Signal, kill_process};

use crate::common::pando;
use crate::common::site::{Site, until};
use crate::{count, make, make_of, names, site};

/// So much that it is in an object.
static LARGE: [u8; 20_000] = [7; 20_000];

/// Journals of mounts of this volume that have ended, or that run.
pub fn journals(site: &Site) -> Vec<PathBuf> {
    let run = pando()
        .get_envs()
        .find_map(|(name, value)| (name == "PANDO_RUN").then(|| PathBuf::from(value.unwrap())));
    let volume = pando_server::Folder::new(&site.folder).unwrap().read().unwrap().uuid;
    let uuid = volume.replace('-', "");
    let Ok(all) = fs::read_dir(run.unwrap().join("journals")) else { return Vec::new() };
    let all = all.map(|entry| entry.unwrap());
    let its = all.filter(|entry| entry.file_name().to_str().unwrap().starts_with(&uuid));
    let shards = its.flat_map(|entry| fs::read_dir(entry.path()).into_iter().flatten());
    let files = shards.map(|entry| entry.unwrap().path());
    files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("shard")).collect()
}

/// The server is killed, so that nothing which the mount answers leaves it. Then the mount is.
#[test]
fn what_a_killed_mount_had_answered_the_next_one_sends() {
    let mut site = site(1);
    let (server, holder) = (site.processes[0], *site.processes.last().unwrap());
    fs::write(site.at(0, "dir/replaced"), "old").unwrap();
    let dir = File::open(site.at(0, "dir")).unwrap();
    until("all is sent", || count(&site.mounts[0], "lent_unsent") == 0);
    kill_process(server, Signal::KILL).unwrap();
    for nth in 0..5 {
        make(&dir, &format!("new-{nth}"));
    }
    make_of(&dir, "new-5", &LARGE);
    renameat(&dir, "new-0", &dir, "replaced").unwrap();
    unlinkat(&dir, "new-1", AtFlags::empty()).unwrap();
    kill_process(holder, Signal::KILL).unwrap();
    site.serve("all", &[]);
    site.mount(&[]);
    let expected = ["new-2", "new-3", "new-4", "new-5", "replaced"];
    until("the journal is sent", || names(&site.at(1, "dir")) == expected);
    assert_eq!(fs::read(site.at(1, "dir/new-5")).unwrap(), LARGE);
    for name in expected.into_iter().filter(|name| *name != "new-5") {
        assert_eq!(fs::read_to_string(site.at(1, "dir").join(name)).unwrap(), "text");
    }
    until("the journal is removed", || {
        let output = pando().arg("status").arg(&site.mounts[1]).output().unwrap();
        output.status.success() && count(&site.mounts[1], "lent_set_aside") == 0
    });
    assert!(!site.log().contains("are lost"), "{}", site.log());
}

/// Objects in the folder of a volume.
fn objects(site: &Site) -> Vec<PathBuf> {
    let inside = |folder: PathBuf| {
        let all = fs::read_dir(folder).into_iter().flatten();
        all.map(|entry| entry.unwrap().path())
    };
    let sessions = inside(site.folder.join("objects")).filter(|path| path.is_dir());
    sessions.flat_map(inside).flat_map(inside).collect()
}

/// As after a loss of power of their machine, which brings the journal back and not the object.
#[test]
fn a_write_of_which_the_object_is_gone_is_lost_with_all_that_follows() {
    let mut site = site(1);
    let (server, holder) = (site.processes[0], *site.processes.last().unwrap());
    let dir = File::open(site.at(0, "dir")).unwrap();
    until("all is sent", || count(&site.mounts[0], "lent_unsent") == 0);
    kill_process(server, Signal::KILL).unwrap();
    make(&dir, "before");
    make_of(&dir, "large", &LARGE);
    make(&dir, "later");
    kill_process(holder, Signal::KILL).unwrap();
    let objects = objects(&site);
    assert_eq!(objects.len(), 1, "{objects:?}");
    fs::remove_file(&objects[0]).unwrap();
    site.serve("all", &[]);
    site.mount(&[]);
    until("the journal is sent", || names(&site.at(1, "dir")) == ["before", "large"]);
    assert_eq!(fs::metadata(site.at(1, "dir/large")).unwrap().len(), 0);
    until("the loss is named", || site.log().contains("\"later\""));
}

/// The mount beside it does so, too, without being asked for anything.
#[test]
fn what_a_killed_mount_had_answered_the_mount_beside_it_sends() {
    let mut site = site(2);
    let (server, holder) = (site.processes[0], site.processes[1]);
    let dir = File::open(site.at(0, "dir")).unwrap();
    until("all is sent", || count(&site.mounts[0], "lent_unsent") == 0);
    kill_process(server, Signal::KILL).unwrap();
    for nth in 0..5 {
        make(&dir, &format!("new-{nth}"));
    }
    kill_process(holder, Signal::KILL).unwrap();
    site.serve("all", &[]);
    until("the journal is sent", || names(&site.at(1, "dir")).len() == 5);
    assert!(!site.log().contains("are lost"), "{}", site.log());
}
