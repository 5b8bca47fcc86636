//! What the judges share: the rows read again, the sweep, and the findings so far.

use pando_core::record::Content;
use pando_types::DirId;

use crate::findings::code::Code;
use crate::findings::finding::{At, Finding};
use crate::findings::report::Findings;
use crate::findings::words::dir_words;
use crate::lookup::locate::Located;
use crate::lookup::probe::{Probe, Seen};
use crate::sweep::pass::Sweep;
use crate::unfinished::place::Place;

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

/// A finding about a directory's content.
pub(crate) fn of(content: &Seen<Content>, id: DirId, code: Code, detail: String) -> Finding {
    Finding::new(code, content.shard, dir_words(id), detail)
        .at(At::Dir(id))
        .known_by(content.evidence())
        .under(Place::Home(id))
}
