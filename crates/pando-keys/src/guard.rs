//! Files that decide who is let in: who may read them, who may write them.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::KeyError;

/// Longest file that is read, bytes. `issued` of 10,000 keys has 2 MB.
const LENGTH_MAX: u64 = 64 << 20;

const STICKY: u32 = 0o1000;

/// Reads a file that only its owner may see. Of root's files their group may have one to read.
pub fn read_secret(path: &Path) -> Result<String, KeyError> {
    read(path, |mode, owner| mode & if owner == 0 { 0o037 } else { 0o077 } == 0)
}

/// Reads a file that all may see, and nobody but its owner may write.
pub fn read_public(path: &Path) -> Result<String, KeyError> {
    read(path, |mode, _| mode & 0o022 == 0)
}

fn read(path: &Path, may: impl Fn(u32, u32) -> bool) -> Result<String, KeyError> {
    let io = |error| KeyError::Io { path: path.to_owned(), error };
    // What is looked at is what is read: the file itself, and its own folder, wherever links lead.
    let real = fs::canonicalize(path).map_err(io)?;
    let no_wait = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(no_wait.bits()).unwrap_or(0))
        .open(&real)
        .map_err(io)?;
    let metadata = file.metadata().map_err(io)?;
    let wrong = |what: &str| KeyError::File { path: path.to_owned(), what: what.to_owned() };
    if !metadata.is_file() {
        return Err(wrong("it is not a file"));
    }
    let folder = real.parent().unwrap_or(Path::new("/"));
    let folder_is = fs::metadata(folder).map_err(io)?;
    if folder_is.mode() & 0o002 != 0 && folder_is.mode() & STICKY == 0 {
        return Err(KeyError::Writable {
            path: folder.to_owned(),
            mode: folder_is.mode() & 0o7777,
        });
    }
    let (mode, uid) = (metadata.mode() & 0o7777, metadata.uid());
    if !may(mode, uid) {
        let path = path.to_owned();
        let is_public = may(mode & !0o022, uid);
        return Err(match is_public {
            true => KeyError::Writable { path, mode },
            false => KeyError::Open { path, mode },
        });
    }
    if ![0, folder_is.uid(), rustix::process::geteuid().as_raw()].contains(&uid) {
        return Err(KeyError::Owner { path: path.to_owned(), uid });
    }
    let mut content = String::new();
    if metadata.len() > LENGTH_MAX {
        return Err(wrong("it is too long"));
    }
    match file.take(LENGTH_MAX).read_to_string(&mut content) {
        Ok(_) => Ok(content),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            Err(wrong("it is not text"))
        }
        Err(error) => Err(io(error)),
    }
}

/// Writes a file that is there as a whole or not at all, and that nobody else may ever read.
pub fn write(path: &Path, content: &str) -> Result<(), KeyError> {
    let io = |error| KeyError::Io { path: path.to_owned(), error };
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    // Mode 0600 from birth: the default of such files.
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(io)?;
    file.write_all(content.as_bytes()).map_err(io)?;
    file.as_file().sync_all().map_err(io)?;
    file.persist(path).map_err(|error| io(error.error))?;
    sync_folder(folder)
}

/// Makes what was written to a folder last.
pub fn sync_folder(folder: &Path) -> Result<(), KeyError> {
    let io = |error| KeyError::Io { path: folder.to_owned(), error };
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)
}

/// Makes a folder of mode 0700 beside the one that it is to become.
pub fn folder_beside(path: &Path) -> Result<tempfile::TempDir, KeyError> {
    let parent = path.parent().unwrap_or(Path::new("."));
    tempfile::Builder::new()
        .prefix(".keys-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(parent)
        .map_err(|error| KeyError::Io { path: parent.to_owned(), error })
}

/// Held while a folder's files are changed.
pub struct Lock(#[expect(dead_code, reason = "closing it unlocks")] File);

/// Waits until nobody else changes a folder's files.
pub fn lock(folder: &Path) -> Result<Lock, KeyError> {
    let io = |error| KeyError::Io { path: PathBuf::from(folder), error };
    let file = File::open(folder).map_err(io)?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)
        .map_err(|error| io(error.into()))?;
    Ok(Lock(file))
}
