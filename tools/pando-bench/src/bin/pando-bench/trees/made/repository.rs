//! A history of one commit, in the form that `git fast-import` reads.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use fastrand::Rng;

/// The only branch.
pub const BRANCH: &str = "main";
const FILES_PER_DIRECTORY: u32 = 20;

/// Writes a history with `files` files of 200 to 4,000 bytes.
pub fn write(to: &Path, files: u32) -> io::Result<()> {
    let mut stream = BufWriter::new(File::create(to)?);
    let mut rng = Rng::with_seed(2);
    writeln!(stream, "commit refs/heads/{BRANCH}")?;
    write!(stream, "committer bench <bench@localhost> 1700000000 +0000\ndata 4\nall\n\n")?;
    for number in 0..files {
        let (directory, length) = (number / FILES_PER_DIRECTORY, rng.usize(200..4_000));
        let (outer, inner) = (directory / FILES_PER_DIRECTORY, directory % FILES_PER_DIRECTORY);
        writeln!(stream, "M 100644 inline part{outer}/part{inner}/file{number}.c")?;
        writeln!(stream, "data {length}")?;
        let line = format!("{:016x} is line of file {number}\n", rng.u64(..));
        let text = line.bytes().cycle().take(length).collect::<Vec<_>>();
        stream.write_all(&text)?;
        stream.write_all(b"\n")?;
    }
    stream.write_all(b"done\n")?;
    stream.flush()
}
