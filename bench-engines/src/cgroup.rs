//! Limits the memory of processes, including the page cache.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const ROOT: &str = "/sys/fs/cgroup";

/// A group whose processes may use only so much memory together. Dropping it removes the group, if
/// its processes have ended.
#[derive(Debug)]
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// Makes a group with a limit of `bytes`. Needs root, and the memory controller of cgroups
    /// version 1 or 2.
    pub fn with_memory(bytes: u64) -> Result<Cgroup> {
        let is_v2 = Path::new(ROOT).join("cgroup.controllers").exists();
        let (parent, limit) = match is_v2 {
            true => (PathBuf::from(ROOT), "memory.max"),
            false => (Path::new(ROOT).join("memory"), "memory.limit_in_bytes"),
        };
        if !parent.join("cgroup.procs").exists() {
            bail!("no memory control group at {}", parent.display());
        }
        if is_v2 {
            // The controller is usually on already. If it is not, the file of the limit is missing
            // below.
            let _ = fs::write(parent.join("cgroup.subtree_control"), "+memory");
        }
        let path = parent.join(format!("bench-engines-{}", std::process::id()));
        fs::create_dir_all(&path)
            .with_context(|| format!("cannot make {} (root may)", path.display()))?;
        let group = Cgroup(path);
        let file = group.0.join(limit);
        fs::write(&file, bytes.to_string())
            .with_context(|| format!("cannot set {}", file.display()))?;
        Ok(group)
    }

    /// The group's folder, for [`join`].
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // An empty group that remains costs nothing, so an error is ignored.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Puts this process into a group.
pub fn join(group: &Path) -> Result<()> {
    let file = group.join("cgroup.procs");
    fs::write(&file, std::process::id().to_string())
        .with_context(|| format!("cannot join {}", file.display()))
}
