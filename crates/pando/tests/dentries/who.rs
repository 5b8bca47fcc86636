//! A user who holds a directory may do in it what that user may do in a held directory of a local
//! disk. It does not matter how the directory came to be held, or which user has walked there
//! before.
//!
//! ```text
//!   the owner, one of the group, a stranger, root
//!     × opened by itself, opened by root and given away (descriptor, O_PATH, a socket's message, working directory, /proc/self/fd)
//!     × below a private directory, moved into one meanwhile, closed by mode meanwhile
//!     × all calls
//! ```

use std::fs;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown, lchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use rustix::thread::{
    UnshareFlags, set_thread_groups, set_thread_res_gid, set_thread_res_uid, unshare_unsafe,
};

use crate::acts::{ACTS, At, Held, picture, plant};
use crate::common::site::Site;
use crate::common::{Scratch, Volume, outlive_attributes};

const OWNER: u32 = 20_001;
const GROUP: u32 = 20_100;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Who {
    Owner,
    /// A member of the group, which is not the user's first group.
    Member,
    Stranger,
    Root,
}

impl Who {
    const ALL: [Self; 4] = [Self::Owner, Self::Member, Self::Stranger, Self::Root];

    /// Gives this thread the user and the groups.
    fn be(self) {
        let (id, groups) = match self {
            Self::Owner => (OWNER, vec![]),
            Self::Member => (20_002, vec![Gid::from_raw(GROUP)]),
            Self::Stranger => (20_003, vec![]),
            Self::Root => return,
        };
        let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
        set_thread_groups(&groups).unwrap();
        set_thread_res_gid(gid, gid, gid).unwrap();
        set_thread_res_uid(uid, uid, uid).unwrap();
    }
}

/// How a directory is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    Path,
    Descriptor,
    PathDescriptor,
    /// The descriptor came in a message over a socket.
    Message,
    WorkingDirectory,
    Proc,
}

impl How {
    const ALL: [Self; 6] = [
        Self::Path,
        Self::Descriptor,
        Self::PathDescriptor,
        Self::Message,
        Self::WorkingDirectory,
        Self::Proc,
    ];
}

/// The user who opens the directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    ItsHolder,
    /// Root opens it, and gives it away then.
    Root,
}

/// What happens to the directory before it is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Then {
    Nothing,
    /// It is moved to where only root may go.
    Hidden,
    /// Its own mode is closed.
    Closed,
}

type Case = (u32, Who, How, By, Then);

/// A tree, through the mount of the calls and through the mount of the changes.
struct Views {
    here: PathBuf,
    there: PathBuf,
}

impl Views {
    /// Makes `private/a/b/c`. Only root may enter `private`. Everything from `a` on belongs to the
    /// owner and the group, and `c` has the mode `mode`.
    fn prepare(&self, mode: u32) -> PathBuf {
        for name in ["private", "hidden"] {
            let _ = fs::remove_dir_all(self.there.join(name));
            fs::create_dir(self.there.join(name)).unwrap();
        }
        plant(&self.there.join("private"), "a", "here");
        own(&self.there.join("private/a"));
        let set = |path: &str, mode| {
            let path = self.there.join(path);
            fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        };
        set("private/a/b/c", mode);
        set("private", 0o700);
        set("hidden", 0o700);
        self.here.join("private/a/b/c")
    }

    /// The result of each call, and what exists after all calls.
    fn run(&self, (mode, who, how, by, then): Case) -> (Vec<Result<String, Errno>>, String) {
        let dir = self.prepare(mode);
        // Root's walk makes the kernel remember the path.
        assert!(dir.join("file").exists());
        let found = std::thread::scope(|scope| {
            let caller = scope.spawn(|| {
                if by == By::ItsHolder {
                    who.be();
                }
                let (held, _kept) = match hold(&dir, how) {
                    Ok(held) => held,
                    Err(errno) => return vec![Err(errno)],
                };
                // A thread that has become another user could not do this.
                std::thread::scope(|scope| scope.spawn(|| self.make(then)).join().unwrap());
                if self.here != self.there {
                    outlive_attributes();
                }
                if by == By::Root {
                    who.be();
                }
                ACTS.iter()
                    // Inode numbers of two trees differ.
                    .filter(|(what, _)| *what != "stat of the directory")
                    .map(|(_, act)| act(&held))
                    .collect()
            });
            caller.join().unwrap()
        });
        (found, picture(&self.there))
    }

    fn make(&self, then: Then) {
        match then {
            Then::Nothing => {}
            Then::Hidden => {
                let (from, to) = (self.there.join("private/a/b/c"), self.there.join("hidden/c"));
                fs::rename(from, to).unwrap();
            }
            Then::Closed => {
                let dir = self.there.join("private/a/b/c");
                fs::set_permissions(dir, PermissionsExt::from_mode(0o700)).unwrap();
            }
        }
    }
}

/// Gives everything at and below `path` to the owner and the group.
fn own(path: &Path) {
    lchown(path, Some(OWNER), Some(GROUP)).unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| own(&entry.unwrap().path()));
    }
}

/// Holds the directory. Also returns a descriptor that must stay open meanwhile, if there is one.
fn hold(dir: &Path, how: How) -> Result<(Held, Option<OwnedFd>), Errno> {
    let open = |flags| rustix::fs::open(dir, flags | OFlags::DIRECTORY, Mode::empty());
    let at = |fd| (Held { at: At::Fd(fd), front: "" }, None);
    match how {
        How::Path => {
            let path = format!("{}/", dir.display());
            Ok((Held { at: At::Cwd, front: path.leak() }, None))
        }
        How::Descriptor => Ok(at(open(OFlags::RDONLY)?)),
        How::PathDescriptor => Ok(at(open(OFlags::PATH)?)),
        How::Message => Ok(at(through_a_socket(open(OFlags::PATH)?))),
        How::WorkingDirectory => {
            // SAFETY: no descriptor is unshared; this thread exists to have a working directory of
            // its own.
            unsafe { unshare_unsafe(UnshareFlags::FS) }.unwrap();
            rustix::process::chdir(dir)?;
            Ok((Held { at: At::Cwd, front: "" }, None))
        }
        How::Proc => {
            let fd = open(OFlags::PATH)?;
            let path = format!("/proc/self/fd/{}/", fd.as_raw_fd());
            Ok((Held { at: At::Cwd, front: path.leak() }, Some(fd)))
        }
    }
}

fn through_a_socket(fd: OwnedFd) -> OwnedFd {
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    let sent = [fd.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&sent)));
    rustix::net::sendmsg(&theirs, &[IoSlice::new(&[0])], &mut control, SendFlags::empty()).unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut slices = [IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(&ours, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
    let fds = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    fds.expect("one was sent")
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for who in Who::ALL {
        for how in How::ALL {
            for (mode, by, then) in [
                (0o755, By::ItsHolder, Then::Nothing),
                (0o755, By::Root, Then::Nothing),
                (0o770, By::Root, Then::Nothing),
                (0o777, By::Root, Then::Hidden),
                (0o777, By::Root, Then::Closed),
            ] {
                cases.push((mode, who, how, by, then));
            }
        }
    }
    cases
}

fn compare(views: &Views) {
    let scratch = Scratch::new();
    let local = Views { here: scratch.path().to_owned(), there: scratch.path().to_owned() };
    for at in [&views.there, &local.there] {
        fs::set_permissions(at, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut wrong = Vec::new();
    for case in cases() {
        let (expected, found) = (local.run(case), views.run(case));
        let acts = ACTS.iter().filter(|(what, _)| *what != "stat of the directory");
        if expected.0.len() != found.0.len() {
            wrong.push(format!("{case:?}: {:?} instead of {:?}", found.0, expected.0));
        }
        for ((expected, found), (what, _)) in expected.0.iter().zip(&found.0).zip(acts) {
            if expected != found && !is_said_otherwise(case, what, found) {
                wrong.push(format!("{case:?} {what}: {found:?} instead of {expected:?}"));
            }
        }
        if expected.1 != found.1 {
            wrong.push(format!("{case:?}: {}\ninstead of\n{}", found.1, expected.1));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Whether a result differs from a local disk's on purpose (docs/SEMANTICS.md).
fn is_said_otherwise(
    (_, _, how, _, then): Case,
    what: &str,
    found: &Result<String, Errno>,
) -> bool {
    // `..` leads to the parent that the directory had when it was entered.
    then == Then::Hidden && how != How::Path && what == "and back up" && found.is_err()
}

#[test]
fn alone_on_a_volume_each_user_may_what_it_may_on_a_local_disk() {
    let volume = Volume::up(&[]);
    compare(&Views { here: volume.mount.clone(), there: volume.mount.clone() });
}

#[test]
fn on_two_mounts_each_user_may_what_it_may_on_a_local_disk() {
    let site = Site::pair();
    compare(&Views { here: site.at(0, ""), there: site.at(1, "") });
}

/// However long a mount may remember attributes, each access to a directory is still decided by
/// them.
#[test]
fn names_that_are_remembered_open_no_directory() {
    let mut site = Site::new(&["all"], &[]);
    site.mount(&["--entry-timeout", "1000", "--attr-timeout", "1000"]);
    let dir = site.at(0, "closed");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("file"), "text").unwrap();
    fs::set_permissions(site.at(0, ""), PermissionsExt::from_mode(0o755)).unwrap();
    fs::set_permissions(&dir, PermissionsExt::from_mode(0o700)).unwrap();
    // The kernel remembers the name.
    assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), "text");
    let found = std::thread::scope(|scope| {
        let stranger = scope.spawn(|| {
            Who::Stranger.be();
            (fs::read_to_string(dir.join("file")), fs::metadata(dir.join("file")))
        });
        stranger.join().unwrap()
    });
    let denied = std::io::ErrorKind::PermissionDenied;
    assert_eq!((found.0.unwrap_err().kind(), found.1.unwrap_err().kind()), (denied, denied));
}

/// A name leads in turn to a directory that all may read, and to one that only root may read.
#[test]
fn what_is_swapped_while_a_stranger_walks_never_lets_it_in() {
    let (volume, site) = (Volume::up(&[]), Site::pair());
    for (here, there) in
        [(volume.mount.clone(), volume.mount.clone()), (site.at(0, ""), site.at(1, ""))]
    {
        fs::set_permissions(&there, PermissionsExt::from_mode(0o755)).unwrap();
        for (name, mode) in [("public", 0o755), ("secret", 0o700)] {
            let dir = there.join(name);
            fs::create_dir_all(dir.join("in")).unwrap();
            fs::write(dir.join("in/file"), name).unwrap();
            fs::set_permissions(&dir, PermissionsExt::from_mode(mode)).unwrap();
        }
        chown(there.join("public"), Some(OWNER), None).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let (one, other) = (there.join("public"), there.join("secret"));
                    // Root's walks make the kernel remember both paths.
                    let _ = (fs::read(one.join("in/file")), fs::read(other.join("in/file")));
                    rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
                }
            });
            let stranger = scope.spawn(|| {
                Who::Stranger.be();
                let mut seen = (0, 0);
                for _ in 0..100_000 {
                    match fs::read_to_string(here.join("public/in/file")) {
                        Ok(text) => {
                            assert_eq!(text, "public");
                            seen.0 += 1;
                        }
                        Err(error) => {
                            assert_eq!(
                                error.raw_os_error(),
                                Some(Errno::ACCESS.raw_os_error()),
                                "{error}"
                            );
                            seen.1 += 1;
                        }
                    }
                    if seen.0 >= 100 && seen.1 >= 100 {
                        break;
                    }
                }
                seen
            });
            let seen = stranger.join();
            is_over.store(true, Ordering::Relaxed);
            let (read, denied) = seen.unwrap();
            assert!(read >= 100 && denied >= 100, "{read} read, {denied} denied");
        });
    }
}
