//! Reading a large file that the kernel has just read.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::output::failure::Failure;
use crate::trees::kit::{Kit, failed};
use crate::trees::row::{Figure, Row};
use crate::trees::system::Stage;

const CHUNK: usize = 1 << 20;

/// Writes the file. It is stored at once, so that no later row waits for the disk.
pub fn prepare(stage: &Stage, kit: &Kit<'_>) -> Result<(), Failure> {
    let path = path(stage);
    write(&path, kit).map_err(failed("write", &path))?;
    kit.programs.go_on()
}

/// What was mounted anew for another row has lost the file from memory, so it is read twice here.
pub fn reread(stage: &Stage, kit: &Kit<'_>) -> Result<Vec<Figure>, Failure> {
    let path = path(stage);
    read(&path, kit)?;
    Ok(vec![Figure::time(Row::Reread, read(&path, kit)?)])
}

fn path(stage: &Stage) -> PathBuf {
    stage.root().join("large")
}

fn write(path: &Path, kit: &Kit<'_>) -> io::Result<()> {
    let (mut file, mut rng) = (File::create_new(path)?, fastrand::Rng::with_seed(3));
    let mut chunk = vec![0; CHUNK];
    rng.fill(&mut chunk);
    for number in 0..kit.args.reread_mib {
        if kit.programs.is_interrupted() {
            break;
        }
        chunk[..4].copy_from_slice(&number.to_le_bytes());
        file.write_all(&chunk)?;
    }
    file.sync_all()
}

/// Reads the whole file. Returns the seconds.
fn read(path: &Path, kit: &Kit<'_>) -> Result<f64, Failure> {
    kit.programs.go_on()?;
    let mut chunk = vec![0; CHUNK];
    let mut read_all = || {
        let (begun, mut length) = (Instant::now(), 0);
        let mut file = File::open(path)?;
        loop {
            match file.read(&mut chunk)? {
                0 => return io::Result::Ok((begun.elapsed().as_secs_f64(), length)),
                read => length += read as u64,
            }
        }
    };
    let (seconds, length) = read_all().map_err(failed("read", path))?;
    let wanted = u64::from(kit.args.reread_mib) * CHUNK as u64;
    if length == wanted {
        return Ok(seconds);
    }
    let shown = path.display();
    Err(Failure::plain(format!("WRONG ANSWER: {shown} has {length} bytes instead of {wanted}")))
}
