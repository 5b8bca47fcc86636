//! What all server processes of one mount have done: lines of one file, in order. It outlives them.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// One line: which process, what it did, and what that was about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    pub generation: u64,
    pub what: String,
    pub about: String,
    /// Number of a request as it was read, or of a process.
    pub number: u64,
}

#[derive(Clone)]
pub struct Diary(PathBuf);

impl Diary {
    pub fn of(dir: &Path) -> Self {
        Self(dir.join("diary"))
    }

    /// Adds a line. The file system of the machine has all of it or nothing.
    pub fn note(&self, generation: u64, what: &str, about: &str, number: u64) {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.0).unwrap();
        file.write_all(format!("{generation} {what} {about} {number}\n").as_bytes()).unwrap();
    }

    pub fn lines(&self) -> Vec<Line> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        let whole = text.lines().filter_map(|line| {
            let words: Vec<_> = line.split(' ').collect();
            let [generation, what, about, number] = words[..] else { return None };
            let (what, about) = (what.to_owned(), about.to_owned());
            let (generation, number) = (generation.parse().ok()?, number.parse().ok()?);
            Some(Line { generation, what, about, number })
        });
        whole.collect()
    }

    /// Lines that say `what`, and that are about `about`.
    pub fn of_kind(&self, what: &str, about: &str) -> Vec<Line> {
        let is_one = |line: &Line| line.what == what && line.about == about;
        self.lines().into_iter().filter(is_one).collect()
    }
}
