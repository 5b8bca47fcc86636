//! Opens the stores of a stopped volume, and locks them.

use std::io::{self};
use std::path::{Path, PathBuf};

use babu::{Inspection, OpenError, ReadError, RealDisk};
use pando_server::{Folder, FolderError};

use crate::failure::{DAMAGED, Failure, IN_USE};

/// Size of the block cache while one store is inspected.
const CACHE_BYTES: usize = 16 << 20;

/// One store, locked as long as this value lives.
pub struct Store {
    pub path: PathBuf,
    pub disk: RealDisk,
}

/// The stores of a volume, or the one store that `path` itself is.
pub fn stores(path: &Path) -> Result<Vec<Store>, Failure> {
    if path.join("MANIFEST").exists() {
        return Ok(vec![open(path.to_owned())?]);
    }
    let folder = Folder::new(path)?;
    let stores = folder.stores()?;
    let path = folder.path().to_owned();
    if let Some(pid) = folder.holder()? {
        return Err(FolderError::Locked { path, pid }.into());
    }
    let shards = folder.shard_holders()?;
    if !shards.is_empty() {
        return Err(FolderError::Served { path, shards }.into());
    }
    stores.into_iter().map(|shard| open(folder.shard(shard))).collect()
}

fn open(path: PathBuf) -> Result<Store, Failure> {
    // To open a store creates missing folders. An inspection must not create any.
    if !path.is_dir() {
        return Err(Failure::new(
            DAMAGED,
            format!(
                "{}: the folder of a shard is missing: restore it from a backup",
                path.display()
            ),
        ));
    }
    match RealDisk::open(&path) {
        Ok(disk) => Ok(Store { path, disk }),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Err(Failure::new(
            IN_USE,
            format!("{error}: stop that first, for a volume with `pando down`"),
        )),
        Err(error) => Err(Failure::plain(format!("cannot open {}: {error}", path.display()))),
    }
}

impl Store {
    pub fn inspect(&self) -> Result<Inspection, Failure> {
        Inspection::new(&self.disk, CACHE_BYTES)
            .map_err(|OpenError::Read(error)| self.refused(&error))
    }

    pub fn refused(&self, error: &ReadError) -> Failure {
        let message = format!("{}: {error}", self.path.display());
        match error {
            ReadError::Damaged(_) => {
                Failure::new(DAMAGED, format!("{message}. `pando store check` lists all damage"))
            }
            ReadError::Io(_) | ReadError::Version { .. } => Failure::plain(message),
        }
    }
}
