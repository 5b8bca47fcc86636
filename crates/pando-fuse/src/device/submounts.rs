//! Whether anything is mounted on a directory of a mount. When the kernel forgets all names at once it also takes off what is
//! mounted on them, in every mount namespace.

use std::collections::HashSet;
use std::path::PathBuf;
use std::{fs, io};

/// Whether anything is mounted on a directory of the mount with this device, `MAJOR:MINOR`, in any mount namespace that a process
/// which can be seen is in.
pub(crate) fn has_submounts(device: &[u8]) -> io::Result<bool> {
    let mut seen = HashSet::new();
    for process in fs::read_dir("/proc")?.flatten() {
        let path = process.path();
        // Processes end meanwhile, and what is not to be read is another user's.
        let Ok(namespace) = fs::read_link(path.join("ns/mnt")) else { continue };
        if seen.insert(namespace)
            && let Ok(list) = fs::read(path.join("mountinfo"))
            && is_mounted_upon(&list, device)
        {
            return Ok(true);
        }
    }
    Ok(is_mounted_upon(&fs::read(PathBuf::from("/proc/self/mountinfo"))?, device))
}

/// Whether any mount of a namespace's list has one of this device for its parent.
fn is_mounted_upon(list: &[u8], device: &[u8]) -> bool {
    let mounts = || {
        list.split(|byte| *byte == b'\n').filter_map(|line| {
            let mut fields = line.split(|byte| *byte == b' ');
            Some((fields.next()?, fields.next()?, fields.next()?))
        })
    };
    let ours: HashSet<_> =
        mounts().filter(|mount| mount.2 == device).map(|mount| mount.0).collect();
    mounts().any(|(_, parent, _)| ours.contains(parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_on_a_mount_has_it_for_its_parent() {
        let list =
            b"25 1 8:1 / / rw\n36 25 0:33 / /mnt rw\n37 36 0:34 / /mnt/x rw\n38 25 0:35 / /y rw";
        assert!(is_mounted_upon(list, b"0:33") && is_mounted_upon(list, b"8:1"));
        assert!(!is_mounted_upon(list, b"0:34") && !is_mounted_upon(list, b"0:35"));
        assert!(!is_mounted_upon(list, b"0:99") && !is_mounted_upon(b"", b"0:33"));
    }

    #[test]
    fn this_machine_has_something_mounted_on_its_root() {
        let list = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let root = list.lines().find(|line| line.split(' ').nth(4) == Some("/")).unwrap();
        assert!(has_submounts(root.split(' ').nth(2).unwrap().as_bytes()).unwrap());
        assert!(!has_submounts(b"4095:1048575").unwrap());
    }
}
