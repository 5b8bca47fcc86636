//! `pando manifest`: prints one line for each object of a tree. Two trees are equal if their
//! manifests are.
//!
//! ```text
//! type  mode  uid  gid  mtime (seconds.nanoseconds)  links  size  content  path
//! ```
//! The content is the BLAKE3 hash of a file, `->target` of a link, `major:minor` of a device. A
//! directory's size is left out, since file systems count it differently. Each name of a file with
//! several names shows the first of them, so the comparison covers hard links.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Args;

use crate::failure::Failure;

/// List every object below a path: type, mode, owner, time, links, size, hash of the content
#[derive(Args, Debug)]
#[command(hide = true)]
pub struct ManifestArgs {
    /// The tree
    pub path: PathBuf,
    /// Threads
    #[arg(long, default_value_t = 4)]
    pub threads: usize,
}

pub fn run(args: &ManifestArgs) -> Result<ExitCode, Failure> {
    let fail = |(path, error): (PathBuf, io::Error)| {
        Failure::plain(format!("cannot read {}: {error}", path.display()))
    };
    let mut paths = walk(&args.path).map_err(fail)?;
    paths.sort();
    let mut objects = describe_all(&args.path, &paths, args.threads).map_err(fail)?;
    name_links(&mut objects);
    let mut out = BufWriter::new(io::stdout().lock());
    for object in objects {
        let text = &object.text;
        let path = object.path.as_os_str().as_bytes().escape_ascii();
        if writeln!(out, "{text} {path}").is_err() {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

type Located = (PathBuf, io::Error);

struct Object {
    path: PathBuf,
    text: String,
    /// Device and inode number, if the file has several names.
    linked: Option<(u64, u64)>,
}

/// All paths below `root`, relative to it.
fn walk(root: &Path) -> Result<Vec<PathBuf>, Located> {
    let mut found = vec![PathBuf::new()];
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let at = root.join(&folder);
        let located = |error| (at.clone(), error);
        for entry in fs::read_dir(&at).map_err(located)? {
            let entry = entry.map_err(located)?;
            let path = folder.join(entry.file_name());
            if entry.file_type().map_err(located)?.is_dir() {
                folders.push(path.clone());
            }
            found.push(path);
        }
    }
    Ok(found)
}

fn describe_all(root: &Path, paths: &[PathBuf], threads: usize) -> Result<Vec<Object>, Located> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        let mut buffer = vec![0; 1 << 20];
        loop {
            let position = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = paths.get(position) else { return Ok(done) };
            let at = root.join(path);
            match describe(&at, path, &mut buffer) {
                Ok(object) => done.push((position, object)),
                Err(error) => return Err((at, error)),
            }
        }
    };
    let mut all = Vec::with_capacity(paths.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| {
            all.extend(thread.join().expect("describing files")?);
            Ok(())
        })
    })?;
    all.sort_by_key(|(position, _)| *position);
    Ok(all.into_iter().map(|(_, object)| object).collect())
}

fn describe(at: &Path, path: &Path, buffer: &mut [u8]) -> io::Result<Object> {
    let metadata = at.symlink_metadata()?;
    let kind = metadata.file_type();
    let (letter, size, content) = if kind.is_dir() {
        ('d', "-".to_owned(), "-".to_owned())
    } else if kind.is_symlink() {
        let target = fs::read_link(at)?;
        let target = target.as_os_str().as_bytes().escape_ascii().to_string();
        ('l', metadata.size().to_string(), format!("->{target}"))
    } else if kind.is_file() {
        ('f', metadata.size().to_string(), hash(at, buffer)?)
    } else {
        let letter = match () {
            () if kind.is_fifo() => 'p',
            () if kind.is_socket() => 's',
            () if kind.is_char_device() => 'c',
            () => 'b',
        };
        (letter, metadata.size().to_string(), device(&metadata))
    };
    let text = format!(
        "{letter} {:04o} {} {} {}.{:09} {} {size} {content}",
        metadata.mode() & 0o7777,
        metadata.uid(),
        metadata.gid(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.nlink(),
    );
    let is_linked = !kind.is_dir() && metadata.nlink() > 1;
    let linked = is_linked.then(|| (metadata.dev(), metadata.ino()));
    Ok(Object { path: path.to_owned(), text, linked })
}

fn device(metadata: &Metadata) -> String {
    let number = metadata.rdev();
    format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number))
}

fn hash(path: &Path, buffer: &mut [u8]) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    let mut file = File::open(path)?;
    loop {
        match io::Read::read(&mut file, buffer)? {
            0 => return Ok(hasher.finalize().to_hex().to_string()),
            n => hasher.update(&buffer[..n]),
        };
    }
}

fn name_links(objects: &mut [Object]) {
    let mut first: HashMap<(u64, u64), String> = HashMap::new();
    for object in objects {
        let Some(id) = object.linked else { continue };
        let own = object.path.as_os_str().as_bytes().escape_ascii().to_string();
        let name = first.entry(id).or_insert(own);
        object.text.push_str(&format!(" ={name}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_trees_have_equal_lines_and_any_difference_shows() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        fs::create_dir(root.join("d")).unwrap();
        fs::write(root.join("d/a"), "hello").unwrap();
        fs::hard_link(root.join("d/a"), root.join("d/b")).unwrap();
        std::os::unix::fs::symlink("a", root.join("d/l")).unwrap();
        let list = || {
            let mut paths = walk(root).unwrap();
            paths.sort();
            let mut objects = describe_all(root, &paths, 3).unwrap();
            name_links(&mut objects);
            objects.into_iter().map(|object| object.text).collect::<Vec<_>>()
        };
        let before = list();
        assert_eq!(before.len(), 5);
        assert!(before[2].ends_with(" =d/a") && before[3].ends_with(" =d/a"), "{before:?}");
        assert!(before[4].ends_with("->a"));
        assert_eq!(list(), before);
        fs::write(root.join("d/a"), "hellO").unwrap();
        assert_ne!(list()[2], before[2]);
    }
}
