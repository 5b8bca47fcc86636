//! Which system call a thread is in.
//!
//! The protocol does not tell whether a request about a directory comes by a path or by a descriptor, nor whether a name that
//! is looked up is to be made. Linux repeats a call by path that is refused with `ESTALE`, and no other. So where somebody is
//! about to be refused, and only there, it is looked up in `/proc` what he waits in. Where that cannot be seen (no rights, a
//! 32-bit program, `io_uring`), he is taken for one that Linux repeats.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use pando_types::{Ino, Name};
use rustix::fs::{Mode, OFlags};

/// How long to look for a caller that is still on his way to sleep.
const LOOK_FOR: Duration = Duration::from_millis(5);
/// Longest path, bytes.
const PATH_MAX: usize = 4096;
/// Flag of `fstatat` and others: with an empty path, the descriptor itself is meant.
const AT_EMPTY_PATH: u64 = 0x1000;

/// A system call that a thread waits in. The same thread in the same call: equal, and so are two calls in a loop that are
/// given the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Call {
    number: i64,
    /// Arguments, stack pointer, program counter.
    words: [u64; 8],
    /// Arguments that are paths.
    paths: Vec<Vec<u8>>,
}

/// Where a path of a call begins: a directory that the caller holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Start {
    ino: Ino,
    /// Whether it goes up from there before it goes anywhere.
    is_up: bool,
    /// Where it goes first, if anywhere.
    first: Option<Name>,
}

impl Start {
    /// Whether this is where a walk begins that asks for `name` in `dir`.
    pub(super) fn leads(&self, dir: Ino, name: &Name) -> bool {
        self.first.as_ref() == Some(name) && (self.is_up || self.ino == dir)
    }

    /// Whether the path leads no further than to this directory.
    pub(super) fn is_at(&self, dir: Ino) -> bool {
        self.first.is_none() && (self.is_up || self.ino == dir)
    }
}

/// What matters of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// It names no path.
    Descriptor,
    /// It makes this name; Linux repeats it if making fails, but not if looking the name up does.
    Make(Vec<u8>),
    /// Linux repeats it.
    Repeated,
}

impl Call {
    /// That of a thread that waits for an answer.
    pub(super) fn of(thread: u32) -> Option<Self> {
        if thread == 0 {
            return None;
        }
        let begun = Instant::now();
        loop {
            let text = fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
            if text.trim_end() != "running" {
                let mut call = Self::parse(&text)?;
                call.paths = call.read_paths(thread);
                return Some(call);
            }
            if begun.elapsed() > LOOK_FOR {
                return None;
            }
            std::thread::yield_now();
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split_ascii_whitespace();
        let number = parts.next()?.parse().ok()?;
        let mut words = [0; 8];
        for word in &mut words {
            *word = u64::from_str_radix(parts.next()?.strip_prefix("0x")?, 16).ok()?;
        }
        // The numbers of 32-bit programs are others.
        let is_wide = words[6] > u64::from(u32::MAX);
        (number >= 0 && is_wide).then_some(Self { number, words, paths: Vec::new() })
    }

    /// Which arguments are paths that are walked, and whether the one before each says from where.
    fn paths_at(&self) -> (&'static [usize], bool) {
        match self.number {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename | libc::SYS_link => (&[0, 1], false),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_symlink => (&[1], false),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_stat
            | libc::SYS_lstat
            | libc::SYS_open
            | libc::SYS_creat
            | libc::SYS_unlink
            | libc::SYS_rmdir
            | libc::SYS_mkdir
            | libc::SYS_mknod
            | libc::SYS_chmod
            | libc::SYS_chown
            | libc::SYS_lchown
            | libc::SYS_access
            | libc::SYS_readlink
            | libc::SYS_utime
            | libc::SYS_utimes => (&[0], false),
            libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => (&[1, 3], true),
            libc::SYS_symlinkat => (&[2], true),
            libc::SYS_newfstatat
            | libc::SYS_statx
            | libc::SYS_openat
            | libc::SYS_openat2
            | libc::SYS_unlinkat
            | libc::SYS_mkdirat
            | libc::SYS_mknodat
            | libc::SYS_fchmodat
            | FCHMODAT2
            | libc::SYS_fchownat
            | libc::SYS_faccessat
            | libc::SYS_faccessat2
            | libc::SYS_readlinkat
            | libc::SYS_utimensat
            | libc::SYS_execveat => (&[1], true),
            libc::SYS_chdir
            | libc::SYS_truncate
            | libc::SYS_statfs
            | libc::SYS_getxattr
            | libc::SYS_lgetxattr
            | libc::SYS_setxattr
            | libc::SYS_lsetxattr
            | libc::SYS_listxattr
            | libc::SYS_llistxattr
            | libc::SYS_removexattr
            | libc::SYS_lremovexattr
            | libc::SYS_execve => (&[0], false),
            _ => (&[], false),
        }
    }

    fn read_paths(&self, thread: u32) -> Vec<Vec<u8>> {
        let (places, _) = self.paths_at();
        if places.is_empty() {
            return Vec::new();
        }
        let memory = File::open(format!("/proc/{thread}/mem")).ok();
        places.iter().map(|at| text_at(memory.as_ref(), self.words[*at])).collect()
    }

    /// Whether it walks two paths.
    pub(super) fn is_of_two(&self) -> bool {
        self.paths.len() == 2
    }

    /// Whether it is known by which paths it walks.
    pub(super) fn has_paths(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Where those of its paths begin that begin in a directory of the mount with this device, which `thread` holds.
    pub(super) fn starts(&self, thread: u32, device: &[u8]) -> Vec<Start> {
        let (places, is_at) = self.paths_at();
        let mut starts = Vec::new();
        for (at, path) in places.iter().zip(&self.paths) {
            let named = by_number(path);
            let descriptor = match at.checked_sub(1).filter(|_| is_at) {
                _ if named.is_some() => named.map_or(libc::AT_FDCWD, |(number, _)| number),
                Some(before) => self.words[before] as i32,
                None => libc::AT_FDCWD,
            };
            if let Some((is_up, first)) = beginning(named.map_or(path, |(_, rest)| rest))
                && let Some(ino) = held(thread, descriptor, device)
            {
                starts.push(Start { ino, is_up, first });
            }
        }
        starts
    }

    /// What matters of it here.
    pub(super) fn kind(&self) -> Kind {
        let made = |nth: usize| Kind::Make(self.paths.get(nth).cloned().unwrap_or_default());
        let is_bare = |flags: usize| {
            self.words[flags] & AT_EMPTY_PATH != 0 && self.paths.first().is_none_or(Vec::is_empty)
        };
        match self.number {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir | libc::SYS_mknod | libc::SYS_symlink => made(0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_link => made(1),
            libc::SYS_mkdirat | libc::SYS_mknodat | libc::SYS_symlinkat => made(0),
            libc::SYS_linkat => made(1),
            libc::SYS_fstat
            | libc::SYS_fchmod
            | libc::SYS_fchown
            | libc::SYS_fchdir
            | libc::SYS_fstatfs
            | libc::SYS_fgetxattr
            | libc::SYS_fsetxattr
            | libc::SYS_flistxattr
            | libc::SYS_fremovexattr => Kind::Descriptor,
            libc::SYS_statx if is_bare(2) => Kind::Descriptor,
            libc::SYS_newfstatat | FCHMODAT2 | libc::SYS_faccessat2 if is_bare(3) => {
                Kind::Descriptor
            }
            libc::SYS_fchownat if is_bare(4) => Kind::Descriptor,
            // `futimens`.
            libc::SYS_utimensat if self.words[1] == 0 || is_bare(3) => Kind::Descriptor,
            _ => Kind::Repeated,
        }
    }
}

/// Newer than some C libraries; the same everywhere.
const FCHMODAT2: i64 = 452;

/// A text of another process, as far as it can be read.
fn text_at(memory: Option<&File>, address: u64) -> Vec<u8> {
    let mut text = vec![0; PATH_MAX];
    let read = memory.and_then(|memory| memory.read_at(&mut text, address).ok()).unwrap_or(0);
    let end = text[..read].iter().position(|byte| *byte == 0).unwrap_or(read);
    text.truncate(end);
    text
}

/// A path that names a descriptor of the caller's own, and what follows after that: C libraries make one of `fchmodat`.
fn by_number(path: &[u8]) -> Option<(i32, &[u8])> {
    const FOLDERS: [&[u8]; 3] = [b"/proc/self/fd/", b"/proc/thread-self/fd/", b"/dev/fd/"];
    let rest = FOLDERS.iter().find_map(|folder| path.strip_prefix(*folder))?;
    let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    let number = str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    let rest = &rest[end..];
    let slashes = rest.iter().take_while(|byte| **byte == b'/').count();
    Some((number, if slashes == rest.len() { b"." } else { &rest[slashes..] }))
}

/// Whether a relative path begins with going up, and the first name in it.
fn beginning(path: &[u8]) -> Option<(bool, Option<Name>)> {
    if path.first().is_none_or(|first| *first == b'/') {
        return None;
    }
    let mut is_up = false;
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => is_up = true,
            name => return Some((is_up, Some(Name::new(name).ok()?))),
        }
    }
    Some((is_up, None))
}

/// The directory that a thread holds by a descriptor, or as its working directory, if it is of the mount with this device. The
/// mount is asked nothing.
fn held(thread: u32, descriptor: i32, device: &[u8]) -> Option<Ino> {
    let info = if descriptor == libc::AT_FDCWD {
        let path = format!("/proc/{thread}/cwd");
        let directory = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let directory = directory.ok()?;
        fs::read_to_string(format!("/proc/self/fdinfo/{}", directory.as_raw_fd())).ok()?
    } else {
        fs::read_to_string(format!("/proc/{thread}/fdinfo/{descriptor}")).ok()?
    };
    let number = |field: &str| -> Option<u64> {
        info.lines().find_map(|line| line.strip_prefix(field))?.trim().parse().ok()
    };
    let (mount, ino) = (number("mnt_id:")?, number("ino:")?);
    let list = fs::read(format!("/proc/{thread}/mountinfo")).ok()?;
    is_mount_of(&list, mount, device).then_some(Ino(ino))
}

/// Whether the mount with this number is of the device.
fn is_mount_of(list: &[u8], mount: u64, device: &[u8]) -> bool {
    let mount = mount.to_string();
    list.split(|byte| *byte == b'\n').any(|line| {
        let mut fields = line.split(|byte| *byte == b' ');
        fields.next() == Some(mount.as_bytes()) && fields.nth(1) == Some(device)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn what_is_no_call_of_a_64_bit_program_is_none() {
        for text in ["running", "-1 0x7ffc12345678 0x7f0012345678", "", "x", "5 0x1 0x2"] {
            assert_eq!(Call::parse(text), None, "{text}");
        }
        let narrow = "195 0x1 0x2 0x3 0x4 0x5 0x6 0xffdce2c0 0xf7f0a549";
        assert_eq!(Call::parse(narrow), None);
        let wide = "262 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffcdce2c0f0 0x7f10f7f0a549";
        assert_eq!(Call::parse(wide).map(|call| call.number), Some(262));
    }

    #[test]
    fn nobody_is_in_no_call() {
        assert_eq!(Call::of(0), None);
        assert_eq!(Call::of(u32::MAX), None);
    }

    /// A thread that opens a pipe nobody writes to waits in a call by path.
    #[test]
    fn a_thread_that_waits_is_seen_in_its_call_with_its_path() {
        let folder = std::env::temp_dir().join(format!("pando-call-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let (tell, told) = channel();
        let opening = {
            let path = path.clone();
            std::thread::spawn(move || {
                tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                File::open(path).unwrap().as_raw_fd()
            })
        };
        let thread = u32::try_from(told.recv().unwrap()).unwrap();
        let call = loop {
            match Call::of(thread) {
                Some(call) if call.number == libc::SYS_openat => break call,
                _ => std::thread::yield_now(),
            }
        };
        assert_eq!(call.kind(), Kind::Repeated);
        assert_eq!(call.paths, [path.as_os_str().as_encoded_bytes().to_vec()]);
        assert_eq!(Call::of(thread), Some(call));
        drop(File::options().write(true).open(&path).unwrap());
        opening.join().unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_relative_path_begins_in_what_is_held() {
        let name = |text: &str| Some(Name::new(text.as_bytes()).expect("valid"));
        for (path, expected) in [
            ("a/b", Some((false, name("a")))),
            ("./../b/", Some((true, name("b")))),
            (".", Some((false, None))),
            ("../..", Some((true, None))),
            ("/a", None),
            ("", None),
        ] {
            assert_eq!(beginning(path.as_bytes()), expected, "{path}");
        }
        assert_eq!(by_number(b"/proc/self/fd/7"), Some((7, &b"."[..])));
        assert_eq!(by_number(b"/dev/fd/12//a/b"), Some((12, &b"a/b"[..])));
        assert_eq!(by_number(b"/proc/self/fd/x"), None);
        assert_eq!(by_number(b"/a"), None);
        let start = |is_up, first| Start { ino: Ino(7), is_up, first };
        let a = name("a").expect("a name");
        assert!(start(false, name("a")).leads(Ino(7), &a));
        assert!(!start(false, name("a")).leads(Ino(8), &a));
        assert!(start(true, name("a")).leads(Ino(8), &a));
        assert!(!start(false, None).leads(Ino(7), &a) && start(false, None).is_at(Ino(7)));
        assert!(!start(false, name("a")).is_at(Ino(7)));
        let list = b"36 25 0:33 / /mnt rw\n37 36 0:34 / /mnt/x rw";
        assert!(is_mount_of(list, 37, b"0:34") && !is_mount_of(list, 36, b"0:34"));
        assert!(!is_mount_of(list, 3, b"0:33"));
    }

    #[test]
    fn a_held_directory_is_known_by_its_number() {
        use std::os::unix::fs::MetadataExt;
        let folder = File::open(std::env::temp_dir()).unwrap();
        let metadata = folder.metadata().unwrap();
        let list = fs::read("/proc/self/mountinfo").unwrap();
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let devices: std::collections::BTreeSet<&[u8]> = list
            .split(|byte| *byte == b'\n')
            .filter_map(|line| line.split(|byte| *byte == b' ').nth(2))
            .collect();
        let found = devices.iter().find_map(|device| held(thread, folder.as_raw_fd(), device));
        assert_eq!(found, Some(Ino(metadata.ino())));
        let here = devices.iter().find_map(|device| held(thread, libc::AT_FDCWD, device));
        assert_eq!(here, Some(Ino(fs::metadata(".").unwrap().ino())));
        assert_eq!(held(thread, folder.as_raw_fd(), b"999:999"), None);
    }

    #[test]
    fn calls_are_told_apart() {
        let call = |number, words: [u64; 6], paths: &[&str]| {
            let mut all = [0; 8];
            all[..6].copy_from_slice(&words);
            let paths = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
            Call { number, words: all, paths }.kind()
        };
        let bare = [3, 1, 0, AT_EMPTY_PATH, 0, 0];
        assert_eq!(call(libc::SYS_newfstatat, bare, &[""]), Kind::Descriptor);
        assert_eq!(call(libc::SYS_newfstatat, bare, &["a"]), Kind::Repeated);
        assert_eq!(call(libc::SYS_newfstatat, [3, 1, 0, 0, 0, 0], &[""]), Kind::Repeated);
        assert_eq!(call(libc::SYS_utimensat, [3, 0, 0, 0, 0, 0], &[""]), Kind::Descriptor);
        assert_eq!(call(libc::SYS_fstat, [3, 0, 0, 0, 0, 0], &[]), Kind::Descriptor);
        assert_eq!(
            call(libc::SYS_mkdirat, [3, 1, 0, 0, 0, 0], &["a/b"]),
            Kind::Make(b"a/b".into())
        );
        let link = call(libc::SYS_linkat, [3, 1, 4, 2, 0, 0], &["a", "b"]);
        assert_eq!(link, Kind::Make(b"b".into()));
        assert_eq!(call(libc::SYS_renameat2, [3, 1, 4, 2, 0, 0], &["a", "b"]), Kind::Repeated);
    }
}
