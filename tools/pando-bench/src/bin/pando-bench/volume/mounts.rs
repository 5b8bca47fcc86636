//! The kind of file system that is mounted at a path, from the kernel's list of mounts.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount of the kernel's list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    path: PathBuf,
    /// The type, as in `ext4`.
    pub kind: String,
    source: String,
}

impl Mount {
    /// The volume's folder or its servers' addresses, if this is a mount of Pando.
    pub fn volume(&self) -> Option<&str> {
        let is_pando = self.kind == "fuse.pando" || self.kind == "fuse";
        self.source.strip_prefix("pando:").filter(|_| is_pando)
    }
}

/// The topmost mount that contains `path`. `None` if there is no such path, or no list.
pub fn of(path: &Path) -> Option<Mount> {
    let path = path.canonicalize().ok()?;
    let list = std::fs::read("/proc/self/mountinfo").ok()?;
    let mounts = list.split(|&byte| byte == b'\n').filter_map(parse);
    // `max_by_key` returns the last of equal length, which lies on top.
    mounts
        .filter(|mount| path.starts_with(&mount.path))
        .max_by_key(|mount| mount.path.as_os_str().len())
}

fn parse(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let separator = fields.iter().position(|field| *field == b"-")?;
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    Some(Mount {
        path: OsString::from_vec(unescape(fields.get(4)?)).into(),
        kind: text(fields.get(separator + 1)?),
        source: text(&unescape(fields.get(separator + 2)?)),
    })
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
        assert_eq!(mount.volume(), Some("/srv/v 1"));
        assert_eq!(parse(b"1 2 0:3 / / rw - ext4 /dev/vda rw").unwrap().volume(), None);
        assert!(of(Path::new("/")).is_some());
    }
}
