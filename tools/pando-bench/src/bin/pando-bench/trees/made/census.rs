//! Counts what a tree has, to compare it with what it must have.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What a tree has. Its root does not count.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Census {
    pub files: u64,
    pub empty_files: u64,
    pub directories: u64,
    pub links: u64,
    pub bytes: u64,
}

impl Census {
    /// Counts a tree, and calls `file` with the path of each regular file below `root`.
    pub fn take(root: &Path, mut file: impl FnMut(&[u8])) -> io::Result<Self> {
        let mut census = Self::default();
        let mut open = vec![root.to_owned()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                let found = fs::symlink_metadata(&path)?;
                if found.is_dir() {
                    census.directories += 1;
                    open.push(path);
                } else if found.is_symlink() {
                    census.links += 1;
                } else {
                    census.files += 1;
                    census.empty_files += u64::from(found.len() == 0);
                    census.bytes += found.len();
                    let below = path.strip_prefix(root).unwrap_or(&path);
                    file(below.as_os_str().as_bytes());
                }
            }
        }
        Ok(census)
    }
}
