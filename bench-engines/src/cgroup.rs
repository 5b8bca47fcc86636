//! A limit on memory, page cache included.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const ROOT: &str = "/sys/fs/cgroup";

/// A group whose processes together get no more than so much memory. Removed when dropped, when its
/// processes have ended.
#[derive(Debug)]
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// Makes one. Needs root, and the memory controller (version 2 or 1).
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
            // Mostly on already; the test of success is the file of the limit.
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

    /// For [`join`].
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A group of which nothing is left costs nothing; there is nobody to tell.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Puts this process into a group.
pub fn join(group: &Path) -> Result<()> {
    let file = group.join("cgroup.procs");
    fs::write(&file, std::process::id().to_string())
        .with_context(|| format!("cannot join {}", file.display()))
}
