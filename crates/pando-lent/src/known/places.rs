//! Where the directories are that are lent, by parent and name.

use std::collections::HashMap;

use pando_types::{DirId, Name, ShardIndex, TxnId};
use parking_lot::Mutex;

/// Most places that are remembered. What is forgotten is recalled.
const MOST: usize = 16_384;

/// Where directories are that are lent, or were.
#[derive(Default)]
pub(crate) struct Places(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Grants by parent and name of their directories.
    grants: HashMap<(DirId, Name), (ShardIndex, TxnId)>,
    /// Parents and names of directories.
    places: HashMap<DirId, (DirId, Name)>,
}

impl Places {
    /// Notes where a directory is that is lent.
    pub(crate) fn note(
        &self,
        dir: DirId,
        (parent, name): (DirId, Name),
        grant: (ShardIndex, TxnId),
    ) {
        let Known { grants, places } = &mut *self.0.lock();
        if grants.len() >= MOST || places.len() >= MOST {
            grants.clear();
            places.clear();
        }
        places.insert(dir, (parent, name.clone()));
        grants.insert((parent, name), grant);
    }

    /// The grant of the directory with this name.
    pub(crate) fn child(&self, dir: DirId, name: &Name) -> Option<(ShardIndex, TxnId)> {
        self.0.lock().grants.get(&(dir, name.clone())).copied()
    }

    /// Parent and name of a directory.
    pub(crate) fn place(&self, dir: DirId) -> Option<(DirId, Name)> {
        self.0.lock().places.get(&dir).cloned()
    }
}
