//! Why a volume's folder cannot be used.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::folder::superblock::SuperblockError;

/// Why a folder cannot be used. Each message says what is wrong, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The system refused.
    #[error("cannot {what} {}: {source}{hint}", .path.display())]
    Io {
        /// The refused action, as a verb.
        what: &'static str,
        /// The path of that action.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
        /// What to do, or empty.
        hint: String,
    },
    /// The path, or one above it, is no folder.
    #[error("{} is not a folder: name a folder, of a volume or for a new one", .0.display())]
    NoFolder(PathBuf),
    /// The folder has no volume.
    #[error("{} holds no Pando volume: `pando format {}` makes one there", .0.display(), .0.display())]
    NoVolume(PathBuf),
    /// The folder has a volume already.
    #[error("{} holds a Pando volume already; nothing was changed", .0.display())]
    Exists(PathBuf),
    /// A volume was looked for in a folder with other files.
    #[error(
        "{} is no Pando volume (it holds `{found}`, and no `superblock`): name the folder of a volume",
        .path.display()
    )]
    NotAVolume {
        /// The folder.
        path: PathBuf,
        /// Name of one file in it.
        found: String,
    },
    /// A volume was to be made in a folder with other files.
    #[error(
        "{} is not empty and not a Pando volume (it holds `{found}`): name an empty or a new folder",
        .path.display()
    )]
    Occupied {
        /// The folder.
        path: PathBuf,
        /// Name of one file in it.
        found: String,
    },
    /// The superblock is refused.
    #[error("{}: {cause}. Restore that file from a backup; without it the volume cannot be read", .path.display())]
    Superblock {
        /// The superblock's path.
        path: PathBuf,
        /// Why it is refused.
        cause: SuperblockError,
    },
    /// Another process has locked the whole volume.
    #[error(
        "{} is in use by process {pid}: `pando down {}` stops it",
        .path.display(), .path.display()
    )]
    Locked {
        /// The folder.
        path: PathBuf,
        /// The process that has locked the volume; `unknown` if the lock file does not say.
        pid: String,
    },
    /// Servers have locked some of the volume's shards.
    #[error(
        "{} is in use: its shards {} are served; `pando down {}` stops their servers",
        .path.display(), list(.shards), .path.display()
    )]
    Served {
        /// The folder.
        path: PathBuf,
        /// Each shard, with the process that serves it.
        shards: Vec<(u16, String)>,
    },
    /// Another process serves the shard.
    #[error("shard {shard} of {} is served by process {pid} already: stop that process first, or serve other shards", .path.display())]
    ShardLocked {
        /// The folder.
        path: PathBuf,
        /// Index of the shard.
        shard: u16,
        /// The process that serves the shard; `unknown` if the lock file does not say.
        pid: String,
    },
    /// The folder has no store of the shard.
    #[error(
        "{} has no folder for shard {shard}: serve it where it is kept, or bring its folder here first",
        .path.display()
    )]
    NoShard {
        /// The folder.
        path: PathBuf,
        /// Index of the shard.
        shard: u16,
    },
    /// The shard was given to another process.
    #[error(
        "shard {shard} is not in {} any more: it was moved to the server at {}",
        .path.display(), .addresses.join(" or ")
    )]
    Given {
        /// The folder.
        path: PathBuf,
        /// Index of the shard.
        shard: u16,
        /// Addresses of its new host.
        addresses: Vec<String>,
    },
}

fn list(shards: &[(u16, String)]) -> String {
    let shown: Vec<_> =
        shards.iter().map(|(shard, pid)| format!("{shard} (process {pid})")).collect();
    shown.join(", ")
}

/// Makes the error of a refused system call.
pub(crate) fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    let path = path.to_owned();
    move |source| {
        let hint = match source.kind() {
            io::ErrorKind::PermissionDenied => not_permitted(what, &path),
            io::ErrorKind::ReadOnlyFilesystem => {
                " — choose a folder on a writable file system".to_owned()
            }
            io::ErrorKind::StorageFull => " — make room there".to_owned(),
            _ => String::new(),
        };
        FolderError::Io { what, path, source, hint }
    }
}

/// What the user can do if the system does not permit `what`.
fn not_permitted(what: &str, path: &Path) -> String {
    if !matches!(what, "read" | "open" | "list" | "lock" | "find") {
        return " — name a folder that you may write".to_owned();
    }
    let known = path.ancestors().find_map(|path| Some((path, path.metadata().ok()?.uid())));
    let Some((known, owner)) = known else { return String::new() };
    let shown = known.display();
    if owner == rustix::process::geteuid().as_raw() {
        return format!(
            " — {shown} is yours, but not all its permissions are: see `ls -ld {shown}`"
        );
    }
    format!(
        " — {shown} belongs to user {owner}: run this as that user or as root; over the network a key will do (`--key`)"
    )
}
