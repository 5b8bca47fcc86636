//! Opens the stores of a stopped volume, and locks them.

use std::io::{self};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use babu::{Inspection, OpenError, ReadError, RealDisk, UNFINISHED_EXPORT, View};
use pando_server::{Folder, FolderError};

use crate::failure::{DAMAGED, Failure, IN_USE};

/// Size of the block cache while one store is inspected.
const CACHE_BYTES: usize = 16 << 20;

/// One store, locked as long as this value lives.
pub struct Store {
    pub path: PathBuf,
    pub disk: Arc<RealDisk>,
}

/// The stores of a volume, or the one store that `path` itself is.
pub fn stores(path: &Path) -> Result<Vec<Store>, Failure> {
    if is_store(path) {
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

/// True if the folder is one of a store itself. An export that did not end is reported as such.
fn is_store(path: &Path) -> bool {
    ["MANIFEST", UNFINISHED_EXPORT].iter().any(|name| path.join(name).exists())
}

/// The one store that `path` is, or the store of this shard of the volume.
pub fn one_store(path: &Path, shard: Option<u16>) -> Result<Store, Failure> {
    let Some(shard) = shard else {
        if is_store(path) {
            return open(path.to_owned());
        }
        let path = path.display();
        return Err(Failure::plain(format!(
            "{path} is no folder of a shard: for a volume, name the shard with --shard"
        )));
    };
    if is_store(path) {
        let path = path.display();
        return Err(Failure::plain(format!("{path} is the folder of one shard: omit --shard")));
    }
    let wanted = Folder::new(path)?.shard(shard);
    let stores = stores(path)?;
    let count = stores.len();
    stores.into_iter().find(|store| store.path == wanted).ok_or_else(|| {
        let path = path.display();
        Failure::plain(format!("{path} has no shard {shard}: it keeps {count} shards"))
    })
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
        Ok(disk) => Ok(Store { path, disk: Arc::new(disk) }),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Err(Failure::new(
            IN_USE,
            format!("{error}: stop that first, for a volume with `pando down`"),
        )),
        Err(error) => Err(Failure::plain(format!("cannot open {}: {error}", path.display()))),
    }
}

impl Store {
    pub fn inspect(&self) -> Result<Inspection, Failure> {
        Inspection::new(&*self.disk, CACHE_BYTES)
            .map_err(|OpenError::Read(error)| self.refused(&error))
    }

    /// The content of a snapshot.
    pub fn snapshot(&self, inspection: &Inspection, name: &str) -> Result<View, Failure> {
        let mut snapshots = inspection.snapshots();
        match snapshots.find(|(known, _)| *known == name) {
            Some((_, snapshot)) => Ok(snapshot.view().clone()),
            None => {
                let path = self.path.display();
                Err(Failure::plain(format!(
                    "{path} has no snapshot {name:?}: `pando store stats` lists them"
                )))
            }
        }
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
