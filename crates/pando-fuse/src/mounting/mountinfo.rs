//! The kernel's own list of mounts, in `/proc`.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Whether `path`, absolute and free of links, is a mount point in the kernel's own list.
pub fn is_mountpoint(path: &Path) -> io::Result<bool> {
    devices_at(path).map(|devices| !devices.is_empty())
}

/// Devices of all mounts at `path`, which is absolute and free of links. The kernel's own list has
/// the topmost last. No request goes to any of these mounts.
pub(crate) fn devices_at(path: &Path) -> io::Result<Vec<Vec<u8>>> {
    std::fs::read("/proc/self/mountinfo").map(|list| devices_in(&list, path))
}

/// Devices of the mounts at `path` in a list of `/proc`. The fields of a line: number, number of
/// the parent, `MAJOR:MINOR`, root, mount point, and more.
fn devices_in(list: &[u8], path: &Path) -> Vec<Vec<u8>> {
    let device = |line: &[u8]| {
        let mut fields = line.split(|&byte| byte == b' ');
        let (device, mountpoint) = (fields.nth(2)?, fields.nth(1)?);
        (unescape(mountpoint) == path.as_os_str().as_bytes()).then(|| device.to_owned())
    };
    list.split(|&byte| byte == b'\n').filter_map(device).collect()
}

/// Undoes the octal escapes of `/proc` (`\040` for a space).
pub(crate) fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let code = tail.get(..3).filter(|_| byte == b'\\').and_then(|digits| {
            digits.iter().try_fold(0u32, |sum, digit| {
                (b'0'..=b'7').contains(digit).then(|| sum * 8 + u32::from(digit - b'0'))
            })
        });
        match code.and_then(|code| u8::try_from(code).ok()) {
            Some(code) => {
                bytes.push(code);
                rest = &tail[3..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octal_escapes_of_proc_are_undone() {
        for (field, expected) in [
            (&b"/a"[..], &b"/a"[..]),
            (br"/a\040b", b"/a b"),
            (br"/a\134b\011", b"/a\\b\t"),
            (br"/a\0", br"/a\0"),
        ] {
            assert_eq!(unescape(field), expected);
        }
    }

    #[test]
    fn the_topmost_mount_is_the_last_one_listed() {
        let list = br"22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 0:50 / /a\040b rw,noatime - fuse.pando /v rw
24 23 0:51 /sub /a\040b rw - tmpfs none rw
25 22 0:52 / /a rw - tmpfs none rw
";
        let at = |path: &str| devices_in(list, Path::new(path));
        assert_eq!(at("/a b"), [b"0:50", b"0:51"]);
        assert_eq!(at("/a"), [b"0:52"]);
        assert!(at("/sub").is_empty());
    }
}
