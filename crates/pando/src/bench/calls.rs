//! The calls that are measured, and whether they return what they must.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use rustix::fs::{Advice, fadvise};

/// A call with one small file. `false`: it returned something wrong.
pub type Call = fn(&Path, &[u8]) -> io::Result<bool>;

pub fn create(path: &Path, content: &[u8]) -> io::Result<bool> {
    new(path)?.write_all(content)?;
    Ok(true)
}

pub fn stat(path: &Path, content: &[u8]) -> io::Result<bool> {
    let found = fs::symlink_metadata(path)?;
    Ok(found.is_file() && found.len() == content.len() as u64)
}

pub fn read(path: &Path, content: &[u8]) -> io::Result<bool> {
    let mut found = Vec::with_capacity(content.len() + 1);
    open(path)?.read_to_end(&mut found)?;
    Ok(found == content)
}

pub fn remove(path: &Path, _: &[u8]) -> io::Result<bool> {
    fs::remove_file(path).map(|()| true)
}

/// Makes a file that was not there.
pub fn new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Opens a file to read it, and lets the kernel forget what it has of it.
pub fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    // A file system that keeps files in memory refuses this.
    let _ = fadvise(&file, 0, None, Advice::DontNeed);
    Ok(file)
}

/// Makes content that no other file or block has.
pub fn fill(content: &mut [u8], of: u64) {
    let mut word = of.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for bytes in content.chunks_mut(8) {
        // One step of xorshift for each word.
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
    }
}
