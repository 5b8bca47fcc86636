//! Callers: processes of different users, groups and capabilities.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A user, and how a process becomes this user (`worker.py`).
pub struct Person {
    pub name: &'static str,
    pub uid: u32,
    pub gid: u32,
    pub groups: &'static str,
    pub how: &'static str,
}

impl Person {
    /// Whether the user is not root and has root's capabilities.
    pub fn has_capabilities(&self) -> bool {
        self.how == "able"
    }
}

pub const ROOT: usize = 0;

/// The last person is user 0 in a user namespace, and Ann outside of it.
pub const PEOPLE: [Person; 7] = [
    Person { name: "root", uid: 0, gid: 0, groups: "", how: "plain" },
    Person { name: "lacking", uid: 0, gid: 0, groups: "", how: "lacking" },
    Person { name: "ann", uid: 1001, gid: 1001, groups: "2001,2002", how: "plain" },
    Person { name: "bob", uid: 1002, gid: 2001, groups: "2002,2003", how: "plain" },
    Person { name: "eve", uid: 1003, gid: 1003, groups: "2003", how: "plain" },
    Person { name: "able", uid: 1004, gid: 1004, groups: "2001", how: "able" },
    Person { name: "mapped", uid: 1001, gid: 1001, groups: "2001", how: "mapped" },
];

/// A process that makes calls as a person, in one tree.
pub struct Caller {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Caller {
    /// A process in the tree at `root`. With `stores`, its writes are stored at once.
    pub fn new(person: &Person, root: &Path, stores: bool) -> Self {
        let mut child = Command::new("python3")
            .args(["-u", "-c", include_str!("worker.py")])
            .arg(root)
            .args([person.uid.to_string(), person.gid.to_string()])
            .args([person.groups, person.how, if stores { "store" } else { "later" }])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is there");
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut caller = Self { child, input, output };
        assert_eq!(caller.hear(), "ready", "{}", person.name);
        caller
    }

    pub fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    pub fn hear(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "a caller has ended");
        line.trim_end().to_owned()
    }

    /// Whether its working directory, or a directory that it has open, is removed.
    pub fn holds_removed(&self) -> bool {
        let process = Path::new("/proc").join(self.child.id().to_string());
        let held = fs::read_dir(process.join("fd")).unwrap().map(|held| held.unwrap().path());
        std::iter::once(process.join("cwd")).chain(held).any(|link| {
            // The link must be followed, since its text does not tell what it leads to.
            fs::metadata(link).is_ok_and(|found| found.is_dir() && found.nlink() == 0)
        })
    }

    pub fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.hear()
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
