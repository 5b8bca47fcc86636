//! Checks what would break if the kernel forgot all names of a mount at once, in any mount
//! namespace.
//!
//! - A mount on a directory of this mount would be taken off with the directory's name.
//! - An overlay (`overlayfs`) over a tree of the mount holds that tree by a name. It would answer
//!   `ESTALE` from then on.
//!
//! Both are read from `/proc/PID/mountinfo`. What a list leaves open counts as something that would
//! break. That costs a client that joins a few seconds, and nothing else.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::mounting::mountinfo::unescape;

/// Whether any mount depends on names of the mount with this device, `MAJOR:MINOR`. All mount
/// namespaces of processes that this one can see are searched.
pub(crate) fn has_submounts(device: &[u8]) -> io::Result<bool> {
    let mut seen = Seen::new(device);
    let mut complete = HashSet::new();
    for process in fs::read_dir("/proc")?.flatten() {
        let path = process.path();
        // The process may have ended. What may not be read belongs to another user.
        let Ok(namespace) = fs::read_link(path.join("ns/mnt")) else { continue };
        if complete.contains(&namespace) {
            continue;
        }
        // A process that has changed its root sees only what is below it.
        let root = fs::read_link(path.join("root"));
        if let Ok(list) = fs::read(path.join("mountinfo")) {
            seen.add(&list);
            if root.is_ok_and(|root| root == Path::new("/")) {
                complete.insert(namespace);
            }
        }
    }
    seen.add(&fs::read("/proc/self/mountinfo")?);
    Ok(seen.is_anything())
}

/// What the lists of several namespaces say of one mount. A mount has one number in all namespaces.
struct Seen<'a> {
    device: &'a [u8],
    /// Numbers of the mounts of this device.
    ours: HashSet<Vec<u8>>,
    /// Mount points of these mounts.
    places: HashSet<PathBuf>,
    /// Numbers of mounts on which another one is mounted.
    parents: HashSet<Vec<u8>>,
    /// Trees that overlays are made of.
    layers: HashSet<PathBuf>,
}

impl<'a> Seen<'a> {
    fn new(device: &'a [u8]) -> Self {
        Self {
            device,
            ours: HashSet::new(),
            places: HashSet::new(),
            parents: HashSet::new(),
            layers: HashSet::new(),
        }
    }

    fn add(&mut self, list: &[u8]) {
        for line in list.split(|byte| *byte == b'\n') {
            let _ = self.add_mount(line);
        }
    }

    /// Adds one line of a list. Its fields: number, number of the parent, `MAJOR:MINOR`, root,
    /// mount point, options, optional fields, a hyphen, type, source, options of the file system.
    fn add_mount(&mut self, line: &[u8]) -> Option<()> {
        let mut fields = line.split(|byte| *byte == b' ');
        let (number, parent, device) = (fields.next()?, fields.next()?, fields.next()?);
        self.parents.insert(parent.to_vec());
        let place = fields.nth(1)?;
        if device == self.device {
            self.ours.insert(number.to_vec());
            self.places.insert(path(unescape(place)));
        }
        let kind = fields.by_ref().skip_while(|field| *field != b"-").nth(1)?;
        if kind == b"overlay" {
            self.layers.extend(layers(fields.nth(1)?));
        }
        Some(())
    }

    fn is_anything(&self) -> bool {
        // The starting point of a relative path is unknown, so it counts.
        let lies_within = |layer: &PathBuf| {
            layer.is_relative() || self.places.iter().any(|place| layer.starts_with(place))
        };
        let is_over_us = !self.ours.is_empty() && self.layers.iter().any(lies_within);
        is_over_us || !self.ours.is_disjoint(&self.parents)
    }
}

fn path(bytes: Vec<u8>) -> PathBuf {
    std::ffi::OsString::from_vec(bytes).into()
}

/// Trees in the options of an overlay. `/proc` escapes a comma, and any other byte that would
/// divide options. Within a value a colon divides trees, and a backslash quotes the next character.
/// Not every option of every kernel does so, hence both readings are returned.
fn layers(options: &[u8]) -> HashSet<PathBuf> {
    let mut layers = HashSet::new();
    for option in options.split(|byte| *byte == b',') {
        let Some(at) = option.iter().position(|byte| *byte == b'=') else { continue };
        let (name, value) = (&option[..at], unescape(&option[at + 1..]));
        match name {
            b"lowerdir" => {
                layers.extend(divided(&value).filter(|layer| !layer.as_os_str().is_empty()));
            }
            b"lowerdir+" | b"datadir+" | b"upperdir" | b"workdir" => {
                layers.insert(OsStr::from_bytes(&value).into());
                layers.insert(plain(&value));
            }
            _ => {}
        }
    }
    layers
}

/// Splits a value into trees at its unquoted colons. Two colons precede trees that hold contents
/// only.
fn divided(value: &[u8]) -> impl Iterator<Item = PathBuf> {
    let mut is_escaped = false;
    let parts = value.split(move |byte| {
        let divides = *byte == b':' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        divides
    });
    parts.map(plain)
}

/// Removes the backslashes that quote the next character.
fn plain(value: &[u8]) -> PathBuf {
    let mut is_escaped = false;
    let bytes = value.iter().copied().filter(|byte| {
        is_escaped = *byte == b'\\' && !is_escaped;
        !is_escaped
    });
    path(bytes.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_anything(device: &str, lists: &[&str]) -> bool {
        let mut seen = Seen::new(device.as_bytes());
        lists.iter().for_each(|list| seen.add(list.as_bytes()));
        seen.is_anything()
    }

    #[test]
    fn what_is_mounted_on_a_mount_has_it_for_its_parent() {
        let list =
            "25 1 8:1 / / rw\n36 25 0:33 / /mnt rw\n37 36 0:34 / /mnt/x rw\n38 25 0:35 / /y rw";
        assert!(is_anything("0:33", &[list]) && is_anything("8:1", &[list]));
        assert!(!is_anything("0:34", &[list]) && !is_anything("0:35", &[list]));
        assert!(!is_anything("0:99", &[list]) && !is_anything("0:33", &["", "\n \n1 2"]));
    }

    const BASE: &str = "36 25 0:33 / /mnt/a\\040b rw - fuse.pando pando rw,user_id=0\n";

    fn is_under(options: &str) -> bool {
        let overlay =
            format!("40 25 0:45 / /over rw shared:7 master:2 - overlay none rw,{options}\n");
        is_anything("0:33", &[BASE, &overlay])
    }

    #[test]
    fn an_overlay_lies_over_the_mounts_of_its_layers() {
        assert!(is_under("lowerdir=/mnt/a\\040b/c,upperdir=/u,workdir=/w"));
        assert!(is_under("lowerdir=/l,upperdir=/mnt/a\\040b,workdir=/w"));
        assert!(is_under("lowerdir=/l,upperdir=/u,workdir=/mnt/a\\040b/w"));
        assert!(is_under("lowerdir=/l:/m:/mnt/a\\040b") && is_under("lowerdir=/l::/mnt/a\\040b/x"));
        assert!(is_under("lowerdir+=/l,lowerdir+=/mnt/a\\040b/x,uuid=on"));
        assert!(is_under("lowerdir+=/l,datadir+=/mnt/a\\040b/x"));
        assert!(is_under("lowerdir=relative"), "nobody knows from where");
        assert!(!is_under("lowerdir=/l:/mnt/a\\040bc:/mnt/a,upperdir=/u,workdir=/w,xino=off"));
        assert!(!is_under("rw") && !is_under("lowerdir="));
    }

    #[test]
    fn escapes_of_overlays_and_of_proc_are_undone() {
        let set = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<HashSet<_>>();
        // As Linux 6.18 shows the trees "/a:b,c d\e" and "/l".
        let lower = b"rw,lowerdir=/a\\134:b\\134\\054c\\040d\\134\\134e:/l,uuid=on";
        assert_eq!(layers(lower), set(&["/a:b,c d\\e", "/l"]));
        assert_eq!(layers(b"upperdir=/a:b"), set(&["/a:b"]), "one tree, with a colon");
        assert_eq!(layers(b"lowerdir+=/a\\134:b"), set(&["/a:b", "/a\\:b"]));
    }

    #[test]
    fn a_layer_may_be_named_in_another_namespace_than_its_mount() {
        let elsewhere = "90 80 0:45 / / rw - overlay none rw,lowerdir=/mnt/a\\040b/image\n";
        assert!(is_anything("0:33", &[elsewhere, BASE]));
        assert!(!is_anything("0:33", &[elsewhere]), "nothing of the mount is left");
        let other = "36 25 0:34 / /mnt/a\\040b rw - fuse.pando pando rw\n";
        assert!(!is_anything("0:33", &[elsewhere, other]));
    }

    #[test]
    fn this_machine_has_something_mounted_on_its_root() {
        let list = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let root = list.lines().find(|line| line.split(' ').nth(4) == Some("/")).unwrap();
        assert!(has_submounts(root.split(' ').nth(2).unwrap().as_bytes()).unwrap());
        assert!(!has_submounts(b"4095:1048575").unwrap());
    }
}
