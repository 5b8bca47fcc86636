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
use crate::tools::report::Report;
use crate::types::error::ReadError;
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
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::levels::manifest::SnapshotRecord;
    use crate::log::SealedLog;
    use crate::types::definition::Definition;
    use crate::types::error::Damage;
    use crate::types::ids::Epoch;
    use crate::types::key::Key;
    use crate::types::options::Options;
    use crate::{Batch, Db, MemDisk, check, check_deep};

    /// A database with two files in one level, and the manifest of it.
    fn database() -> (MemDisk, Manifest) {
        let disk = MemDisk::new();
        let options = Options { file_bytes: 2048, block_bytes: 512, ..Options::default() };
        let (mut db, _) = Db::open(Arc::new(disk.clone()), options).unwrap();
        let mut batch = Batch::new();
        let mut rng = fastrand::Rng::with_seed(1);
        for number in 0..120u8 {
            let value: Vec<u8> = (0..40).map(|_| rng.u8(..)).collect();
            batch.put(&[b'k', number], &value);
        }
        db.apply(&batch, b"");
        db.checkpoint().unwrap();
        let disk = disk.crash_process();
        let manifest = Manifest::read(&disk).unwrap().unwrap();
        assert!(manifest.indices[0].levels[0].len() > 1);
        (disk, manifest)
    }

    /// Asserts that only the deep check finds what `change` does to the manifest.
    fn assert_found(words: &str, change: impl FnOnce(&mut Manifest)) {
        let (disk, mut manifest) = database();
        assert!(check_deep(&disk).unwrap().is_clean());
        change(&mut manifest);
        manifest.write(&disk).unwrap();
        let plain = check(&disk).unwrap();
        assert!(plain.is_clean() || words.is_empty(), "{words}: {:?}", plain.damage);
        let found = check_deep(&disk).unwrap().damage;
        let said: Vec<String> = found.iter().map(Damage::to_string).collect();
        assert!(said.iter().any(|said| said.contains(words)), "{words}: {said:?}");
    }

    fn snapshot(levels: LevelFacts, lsn: Lsn) -> SnapshotRecord {
        let definition = Definition::default();
        SnapshotRecord { name: "s".to_owned(), lsn, definition, levels: vec![levels] }
    }

    #[test]
    fn a_span_that_is_not_what_the_file_holds_is_found() {
        assert_found("last key is not where", |manifest| {
            let level = &mut manifest.indices[0].levels[0];
            level.last_mut().unwrap().to = Key::from(&b"z"[..]);
        });
        assert_found("first key is not where", |manifest| {
            manifest.indices[0].levels[0][0].from = Key::from(&b"a"[..]);
        });
    }

    #[test]
    fn files_that_are_named_twice_or_whose_number_is_free_are_found() {
        assert_found("in two places", |manifest| {
            let level = manifest.indices[0].levels[0].clone();
            manifest.indices[0].levels.push(level);
        });
        assert_found("named with different facts", |manifest| {
            let mut levels = manifest.indices[0].levels.clone();
            levels[0][0].from = Key::from(&b"a"[..]);
            let lsn = manifest.checkpoint;
            manifest.snapshots.push(snapshot(levels, lsn));
        });
        assert_found("of a later group", |manifest| {
            let levels = manifest.indices[0].levels.clone();
            let lsn = manifest.checkpoint.next();
            manifest.snapshots.push(snapshot(levels, lsn));
        });
        assert_found("will be given again", |manifest| manifest.next_index = 1);
    }

    #[test]
    fn gaps_between_kept_logs_are_found() {
        let log = |number, base, last| SealedLog {
            number,
            epoch: Epoch(1),
            base: Lsn(base),
            last: Lsn(last),
            end_offset: 4096,
        };
        let kept = |from, logs: &[SealedLog]| {
            let manifest = Manifest {
                checkpoint: Lsn(9),
                kept_from: Some(Lsn(from)),
                kept_logs: logs.to_vec(),
                ..Manifest::new(1)
            };
            let mut report = Report::default();
            report.check_manifest(&manifest);
            report.damage.iter().map(Damage::to_string).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(kept(3, &[log(1, 2, 5), log(2, 5, 9)]), "");
        assert!(kept(3, &[log(1, 2, 5), log(2, 6, 9)]).contains("leaves a gap"));
        assert!(kept(2, &[log(1, 2, 9)]).contains("after the first group"));
        assert!(kept(3, &[log(1, 2, 8)]).contains("do not reach"));
    }

    #[test]
    fn changes_of_what_does_not_exist_are_found() {
        let mut names = Names { indices: 1, snapshots: BTreeSet::new() };
        let mut follow = |batch: &Batch| batch.iter().find_map(|change| names.follow(&change));
        let mut put = Batch::new();
        put.put_in(IndexId(1), b"key", b"value");
        assert!(follow(&put).unwrap().contains("does not exist"));
        assert!(follow(&Batch::create_index(IndexId(2), "x")).unwrap().contains("out of turn"));
        assert_eq!(follow(&Batch::create_index(IndexId(1), "x")), None);
        assert_eq!(follow(&put), None);
        let take = Batch::snapshot("s", &Definition::default());
        assert_eq!(follow(&take), None);
        assert!(follow(&take).unwrap().contains("cannot take"));
        assert_eq!(follow(&Batch::drop_snapshot("s")), None);
        assert!(follow(&Batch::drop_snapshot("s")).unwrap().contains("does not exist"));
    }
}
