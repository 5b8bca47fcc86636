//! What differs from the local disk and is to: imposed by Linux, or said in docs/SEMANTICS.md. Nothing else may differ.

use crate::arena::{Call, Kind};

/// A difference that is to be.
pub struct Listed {
    /// Names of the calls; any if there is none.
    calls: &'static [&'static str],
    /// What is among their words.
    with: &'static str,
    /// On two mounts only.
    on_two: bool,
    /// How the answers begin.
    expected: &'static str,
    found: &'static str,
    /// Whether trees and callers are not the same afterwards.
    pub parts: bool,
    /// Who imposes it.
    pub why: &'static str,
}

const LISTED: &[Listed] = &[
    Listed {
        calls: &["connect"],
        with: "",
        on_two: true,
        expected: "ok",
        found: "ECONNREFUSED",
        parts: false,
        why: "`unix_find_bsd` looks for a socket by the inode of this mount; that of another mount is another",
    },
    Listed {
        calls: &["open", "reopen"],
        with: "",
        on_two: true,
        expected: "ok",
        found: "ENXIO",
        parts: true,
        why: "`fifo_open` knows the readers of its own inode only, those of this mount",
    },
    Listed {
        calls: &["read", "cat"],
        with: "",
        on_two: true,
        expected: "piped",
        found: "piped",
        parts: false,
        why: "`pipe_read` finds what was written through this mount",
    },
    Listed {
        calls: &["write"],
        with: "",
        on_two: true,
        expected: "wrote",
        found: "EPIPE",
        parts: false,
        why: "`pipe_write` knows the readers of this mount",
    },
    Listed {
        calls: &["exec"],
        with: "",
        on_two: true,
        expected: "ETXTBSY",
        found: "",
        parts: false,
        why: "`deny_write_access` counts the writers of this mount",
    },
    Listed {
        calls: &["handle"],
        with: "",
        on_two: false,
        expected: "ok",
        found: "ENOTSUP",
        parts: false,
        why: "`exportfs_can_encode_fh`: FUSE_NO_EXPORT_SUPPORT, as a node number does not outlive the kernel's memory of it",
    },
    Listed {
        calls: &["read"],
        with: "",
        on_two: true,
        expected: "read",
        found: "read",
        parts: false,
        why: "close-to-open (docs/SEMANTICS.md): a descriptor may read the pages of when it was opened",
    },
    Listed {
        calls: &["copy"],
        with: "",
        on_two: true,
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
        ],
        with: "",
        on_two: false,
        expected: "",
        found: "ESTALE",
        parts: true,
        why: "`open` with O_PATH, and of FIFOs, sockets and devices, sends no request: of what they alone hold, nothing stays when its last name goes",
    },
    Listed {
        calls: &["chown", "fchown"],
        with: " -1 -1",
        on_two: false,
        expected: "EPERM",
        found: "ok",
        parts: false,
        why: "`fuse_do_setattr` asks for the same nothing as before `fallocate` by whoever may write: a stranger's changes nothing, and says ok",
    },
    Listed {
        calls: &["mkdir", "mknod", "symlink", "link", "open", "rename", "bind"],
        with: "",
        on_two: true,
        expected: "ENOENT",
        found: "EACCES",
        parts: false,
        why: "`may_create`: this kernel does not know that another mount has removed the directory, and asks for permission first",
    },
    Listed {
        calls: &["link"],
        with: "",
        on_two: true,
        expected: "ENOENT",
        found: "EPERM",
        parts: false,
        why: "`may_linkat`: this kernel does not know that another mount has removed the directory, and looks at the file first",
    },
    Listed {
        calls: &["setxattr", "fsetxattr"],
        with: "",
        on_two: false,
        expected: "ok",
        found: "ENOENT",
        parts: true,
        why: "a removed directory that is held has no extended attributes any more (docs/SEMANTICS.md)",
    },
    Listed {
        calls: &["flistxattr", "fgetxattr"],
        with: "",
        on_two: false,
        expected: "",
        found: "none",
        parts: false,
        why: "the same",
    },
    Listed {
        calls: &[],
        with: "..",
        on_two: true,
        expected: "",
        found: "",
        parts: true,
        why: "`follow_dotdot` asks nobody: `..` of a directory that another mount moved is where it was (docs/SEMANTICS.md)",
    },
];

pub fn find(call: &Call, kind: Kind, expected: &str, found: &str) -> Option<&'static Listed> {
    let name = call.line.split(' ').next().unwrap();
    LISTED.iter().find(|listed| {
        (listed.calls.is_empty() || listed.calls.contains(&name))
            && call.line.contains(listed.with)
            && (!listed.on_two || kind == Kind::Two)
            && expected.starts_with(listed.expected)
            && found.starts_with(listed.found)
    })
}
