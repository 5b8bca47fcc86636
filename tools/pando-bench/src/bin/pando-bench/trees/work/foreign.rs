//! Creates of a mount in a tree that grows, while another mount runs `find` over it.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Instant;

use super::meanwhile::meanwhile;
use crate::output::failure::Failure;
use crate::trees::kit::programs::{Programs, Ran};
use crate::trees::kit::{Kit, failed};
use crate::trees::row::{Figure, Row, System};
use crate::trees::system::Pair;

const FILES_PER_DIRECTORY: u32 = 50;

pub fn foreign_find(system: System, kit: &Kit<'_>) -> Result<Vec<Figure>, Failure> {
    let mut pair = Pair::start(system, kit.args)?;
    let second = pair.second()?;
    let without = grow(&pair.first().join("without"), kit)?;
    let tree = pair.first().join("with");
    fs::create_dir(&tree).map_err(failed("make", &tree))?;
    let seen = second.join("with");
    let with = meanwhile(|| grow(&tree.join("tree"), kit), || find(&seen, kit).map(drop))?;
    let (lines, files) = (find(&seen, kit)?.lines()?, kit.args.files);
    let wanted = u64::from(files + files.div_ceil(FILES_PER_DIRECTORY)) + 2;
    if lines != wanted {
        return Err(Failure::plain(format!("WRONG ANSWER: find lists {lines} names of {wanted}")));
    }
    let ratio = without / with;
    Ok(vec![Figure { row: Row::ForeignFind, part: None, value: ratio }])
}

/// Makes files, directory by directory. Returns the seconds.
fn grow(root: &Path, kit: &Kit<'_>) -> Result<f64, Failure> {
    let begun = Instant::now();
    fs::create_dir(root).map_err(failed("make", root))?;
    for directory in 0..kit.args.files.div_ceil(FILES_PER_DIRECTORY) {
        kit.programs.go_on()?;
        let first = directory * FILES_PER_DIRECTORY;
        let files = first..kit.args.files.min(first + FILES_PER_DIRECTORY);
        fill(&root.join(format!("part{directory}")), files).map_err(failed("fill", root))?;
    }
    Ok(begun.elapsed().as_secs_f64())
}

fn fill(folder: &Path, mut files: std::ops::Range<u32>) -> io::Result<()> {
    fs::create_dir(folder)?;
    files.try_for_each(|file| File::create_new(folder.join(format!("file{file}"))).map(drop))
}

fn find(folder: &Path, kit: &Kit<'_>) -> Result<Ran, Failure> {
    kit.programs.run(&mut Programs::command("find", folder))
}
