//! What the judges share: the rows read again, the sweep, and the findings so far.

use pando_types::DirId;

use crate::findings::report::Findings;
use crate::lookup::locate::Located;
use crate::lookup::probe::Probe;
use crate::sweep::pass::Sweep;

/// Most suspicions of one kind that are looked at. Further ones are only counted.
pub(crate) const SUSPECTS_MAX: usize = 100_000;

/// Judges suspicions and collects findings.
pub struct Judge<'a, 's> {
    pub(crate) probe: Probe<'a>,
    pub(crate) sweep: &'s Sweep<'s>,
    pub(crate) located: Located,
    pub(crate) found: Findings,
    pub(crate) not_looked_at: u64,
}

impl Judge<'_, '_> {
    pub(crate) fn is_unreadable(&self, dir: DirId) -> bool {
        self.sweep.tables.unreadable_dirs.contains(&dir)
    }
}
