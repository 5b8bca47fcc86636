//! What a deep check adds: facts that no checksum covers, as each is of several structures.
//!
//! | finds | as `check` finds already |
//! |---|---|
//! | a file whose span is not what it holds and hides | keys outside of the span; counts and lengths |
//! | a key that a lookup in its block does not find | keys out of order; keys that the filter denies |
//! | a file that is named twice, or in two ways; a number that will be given again | spans of a level that overlap |
//! | gaps between kept logs | gaps between groups, and between logs that a restart needs |
//! | changes of indices or snapshots that do not exist | groups that cannot be decoded |

use std::collections::{BTreeMap, BTreeSet};

use crate::index::file::IndexFile;
use crate::index::format::facts::FileFacts;
use crate::index::format::header::index_name;
use crate::levels::manifest::{LevelFacts, MANIFEST, Manifest};
use crate::log::batch::Change;
use crate::log::log_name;
use crate::tools::check::Report;
use crate::types::error::{Damage, ReadError};
use crate::types::ids::{IndexId, Lsn};

/// The names that changes of the log may use.
pub(crate) struct Names {
    indices: usize,
    snapshots: BTreeSet<String>,
}

impl Names {
    pub(crate) fn of(manifest: &Manifest) -> Names {
        let snapshots = manifest.snapshots.iter().map(|snapshot| snapshot.name.clone());
        Names { indices: manifest.indices.len(), snapshots: snapshots.collect() }
    }

    /// Follows a change. Tells what is wrong with it.
    pub(crate) fn follow(&mut self, change: &Change<'_>) -> Option<String> {
        let is_missing = |index: &IndexId| index.position() >= self.indices;
        match change {
            Change::Put { index, .. }
            | Change::Delete { index, .. }
            | Change::DeleteRange { index, .. }
            | Change::Ingest { index, .. } => is_missing(index)
                .then(|| format!("changes index {}, which does not exist", index.position())),
            Change::CreateIndex { index, .. } => {
                let is_next = index.position() == self.indices;
                self.indices += usize::from(is_next);
                (!is_next).then(|| format!("makes index {} out of turn", index.position()))
            }
            Change::Snapshot { name, definition } => {
                let is_new = self.snapshots.insert((*name).to_owned());
                let is_wrong = !is_new || definition.index.as_ref().is_some_and(is_missing);
                is_wrong.then(|| format!("takes snapshot {name:?}, which it cannot take"))
            }
            Change::DropSnapshot { name } => (!self.snapshots.remove(*name))
                .then(|| format!("drops snapshot {name:?}, which does not exist")),
        }
    }
}

impl Report {
    /// Finds what does not fit together in the manifest.
    pub(crate) fn check_manifest(&mut self, manifest: &Manifest) {
        let mut known: BTreeMap<u64, &FileFacts> = BTreeMap::new();
        for facts in manifest.files() {
            let name = index_name(facts.number);
            let first = known.entry(facts.number).or_insert(facts);
            if *first != facts {
                self.note_deep(MANIFEST, format!("{name} is named with different facts"));
            }
            if facts.number >= manifest.next_index {
                self.note_deep(MANIFEST, format!("the number of {name} will be given again"));
            }
        }
        self.check_version("the database", manifest.indices.iter().map(|index| &index.levels));
        for snapshot in &manifest.snapshots {
            let what = format!("snapshot {:?}", snapshot.name);
            self.check_version(&what, snapshot.levels.iter());
            if snapshot.lsn > manifest.checkpoint {
                self.note_deep(MANIFEST, format!("{what} has files, and is of a later group"));
            }
        }
        self.check_kept(manifest);
    }

    fn check_version<'a>(&mut self, of: &str, indices: impl Iterator<Item = &'a LevelFacts>) {
        let mut seen = BTreeSet::new();
        for facts in indices.flatten().flatten() {
            if !seen.insert(facts.number) {
                let name = index_name(facts.number);
                self.note_deep(MANIFEST, format!("{of} has {name} in two places"));
            }
        }
    }

    /// Kept logs reach without gaps from the choice to the checkpoint.
    fn check_kept(&mut self, manifest: &Manifest) {
        let mut last: Option<Lsn> = None;
        for log in &manifest.kept_logs {
            let name = log_name(log.number);
            if last.is_some_and(|last| last != log.base) {
                let what = format!("{name} begins after group {}, which leaves a gap", log.base);
                self.note_deep(MANIFEST, what);
            }
            if last.is_none() && manifest.kept_from.is_some_and(|from| from <= log.base) {
                let what = format!("{name} begins after the first group that is kept");
                self.note_deep(MANIFEST, what);
            }
            last = Some(log.last);
        }
        if last.is_some_and(|last| last != manifest.checkpoint) {
            let what = format!("kept logs do not reach to group {}", manifest.checkpoint);
            self.note_deep(MANIFEST, what);
        }
    }

    /// Finds what is wrong with an index file although all its checksums are right.
    pub(crate) fn check_deeply(&mut self, file: &IndexFile) {
        file.verify_deeply(|fault| {
            if let ReadError::Damaged(damage) = fault
                && !self.damage.contains(&damage)
            {
                self.damage.push(damage);
            }
        });
    }

    fn note_deep(&mut self, file: &str, what: String) {
        let damage = Damage::new(file, 0, what);
        if !self.damage.contains(&damage) {
            self.damage.push(damage);
        }
    }
}
