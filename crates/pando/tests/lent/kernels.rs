//! What kernels remember of single directories while another mount writes elsewhere
//! (docs/design/read-grants.md, "What kernels remember").

use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use rustix::process::{Signal, kill_process};

use crate::common::site::{Site, suspend, until};
use crate::{asked, borrow, count};

const FILES: u32 = 10;

fn file(nth: u32) -> String {
    format!("f{nth}")
}

fn fill(dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    (0..FILES).for_each(|nth| fs::write(dir.join(file(nth)), "text").unwrap());
}

/// One server, and two mounts. The second one has written, and goes on doing so.
fn site() -> Site {
    let mut site = Site::new(&["all"], &[]);
    site.mount(&[]);
    site.mount(&[]);
    site
}

/// The second mount writes, so that the first one does not hold.
fn write_elsewhere(site: &Site) {
    fs::create_dir_all(site.at(1, "elsewhere")).unwrap();
    fs::write(site.at(1, "elsewhere/file"), "text").unwrap();
}

/// Looks at all files and at a name that is not there, until the kernel asks for nothing.
fn look_until_known(site: &Site, dir: &Path) {
    let mount = &site.mounts[0];
    until("the kernel answers by itself", || {
        write_elsewhere(site);
        let look = || {
            for nth in 0..FILES {
                assert_eq!(fs::metadata(dir.join(file(nth))).unwrap().len(), 4);
            }
            assert_eq!(fs::metadata(dir.join("none")).unwrap_err().kind(), ErrorKind::NotFound);
        };
        (0..4).for_each(|_| look());
        let before = asked(mount);
        look();
        assert_eq!(count(mount, "holds"), 0);
        asked(mount) == before
    });
}

type Change = fn(here: &Path, there: &Path);

/// Each is made by the second mount, and seen by the first one at once.
const CHANGES: [(&str, Change); 8] = [
    ("a file grows", |here, there| {
        let open = File::open(here.join("f0")).unwrap();
        assert_eq!(open.metadata().unwrap().len(), 4);
        fs::write(there.join("f0"), "longer text").unwrap();
        assert_eq!(fs::metadata(here.join("f0")).unwrap().len(), 11);
        assert_eq!(open.metadata().unwrap().len(), 11);
        assert_eq!(fs::read_to_string(here.join("f0")).unwrap(), "longer text");
    }),
    ("a descriptor shows what is new", |here, there| {
        let open = File::open(here.join("f1")).unwrap();
        assert_eq!(open.metadata().unwrap().mode() & 0o777, 0o644);
        fs::set_permissions(there.join("f1"), Permissions::from_mode(0o600)).unwrap();
        assert_eq!(open.metadata().unwrap().mode() & 0o777, 0o600);
        fs::remove_file(there.join("f1")).unwrap();
        assert_eq!(open.metadata().unwrap().nlink(), 0);
    }),
    ("a name moves", |here, there| {
        fs::rename(there.join("f2"), there.join("none")).unwrap();
        assert!(here.join("none").exists() && !here.join("f2").exists());
    }),
    ("a name is replaced", |here, there| {
        let before = fs::metadata(here.join("f3")).unwrap().ino();
        fs::rename(there.join("f4"), there.join("f3")).unwrap();
        assert!(!here.join("f4").exists());
        assert_ne!(fs::metadata(here.join("f3")).unwrap().ino(), before);
    }),
    ("a file has another name", |here, there| {
        fs::hard_link(there.join("f5"), there.with_file_name("linked")).unwrap();
        assert_eq!(fs::metadata(here.join("f5")).unwrap().nlink(), 2);
        fs::write(there.with_file_name("linked"), "longer text").unwrap();
        assert_eq!(fs::metadata(here.join("f5")).unwrap().len(), 11);
        fs::remove_file(there.with_file_name("linked")).unwrap();
    }),
    ("a directory is closed", |here, there| {
        fs::set_permissions(there, Permissions::from_mode(0o700)).unwrap();
        assert_eq!(fs::metadata(here).unwrap().mode() & 0o777, 0o700);
    }),
    ("a name is made", |here, there| {
        fs::create_dir(there.join("none")).unwrap();
        assert!(here.join("none").is_dir());
        fs::remove_dir(there.join("none")).unwrap();
        assert!(!here.join("none").exists());
    }),
    ("a directory moves", |here, there| {
        fs::rename(there, there.with_file_name("moved")).unwrap();
        assert!(!here.exists());
        assert!(here.with_file_name("moved").join("f0").exists());
        fs::rename(there.with_file_name("moved"), there).unwrap();
        assert!(here.join("f0").exists());
    }),
];

/// The directory of a change. Its parent is of it alone: names of a directory that both mounts
/// want are not known for a while.
fn name_of(nth: usize) -> String {
    format!("of{nth}/dir")
}

fn see_changes(site: &Site) {
    for (nth, (what, change)) in CHANGES.iter().enumerate() {
        let name = name_of(nth);
        look_until_known(site, &site.at(0, &name));
        println!("{what}");
        change(&site.at(0, &name), &site.at(1, &name));
    }
}

#[test]
fn what_is_read_is_known_until_another_mount_changes_it() {
    let site = site();
    (0..CHANGES.len()).for_each(|nth| fill(&site.at(1, &name_of(nth))));
    see_changes(&site);
}

#[test]
fn what_is_lent_is_known_until_another_mount_changes_it() {
    let site = site();
    for nth in 0..CHANGES.len() {
        borrow(&site.at(0, &name_of(nth)), &site.mounts[0]);
        fill(&site.at(0, &name_of(nth)));
    }
    see_changes(&site);
}

/// A file that the first mount moves rests on another directory from then on.
#[test]
fn a_file_that_is_moved_or_linked_by_this_mount_is_not_known_by_its_old_place() {
    let site = site();
    borrow(&site.at(0, "from"), &site.mounts[0]);
    fs::create_dir(site.at(1, "to")).unwrap();
    fill(&site.at(0, "from"));
    look_until_known(&site, &site.at(0, "from"));
    for (nth, links) in [(0, false), (1, true)] {
        let (from, to) = (site.at(0, "from").join(file(nth)), site.at(0, "to").join(file(nth)));
        let open = File::open(&from).unwrap();
        assert_eq!(open.metadata().unwrap().len(), 4);
        if links {
            fs::hard_link(&from, &to).unwrap()
        } else {
            fs::rename(&from, &to).unwrap()
        }
        fs::write(site.at(1, "to").join(file(nth)), "longer text").unwrap();
        assert_eq!(open.metadata().unwrap().len(), 11);
    }
}

/// A kernel takes what it remembers of a name along to another directory.
#[test]
fn a_directory_that_this_mount_moves_is_not_known_by_its_old_places_time() {
    let site = site();
    for dir in ["one/sub", "two/sub"] {
        fill(&site.at(1, dir));
    }
    fs::create_dir(site.at(1, "free")).unwrap();
    let (one, two) = (site.at(0, "one/sub"), site.at(0, "two/sub"));
    look_until_known(&site, &one);
    // It is free for another one as soon as it has moved there.
    let (here, there) = (site.at(0, "free/sub"), site.at(1, "free/sub"));
    fs::rename(&one, &here).unwrap();
    fs::rename(&there, site.at(1, "free/old")).unwrap();
    fs::create_dir(&there).unwrap();
    assert!(!here.join("f0").exists(), "it is another directory");
    fs::create_dir(&one).unwrap();
    look_until_known(&site, &two);
    renameat_with(CWD, &one, CWD, &two, RenameFlags::EXCHANGE).unwrap();
    // This kernel has the directory at its old place: within a rename it would say ESTALE.
    assert!(site.at(1, "one/sub/f0").exists());
    fs::rename(site.at(1, "one/sub"), site.at(1, "free/other")).unwrap();
    assert!(!one.exists());
}

/// A kernel whose mount is suspended answers from memory for no longer than others wait.
fn change_beside_a_suspended_mount(site: &Site, name: &str) {
    let dir = site.at(0, name);
    look_until_known(site, &dir);
    let mount = site.processes[1];
    suspend(mount);
    fs::write(site.at(1, name).join("f0"), "longer text").unwrap();
    // The kernel asks the mount, which goes on.
    let looks = std::thread::spawn(move || fs::metadata(dir.join("f0")).unwrap().len());
    kill_process(mount, Signal::CONT).unwrap();
    assert_eq!(looks.join().unwrap(), 11);
}

#[test]
fn who_changes_what_a_suspended_mounts_kernel_has_read_waits_until_it_does_not_know() {
    let site = site();
    fill(&site.at(1, "quiet"));
    change_beside_a_suspended_mount(&site, "quiet");
}

#[test]
fn who_changes_what_is_lent_to_a_suspended_mount_waits_until_its_kernel_does_not_know() {
    let site = site();
    borrow(&site.at(0, "lent"), &site.mounts[0]);
    fill(&site.at(0, "lent"));
    change_beside_a_suspended_mount(&site, "lent");
}

/// What is mounted upon the first mount stays there when names are wanted back.
#[test]
fn what_is_mounted_upon_the_mount_stays_and_changes_are_seen() {
    let site = site();
    fill(&site.at(1, "quiet"));
    let (dir, upon) = (site.at(0, "quiet"), site.at(0, "quiet/upon"));
    fs::create_dir(&upon).unwrap();
    let other = tempfile::tempdir_in(site.scratch()).unwrap();
    File::create(other.path().join("inside")).unwrap().write_all(b"text").unwrap();
    mount_bind(other.path(), &upon).unwrap();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        look_until_known(&site, &dir);
        fs::rename(site.at(1, "quiet/f0"), site.at(1, "quiet/none")).unwrap();
        assert!(dir.join("none").exists() && !dir.join("f0").exists());
        assert_eq!(fs::read_to_string(upon.join("inside")).unwrap(), "text");
    }));
    unmount(&upon, UnmountFlags::empty()).unwrap();
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}
