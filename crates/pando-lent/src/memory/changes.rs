//! Changes of this session: what they concern, and which of them are under way.

use std::collections::HashMap;

use pando_types::op::{Op, RequestId};
use pando_types::reply::{Body, Refusal};
use pando_types::{DirId, FileKind, SessionId, SetAttr};

use crate::known::reach::dirs_of;

/// Directories of which the last change is known, at most.
const MOST: usize = 16_384;

/// What a change concerns.
#[derive(Default, Debug)]
pub(crate) struct Reach {
    /// These directories, and the names in them.
    pub(super) dirs: Vec<DirId>,
    /// Also directories that the request does not name: one that is removed, or moved, or whose
    /// mode or owner its parent tells.
    pub(super) is_wide: bool,
    /// Whether two names change places. The answer tells the kind of the first one only.
    is_exchange: bool,
    /// Whether it concerns further directories if another change beside it changes names in these.
    may_widen: bool,
}

impl Reach {
    pub(super) fn of(op: &Op) -> Self {
        let is_wide = match op {
            Op::Rename { .. } | Op::Rmdir(..) => true,
            Op::DirSetAttr(_, SetAttr { mode, uid, gid, .. }) => {
                mode.is_some() || uid.is_some() || gid.is_some()
            }
            _ => false,
        };
        let is_exchange = matches!(op, Op::Rename { flags, .. } if flags.exchange);
        Self { dirs: dirs_of(op), is_wide, is_exchange, may_widen: false }
    }

    /// Of a change that concerns one further directory: it is this one.
    pub(super) fn with(mut self, dir: DirId) -> Self {
        self.dirs.push(dir);
        Self { is_wide: false, may_widen: true, ..self }
    }

    /// Of a change that concerns no further directory.
    pub(super) fn narrow(self) -> Self {
        Self { is_wide: false, ..self }
    }

    /// What the change has concerned, by its answer. A file takes no directory's place, but for the
    /// directory's own.
    pub(super) fn after(self, result: &Result<Body, Refusal>) -> Self {
        let is_narrow = match result {
            Ok(Body::Moved(_, kind, _)) => *kind != FileKind::Directory && !self.is_exchange,
            Ok(_) | Err(Refusal::Answered) => false,
            // It has not run.
            Err(_) => true,
        };
        Self { is_wide: self.is_wide && !is_narrow, ..self }
    }
}

/// Changes of this session.
#[derive(Default)]
pub(super) struct Changes {
    /// Those that are sent and not answered: a copy of each may run at any time. A request slot has
    /// one at a time.
    open: HashMap<(SessionId, u16), (u64, Reach)>,
    open_in: HashMap<DirId, u32>,
    open_wide: u32,
    /// Number of the last change.
    number: u64,
    /// Numbers of the last changes of directories.
    last: HashMap<DirId, u64>,
    /// No change of a directory that is not in `last` has a higher number.
    before: u64,
}

impl Changes {
    /// Number of the last change.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Whether no change is under way that concerns a directory.
    pub(super) fn is_still(&self, dir: DirId) -> bool {
        self.open_wide == 0 && !self.open_in.contains_key(&dir)
    }

    /// The same, and that none was since the change of this number.
    pub(super) fn is_still_since(&self, dir: DirId, number: u64) -> bool {
        self.is_still(dir) && self.last.get(&dir).map_or(self.before, |last| *last) <= number
    }

    /// Notes that a change is sent. Returns the reach of an earlier one in its slot of which no
    /// answer was heard.
    pub(super) fn begin(&mut self, id: RequestId, reach: Reach) -> Option<Reach> {
        let slot = (id.session, id.slot);
        let before = self.take(slot);
        self.widen(&reach);
        for dir in &reach.dirs {
            *self.open_in.entry(*dir).or_default() += 1;
        }
        self.open_wide += u32::from(reach.is_wide);
        self.open.insert(slot, (id.sequence, reach));
        before
    }

    /// A change begins beside others, which may find other directories under their names then.
    fn widen(&mut self, by: &Reach) {
        for (_, open) in self.open.values_mut().filter(|(_, open)| open.may_widen) {
            if by.is_wide || open.dirs.iter().any(|dir| by.dirs.contains(dir)) {
                (open.is_wide, open.may_widen) = (true, false);
                self.open_wide += 1;
            }
        }
    }

    /// Takes the change out that is answered. `None`: it was not under way.
    pub(super) fn end(&mut self, id: RequestId) -> Option<Reach> {
        let slot = (id.session, id.slot);
        let is_it = self.open.get(&slot).is_some_and(|(sequence, _)| *sequence == id.sequence);
        if is_it { self.take(slot) } else { None }
    }

    fn take(&mut self, slot: (SessionId, u16)) -> Option<Reach> {
        let (_, reach) = self.open.remove(&slot)?;
        for dir in &reach.dirs {
            if let Some(count) = self.open_in.get_mut(dir) {
                *count -= 1;
                if *count == 0 {
                    self.open_in.remove(dir);
                }
            }
        }
        self.open_wide -= u32::from(reach.is_wide);
        Some(reach)
    }

    /// Numbers a change.
    pub(super) fn note(&mut self, reach: &Reach) {
        self.number += 1;
        if reach.is_wide || self.last.len() + reach.dirs.len() > MOST {
            self.last.clear();
            self.before = self.number;
        }
        for dir in &reach.dirs {
            self.last.insert(*dir, self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: DirId = DirId([7; 16]);
    const OTHER: DirId = DirId([8; 16]);

    fn reach(is_wide: bool) -> Reach {
        Reach { dirs: vec![DIR], is_wide, ..Reach::default() }
    }

    fn id(slot: u16, sequence: u64) -> RequestId {
        RequestId { session: SessionId(1), slot, sequence }
    }

    #[test]
    fn a_directory_is_not_still_from_the_request_to_its_answer() {
        let mut changes = Changes::default();
        let asked = changes.number();
        assert!(changes.begin(id(0, 1), reach(false)).is_none());
        // It is sent once more, and another one in another slot.
        assert!(changes.begin(id(0, 1), reach(false)).is_some());
        assert!(changes.begin(id(1, 1), reach(false)).is_none());
        assert!(!changes.is_still(DIR) && changes.is_still(OTHER));
        for id in [id(0, 1), id(1, 1)] {
            assert!(!changes.is_still(DIR));
            let ended = changes.end(id).unwrap();
            changes.note(&ended);
        }
        assert!(changes.end(id(1, 1)).is_none());
        assert!(changes.is_still(DIR) && !changes.is_still_since(DIR, asked));
        assert!(changes.is_still_since(DIR, changes.number()));
        assert!(changes.is_still_since(OTHER, asked));
    }

    #[test]
    fn what_concerns_everything_stills_nothing_until_it_is_answered() {
        let mut changes = Changes::default();
        let asked = changes.number();
        changes.begin(id(0, 1), reach(true));
        assert!(!changes.is_still(OTHER));
        let ended = changes.end(id(0, 1)).unwrap();
        changes.note(&ended);
        assert!(changes.is_still(OTHER) && !changes.is_still_since(OTHER, asked));
    }

    #[test]
    fn a_change_of_one_further_directory_widens_if_names_change_beside_it() {
        for (begins, stills) in [(reach(false), true), (reach(true), false)] {
            let mut changes = Changes::default();
            let removal = Reach { dirs: vec![DIR], is_wide: true, ..Reach::default() };
            changes.begin(id(0, 1), removal.with(OTHER));
            let far = DirId([9; 16]);
            assert!(!changes.is_still(DIR) && !changes.is_still(OTHER) && changes.is_still(far));
            changes.begin(id(1, 1), Reach { dirs: vec![far], ..reach(!stills) });
            assert!(!changes.is_still(far));
            drop(changes.end(id(1, 1)));
            assert_eq!(changes.is_still(far), stills);
            changes.begin(id(2, 1), begins);
            drop(changes.end(id(2, 1)));
            assert!(!changes.is_still(far), "names in one of its directories changed meanwhile");
            assert!(changes.end(id(0, 1)).unwrap().is_wide);
            assert!(changes.is_still(far) && changes.is_still(DIR));
        }
    }

    #[test]
    fn changes_of_many_directories_are_known_for_all() {
        let mut changes = Changes::default();
        let asked = changes.number();
        let dirs = || (0..2 * MOST as u128).map(|dir| DirId(dir.to_be_bytes()));
        for dir in dirs() {
            changes.note(&Reach { dirs: vec![dir], ..reach(false) });
        }
        assert!(dirs().all(|dir| !changes.is_still_since(dir, asked)));
    }

    #[test]
    fn a_file_that_moves_concerns_two_directories_and_a_directory_all() {
        let moved = |kind| reach(true).after(&Ok(Body::Moved(pando_types::Ino(9), kind, false)));
        assert!(!moved(FileKind::Regular).is_wide && moved(FileKind::Directory).is_wide);
        for kind in [FileKind::Regular, FileKind::Directory] {
            let exchanged = Ok(Body::Moved(pando_types::Ino(9), kind, false));
            let exchange = Reach { is_exchange: true, ..reach(true) };
            assert!(exchange.after(&exchanged).is_wide, "the other name may be a directory's");
        }
        assert!(reach(true).after(&Ok(Body::Done)).is_wide);
        assert!(reach(true).after(&Err(Refusal::Answered)).is_wide);
        assert!(!reach(true).after(&Err(Refusal::AskHome)).is_wide);
    }
}
