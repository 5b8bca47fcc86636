//! Name and access rules of a mount, as the kernel is told.

/// Subtype of the file system, shown after `fuse.`.
pub(crate) const SUBTYPE: &str = "pando";

/// Name and access rules of a mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Source shown in `/proc/mounts`.
    pub source: String,
    /// Whether users other than the mounting one may enter.
    pub allow_other: bool,
    /// Whether the mount is read-only.
    pub read_only: bool,
    /// Whether setuid and setgid bits of programs take effect. Ordinary users cannot enable this.
    pub suid: bool,
    /// Whether device nodes lead to devices. Ordinary users cannot enable this.
    pub dev: bool,
    /// Whether programs may be run.
    pub exec: bool,
    /// Whether the kernel judges permissions itself, by the modes and owners that it is told.
    pub default_permissions: bool,
}
