//! Calls by path that were refused so often that shards did not judge their way any more
//! (docs/design/path-versions.md: the ninth walk and later ones). Each component was there at some
//! moment of the call, if not all at one; what was asked in the end, was asked of directories by
//! number. So such a call is judged as that operation by number, at one moment, and beside it one
//! sight for each component, at any moment of the call.

use std::collections::BTreeSet;

use pando_model::Op;
use pando_types::op::Op as Wire;
use pando_types::{FileKind, Ino, Name};

use super::history::Sight;

/// What shards were asked without a trail, of one call by path.
#[derive(Clone, Default, Debug)]
pub struct Walked {
    /// Directories that were found.
    found: Vec<Sight>,
    /// Requests that have come, by the number that copies have in common: one that lingered is
    /// nothing new.
    come: BTreeSet<u64>,
    /// What was asked last, by number.
    last: Option<Op>,
    /// What the client says: whether its last walk was such a one. `None`: it died before it could.
    pub is_loose: Option<bool>,
}

impl Walked {
    /// A request without a trail has come to a shard, of the operation `op` by path. Targets of
    /// symlinks and later pages are asked for so in any walk.
    pub fn asked(&mut self, op: &Op, trace: u64, wire: &Wire) {
        if !self.come.insert(trace) {
            return;
        }
        let last = match wire {
            Wire::Lookup(dir, name) => Op::Lookup(dir.ino, name.clone()),
            Wire::DirAccess(dir, _) => Op::ReadDir(dir.ino),
            Wire::Create { dir, .. }
            | Wire::DirSetAttr(dir, _)
            | Wire::Mkdir(dir, ..)
            | Wire::Unlink(dir, _)
            | Wire::Rmdir(dir, _) => op.inner().in_dirs(dir.ino, dir.ino),
            Wire::Rename { from, to, .. } => op.inner().in_dirs(from.ino, to.ino),
            _ => return,
        };
        self.last = Some(last);
    }

    /// A shard has told of a directory.
    pub fn found(&mut self, dir: Ino, name: Name, ino: Ino) {
        self.found.push(Sight { dir, name, to: Some((ino, FileKind::Directory)) });
    }

    /// Whether something was asked that no shard judged, though the client says that it was not
    /// refused so often.
    pub fn is_forbidden(&self) -> bool {
        self.last.is_some() && self.is_loose == Some(false)
    }

    /// What the operation `op` by path is judged as, and the sights beside it. `None`: as it is.
    pub fn judged(&self, op: &Op) -> Option<(Op, Vec<Sight>)> {
        let (Op::ByPath { way, to_way, .. }, Some(last)) = (op, &self.last) else { return None };
        if self.is_loose == Some(false) {
            return None;
        }
        let sights = match last {
            // It may have come to its end there.
            Op::Lookup(dir, _) => {
                let sights = self.way_to(*dir)?;
                let names: Vec<&Name> = sights.iter().map(|sight| &sight.name).collect();
                let is_on = |way: &[Name]| way.iter().take(names.len()).eq(names.iter().copied());
                (is_on(way) || is_on(to_way)).then_some(sights)?
            }
            Op::Rename { from, to, .. } => {
                [self.whole(*from, way)?, self.whole(*to, to_way)?].concat()
            }
            Op::Create { dir, .. }
            | Op::Mkdir(dir, ..)
            | Op::Unlink(dir, _)
            | Op::Rmdir(dir, _)
            | Op::ReadDir(dir)
            | Op::SetAttr(dir, _) => self.whole(*dir, way)?,
            _ => return None,
        };
        Some((last.clone(), sights))
    }

    /// How `dir` was found, by just these names.
    fn whole(&self, dir: Ino, way: &[Name]) -> Option<Vec<Sight>> {
        let sights = self.way_to(dir)?;
        way.iter().eq(sights.iter().map(|sight| &sight.name)).then_some(sights)
    }

    /// How `dir` was found last, from the root on.
    fn way_to(&self, dir: Ino) -> Option<Vec<Sight>> {
        let (mut at, mut sights) = (dir, Vec::new());
        let mut rest = &self.found[..];
        while at != Ino::ROOT {
            let is_it = |sight: &Sight| sight.to.is_some_and(|(ino, _)| ino == at);
            let found = rest.iter().rposition(is_it)?;
            sights.push(rest[found].clone());
            at = rest[found].dir;
            rest = &rest[..found];
        }
        sights.reverse();
        Some(sights)
    }
}
