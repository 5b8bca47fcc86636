//! Pando's mounts on this machine, from the kernel's list of mounts.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::failure::Failure;

/// The type of Pando's mounts in that list, if the kernel knows subtypes.
const KIND: &str = "fuse.pando";
const SOURCE_PREFIX: &str = "pando:";
/// Time limit for resolving a path. A longer wait means that a mount on the path does not answer.
const LOOK: Duration = Duration::from_secs(4);

/// One mount of the kernel's list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    pub path: PathBuf,
    pub kind: String,
    pub source: Vec<u8>,
}

impl Mount {
    /// The volume's folder or its servers' addresses, if this is a mount of Pando.
    pub fn volume(&self) -> Option<String> {
        let is_ours = self.kind == KIND || self.kind == "fuse";
        let path = self.source.strip_prefix(SOURCE_PREFIX.as_bytes()).filter(|_| is_ours)?;
        Some(String::from_utf8_lossy(path).into_owned())
    }
}

/// The source under which the kernel lists a mount of this volume (a folder, or addresses).
pub fn source(volume: &str) -> String {
    format!("{SOURCE_PREFIX}{volume}")
}

/// All mounts. A mount that lies on top of another comes after it.
pub fn all() -> io::Result<Vec<Mount>> {
    let list = std::fs::read("/proc/self/mountinfo")?;
    Ok(list.split(|&byte| byte == b'\n').filter_map(parse).collect())
}

/// The topmost mount that contains `path`, which must be absolute and free of links.
pub fn of(path: &Path) -> io::Result<Option<Mount>> {
    let candidates = all()?.into_iter().filter(|mount| path.starts_with(&mount.path));
    // `max_by_key` returns the last of equal length, which lies on top.
    Ok(candidates.max_by_key(|mount| mount.path.as_os_str().len()))
}

/// An object on a mount of Pando.
#[derive(Debug)]
pub struct Located {
    /// Absolute path. Only its last component may be a symbolic link, which is not followed.
    pub path: PathBuf,
    /// The mountpoint.
    pub root: PathBuf,
    /// The volume's folder, or its servers' addresses.
    pub volume: String,
    /// Names from the mountpoint to the object. Empty for the mountpoint itself.
    pub names: Vec<OsString>,
}

/// Finds the mount that `path` is on, and the names that lead to it. The path must exist.
pub fn locate(path: &Path) -> Result<Located, Failure> {
    // Reports a suspended mount first. To resolve the path would wait for that mount.
    if let Some(failure) = std::path::absolute(path).ok().and_then(|path| {
        let mount = of(&path).ok().flatten()?;
        crate::info::suspended(&mount.path, &mount.volume()?)
    }) {
        return Err(failure);
    }
    let asked = path.to_owned();
    let resolved = in_time(LOOK, move || resolve(&asked)).ok_or_else(|| {
        Failure::plain(format!(
            "cannot look at {}: the mount that it is on does not answer; see whether its servers run (`pando status`)",
            path.display()
        ))
    })?;
    let path = resolved
        .map_err(|error| Failure::plain(format!("cannot look at {}: {error}", path.display())))?;
    let mount = of(&path)
        .map_err(|error| Failure::plain(format!("cannot read the list of mounts: {error}")))?;
    let Some((volume, root)) = mount.and_then(|mount| Some((mount.volume()?, mount.path))) else {
        return Err(Failure::plain(format!(
            "{} is not on a mount of Pando: name a path below one",
            path.display()
        )));
    };
    let relative = path.strip_prefix(&root).unwrap_or(Path::new(""));
    let names = relative.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        _ => None,
    });
    let names = names.collect();
    Ok(Located { path, root, volume, names })
}

/// Runs a function that may hang on a thread of its own. `None` if it has no result within `limit`.
pub fn in_time<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tell, told) = channel();
    // If the thread cannot start, there is no result either.
    let working = move || drop(tell.send(work()));
    let _ = std::thread::Builder::new().name("pando-path".to_owned()).spawn(working);
    told.recv_timeout(limit).ok()
}

/// The absolute path, with all links followed except a last one.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    path.symlink_metadata()?;
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            Ok(parent.canonicalize()?.join(name))
        }
        _ => path.canonicalize(),
    }
}

fn parse(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let separator = fields.iter().position(|field| *field == b"-")?;
    let path = OsString::from_vec(unescape(fields.get(4)?)).into();
    let kind = String::from_utf8_lossy(fields.get(separator + 1)?).into_owned();
    Some(Mount { path, kind, source: unescape(fields.get(separator + 2)?) })
}

/// Undoes the octal escapes of `/proc` (`\040` for a space).
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|digits| byte == b'\\' && digits.is_ascii());
        let code =
            digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(code.unwrap_or(byte));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_of_pando_tells_its_volume() {
        let line =
            br"36 25 0:33 / /mnt/a\040b rw,noatime shared:1 - fuse.pando pando:/srv/v\0401 rw";
        let mount = parse(line).unwrap();
        assert_eq!(mount.path, Path::new("/mnt/a b"));
        assert_eq!(mount.volume().unwrap(), "/srv/v 1");
        let other = parse(b"1 2 0:3 / / rw - ext4 /dev/vda rw").unwrap();
        assert_eq!(other.volume(), None);
    }

    #[test]
    fn the_root_is_in_the_list() {
        assert!(of(Path::new("/")).unwrap().is_some());
    }
}
