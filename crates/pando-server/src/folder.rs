//! A volume's folder: its layout, the locks on it, and formatting.
//!
//! ```text
//! FOLDER/superblock          what the volume is (mode 0600); written last, so that without it nothing was promised
//! FOLDER/formatting          there while `format` is at work
//! FOLDER/shard-0000/ …       one store each
//! FOLDER/shard-0003.coming/   one that is being moved here, and FOLDER/coming-0003 how far (see `moving`)
//! FOLDER/given-0003           that shard was moved away, and where to: it is never served from this folder again
//! FOLDER/objects/            file data
//! FOLDER/objects/volume      which volume the objects belong to
//! FOLDER/objects-at           in a folder that was made to move shards to: where file data is instead
//! FOLDER/keys/                keys and certificates for TCP: see `pando-keys`
//! FOLDER/run/lock            locked (flock) by the process that has the whole volume; its pid is inside; shared by servers
//! FOLDER/run/shard-0000.lock   locked (flock) by the server of that shard; its pid is inside
//! FOLDER/run/hosts/          which server serves which shard, and where
//! FOLDER/run/server-0000.sock  where the server with that first shard listens; `server-empty.sock`: it had none
//! FOLDER/run/admin.sock      where that process answers `status`, `info`, `down`
//! FOLDER/run/sessions        client sessions not yet ended
//! FOLDER/run/log             messages of a process in the background
//! ```

mod error;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pando_types::SHARDS_MAX;
use rustix::fs::FlockOperation;

use crate::moving::{Given, copy_name, store_name};
use crate::superblock::{SUPERBLOCK_FILE, Superblock};

pub use error::FolderError;
use error::io_error;

const FORMATTING_FILE: &str = "formatting";
const OBJECTS: &str = "objects";
const OBJECTS_MARK: &str = "volume";
const OBJECTS_AT: &str = "objects-at";
const KEYS: &str = "keys";
const RUN: &str = "run";
/// How long `take` waits for the lock of a process that was killed.
const DYING_FOR: Duration = Duration::from_secs(10);
/// How long `take` waits for the lock of any other process, which may just be ending.
const ENDING_FOR: Duration = Duration::from_millis(200);

/// The folder in which a volume is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Folder {
    path: PathBuf,
}

/// The lock on a volume or on some of its shards. It is released when dropped, and by the kernel
/// when the process dies.
#[derive(Debug)]
pub struct FolderLock {
    /// Locked files with this process's pid inside, each with its shard. `None`: the whole volume.
    files: Vec<(Option<u16>, File)>,
    _shared: Option<File>,
}

impl FolderLock {
    /// Locks one more shard, which is being moved to this folder.
    pub(crate) fn add(&mut self, folder: &Folder, shard: u16) -> Result<(), FolderError> {
        if self.files.iter().all(|(held, _)| *held != Some(shard)) {
            self.files.push((Some(shard), folder.lock_shard(shard)?));
        }
        Ok(())
    }

    /// Releases the lock on one shard.
    pub(crate) fn release(&mut self, shard: u16) {
        self.files.retain(|(held, file)| {
            let stays = *held != Some(shard);
            if !stays {
                let _ = file.set_len(0);
            }
            stays
        });
    }
}

impl Folder {
    /// The folder at `path`, which need not exist. Keeps its absolute form.
    pub fn new(path: &Path) -> Result<Self, FolderError> {
        let absolute = match path.canonicalize() {
            Ok(path) => path,
            Err(_) => std::path::absolute(path).map_err(io_error("find", path))?,
        };
        Ok(Self { path: absolute })
    }

    /// The folder's absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of the store of a shard.
    pub fn shard(&self, shard: u16) -> PathBuf {
        self.path.join(store_name(shard))
    }

    /// Path of the copy of a shard that is being moved here.
    pub fn coming(&self, shard: u16) -> PathBuf {
        self.path.join(copy_name(shard))
    }

    /// The shards that have their stores in this folder, without those that were given away.
    pub fn kept(&self) -> Result<Vec<u16>, FolderError> {
        self.read()?;
        let is_here = |shard: &u16| self.shard(*shard).is_dir() && self.check_kept(*shard).is_ok();
        Ok((0..SHARDS_MAX).filter(is_here).collect())
    }

    /// The shards that should have their stores in this folder: those that have, and those that the
    /// volume was made with. Shards that were given away are left out.
    pub fn stores(&self) -> Result<Vec<u16>, FolderError> {
        let superblock = self.read()?;
        // A folder that was made to move shards to has no shards of its own.
        let made = if self.path.join(OBJECTS_AT).exists() { 0 } else { superblock.shards };
        let mut stores = Vec::new();
        for shard in 0..SHARDS_MAX {
            match self.check_kept(shard) {
                Ok(()) => stores.push(shard),
                Err(FolderError::NoShard { .. }) if shard < made => stores.push(shard),
                Err(FolderError::NoShard { .. } | FolderError::Given { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(stores)
    }

    fn check_kept(&self, shard: u16) -> Result<(), FolderError> {
        let path = self.path.clone();
        match Given::read(self, shard) {
            Ok(None) if self.shard(shard).is_dir() => Ok(()),
            Ok(None) => Err(FolderError::NoShard { path, shard }),
            Ok(Some(given)) => {
                Err(FolderError::Given { path, shard, addresses: given.to.addresses })
            }
            Err(error) => Err(io_error("read", &Given::path(self, shard))(error)),
        }
    }

    /// Path of file data that other processes are given.
    pub fn told_objects(&self) -> PathBuf {
        match fs::read_to_string(self.path.join(OBJECTS_AT)) {
            Ok(path) => PathBuf::from(path.trim_end_matches('\n')),
            Err(_) => self.objects(),
        }
    }

    /// Makes a folder without any shard, so that shards can be moved to it. `superblock` is that of
    /// the volume, and `objects` is the path of its file data.
    pub fn join(&self, superblock: &[u8], objects: &str) -> Result<(), FolderError> {
        let path = self.superblock_file();
        Superblock::decode(superblock)
            .map_err(|cause| FolderError::Superblock { path: path.clone(), cause })?;
        self.check_empty()?;
        make_with_parents(&self.path).map_err(io_error("make the folder", &self.path))?;
        let run = self.run();
        make_folder(&run).map_err(io_error("make the folder", &run))?;
        let at = self.path.join(OBJECTS_AT);
        create(&at, format!("{objects}\n").as_bytes(), 0o600).map_err(io_error("write", &at))?;
        self.write_superblock(superblock)
    }

    /// Path of file data in this folder.
    pub fn objects(&self) -> PathBuf {
        self.path.join(OBJECTS)
    }

    /// Path of keys and certificates.
    pub fn keys(&self) -> PathBuf {
        self.path.join(KEYS)
    }

    /// Path of what belongs to a running process.
    pub fn run(&self) -> PathBuf {
        self.path.join(RUN)
    }

    /// Path of the admin socket.
    pub fn socket(&self) -> PathBuf {
        self.run().join("admin.sock")
    }

    /// Path of the messages of a process in the background.
    pub fn log(&self) -> PathBuf {
        self.run().join("log")
    }

    fn superblock_file(&self) -> PathBuf {
        self.path.join(SUPERBLOCK_FILE)
    }

    /// Whether there is a volume.
    pub fn is_formatted(&self) -> bool {
        self.superblock_file().exists()
    }

    /// Reads and checks the superblock.
    pub fn read(&self) -> Result<Superblock, FolderError> {
        let path = self.superblock_file();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(match self.check_empty() {
                    Ok(()) => FolderError::NoVolume(self.path.clone()),
                    Err(FolderError::Occupied { path, found }) => {
                        FolderError::NotAVolume { path, found }
                    }
                    Err(error) => error,
                });
            }
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(self.no_folder());
            }
            Err(error) => return Err(io_error("read", &path)(error)),
        };
        Superblock::decode(&bytes).map_err(|cause| FolderError::Superblock { path, cause })
    }

    /// Makes a volume in a missing or empty folder. `format_shard` fills one shard's folder and
    /// syncs it. An attempt that was cut off is begun again.
    pub fn format(
        &self,
        superblock: &Superblock,
        mut format_shard: impl FnMut(u16, &Path) -> io::Result<()>,
    ) -> Result<(), FolderError> {
        if self.is_formatted() {
            return Err(FolderError::Exists(self.path.clone()));
        }
        self.check_empty()?;
        make_with_parents(&self.path).map_err(io_error("make the folder", &self.path))?;
        let marker = self.path.join(FORMATTING_FILE);
        create(&marker, b"", 0o600).map_err(io_error("write", &marker))?;
        for folder in [self.run(), self.objects()] {
            make_folder(&folder).map_err(io_error("make the folder", &folder))?;
        }
        for shard in 0..superblock.shards {
            let folder = self.shard(shard);
            if folder.exists() {
                fs::remove_dir_all(&folder).map_err(io_error("clear", &folder))?;
            }
            make_folder(&folder).map_err(io_error("make the folder", &folder))?;
            format_shard(shard, &folder).map_err(io_error("format", &folder))?;
        }
        self.write_superblock(&superblock.encode())?;
        fs::remove_file(&marker).map_err(io_error("remove", &marker))?;
        self.sync().map_err(io_error("sync", &self.path))
    }

    /// Makes the folder of a shard that is added, if it is not there. `format` fills it and syncs
    /// it.
    pub fn make_shard(
        &self,
        shard: u16,
        format: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<(), FolderError> {
        let folder = self.shard(shard);
        if folder.exists() {
            return self.check_kept(shard);
        }
        let draft = self.path.join(format!("shard-{shard:04}.new"));
        if draft.exists() {
            fs::remove_dir_all(&draft).map_err(io_error("clear", &draft))?;
        }
        make_folder(&draft).map_err(io_error("make the folder", &draft))?;
        format(&draft).map_err(io_error("format", &draft))?;
        fs::rename(&draft, &folder).map_err(io_error("make the folder", &folder))?;
        self.sync().map_err(io_error("sync", &self.path))
    }

    fn write_superblock(&self, bytes: &[u8]) -> Result<(), FolderError> {
        let path = self.superblock_file();
        replace(&path, bytes).map_err(io_error("write", &path))
    }

    /// Makes names in this folder durable that were made, changed or removed.
    pub(crate) fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    /// Refuses a folder with anything in it, except what an interrupted `format` left.
    pub fn check_empty(&self) -> Result<(), FolderError> {
        let found = match fs::read_dir(&self.path) {
            Ok(mut entries) => entries.next(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(self.no_folder());
            }
            Err(error) => return Err(io_error("list", &self.path)(error)),
        };
        match found {
            None => Ok(()),
            Some(_) if self.path.join(FORMATTING_FILE).exists() => Ok(()),
            Some(entry) => {
                let entry = entry.map_err(io_error("list", &self.path))?;
                let found = entry.file_name().to_string_lossy().into_owned();
                Err(FolderError::Occupied { path: self.path.clone(), found })
            }
        }
    }

    /// The error for a path that is no folder. It names the path itself, or one above it.
    fn no_folder(&self) -> FolderError {
        let found = self.path.ancestors().find(|path| path.symlink_metadata().is_ok());
        FolderError::NoFolder(found.unwrap_or(&self.path).to_owned())
    }

    /// Locks the whole volume for this process.
    pub fn lock(&self) -> Result<FolderLock, FolderError> {
        let path = self.run_lock()?;
        match take(&path, FlockOperation::NonBlockingLockExclusive)? {
            Taken::Here(file) => {
                if let Ok(superblock) = self.read() {
                    (0..superblock.shards).try_for_each(|shard| self.check_kept(shard))?;
                }
                Ok(FolderLock { files: vec![(None, file)], _shared: None })
            }
            Taken::By(pid) => {
                let shards = self.shard_holders()?;
                let path = self.path.clone();
                Err(match shards.is_empty() {
                    true => FolderError::Locked { path, pid },
                    false => FolderError::Served { path, shards },
                })
            }
        }
    }

    /// Locks some shards for this process. Other processes may lock other shards.
    pub fn lock_shards(&self, shards: &[u16]) -> Result<FolderLock, FolderError> {
        let path = self.path.clone();
        let shared = match take(&self.run_lock()?, FlockOperation::NonBlockingLockShared)? {
            Taken::Here(file) => file,
            Taken::By(pid) => return Err(FolderError::Locked { path, pid }),
        };
        let mut files = Vec::new();
        for &shard in shards {
            self.check_kept(shard)?;
            files.push((Some(shard), self.lock_shard(shard)?));
        }
        Ok(FolderLock { files, _shared: Some(shared) })
    }

    pub(crate) fn lock_shard(&self, shard: u16) -> Result<File, FolderError> {
        match take(&self.shard_lock(shard), FlockOperation::NonBlockingLockExclusive)? {
            Taken::Here(file) => Ok(file),
            Taken::By(pid) => Err(FolderError::ShardLocked { path: self.path.clone(), shard, pid }),
        }
    }

    fn run_lock(&self) -> Result<PathBuf, FolderError> {
        let run = self.run();
        make_folder(&run).map_err(io_error("make the folder", &run))?;
        Ok(run.join("lock"))
    }

    fn shard_lock(&self, shard: u16) -> PathBuf {
        self.run().join(format!("shard-{shard:04}.lock"))
    }

    /// Path of the socket of the server that has this as its first shard.
    pub fn server_socket(&self, shard: u16) -> PathBuf {
        self.run().join(format!("server-{shard:04}.sock"))
    }

    /// Path of the socket of a server that has no shard when it starts.
    pub fn empty_server_socket(&self) -> PathBuf {
        self.run().join("server-empty.sock")
    }

    /// The shards of this folder that are served, each with its process's pid.
    pub fn shard_holders(&self) -> Result<Vec<(u16, String)>, FolderError> {
        let mut holders = Vec::new();
        self.read()?;
        for shard in 0..SHARDS_MAX {
            if let Some(pid) = holder_of(&self.shard_lock(shard))? {
                holders.push((shard, pid));
            }
        }
        Ok(holders)
    }

    /// Writes the volume's UUID into the folder of objects, unless that is elsewhere.
    pub fn mark_objects(&self, uuid: &str) -> Result<(), FolderError> {
        if self.told_objects() != self.objects() {
            return Ok(());
        }
        let objects = self.objects();
        make_folder(&objects).map_err(io_error("make the folder", &objects))?;
        let path = objects.join(OBJECTS_MARK);
        if fs::read_to_string(&path).is_ok_and(|text| text.trim() == uuid) {
            return Ok(());
        }
        create(&path, format!("{uuid}\n").as_bytes(), 0o600).map_err(io_error("write", &path))
    }

    /// Pid of the process that has locked the whole volume. `None`: no process has.
    pub fn holder(&self) -> Result<Option<String>, FolderError> {
        holder_of(&self.run().join("lock"))
    }
}

/// UUID of the volume that has its objects in a folder. `None`: the folder has no mark.
pub fn objects_of(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(folder.join(OBJECTS_MARK)).ok()?;
    Some(text.trim().to_owned())
}

enum Taken {
    Here(File),
    By(String),
}

/// Locks a file, and writes this process's pid into it if the lock is exclusive.
fn take(path: &Path, how: FlockOperation) -> Result<Taken, FolderError> {
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .map_err(io_error("open", path))?;
    let begun = Instant::now();
    while let Err(errno) = rustix::fs::flock(&file, how) {
        if errno != rustix::io::Errno::WOULDBLOCK {
            return Err(io_error("lock", path)(errno.into()));
        }
        let pid = read_pid(&mut file);
        let patience = if is_dying(&pid) { DYING_FOR } else { ENDING_FOR };
        if begun.elapsed() >= patience {
            return Ok(Taken::By(pid));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    if matches!(how, FlockOperation::NonBlockingLockExclusive) {
        // The pid is a courtesy: a full disk is no reason to refuse the lock.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    }
    Ok(Taken::Here(file))
}

/// Pid of the process that holds the exclusive lock on a file. `None`: no process does.
fn holder_of(path: &Path) -> Result<Option<String>, FolderError> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error("open", path)(error)),
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(None),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(Some(read_pid(&mut file))),
        Err(errno) => Err(io_error("lock", path)(errno.into())),
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        self.files.iter().for_each(|(_, file)| drop(file.set_len(0)));
    }
}

/// Whether a process was killed and is not quite gone: one of its threads still waits for the disk.
fn is_dying(pid: &str) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")),
        Err(_) => true,
    }
}

fn read_pid(file: &mut File) -> String {
    let mut text = String::new();
    let _ = file.rewind().and_then(|()| file.read_to_string(&mut text));
    let text = text.trim();
    if text.is_empty() { "unknown".to_owned() } else { text.to_owned() }
}

fn make_folder(path: &Path) -> io::Result<()> {
    // The folder holds the files of all users, whatever their permissions on the mount say.
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

/// Replaces a file as a whole, and syncs it and its folder.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("new");
    create(&draft, bytes, 0o600)?;
    fs::rename(draft, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// Makes a folder and the missing ones above it. Syncs its name even if it was there: an attempt
/// that was cut off may have made it.
fn make_with_parents(path: &Path) -> io::Result<()> {
    let missing = path.ancestors().take_while(|path| !path.is_dir()).count();
    fs::create_dir_all(path)?;
    for parent in path.ancestors().skip(1).take(missing.max(1)) {
        match File::open(parent).and_then(|parent| parent.sync_all()) {
            // The parent may be entered but not read: only its owner can sync it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            // On a read-only file system folders can be neither synced nor made.
            Err(error) if missing == 0 && is_of_read_only(&error) => {}
            synced => synced?,
        }
    }
    Ok(())
}

fn is_of_read_only(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, ReadOnlyFilesystem, Unsupported};
    matches!(error.kind(), InvalidInput | ReadOnlyFilesystem | Unsupported)
}

pub(crate) fn create(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file =
        OpenOptions::new().create(true).write(true).truncate(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formatted() -> (tempfile::TempDir, Folder) {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::new(&temp.path().join("volume")).unwrap();
        folder.format(&Superblock::new(2, 1).unwrap(), |_, _| Ok(())).unwrap();
        (temp, folder)
    }

    #[test]
    fn a_formatted_folder_is_read_back_and_not_formatted_again() {
        let (_temp, folder) = formatted();
        assert_eq!(folder.read().unwrap().shards, 2);
        let error = folder.format(&Superblock::new(2, 1).unwrap(), |_, _| Ok(())).unwrap_err();
        assert!(matches!(error, FolderError::Exists(_)), "{error}");
    }

    #[test]
    fn a_missing_store_is_missed_unless_it_was_never_here() {
        let (temp, folder) = formatted();
        fs::create_dir(folder.shard(7)).unwrap();
        assert_eq!(folder.stores().unwrap(), [0, 1, 7], "one that was added is here, too");
        fs::remove_dir(folder.shard(1)).unwrap();
        assert_eq!(folder.stores().unwrap(), [0, 1, 7]);
        let joined = Folder::new(&temp.path().join("joined")).unwrap();
        joined.join(&Superblock::new(2, 1).unwrap().encode(), "/objects").unwrap();
        assert!(joined.stores().unwrap().is_empty());
        fs::create_dir(joined.shard(1)).unwrap();
        assert_eq!(joined.stores().unwrap(), [1]);
    }

    #[test]
    fn an_interrupted_format_is_begun_again() {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::new(temp.path()).unwrap();
        let superblock = Superblock::new(3, 1).unwrap();
        let cut = |shard, _: &Path| if shard == 1 { Err(io::Error::other("cut")) } else { Ok(()) };
        folder.format(&superblock, cut).unwrap_err();
        assert!(matches!(folder.read(), Err(FolderError::NoVolume(_))));
        folder.format(&superblock, |_, _| Ok(())).unwrap();
        assert_eq!(folder.read().unwrap(), superblock);
    }

    #[test]
    fn a_folder_with_other_things_in_it_is_left_alone() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("thesis.tex"), "x").unwrap();
        let folder = Folder::new(temp.path()).unwrap();
        let error = folder.format(&Superblock::new(1, 1).unwrap(), |_, _| Ok(())).unwrap_err();
        assert!(error.to_string().contains("thesis.tex"), "{error}");
        let error = folder.read().unwrap_err();
        assert!(matches!(error, FolderError::NotAVolume { .. }), "{error}");
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_damaged_superblock_is_named() {
        let (_temp, folder) = formatted();
        let path = folder.superblock_file();
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
        let error = folder.read().unwrap_err().to_string();
        assert!(error.contains("superblock") && error.contains("damaged"), "{error}");
    }

    #[test]
    fn only_one_holds_the_volume_and_the_other_learns_who() {
        let (_temp, folder) = formatted();
        assert_eq!(folder.holder().unwrap(), None);
        let lock = folder.lock().unwrap();
        let pid = std::process::id().to_string();
        assert_eq!(folder.holder().unwrap().as_ref(), Some(&pid));
        let error = folder.lock().unwrap_err().to_string();
        assert!(error.contains(&pid) && error.contains("pando down"), "{error}");
        drop(lock);
        folder.lock().unwrap();
    }
}
