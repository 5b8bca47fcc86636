//! A volume's folder: where in it everything is, and its superblock.
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

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::folder::error::{FolderError, io_error};
use crate::folder::files::create;
use crate::folder::place::{Place, copy_name, store_name};
use crate::folder::superblock::{SUPERBLOCK_FILE, Superblock};

pub(crate) const FORMATTING_FILE: &str = "formatting";
const OBJECTS: &str = "objects";

pub(crate) const OBJECTS_AT: &str = "objects-at";
const KEYS: &str = "keys";
const RUN: &str = "run";

/// The folder in which a volume is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Folder {
    pub(crate) path: PathBuf,
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

    /// Path of file data that other processes are given.
    pub fn told_objects(&self) -> PathBuf {
        match fs::read_to_string(self.path.join(OBJECTS_AT)) {
            Ok(path) => PathBuf::from(path.trim_end_matches('\n')),
            Err(_) => self.objects(),
        }
    }

    /// Whether the volume's file data is in this folder. A folder that was made to move shards to
    /// has none, though it may be at the same path as the folder that has, on another machine.
    pub fn has_objects(&self) -> bool {
        !self.path.join(OBJECTS_AT).exists()
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

    /// Path of the socket of the server that has this as its first shard.
    pub fn server_socket(&self, shard: u16) -> PathBuf {
        self.run().join(format!("server-{shard:04}.sock"))
    }

    /// Path of the socket of a server that has no shard when it starts.
    pub fn empty_server_socket(&self) -> PathBuf {
        self.run().join("server-empty.sock")
    }

    /// Path of the messages of a process in the background.
    pub fn log(&self) -> PathBuf {
        self.run().join("log")
    }

    pub(crate) fn superblock_file(&self) -> PathBuf {
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
}

impl Place for Folder {
    fn read(&self, name: &str) -> io::Result<Option<String>> {
        match fs::read_to_string(self.path().join(name)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        create(&self.path().join(name), text.as_bytes(), 0o600)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path().join(from), self.path().join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.path().join(name);
        let removed = match path.is_dir() {
            true => fs::remove_dir_all(path),
            false => fs::remove_file(path),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        self.path().join(name).try_exists()
    }

    fn sync(&self) -> io::Result<()> {
        Self::sync(self)
    }
}
