//! A chapter of the book: its blocks of shell, and what comments before them say of each.
//!
//! A block runs on `host1`, unless a comment above it says otherwise:
//!
//! - `<!-- run: host2 -->` or `<!-- run: host2, exit 3 -->`: where, and with which exit code;
//! - `<!-- not run: REASON -->`: it cannot be run here.
//!
//! A block of `text` that follows is what the block of shell prints. Words with digits may differ,
//! and anything may stand in place of `...`, a line or the end of one.

use std::fs;
use std::path::{Path, PathBuf};

pub struct Chapter {
    pub name: &'static str,
    pub blocks: Vec<Block>,
}

pub struct Block {
    /// Its line in the chapter.
    pub line: usize,
    /// The heading that it stands under.
    pub section: String,
    pub mark: Mark,
    pub script: String,
    /// What it prints.
    pub printed: Option<String>,
}

#[derive(Clone)]
pub enum Mark {
    Run { host: u8, exit: i32 },
    NotRun,
}

/// The folder of the book's sources.
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src")
}

impl Chapter {
    pub fn read(name: &'static str) -> Self {
        Self::of_text(name, &fs::read_to_string(sources().join(name)).unwrap())
    }

    /// Finds the blocks. Panics at anything that might be a block and is not understood.
    pub fn of_text(name: &'static str, text: &str) -> Self {
        let mut blocks: Vec<Block> = Vec::new();
        let mut section = String::new();
        let mut mark = None;
        // Whether nothing but empty lines has followed the last block of shell.
        let mut is_after_shell = false;
        let mut lines = text.lines().zip(1..);
        while let Some((line, number)) = lines.next() {
            let at = format!("book/src/{name}:{number}");
            if let Some(heading) = line.strip_prefix("## ") {
                heading.clone_into(&mut section);
            }
            if let Some(comment) = line.strip_prefix("<!-- ") {
                let comment = comment.strip_suffix(" -->");
                let read = comment.and_then(Mark::read);
                assert!(mark.is_none(), "{at}: a second mark of one block");
                mark = Some(read.unwrap_or_else(|| panic!("{at}: no mark of a block: {line}")));
            } else if let Some(language) = line.strip_prefix("```") {
                let body =
                    |(line, _): (&str, usize)| (line != "```").then(|| line.to_owned() + "\n");
                let content: String = lines.by_ref().map_while(body).collect();
                match language {
                    "sh" => blocks.push(Block {
                        line: number,
                        section: section.clone(),
                        mark: mark.take().unwrap_or(Mark::Run { host: 1, exit: 0 }),
                        script: content,
                        printed: None,
                    }),
                    "text" => {
                        assert!(is_after_shell, "{at}: no block of shell prints this");
                        blocks.last_mut().unwrap().printed = Some(content);
                    }
                    "ini" => {}
                    _ => panic!("{at}: a block of {language:?} is neither run nor marked"),
                }
                is_after_shell = language == "sh";
            } else if !line.is_empty() {
                let is_fence =
                    ["```", "~~~"].iter().any(|fence| line.trim_start().starts_with(fence));
                assert!(!is_fence, "{at}: begin a block with ``` at the line's beginning");
                assert!(mark.is_none(), "{at}: a mark without a block");
                is_after_shell = false;
            }
        }
        assert!(mark.is_none(), "{name}: a mark without a block");
        Self { name, blocks }
    }
}

impl Mark {
    /// What a comment says. `None`: it is no mark.
    pub fn read(comment: &str) -> Option<Self> {
        if let Some(reason) = comment.strip_prefix("not run: ") {
            return (!reason.is_empty()).then_some(Self::NotRun);
        }
        let place = comment.strip_prefix("run: host")?;
        let (host, exit) = place.split_once(", exit ").unwrap_or((place, "0"));
        Some(Self::Run { host: host.parse().ok()?, exit: exit.parse().ok()? })
    }
}

impl Block {
    /// Number of commands that a reader types: lines, those that go on with `\` counted once.
    pub fn commands(&self) -> usize {
        let script = self.script.replace("\\\n", " ");
        let is_command = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
        script.lines().filter(is_command).count()
    }

    /// The first line that the chapter shows and the block did not print, after the lines before.
    pub fn missing(&self, output: &str) -> Option<&str> {
        let mut printed = output.lines().map(masked);
        let shown = self.printed.as_deref().unwrap_or_default().lines();
        let mut shown = shown.filter(|line| *line != "...");
        shown.find(|line| {
            let (wanted, is_whole) =
                line.strip_suffix("...").map_or((*line, true), |begin| (begin, false));
            let wanted = masked(wanted);
            let fits = |line: &String| *line == wanted || !is_whole && line.starts_with(&wanted);
            !printed.any(|line| fits(&line))
        })
    }
}

/// A line without what differs from run to run: words that have digits, and spaces.
fn masked(line: &str) -> String {
    let has_digit = |word: &str| word.contains(|char: char| char.is_ascii_digit());
    let words = line.split_whitespace().map(|word| if has_digit(word) { "#" } else { word });
    words.collect::<Vec<_>>().join(" ")
}
