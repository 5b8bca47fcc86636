//! Why a volume's folder cannot be used.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::superblock::SuperblockError;

/// Why a folder cannot be used. Each says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The system refused.
    #[error("cannot {what} {}: {source}{hint}", .path.display())]
    Io {
        /// A verb.
        what: &'static str,
        /// Which path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
        /// What to do, if anything is known.
        hint: String,
    },
    /// Something else than a folder is there, or on the way.
    #[error("{} is not a folder: name a folder, of a volume or for a new one", .0.display())]
    NoFolder(PathBuf),
    /// There is no volume.
    #[error("{} holds no Pando volume: `pando format {}` makes one there", .0.display(), .0.display())]
    NoVolume(PathBuf),
    /// There is one already.
    #[error("{} holds a Pando volume already; nothing was changed", .0.display())]
    Exists(PathBuf),
    /// There is something else, where a volume was looked for.
    #[error(
        "{} is no Pando volume (it holds `{found}`, and no `superblock`): name the folder of a volume",
        .path.display()
    )]
    NotAVolume {
        /// The folder.
        path: PathBuf,
        /// One thing that is in it.
        found: String,
    },
    /// There is something else, where a volume was to be made.
    #[error(
        "{} is not empty and not a Pando volume (it holds `{found}`): name an empty or a new folder",
        .path.display()
    )]
    Occupied {
        /// The folder.
        path: PathBuf,
        /// One thing that is in it.
        found: String,
    },
    /// The superblock is refused.
    #[error("{}: {cause}. Restore that file from a backup; without it the volume cannot be read", .path.display())]
    Superblock {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: SuperblockError,
    },
    /// Somebody else has it open.
    #[error(
        "{} is in use by process {pid}: `pando down {}` stops it",
        .path.display(), .path.display()
    )]
    Locked {
        /// The folder.
        path: PathBuf,
        /// Who; `unknown` if it did not say.
        pid: String,
    },
    /// Some of its shards are served.
    #[error(
        "{} is in use: its shards {} are served; `pando down {}` stops their servers",
        .path.display(), list(.shards), .path.display()
    )]
    Served {
        /// The folder.
        path: PathBuf,
        /// Shards and the processes that serve them.
        shards: Vec<(u16, String)>,
    },
    /// Another process serves the shard.
    #[error("shard {shard} of {} is served by process {pid} already", .path.display())]
    ShardLocked {
        /// The folder.
        path: PathBuf,
        /// Which shard.
        shard: u16,
        /// Who; `unknown` if it did not say.
        pid: String,
    },
    /// The shard is kept elsewhere.
    #[error(
        "{} has no folder for shard {shard}: serve it where it is kept, or bring its folder here first",
        .path.display()
    )]
    NoShard {
        /// The folder.
        path: PathBuf,
        /// Which shard.
        shard: u16,
    },
    /// The shard was moved away.
    #[error(
        "shard {shard} is not in {} any more: it was moved to the server at {}",
        .path.display(), .addresses.join(" or ")
    )]
    Given {
        /// The folder.
        path: PathBuf,
        /// Which shard.
        shard: u16,
        /// Where its new host listens.
        addresses: Vec<String>,
    },
}

fn list(shards: &[(u16, String)]) -> String {
    let shown: Vec<_> =
        shards.iter().map(|(shard, pid)| format!("{shard} (process {pid})")).collect();
    shown.join(", ")
}

/// What the system refused to do, in words.
pub(super) fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FolderError {
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

/// What to do where the system does not let this user do `what`.
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
