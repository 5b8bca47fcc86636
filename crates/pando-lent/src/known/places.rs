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
    parents: HashMap<DirId, DirId>,
}

impl Places {
    /// Notes where a directory is that is lent.
    pub(crate) fn note(
        &self,
        dir: DirId,
        (parent, name): (DirId, Name),
        grant: (ShardIndex, TxnId),
    ) {
        let Known { grants, parents } = &mut *self.0.lock();
        if grants.len() >= MOST || parents.len() >= MOST {
            grants.clear();
            parents.clear();
        }
        parents.insert(dir, parent);
        grants.insert((parent, name), grant);
    }

    /// The grant of the directory with this name.
    pub(crate) fn child(&self, dir: DirId, name: &Name) -> Option<(ShardIndex, TxnId)> {
        self.0.lock().grants.get(&(dir, name.clone())).copied()
    }

    pub(crate) fn parent(&self, dir: DirId) -> Option<DirId> {
        self.0.lock().parents.get(&dir).copied()
    }
}
