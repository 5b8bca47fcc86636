//! Judges calls by path that were refused so often that shards no longer judge their path: the
//! ninth walk and later ones (docs/design/path-versions.md). Each component existed at some time of
//! the call, though not all at one time. At last the call asked directories by number. So it is
//! judged as that operation by number, at one time. Beside it, each component is a sight at any
//! time of the call.

use std::collections::BTreeSet;

use pando_types::op::Op as Wire;
use pando_types::{FileKind, Ino, Name};

use super::sight::Sight;
use crate::model::Op;

/// What shards were asked without a trail for one call by path.
#[derive(Clone, Default, Debug)]
pub struct Walked {
    /// Directories that were found.
    found: Vec<Sight>,
    /// Requests that have arrived, by a number that repetitions share. A repetition that lingered
    /// is not new.
    come: BTreeSet<u64>,
    /// The last request, as an operation by number.
    last: Option<Op>,
    /// Whether the client says that its last walk was not judged. `None`: it died before.
    pub is_loose: Option<bool>,
}

impl Walked {
    /// A request without a trail, for the operation `op` by path, has reached a shard. Any walk
    /// asks for targets of symlinks and for later pages without a trail.
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

    /// A shard has told which directory a name leads to.
    pub fn found(&mut self, dir: Ino, name: Name, ino: Ino) {
        self.found.push(Sight { dir, name, to: Some((ino, FileKind::Directory)) });
    }

    /// Whether a request went without a trail although its client had not been refused so often.
    pub fn is_forbidden(&self) -> bool {
        self.last.is_some() && self.is_loose == Some(false)
    }

    /// The operation by number that `op` is judged as, and its sights. `None`: it is judged by
    /// path.
    pub fn judged(&self, op: &Op) -> Option<(Op, Vec<Sight>)> {
        let (Op::ByPath { path, to_path, .. }, Some(last)) = (op, &self.last) else { return None };
        if self.is_loose == Some(false) {
            return None;
        }
        let sights = match last {
            // The walk may have ended there.
            Op::Lookup(dir, _) => {
                let sights = self.path_to(*dir)?;
                let names: Vec<&Name> = sights.iter().map(|sight| &sight.name).collect();
                let is_on = |path: &[Name]| path.iter().take(names.len()).eq(names.iter().copied());
                (is_on(path) || is_on(to_path)).then_some(sights)?
            }
            Op::Rename { from, to, .. } => {
                [self.whole(*from, path)?, self.whole(*to, to_path)?].concat()
            }
            Op::Create { dir, .. }
            | Op::Mkdir(dir, ..)
            | Op::Unlink(dir, _)
            | Op::Rmdir(dir, _)
            | Op::ReadDir(dir)
            | Op::SetAttr(dir, _) => self.whole(*dir, path)?,
            _ => return None,
        };
        Some((last.clone(), sights))
    }

    /// The sights that led to `dir`, if their names are exactly these.
    fn whole(&self, dir: Ino, path: &[Name]) -> Option<Vec<Sight>> {
        let sights = self.path_to(dir)?;
        path.iter().eq(sights.iter().map(|sight| &sight.name)).then_some(sights)
    }

    /// The sights that last led to `dir`, from the root on.
    fn path_to(&self, dir: Ino) -> Option<Vec<Sight>> {
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
