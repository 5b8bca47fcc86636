//! Files that decide which connections are accepted: which users may read them, and which may write
//! them.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use rustix::process::geteuid;

use crate::identity::error::KeyError;

/// Longest file that is read, bytes. `issued` with 10,000 keys has 2 MB.
const LENGTH_MAX: u64 = 64 << 20;

const STICKY: u32 = 0o1000;

/// Reads a file that only its owner may see. If root owns it, its group may also read it.
pub fn read_secret(path: &Path) -> Result<String, KeyError> {
    read(path, is_secret, Owners::OfFolder)
}

/// Reads a file that the user has not named. It must belong to root or to this user, and no other
/// user may see it.
pub fn read_found(path: &Path) -> Result<String, KeyError> {
    read(path, |mode, _| mode & 0o077 == 0, Owners::RootAndSelf)
}

const fn is_secret(mode: u32, owner: u32) -> bool {
    mode & if owner == 0 { 0o037 } else { 0o077 } == 0
}

/// The owners that a file may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owners {
    /// Root and this user.
    RootAndSelf,
    /// Root, this user, and the owner of the folder that the file is in.
    OfFolder,
}

/// Reads a file that all users may see, but only its owner may write.
pub fn read_public(path: &Path) -> Result<String, KeyError> {
    read(path, |mode, _| mode & 0o022 == 0, Owners::OfFolder)
}

fn read(path: &Path, may: impl Fn(u32, u32) -> bool, owners: Owners) -> Result<String, KeyError> {
    let io = |error| KeyError::Io { path: path.to_owned(), error };
    // The checks are of what is read: the file itself, and its own folder, wherever links lead.
    let real = fs::canonicalize(path).map_err(io)?;
    let no_wait = OFlags::NONBLOCK | OFlags::NOFOLLOW;
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
    let folder = folder_of(&real);
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
    let is_of_folder = owners == Owners::OfFolder && uid == folder_is.uid();
    if ![0, geteuid().as_raw()].contains(&uid) && !is_of_folder {
        return Err(KeyError::Owner { path: path.to_owned(), uid });
    }
    let mut content = String::new();
    if metadata.len() > LENGTH_MAX {
        return Err(wrong("it is too long"));
    }
    match file.take(LENGTH_MAX).read_to_string(&mut content) {
        Ok(_) => Ok(content),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(wrong("it is not text")),
        Err(error) => Err(io(error)),
    }
}

/// Writes a file that appears as a whole or not at all, and that no other user may ever read.
pub fn write(path: &Path, content: &str) -> Result<(), KeyError> {
    write_as(path, content, |_, _| Ok(()))
}

/// Writes a file that appears as a whole or not at all, and that only the folder's owner may read.
/// Root may write in another user's volume, and that user's servers must read the file.
pub fn write_for_owner(path: &Path, content: &str) -> Result<(), KeyError> {
    write_as(path, content, give_to_owner_of)
}

fn write_as(
    path: &Path,
    content: &str,
    prepare: impl FnOnce(&File, &File) -> io::Result<()>,
) -> Result<(), KeyError> {
    let write = || {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let folder = File::open(folder_of(path))?;
        write_in(&folder, name, content, |file| prepare(&folder, file), || Ok(()))
    };
    write().map_err(|error| KeyError::Io { path: path.to_owned(), error })
}

/// Writes a file, as a whole or not at all, in a folder that is open. No path is looked up:
/// whatever happens to folders meanwhile, the file goes where it belongs. It has mode 0600 from the
/// beginning, and no other user can have put it there. `prepare` gives it its owner. `check` is
/// called right before it takes its name.
pub fn write_in(
    folder: &File,
    name: &OsStr,
    content: &str,
    prepare: impl FnOnce(&File) -> io::Result<()>,
    check: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let random = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
    let draft = format!(".key-{random:016x}");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(folder, &draft, flags, Mode::RUSR | Mode::WUSR)?);
    let complete = || {
        file.write_all(content.as_bytes())?;
        prepare(&file)?;
        file.sync_all()?;
        check()?;
        renameat(folder, &draft, folder, name).map_err(io::Error::from)
    };
    complete().inspect_err(|_| {
        let _ = unlinkat(folder, &draft, AtFlags::empty());
    })?;
    folder.sync_all()
}

pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

fn give_to_owner_of(folder: &File, file: &File) -> io::Result<()> {
    let owner = folder.metadata()?;
    if geteuid().is_root() && owner.uid() != 0 {
        fchown(file, Some(owner.uid()), Some(owner.gid()))?;
    }
    Ok(())
}

/// Makes changes of a folder durable.
pub fn sync_folder(folder: &Path) -> Result<(), KeyError> {
    let io = |error| KeyError::Io { path: folder.to_owned(), error };
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)
}

/// Makes a folder of mode 0700, for the owner of the parent folder. It is made beside the place
/// that it will take.
pub fn folder_beside(path: &Path) -> Result<tempfile::TempDir, KeyError> {
    let parent = folder_of(path);
    let make = || {
        let private = Permissions::from_mode(0o700);
        let mut builder = tempfile::Builder::new();
        let made = builder.prefix(".keys-").permissions(private).tempdir_in(parent)?;
        give_to_owner_of(&File::open(parent)?, &File::open(made.path())?)?;
        Ok(made)
    };
    make().map_err(|error| KeyError::Io { path: parent.to_owned(), error })
}

/// Held while a folder's files are changed.
pub struct Lock(#[expect(dead_code, reason = "closing it unlocks")] File);

/// Waits until no other process changes a folder's files.
pub fn lock(folder: &Path) -> Result<Lock, KeyError> {
    let io = |error| KeyError::Io { path: folder.to_owned(), error };
    let file = File::open(folder).map_err(io)?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)
        .map_err(|error| io(error.into()))?;
    Ok(Lock(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn made() -> (tempfile::TempDir, std::path::PathBuf) {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("ada.pem");
        write(&path, "key").unwrap();
        (temp, path)
    }

    #[test]
    fn what_is_written_is_its_owners_alone_and_takes_the_place_of_what_was() {
        let (temp, path) = made();
        set(&path, 0o666);
        write(&path, "other").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(read_secret(&path).unwrap(), "other");
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_key_that_others_may_read_or_write_is_refused() {
        let (_temp, path) = made();
        let is_root = geteuid().is_root();
        for mode in [0o604, 0o602, 0o601, 0o644, 0o660, 0o620, 0o610, 0o666] {
            set(&path, mode);
            let error = read_secret(&path).unwrap_err();
            assert!(error.to_string().contains("chmod"), "{mode:o}: {error}");
        }
        for (mode, may) in [(0o600, true), (0o400, true), (0o640, is_root)] {
            set(&path, mode);
            assert_eq!(read_secret(&path).is_ok(), may, "{mode:o}");
        }
    }

    #[test]
    fn what_all_may_see_no_other_user_may_write() {
        let (_temp, path) = made();
        for (mode, may) in [(0o644, true), (0o600, true), (0o664, false), (0o646, false)] {
            set(&path, mode);
            assert_eq!(read_public(&path).is_ok(), may, "{mode:o}");
        }
    }

    #[test]
    fn a_folder_where_others_may_write_is_no_place_for_keys_unless_it_is_sticky() {
        let (temp, path) = made();
        let link = tempfile::tempdir().unwrap();
        let link = (link.path().join("link"), link);
        std::os::unix::fs::symlink(&path, &link.0).unwrap();
        for (mode, may) in [(0o777, false), (0o1777, true), (0o702, false), (0o755, true)] {
            set(temp.path(), mode);
            // However the file is named, its own folder counts.
            for path in [&path, &link.0] {
                let read = read_secret(path);
                assert_eq!(read.is_ok(), may, "{mode:o}");
                assert!(may || matches!(read, Err(KeyError::Writable { .. })), "{mode:o}");
            }
        }
    }

    #[test]
    fn what_another_user_put_there_is_refused() {
        assert!(geteuid().is_root(), "this test gives files away");
        let (temp, path) = made();
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        set(temp.path(), 0o1777);
        let error = read_secret(&path).unwrap_err();
        assert!(matches!(error, KeyError::Owner { uid: 65_534, .. }), "{error}");
        // In a folder of its own, that user may change it.
        std::os::unix::fs::chown(temp.path(), Some(65_534), None).unwrap();
        assert_eq!(read_secret(&path).unwrap(), "key");
    }

    #[test]
    fn what_the_user_has_not_named_is_roots_or_ones_own_and_for_no_other_user() {
        assert!(geteuid().is_root(), "this test gives files away");
        let (temp, path) = made();
        assert_eq!(read_found(&path).unwrap(), "key");
        for mode in [0o640, 0o604, 0o644, 0o620] {
            set(&path, mode);
            let error = read_found(&path).unwrap_err().to_string();
            assert!(error.contains("chmod"), "{mode:o}: {error}");
        }
        set(&path, 0o600);
        for path in [temp.path(), path.as_path()] {
            std::os::unix::fs::chown(path, Some(65_534), None).unwrap();
        }
        // If the user names it, the folder's owner may own it.
        assert_eq!(read_secret(&path).unwrap(), "key");
        let error = read_found(&path).unwrap_err();
        assert!(matches!(error, KeyError::Owner { uid: 65_534, .. }), "{error}");
    }

    #[test]
    fn a_file_is_written_where_its_folder_was_whatever_is_there_by_then() {
        let temp = tempfile::tempdir().unwrap();
        let [meant, moved, trap] = ["meant", "moved", "trap"].map(|name| temp.path().join(name));
        for path in [&meant, &trap] {
            fs::create_dir(path).unwrap();
        }
        let folder = File::open(&meant).unwrap();
        let swap = |file: &File| {
            assert_eq!(file.metadata()?.mode() & 0o7777, 0o600);
            fs::rename(&meant, &moved)?;
            std::os::unix::fs::symlink(&trap, &meant)
        };
        write_in(&folder, "ada.pem".as_ref(), "key", swap, || Ok(())).unwrap();
        assert_eq!(fs::read_to_string(moved.join("ada.pem")).unwrap(), "key");
        assert_eq!(fs::read_dir(&trap).unwrap().count(), 0);
        // A file that is not to be leaves nothing behind.
        let no = || Err(io::ErrorKind::NotFound.into());
        write_in(&folder, "bob.pem".as_ref(), "key", |_| Ok(()), no).unwrap_err();
        assert_eq!(fs::read_dir(&moved).unwrap().count(), 1);
    }

    #[test]
    fn what_root_writes_in_a_users_volume_is_the_users() {
        assert!(geteuid().is_root(), "this test gives files away");
        let temp = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(temp.path(), Some(65_534), Some(65_533)).unwrap();
        let path = temp.path().join("revoked");
        write_for_owner(&path, "").unwrap();
        let folder = folder_beside(&path).unwrap();
        for made in [&path, folder.path()] {
            let metadata = fs::metadata(made).unwrap();
            assert_eq!((metadata.uid(), metadata.gid()), (65_534, 65_533));
            assert_eq!(metadata.mode() & 0o077, 0);
        }
    }

    #[test]
    fn what_is_no_file_of_text_is_refused_at_once() {
        let temp = tempfile::tempdir().unwrap();
        let fifo = temp.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        let binary = temp.path().join("binary");
        write(&binary, "").unwrap();
        fs::write(&binary, [0xff, 0xfe]).unwrap();
        for path in [fifo, binary, temp.path().to_owned(), temp.path().join("missing")] {
            let error = read_secret(&path).unwrap_err().to_string();
            assert!(error.contains(path.to_str().unwrap()), "{error}");
        }
    }
}
