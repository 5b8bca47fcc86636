//! Pando's mounts on this machine, from the kernel's list of mounts.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The type of Pando's mounts in that list, if the kernel knows subtypes.
const KIND: &str = "fuse.pando";
const SOURCE_PREFIX: &str = "pando:";

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
