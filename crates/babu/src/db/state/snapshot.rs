//! A persistent snapshot in memory.

use std::collections::BTreeMap;

use crate::db::state::view::View;
use crate::types::definition::Definition;
use crate::types::ids::Lsn;

/// A persistent snapshot of an open database.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(crate) lsn: Lsn,
    pub(crate) definition: Definition,
    pub(crate) view: View,
    /// False until a checkpoint has made the snapshot's files. Until then the log and the layers in
    /// memory hold its state.
    pub(crate) is_made: bool,
}

/// Snapshots by name.
pub(crate) type Snapshots = BTreeMap<String, Snapshot>;

impl Snapshot {
    /// The last group that the snapshot contains.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// The part of the database that the snapshot contains.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// The content. Any thread may read it at any time.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// True if a checkpoint has given the snapshot its files. Until then it is in memory and log.
    pub fn is_made(&self) -> bool {
        self.is_made
    }
}
