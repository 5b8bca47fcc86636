//! A matrix of all changes that one mount makes to a directory of a path, and all calls that use
//! that path on another mount. Each call must have the result that it has on a local disk, where
//! changes and calls are in one tree.
//!
//! ```text
//!   renamed, exchanged, closed by mode, closed by owner, removed and made again
//!     × the directory itself, its parent, the one above
//!     × by a path, by a descriptor, from the working directory
//!     × all calls
//! ```

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::acts::{ACTS, Act, At, Held, NOBODY, become_nobody, open_dir, picture, plant};
use crate::common::site::Site;
use crate::common::{Scratch, outlive_attributes};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    Rename,
    Exchange,
    Chmod,
    Chown,
    Anew,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Path,
    Descriptor,
    WorkingDirectory,
}

/// The directory that is changed: that of the call, its parent, and the one above.
const PLACES: [&str; 3] = ["b/c", "b", ""];

const CHANGES: [Change; 5] =
    [Change::Rename, Change::Exchange, Change::Chmod, Change::Chown, Change::Anew];

const WAYS: [By; 3] = [By::Path, By::Descriptor, By::WorkingDirectory];

/// A tree, through the mount of the calls and through the mount of the changes.
struct Views {
    here: PathBuf,
    there: PathBuf,
}

/// Path of the changed directory in a tree.
fn target(tree: &str, place: &str) -> PathBuf {
    Path::new(tree).join(place)
}

impl Views {
    /// Makes two trees that differ, and sets the owners and modes of the first.
    fn prepare(&self, change: Change, place: &str) {
        for name in ["a", "new", "gone"] {
            let path = self.there.join(name);
            if path.exists() {
                fs::remove_dir_all(path).unwrap();
            }
        }
        plant(&self.here, "a", "old");
        plant(&self.here, "new", "new-one");
        if change.is_loss() {
            let dir = self.here.join("a/b/c");
            for entry in fs::read_dir(&dir).unwrap() {
                std::os::unix::fs::lchown(entry.unwrap().path(), Some(NOBODY), None).unwrap();
            }
            let within = dir.join("kept/within");
            chown(within, Some(NOBODY), None).unwrap();
            fs::set_permissions(&dir, PermissionsExt::from_mode(0o777)).unwrap();
        }
        if change == Change::Chown {
            let path = self.here.join(target("a", place));
            chown(&path, Some(NOBODY), None).unwrap();
            fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
        }
    }

    fn make(&self, change: Change, place: &str) {
        let path = self.there.join(target("a", place));
        match change {
            Change::Rename => fs::rename(path, self.there.join("gone")).unwrap(),
            Change::Exchange => self.exchange(place),
            Change::Chmod => {
                fs::set_permissions(path, PermissionsExt::from_mode(0o700)).unwrap();
            }
            Change::Chown => chown(path, Some(0), None).unwrap(),
            Change::Anew => {
                fs::remove_dir_all(path).unwrap();
                plant(&self.there, "a", "new-one");
            }
        }
    }

    /// Undoes a change, except that a directory that was made again stays.
    fn undo(&self, change: Change, place: &str) {
        let path = self.there.join(target("a", place));
        match change {
            Change::Rename => fs::rename(self.there.join("gone"), path).unwrap(),
            Change::Exchange => self.exchange(place),
            Change::Chmod => {
                fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
            }
            Change::Chown => chown(path, Some(NOBODY), None).unwrap(),
            Change::Anew => {}
        }
    }

    fn exchange(&self, place: &str) {
        let [one, other] = ["a", "new"].map(|tree| self.there.join(target(tree, place)));
        rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
    }

    /// The result of each call as the first one after the change, and what exists after all calls.
    fn run(&self, (change, place, by): Case) -> (Vec<Found>, String) {
        self.prepare(change, place);
        let old = self.here.join("a/b/c").metadata().unwrap().ino();
        let (ask, asked) = channel::<Act>();
        let (tell, told) = channel();
        let found = std::thread::scope(|scope| {
            scope.spawn(move || {
                let held = self.hold(by);
                if change.is_loss() {
                    become_nobody();
                }
                for (_, act) in asked {
                    tell.send(act(&held)).unwrap();
                }
            });
            let call = |act: Act| {
                ask.send(act).unwrap();
                told.recv().unwrap()
            };
            let mut found = Vec::new();
            let mut is_known = false;
            for act in ACTS {
                if change != Change::Anew || !is_known {
                    // The path exists, and the kernel knows it.
                    let known = call(ACTS[0]);
                    assert!(
                        known.is_ok(),
                        "{change:?} {place} {by:?}, before {}: {known:?}",
                        act.0
                    );
                    self.make(change, place);
                    if self.here != self.there && change.is_loss() {
                        outlive_attributes();
                    }
                    is_known = true;
                }
                found.push(match call(act) {
                    // Inode numbers of two trees differ.
                    Ok(ino) if act.0 == "stat of the directory" => {
                        let is_old = ino == old.to_string();
                        Ok(if is_old { "the old one" } else { "another" }.to_owned())
                    }
                    found => found,
                });
                self.undo(change, place);
            }
            drop(ask);
            found
        });
        (found, picture(&self.there))
    }

    fn hold(&self, by: By) -> Held {
        let dir = self.here.join("a/b/c");
        match by {
            By::Path => Held { at: At::Fd(open_dir(&self.here)), front: "a/b/c/" },
            By::Descriptor => Held { at: At::Fd(open_dir(&dir)), front: "" },
            By::WorkingDirectory => {
                // SAFETY: no descriptor is unshared; this thread exists to have a working directory
                // of its own.
                unsafe { unshare_unsafe(UnshareFlags::FS) }.unwrap();
                rustix::process::chdir(&dir).unwrap();
                Held { at: At::Cwd, front: "" }
            }
        }
    }
}

type Found = Result<String, Errno>;

type Case = (Change, &'static str, By);

impl Change {
    /// Whether the change takes a permission from the caller.
    fn is_loss(self) -> bool {
        matches!(self, Self::Chmod | Self::Chown)
    }
}

#[test]
fn what_a_call_finds_after_a_change_by_another_mount_is_what_it_finds_on_a_local_disk() {
    let site = Site::pair();
    let scratch = Scratch::new();
    for (at, mode) in [(site.mounts[0].as_path(), 0o755), (scratch.path(), 0o755)] {
        fs::set_permissions(at, PermissionsExt::from_mode(mode)).unwrap();
    }
    let mounts = Views { here: site.at(0, ""), there: site.at(1, "") };
    let local = Views { here: scratch.path().to_owned(), there: scratch.path().to_owned() };
    let mut wrong = Vec::new();
    for case in CHANGES.into_iter().flat_map(|change| {
        PLACES.into_iter().flat_map(move |place| WAYS.map(|by| (change, place, by)))
    }) {
        let (expected, found) = (local.run(case), mounts.run(case));
        for ((expected, found), (what, _)) in expected.0.iter().zip(&found.0).zip(ACTS) {
            let expected = said_otherwise(case, what).unwrap_or_else(|| expected.clone());
            if expected != *found {
                wrong.push(format!("{case:?} {what}: {found:?} instead of {expected:?}"));
            }
        }
        if expected.1 != found.1 {
            wrong.push(format!("{case:?}: {}\ninstead of\n{}", found.1, expected.1));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// The result of a call that differs from a local disk's on purpose (docs/SEMANTICS.md).
fn said_otherwise((change, place, by): Case, what: &str) -> Option<Found> {
    match (change, what) {
        // A local disk may use the inode number again.
        (Change::Anew, "stat of the directory") if by == By::Path => Some(Ok("another".to_owned())),
        // `..` leads to the parent that the directory had when it was entered.
        (Change::Exchange, "and back up") if by != By::Path && place == "b/c" => {
            Some(Ok("new-one".to_owned()))
        }
        _ => None,
    }
}
