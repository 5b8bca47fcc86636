//! Files that nothing names any more.

use std::sync::Arc;

use crate::db::database::Db;
use crate::db::state::frozen::Frozen;
use crate::disk::traits::Disk;
use crate::index::pool::Pool;
use crate::levels::version::Version;
use crate::log::ballast::{Ballast, Lent};
use crate::types::error::{IoContext, IoFailure};

/// Files that are superfluous since a checkpoint, or since a new choice of kept log.
#[must_use = "the old files stay until the next opening unless they are removed"]
pub struct Retired {
    disk: Arc<dyn Disk>,
    names: Vec<String>,
    /// Numbers of the index files among `names`.
    files: Vec<u64>,
    pool: Arc<Pool>,
    ballast: Arc<Ballast>,
    /// The room that the checkpoint was lent.
    lent: Option<Lent>,
    /// Layers that the checkpoint took over. They are freed with this value, as freeing large trees
    /// and filters would delay the writer.
    _layers: Vec<Arc<Frozen>>,
    _version: Arc<Version>,
}

impl Retired {
    /// Deletes the files. If the ballast is not whole, gives it their room. Deleting large files
    /// may take a while.
    pub fn remove(self) -> Result<(), IoFailure> {
        // If the disk is full, other databases on it would take the room that the ballast lacks.
        // Whether it is shows only if the ballast is filled: the log may just have grown.
        let is_short = self.lent.is_none() && !self.ballast.refill()?;
        let _held = if is_short { self.ballast.share().lend() } else { None };
        self.pool.cache.forget(&self.files);
        for name in &self.names {
            match self.disk.remove(name) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                result => result.during("remove", name)?,
            }
        }
        drop(self.lent);
        self.ballast.refill().map(drop)
    }

    /// The loan of the checkpoint ends once the files are deleted.
    pub(crate) fn with_loan(self, lent: Option<Lent>) -> Retired {
        Retired { lent, ..self }
    }

    /// Names of the files to delete.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

impl Db {
    pub(crate) fn retire(
        &self,
        names: Vec<String>,
        files: Vec<u64>,
        layers: Vec<Arc<Frozen>>,
        version: Arc<Version>,
    ) -> Retired {
        let (disk, pool) = (self.disk.clone(), self.state.pool.clone());
        let ballast = self.log.ballast().clone();
        let lent = None;
        Retired { disk, names, files, pool, ballast, lent, _layers: layers, _version: version }
    }
}
