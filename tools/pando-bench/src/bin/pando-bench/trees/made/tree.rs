//! A tree like that of a program's sources: directories in directories, small files of text, a few
//! symbolic links.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use fastrand::Rng;

const SEED: u64 = 1;
const FILES_PER_DIRECTORY: u32 = 10;
const FILES_PER_LINK: u32 = 100;
const DEPTH_MAX: usize = 6;
/// Words of the text. Some lines have the last.
const WORDS: [&str; 16] = [
    "static", "int", "buffer", "if", "else", "length", "struct", "node", "while", "const", "lock",
    "index", "void", "error", "count", "return",
];
/// One line of so many has the last word.
const LINES_PER_RETURN: u32 = 12;

/// Makes a tree of `files` files in an existing folder.
pub fn make(root: &Path, files: u32) -> io::Result<()> {
    let mut rng = Rng::with_seed(SEED);
    let mut directories: Vec<(PathBuf, usize)> = vec![(root.to_owned(), 0)];
    for number in 0..files.div_ceil(FILES_PER_DIRECTORY) {
        let (parent, depth) = directories[rng.usize(..directories.len())].clone();
        let path = parent.join(format!("part{number}"));
        fs::create_dir(&path)?;
        if depth + 1 < DEPTH_MAX {
            directories.push((path, depth + 1));
        }
    }
    for number in 0..files {
        let (directory, _) = &directories[rng.usize(..directories.len())];
        let name = format!("file{number}.c");
        fs::write(directory.join(&name), text(&mut rng))?;
        if number.is_multiple_of(FILES_PER_LINK) {
            symlink(&name, directory.join(format!("link{number}.c")))?;
        }
    }
    Ok(())
}

/// Sizes as sources have them: most from 1 to 16 KiB, small ones more often than large ones.
fn size(rng: &mut Rng) -> usize {
    match rng.u32(..100) {
        0 => 0,
        1..=9 => rng.usize(100..1024),
        10..=95 => (1024.0 * 16_f64.powf(rng.f64())) as usize,
        _ => rng.usize(16 << 10..64 << 10),
    }
}

fn text(rng: &mut Rng) -> String {
    let size = size(rng);
    let mut text = String::with_capacity(size + 80);
    while text.len() < size {
        for _ in 0..rng.u32(2..12) {
            text.push_str(WORDS[rng.usize(..WORDS.len() - 1)]);
            text.push(' ');
        }
        if rng.u32(..LINES_PER_RETURN) == 0 {
            text.push_str(WORDS[WORDS.len() - 1]);
        }
        text.push_str(";\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::census::Census;
    use super::*;

    #[test]
    fn two_trees_are_equal() {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [first, second] = folders.each_ref().map(|folder| {
            make(folder.path(), 250).unwrap();
            let mut names = Vec::new();
            let census = Census::take(folder.path(), |name| names.push(name.to_vec())).unwrap();
            names.sort();
            (census, names)
        });
        assert_eq!(first, second);
        assert_eq!((first.0.files, first.0.directories, first.0.links), (250, 25, 3));
        assert!(first.0.bytes > 250 * 1024);
    }
}
