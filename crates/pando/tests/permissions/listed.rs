//! The only differences from a local disk that are allowed: Linux imposes them, or
//! docs/SEMANTICS.md names them.

use crate::arena::{Call, Kind};

/// Where a difference is allowed.
#[derive(PartialEq, Eq)]
enum On {
    Any,
    /// With two mounts.
    Two,
    /// With two mounts, if the caller holds a removed directory.
    TwoRemoved,
}

/// An allowed difference.
pub struct Listed {
    /// Names of the calls; empty: any call.
    calls: &'static [&'static str],
    /// Text that the call must contain.
    with: &'static str,
    on: On,
    /// How the two answers begin.
    expected: &'static str,
    found: &'static str,
    /// Whether trees and callers may differ afterwards.
    pub parts: bool,
    /// Why it is allowed: the kernel function, or the document.
    pub why: &'static str,
}

const LISTED: &[Listed] = &[
    Listed {
        calls: &["connect"],
        with: "",
        on: On::Two,
        expected: "ok",
        found: "ECONNREFUSED",
        parts: false,
        why: "`unix_find_bsd` looks for a socket by the inode of this mount; that of another mount is another",
    },
    Listed {
        calls: &["open", "reopen"],
        with: "",
        on: On::Two,
        expected: "ok",
        found: "ENXIO",
        parts: true,
        why: "`fifo_open` knows the readers of its own inode only, those of this mount",
    },
    Listed {
        calls: &["read", "cat"],
        with: "",
        on: On::Two,
        expected: "piped",
        found: "piped",
        parts: false,
        why: "`pipe_read` finds what was written through this mount",
    },
    Listed {
        calls: &["write"],
        with: "",
        on: On::Two,
        expected: "wrote",
        found: "EPIPE",
        parts: false,
        why: "`pipe_write` knows the readers of this mount",
    },
    Listed {
        calls: &["exec"],
        with: "",
        on: On::Two,
        expected: "ETXTBSY",
        found: "",
        parts: false,
        why: "`deny_write_access` counts the writers of this mount",
    },
    Listed {
        calls: &["handle"],
        with: "",
        on: On::Any,
        expected: "ok",
        found: "ENOTSUP",
        parts: false,
        why: "`exportfs_can_encode_fh`: FUSE_NO_EXPORT_SUPPORT, as a node number does not outlive the kernel's memory of it",
    },
    Listed {
        calls: &["read"],
        with: "",
        on: On::Two,
        expected: "read",
        found: "read",
        parts: false,
        why: "close-to-open (docs/SEMANTICS.md): a descriptor may read the pages of when it was opened",
    },
    Listed {
        calls: &["copy"],
        with: "",
        on: On::Two,
        expected: "",
        found: "copied",
        parts: true,
        why: "`generic_copy_file_checks` goes by the size that this mount's kernel knows (close-to-open)",
    },
    Listed {
        calls: &[
            "fstat",
            "read",
            "write",
            "pwrite",
            "noappend",
            "reopen",
            "stat",
            "chmod",
            "chown",
            "utimens",
            "linkself",
            "getxattr",
            "access",
            "truncate",
            "handle",
            "inotify",
            "fchown",
            "fchmod",
            "futimens",
            "fgetxattr",
            "fsetxattr",
            "flistxattr",
            "ftruncate",
            "copy",
            "exec",
            "list",
            "listxattr",
            "getdents",
            "link",
        ],
        with: "",
        on: On::Any,
        expected: "",
        found: "ESTALE",
        parts: true,
        why: "`open` with O_PATH, and of FIFOs, sockets and devices, sends no request: of what they alone hold, nothing stays when its last name goes",
    },
    Listed {
        calls: &["chown", "fchown"],
        with: " -1 -1",
        on: On::Any,
        expected: "EPERM",
        found: "ok",
        parts: false,
        why: "`fuse_do_setattr` asks for the same nothing as before `fallocate` by whoever may write: a stranger's changes nothing, and says ok",
    },
    Listed {
        calls: &["mkdir", "mknod", "symlink", "link", "open", "rename", "bind"],
        with: "",
        on: On::Two,
        expected: "ENOENT",
        found: "EACCES",
        parts: false,
        why: "`may_create`: this kernel does not know that another mount has removed the directory, and asks for permission first",
    },
    Listed {
        calls: &["link", "mknod"],
        with: "",
        on: On::Two,
        expected: "ENOENT",
        found: "EPERM",
        parts: false,
        why: "`may_linkat`, `vfs_mknod`: this kernel does not know that another mount has removed the directory, and looks at the file or the caller first",
    },
    Listed {
        calls: &["setxattr", "fsetxattr"],
        with: "",
        on: On::Any,
        expected: "ok",
        found: "ENOENT",
        parts: true,
        why: "a removed directory that is held has no extended attributes any more (docs/SEMANTICS.md)",
    },
    Listed {
        calls: &["flistxattr", "fgetxattr"],
        with: "",
        on: On::Any,
        expected: "",
        found: "none",
        parts: false,
        why: "the same",
    },
    Listed {
        calls: &[],
        with: "",
        on: On::TwoRemoved,
        expected: "EACCES",
        found: "ENOENT",
        parts: false,
        why: "of a directory that another mount has removed, this one knows the owner and mode that it saw last (docs/SEMANTICS.md)",
    },
    Listed {
        calls: &["rename"],
        with: "",
        on: On::Two,
        expected: "",
        found: "ESTALE",
        parts: true,
        why: "`__d_unalias`: a directory that another mount has moved is found at its new place by any look, but not within a rename between directories, which holds the lock that takes",
    },
    Listed {
        calls: &[],
        with: "..",
        on: On::Two,
        expected: "",
        found: "",
        parts: true,
        why: "`follow_dotdot` asks nobody: `..` of a directory that another mount moved is where it was (docs/SEMANTICS.md)",
    },
];

/// The entry that allows a difference, if there is one. `holds_removed`: whether the caller holds a
/// removed directory.
pub fn find(
    call: &Call,
    kind: Kind,
    (expected, found): (&str, &str),
    holds_removed: impl Fn() -> bool,
) -> Option<&'static Listed> {
    let name = call.line.split(' ').next().unwrap();
    let is_there = |on: &On| match on {
        On::Any => true,
        On::Two => kind == Kind::Two,
        On::TwoRemoved => kind == Kind::Two && holds_removed(),
    };
    LISTED.iter().find(|listed| {
        (listed.calls.is_empty() || listed.calls.contains(&name))
            && call.line.contains(listed.with)
            && expected.starts_with(listed.expected)
            && found.starts_with(listed.found)
            && is_there(&listed.on)
    })
}
