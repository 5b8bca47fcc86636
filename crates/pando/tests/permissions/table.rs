//! Every call on every kind of object by every kind of caller, for objects and directories in modes
//! of all classes. Each answer, and the tree afterwards, must be as on the local disk.
//!
//! Root makes the objects through one mount, and others call through the second.

use rustix::fs::OFlags;

use crate::arena::{Arena, Call, Difference, Kind, at_random};
use crate::callers::{PEOPLE, ROOT};

/// The calls that make an object `/d/x`.
const OBJECTS: [(&str, &[&str]); 7] = [
    ("file", &["open / d/x 0x41 666 0", "write 0 #!/none"]),
    ("directory", &["mkdir / d/x 777"]),
    ("full directory", &["mkdir / d/x 777", "mkdir / d/x/y 777"]),
    ("fifo", &["mknod / d/x fifo 666"]),
    ("socket", &["bind / d/x"]),
    ("device", &["mknod / d/x char 666"]),
    ("symlink", &["symlink y / d/x", "open / d/y 0x41 600 0"]),
];

/// Calls that change nothing. All of them run on one object.
fn looks() -> Vec<String> {
    let mut lines: Vec<String> = [
        "stat / d/x 0x0",
        "stat / d/x/y 0x0",
        "stat / d/x/ 0x0",
        "access / d/x 4 0x200",
        "access / d/x 2 0x0",
        "access / d/x 1 0x200",
        "list / d/x",
        "cat / d/x",
        "readlink / d/x",
        "statfs / d/x",
        "listxattr / d/x",
        "getxattr / d/x user.x",
        "getxattr / d/x trusted.x",
        "inotify / d/x",
        "handle / d/x",
        "connect / d/x",
        "exec / d/x",
        "chdir / d/x",
        "stat . . 0x0",
        "stat . y 0x0",
        "stat . .. 0x0",
        "chdir / /",
    ]
    .map(str::to_owned)
    .into();
    let (read, write) = (OFlags::RDONLY, OFlags::WRONLY);
    let opens = [
        read,
        write,
        OFlags::RDWR,
        OFlags::PATH,
        read | OFlags::DIRECTORY,
        read | OFlags::NOFOLLOW,
        read | OFlags::NOATIME,
        write | OFlags::APPEND,
        write | OFlags::CREATE,
        write | OFlags::CREATE | OFlags::EXCL,
        read | OFlags::CREATE | OFlags::DIRECTORY,
    ];
    lines.extend(opens.iter().map(|flags| format!("open / d/x {:#x} 666 0", flags.bits())));
    // A descriptor opened with `O_PATH`, and what can be done with it.
    lines.push(format!("open / d/x {:#x} 0 0", OFlags::PATH.bits()));
    lines.extend(
        ["fstat 0", "reopen 0 0x0 1", "reopen 0 0x1 1", "fchmod 0 777", "stat 0 y 0x0"]
            .map(str::to_owned),
    );
    lines
}

/// Calls that change the object. Each runs on a new object.
fn changes() -> Vec<String> {
    let truncate = (OFlags::WRONLY | OFlags::TRUNC).bits();
    let mut lines = vec![format!("open / d/x {truncate:#x} 0 0")];
    let rest = [
        "chmod / d/x 755 0x0",
        "chmod / d/x 6777 0x0",
        "chmod / d/x 700 0x100",
        "chown / d/x 1002 -1 0x100",
        "chown / d/x -1 2001 0x100",
        "chown / d/x -1 2003 0x0",
        "chown / d/x 1001 2002 0x100",
        "utimens / d/x now 0x100",
        "utimens / d/x set 0x0",
        "utimens / d/x touch 0x0",
        "utimens / d/x omit 0x0",
        "truncate / d/x 3",
        "setxattr / d/x user.x v",
        "setxattr / d/x trusted.x v",
        "setxattr / d/x security.x v",
        "removexattr / d/x user.x",
        "link / d/x / d/z 0x0",
        "link / d/x / d/z 0x400",
        "mkdir / d/x/z 777",
        "open / d/x/z 0x41 666 0",
        "rename / d/x / d/z 0",
        "unlink / d/x",
        "rmdir / d/x",
    ];
    lines.extend(rest.map(str::to_owned));
    lines
}

/// Calls on names in a directory.
const NAMES: [&str; 23] = [
    "unlink / d/x",
    "rmdir / d/x",
    "unlink / d/none",
    "rmdir / d/none",
    "mkdir / d/x 777",
    "mkdir / d/none 2777",
    "mknod / d/none fifo 6777",
    "open / d/none 0x41 6777 0",
    "open / d/x 0x41 666 0",
    "symlink x / d/none",
    "bind / d/none",
    "link / d/x / d/none 0x0",
    "link / d/x / z 0x0",
    "rename / d/x / d/none 0",
    "rename / d/x / z 0",
    "rename / o / d/x 0",
    "rename / o / d/x 1",
    "rename / o / d/x 2",
    "rename / d/x / o 0",
    "rename / d/none / d/x 0",
    "list / d",
    "stat / d/x/ 0x0",
    "chdir / d/x",
];

const OBJECT_MODES: [u32; 9] = [0, 0o600, 0o060, 0o006, 0o444, 0o4755, 0o2755, 0o2745, 0o1777];
const DIRECTORY_MODES: [u32; 8] = [0o777, 0o1777, 0o2777, 0o555, 0o666, 0o711, 0o070, 0];
/// Ann, and a group that Bob is in, too.
const OWNER: &str = "1001 2002";

struct Table {
    arena: Arena,
    /// One in this many cells is tried. `PANDO_LONG` tries all.
    step: usize,
    /// Number of cells so far, tried or not. It begins at random, so that each run tries others.
    cells: usize,
    wrong: Vec<String>,
}

impl Table {
    fn new(other: Kind) -> Self {
        let step = match (std::env::var_os("PANDO_LONG"), other) {
            (Some(_), _) => 1,
            (None, Kind::Alone) => 12,
            (None, _) => 20,
        };
        let cells = at_random(step);
        Self { arena: Arena::new(other, &[]), step, cells, wrong: Vec::new() }
    }

    /// Empties the trees, and lets root prepare them.
    fn prepare(&mut self, lines: &[&str]) {
        let all = [&["reset", "wipe"], lines].concat().join(";");
        match self.arena.ask_at_once(&Call::new(ROOT, 0, all)) {
            Ok(said) => assert!(!said.split(" ; ").any(|said| said.starts_with('E')), "{said}"),
            Err(difference) => panic!("{difference}"),
        }
    }

    /// Counts a cell. Returns whether it is tried.
    fn next(&mut self) -> bool {
        self.cells += 1;
        self.cells.is_multiple_of(self.step)
    }

    fn call(&mut self, call: &Call, cell: &str) {
        if let Err(difference) = self.arena.ask_at_once(call) {
            self.note(cell, &difference);
        }
    }

    fn note(&mut self, cell: &str, difference: &Difference) {
        self.wrong.push(format!("{cell}\n{difference}"));
    }

    /// Compares the trees as the caller's mount shows them.
    fn look(&mut self, call: &Call, cell: &str) {
        let look = Call::new(ROOT, 1, "tree /d;tree /o;tree /z");
        if let Err(difference) = self.arena.ask_at_once(&look) {
            self.note(&format!("{cell}: after {call}"), &difference);
        }
    }

    fn end(self) {
        let (count, all) = (self.wrong.len(), self.wrong.join("\n"));
        assert!(count == 0, "{count} of {} cells differ:\n{all}", self.cells);
        assert!(self.cells > 10_000, "{} cells", self.cells);
    }
}

/// Tries objects in a directory that every user may write.
fn objects(other: Kind) {
    let mut table = Table::new(other);
    for ((object, make), mode) in
        OBJECTS.iter().flat_map(|made| OBJECT_MODES.map(|mode| (made, mode)))
    {
        let (owner, chmod) =
            (format!("chown / d/x {OWNER} 0x100"), format!("chmod / d/x {mode:o} 0x0"));
        let is_link = *object == "symlink";
        let modes: &[&str] = if is_link { &[] } else { &[&chmod] };
        let open = ["mkdir / d 777", "chmod / d 777 0x0"];
        let lines = [&open[..], make, &[&owner], modes].concat();
        if is_link && mode != 0 {
            continue;
        }
        for who in 0..PEOPLE.len() {
            let cell = format!("{object} {mode:o}");
            table.prepare(&lines);
            for line in looks() {
                table.cells += 1;
                table.call(&Call::new(who, 1, line), &cell);
            }
            for line in changes() {
                if !table.next() {
                    continue;
                }
                table.prepare(&lines);
                let call = Call::new(who, 1, line);
                table.call(&call, &cell);
                table.look(&call, &cell);
            }
        }
    }
    table.end();
}

/// Tries names in directories of all modes.
fn names(other: Kind) {
    let mut table = Table::new(other);
    let owners = [OWNER, "1003 2002"];
    // Calls on a name tell only these apart: a file, a directory, a full directory, a symlink, and
    // anything else.
    let objects = OBJECTS.iter().filter(|(object, _)| !["socket", "device"].contains(object));
    let cases = objects.flat_map(|object| owners.map(|owner| (object, owner)));
    for ((object, make), owner) in cases {
        for mode in DIRECTORY_MODES {
            for who in 0..PEOPLE.len() {
                for line in NAMES {
                    if !table.next() {
                        continue;
                    }
                    let begun = ["mkdir / d 777", "mkdir / o 777"];
                    let last = [
                        format!("chown / d/x {OWNER} 0x100"),
                        format!("chown / d {owner} 0x0"),
                        format!("chmod / d {mode:o} 0x0"),
                    ];
                    table.prepare(
                        &[&begun[..], make, &last.each_ref().map(String::as_str)].concat(),
                    );
                    let call = Call::new(who, 1, line);
                    let cell = format!("{object} in {mode:o} of {owner}");
                    table.call(&call, &cell);
                    table.look(&call, &cell);
                }
            }
        }
    }
    table.end();
}

#[test]
fn each_call_on_each_object_alone() {
    objects(Kind::Alone);
}

#[test]
fn each_call_on_each_object_through_another_mount() {
    objects(Kind::Two);
}

#[test]
fn each_call_on_each_name_alone() {
    names(Kind::Alone);
}

#[test]
fn each_call_on_each_name_through_another_mount() {
    names(Kind::Two);
}
