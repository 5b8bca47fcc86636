//! Single calls in a loop of this process: `fstat`, `lseek`, `open` with `close`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pando_bench::pairs::Spread;
use rustix::fs::{Mode, OFlags, SeekFrom, fstat, open, seek};

use crate::output::failure::Failure;
use crate::trees::kit::{Kit, failed};
use crate::trees::row::{Figure, Row};
use crate::trees::system::Stage;

/// Files that are opened in turn, so that none is open anywhere else.
const FILES: usize = 100;
const BYTES: usize = 5_000;
/// Runs of each kind of call. Their median counts.
const RUNS: usize = 5;

pub fn prepare(stage: &Stage) -> Result<(), Failure> {
    let folder = folder(stage);
    fs::create_dir(&folder).map_err(failed("make", &folder))?;
    for path in files(&folder) {
        fs::write(&path, [b'x'; BYTES]).map_err(failed("write", &path))?;
    }
    Ok(())
}

pub fn calls(stage: &Stage, kit: &Kit<'_>) -> Result<Vec<Figure>, Failure> {
    let folder = folder(stage);
    let (files, count) = (files(&folder).collect::<Vec<_>>(), kit.args.calls as usize);
    let mut figures = Vec::new();
    for (row, call) in [
        (Row::Fstat, status as fn(&[PathBuf], usize) -> io::Result<f64>),
        (Row::LseekEnd, end),
        (Row::OpenClose, opens),
    ] {
        if !kit.wants(row) {
            continue;
        }
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            kit.programs.go_on()?;
            runs.push(call(&files, count).map_err(failed("call on files in", &folder))?);
        }
        figures.push(Figure::time(row, Spread::of(&runs).median / count as f64));
    }
    Ok(figures)
}

fn folder(stage: &Stage) -> PathBuf {
    stage.root().join("calls")
}

fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    (0..FILES).map(|number| folder.join(format!("file{number}")))
}

fn status(files: &[PathBuf], count: usize) -> io::Result<f64> {
    let file = fs::File::open(&files[0])?;
    let begun = Instant::now();
    for _ in 0..count {
        expect(fstat(&file)?.st_size.cast_unsigned())?;
    }
    Ok(begun.elapsed().as_secs_f64())
}

fn end(files: &[PathBuf], count: usize) -> io::Result<f64> {
    let file = fs::File::open(&files[0])?;
    let begun = Instant::now();
    for _ in 0..count {
        expect(seek(&file, SeekFrom::End(0))?)?;
    }
    Ok(begun.elapsed().as_secs_f64())
}

fn opens(files: &[PathBuf], count: usize) -> io::Result<f64> {
    let begun = Instant::now();
    for path in files.iter().cycle().take(count) {
        drop(open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?);
    }
    Ok(begun.elapsed().as_secs_f64())
}

fn expect(size: u64) -> io::Result<()> {
    if size == BYTES as u64 {
        return Ok(());
    }
    Err(io::Error::other(format!("WRONG ANSWER: a file of {BYTES} bytes has {size}")))
}
