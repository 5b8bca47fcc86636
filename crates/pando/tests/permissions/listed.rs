//! What differs from the local disk and is to: imposed by Linux, or said in docs/SEMANTICS.md. Nothing else may differ.

use crate::arena::{Call, Kind};

/// A difference, and why it is none of ours.
struct Listed {
    /// Names of the calls.
    calls: &'static [&'static str],
    /// On two mounts only.
    on_two: bool,
    expected: &'static str,
    found: &'static str,
    /// Who imposes it.
    #[allow(dead_code, reason = "for who reads the list")]
    why: &'static str,
}

const LISTED: &[Listed] = &[
    Listed {
        calls: &["connect"],
        on_two: true,
        expected: "ok",
        found: "ECONNREFUSED",
        why: "`unix_find_bsd` looks for a socket by the inode of this kernel's mount; that of another mount is another",
    },
    Listed {
        calls: &["open", "reopen"],
        on_two: true,
        expected: "ok",
        found: "ENXIO",
        why: "`fifo_open` knows the readers of its own inode only, those of this mount",
    },
    Listed {
        calls: &["exec"],
        on_two: true,
        expected: "ETXTBSY",
        found: "",
        why: "`deny_write_access` counts the writers of this mount only",
    },
    Listed {
        calls: &["handle"],
        on_two: false,
        expected: "ok",
        found: "EOPNOTSUPP",
        why: "`exportfs_can_encode_fh`: FUSE_NO_EXPORT_SUPPORT, since a node number does not outlive the kernel's memory of it",
    },
    Listed {
        calls: &["cat", "read"],
        on_two: true,
        expected: "EAGAIN",
        found: "read b''",
        why: "`fifo_open` knows the writers of its own inode only",
    },
    Listed {
        calls: &["read"],
        on_two: true,
        expected: "read",
        found: "read",
        why: "close-to-open (docs/SEMANTICS.md): a descriptor reads the pages of when it was opened",
    },
];

/// A directory that another mount has removed is gone for who holds it (docs/SEMANTICS.md).
const REMOVED: &str = "ESTALE";

pub fn is_known(call: &Call, kind: Kind, expected: &str, found: &str) -> bool {
    let name = call.line.split(' ').next().unwrap();
    if kind == Kind::Two && found == REMOVED && expected == "ENOENT" {
        return true;
    }
    LISTED.iter().any(|listed| {
        listed.calls.contains(&name)
            && (!listed.on_two || kind == Kind::Two)
            && expected.starts_with(listed.expected)
            && found.starts_with(listed.found)
    })
}

/// PENDING
pub fn is_pending(call: &Call, _kind: Kind, expected: &str, found: &str) -> bool {
    let only = |one: &str, other: &str| -> Vec<String> {
        let lines = other.split('\t').collect::<Vec<_>>();
        one.split('\t').filter(|line| !lines.contains(line)).map(str::to_owned).collect()
    };
    let tree = || {
        only(expected, found).into_iter().zip(only(found, expected)).all(|(one, other)| {
            let mut words = one.split(' ').zip(other.split(' ')).enumerate();
            let dir = one.contains("dir ");
            words.all(|(n, (x, y))| {
                x == y
                    || (n < 3 && y.len() >= 4 && y.len() < 5)
                    || (dir && (4..=5).contains(&n))
                    || ((8..=10).contains(&n) && (x == "now" || y == "now"))
            })
        })
    };
    found == "ESTALE"
        || (call.line == "tree" || call.line.starts_with("stat") || call.line.starts_with("fstat"))
            && expected.contains("links")
            && tree()
}
