//! Random calls, on names that exist and on names that do not.

use rustix::fs::OFlags;

use crate::arena::Call;
use crate::callers::{PEOPLE, ROOT};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const MODES: [u32; 22] = [
    0, 0o700, 0o755, 0o777, 0o711, 0o070, 0o007, 0o644, 0o600, 0o660, 0o666, 0o444, 0o222, 0o1777,
    0o1770, 0o2777, 0o2755, 0o4755, 0o6755, 0o2745, 0o500, 0o300,
];
const UIDS: [i64; 6] = [-1, 0, 1001, 1002, 1003, 1004];
const GIDS: [i64; 7] = [-1, 0, 1001, 2001, 2002, 2003, 1003];
const XATTRS: [&str; 4] = ["user.x", "trusted.x", "security.x", "user.y"];
const TIMES: [&str; 7] = ["now", "omit", "set", "atime", "mtime", "touch", "mixed"];
const NOFOLLOW: u32 = 0x100;
const EMPTY_PATH: u32 = 0x1000;
const FOLLOW: u32 = 0x400;
/// Number of descriptors that a process may hold.
const SLOTS: u64 = 4;

/// Weight of a kind of calls, and the function that makes one.
type Kind = (u64, fn(&mut Maker) -> String);

const KINDS: &[Kind] = &[
    (130, Maker::open),
    (25, |maker| format!("reopen {} {:#x} {}", maker.slot(), maker.flags(), maker.slot())),
    (10, |maker| format!("close {}", maker.slot())),
    (25, |maker| format!("read {}", maker.slot())),
    (35, |maker| format!("write {} {}", maker.slot(), maker.text())),
    (10, |maker| format!("pwrite {} {} {}", maker.slot(), maker.random.u64(..9), maker.text())),
    (10, |maker| format!("noappend {} {} {}", maker.slot(), maker.random.u64(..9), maker.text())),
    (15, |maker| format!("ftruncate {} {}", maker.slot(), maker.random.u64(..20))),
    (15, Maker::fallocate),
    (15, |maker| format!("copy {} {} {}", maker.slot(), maker.slot(), maker.random.u64(..9))),
    (25, |maker| format!("fstat {}", maker.slot())),
    (20, |maker| format!("fchmod {} {:o}", maker.slot(), maker.mode())),
    (15, |maker| format!("fchown {} {}", maker.slot(), maker.owner())),
    (10, |maker| format!("futimens {} {}", maker.slot(), maker.of(&TIMES))),
    (25, |maker| format!("getdents {}", maker.slot())),
    (15, |maker| format!("fchdir {}", maker.slot())),
    (5, |maker| format!("fgetxattr {} {}", maker.slot(), maker.of(&XATTRS))),
    (5, |maker| format!("fsetxattr {} {} {}", maker.slot(), maker.of(&XATTRS), maker.text())),
    (5, |maker| format!("flistxattr {}", maker.slot())),
    (50, |maker| format!("stat {} {:#x}", maker.at(), maker.follows())),
    (30, Maker::access),
    (60, Maker::chmod),
    (45, |maker| format!("chown {} {} {:#x}", maker.at(), maker.owner(), maker.follows())),
    (20, |maker| format!("utimens {} {} {:#x}", maker.at(), maker.of(&TIMES), maker.link())),
    (15, |maker| format!("truncate {} {}", maker.plain(), maker.random.u64(..20))),
    (70, |maker| format!("mkdir {} {:o}", maker.new_at(), maker.mode())),
    (30, Maker::mknod),
    (20, |maker| format!("symlink {} {}", maker.target(), maker.new_at())),
    (30, Maker::hard_link),
    (5, |maker| format!("linkself {} {}", maker.slot(), maker.new_at())),
    (30, |maker| format!("unlink {}", maker.at())),
    (20, |maker| format!("rmdir {}", maker.at())),
    (50, Maker::rename),
    (10, |maker| format!("readlink {}", maker.at())),
    (30, |maker| format!("list {}", maker.at())),
    (30, |maker| format!("cat {}", maker.at())),
    (25, |maker| format!("chdir {}", maker.plain())),
    (10, |maker| format!("getxattr {} {}", maker.plain(), maker.of(&XATTRS))),
    (15, |maker| format!("setxattr {} {} {}", maker.plain(), maker.of(&XATTRS), maker.text())),
    (5, |maker| format!("removexattr {} {}", maker.plain(), maker.of(&XATTRS))),
    (5, |maker| format!("listxattr {}", maker.plain())),
    (5, |maker| format!("statfs {}", maker.plain())),
    (10, |maker| format!("inotify {}", maker.plain())),
    (5, |maker| format!("handle {}", maker.at())),
    (15, |maker| format!("bind {}", maker.new_plain())),
    (15, |maker| format!("connect {}", maker.plain())),
    (15, |maker| format!("exec {}", maker.plain())),
    (5, |maker| format!("umask {:o}", [0, 0o22, 0o77, 0o777][maker.random.usize(..4)])),
];

/// Makes random calls.
pub struct Maker {
    random: fastrand::Rng,
    /// Paths that existed at the last look at the tree.
    all: Vec<String>,
    directories: Vec<String>,
    /// The mount of the last call.
    side: usize,
}

impl Maker {
    pub fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            all: Vec::new(),
            directories: vec![String::new()],
            side: 0,
        }
    }

    /// Tells the maker what exists, in the format of `worker.py`.
    pub fn sees(&mut self, tree: &str) {
        (self.all, self.directories) = (Vec::new(), vec![String::new()]);
        for line in tree.split('\t').skip(1) {
            let mut words = line.split(' ');
            let path = words.next().unwrap().trim_start_matches('/').to_owned();
            if words.next() == Some("dir") {
                self.directories.push(path.clone());
            }
            self.all.push(path);
        }
    }

    pub fn make(&mut self) -> Call {
        let sum: u64 = KINDS.iter().map(|(often, _)| often).sum();
        let mut nth = self.random.u64(..sum);
        let mut kinds = KINDS.iter();
        let make = loop {
            let (often, make) = kinds.next().unwrap();
            match nth.checked_sub(*often) {
                Some(rest) => nth = rest,
                None => break make,
            }
        };
        let who = self.random.usize(..PEOPLE.len() + 2);
        // Root makes more calls than others: what root makes is what others are refused.
        let who = if who < PEOPLE.len() { who } else { ROOT };
        if self.one_of(8) {
            self.side = 1 - self.side;
        }
        let line = make(self);
        // For `chown(-1, -1)` the kernel sends the request that it also sends before a write that
        // clears setuid. With that request it does not tell a mount the caller's capabilities
        // (docs/SEMANTICS.md). So a caller that is not root, but may change owners, clears setuid
        // here only by naming an owner. Root makes this call instead.
        let who =
            if line.contains(" -1 -1") && PEOPLE[who].has_capabilities() { ROOT } else { who };
        Call { who, side: self.side, line }
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        *self.random.choice(all).unwrap()
    }

    fn one_of(&mut self, n: u64) -> bool {
        self.random.u64(..n) == 0
    }

    fn slot(&mut self) -> u64 {
        self.random.u64(..SLOTS)
    }

    fn text(&mut self) -> &'static str {
        self.of(&["x", "yy", "#!/none", "longer"])
    }

    fn mode(&mut self) -> u32 {
        self.of(&MODES)
    }

    fn owner(&mut self) -> String {
        format!("{} {}", self.of(&UIDS), self.of(&GIDS))
    }

    /// A path that exists, a name below it, or any name.
    fn path(&mut self) -> String {
        let known = self.random.choice(&self.all).cloned();
        let path = match known {
            Some(path) if !self.one_of(4) => path,
            Some(path) if self.one_of(2) => format!("{path}/{}", self.of(&NAMES)),
            _ => self.of(&NAMES).to_owned(),
        };
        match self.random.u64(..40) {
            0 => format!("../{path}"),
            1 => format!("{path}/.."),
            2 => format!("{path}/."),
            3 => format!("{path}/"),
            4 => ".".to_owned(),
            5 => "..".to_owned(),
            _ => path,
        }
    }

    /// A path that may be new.
    fn new_path(&mut self) -> String {
        let directory = self.random.choice(&self.directories).cloned().unwrap();
        let name = self.of(&NAMES);
        // Trees stay shallow.
        let deep = directory.matches('/').count() > 1;
        match directory.as_str() {
            _ if self.one_of(10) => self.path(),
            "" => name.to_owned(),
            _ if deep || self.one_of(5) => name.to_owned(),
            _ => format!("{directory}/{name}"),
        }
    }

    fn with_base(&mut self, path: &str, may_be_held: bool) -> String {
        let kinds = if may_be_held { 8 } else { 7 };
        match self.random.u64(..kinds) {
            0..=2 => format!(". {path}"),
            3..=6 => format!("/ {path}"),
            _ => {
                let last = path.rsplit('/').next().filter(|name| !name.is_empty());
                format!("{} {}", self.slot(), last.unwrap_or("a"))
            }
        }
    }

    fn at(&mut self) -> String {
        let path = self.path();
        self.with_base(&path, true)
    }

    fn plain(&mut self) -> String {
        let path = self.path();
        self.with_base(&path, false)
    }

    fn new_at(&mut self) -> String {
        let path = self.new_path();
        self.with_base(&path, true)
    }

    fn new_plain(&mut self) -> String {
        let path = self.new_path();
        self.with_base(&path, false)
    }

    fn follows(&mut self) -> u32 {
        if self.one_of(3) { NOFOLLOW } else { 0 }
    }

    /// Flags of a call that may set a symlink's own times.
    fn link(&mut self) -> u32 {
        self.follows()
    }

    fn target(&mut self) -> String {
        let path = self.path();
        match self.random.u64(..3) {
            0 => format!("/{path}"),
            1 => self.of(&NAMES).to_owned(),
            _ => path,
        }
    }

    fn flags(&mut self) -> u32 {
        let how = [OFlags::RDONLY, OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR, OFlags::PATH];
        let mut flags = self.of(&how);
        let more = [
            (6, OFlags::TRUNC),
            (8, OFlags::APPEND),
            (8, OFlags::NOATIME),
            (8, OFlags::NOFOLLOW),
            (8, OFlags::DIRECTORY),
        ];
        for (n, more) in more {
            if self.one_of(n) {
                flags |= more;
            }
        }
        flags.bits()
    }

    fn open(&mut self) -> String {
        let flags = self.flags();
        let (at, flags) = match self.random.u64(..20) {
            0..=5 => (self.new_at(), flags | OFlags::CREATE.bits()),
            6..=7 => (self.new_at(), flags | (OFlags::CREATE | OFlags::EXCL).bits()),
            8..=11 => (self.at(), (OFlags::RDONLY | OFlags::DIRECTORY).bits()),
            _ => (self.at(), flags),
        };
        format!("open {at} {flags:#x} {:o} {}", self.mode(), self.slot())
    }

    fn fallocate(&mut self) -> String {
        // Modes: grow the file, keep its size, punch a hole.
        let mode = self.of(&[0, 1, 3]);
        format!(
            "fallocate {} {mode} {} {}",
            self.slot(),
            self.random.u64(..9),
            self.random.u64(..9)
        )
    }

    fn access(&mut self) -> String {
        let (mask, flags) = (self.random.u64(..8), self.of(&[0, 0x200, NOFOLLOW]));
        format!("access {} {mask} {flags:#x}", self.at())
    }

    fn chmod(&mut self) -> String {
        let flags = if self.one_of(8) { NOFOLLOW } else { 0 };
        format!("chmod {} {:o} {flags:#x}", self.at(), self.mode())
    }

    fn mknod(&mut self) -> String {
        let kind = self.of(&["file", "fifo", "fifo", "socket", "char"]);
        format!("mknod {} {kind} {:o}", self.new_at(), self.mode())
    }

    fn hard_link(&mut self) -> String {
        if self.one_of(5) {
            return format!("link {} - {} {EMPTY_PATH:#x}", self.slot(), self.new_at());
        }
        let flags = if self.one_of(3) { FOLLOW } else { 0 };
        format!("link {} {} {flags:#x}", self.at(), self.new_at())
    }

    fn rename(&mut self) -> String {
        let flags = self.of(&[0, 0, 0, 1, 2]);
        let to = if flags == 2 || self.one_of(3) { self.at() } else { self.new_at() };
        format!("rename {} {to} {flags}", self.at())
    }
}
