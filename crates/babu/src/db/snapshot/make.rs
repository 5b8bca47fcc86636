//! Giving a snapshot its files, when a checkpoint's levels hold exactly the snapshot's state.

use crate::index::pool::Access;
use crate::index::run::RunWriter;
use crate::levels::compact::{Merger, open_all};
use crate::levels::layer::{Entry, Reading};
use crate::levels::merge::Merge;
use crate::levels::version::Version;
use crate::levels::{Level, Levels, MAX_LEVELS};
use crate::types::definition::Definition;
use crate::types::error::ReadError;
use crate::types::ranges::RangeSet;

/// The files of a snapshot of `now`. If `base` is given, they are a difference to that snapshot.
pub(crate) fn make(
    merger: &mut Merger<'_>,
    now: &Version,
    definition: &Definition,
    base: Option<&Version>,
) -> Result<Version, ReadError> {
    let mut made = Version::default();
    for (index, levels) in now.iter() {
        if definition.index.is_some_and(|only| only != index) {
            continue;
        }
        // A whole state only needs the files that it has. A long chain of differences begins anew.
        let base = base.map(|base| base.of(index)).filter(|base| base.0.len() < 2 * MAX_LEVELS);
        *made.of_mut(index) = match (definition.selection.is_all(), base) {
            (true, _) => levels.clone(),
            (false, base) => {
                let mut files = base.cloned().unwrap_or_default();
                let begun = merger.maker.made.len();
                match difference(merger, levels, &files, definition) {
                    Ok(own) => {
                        files.0.insert(0, own);
                        files
                    }
                    // If a part of the state cannot be read, the snapshot shares all files as they
                    // are. Its view still shows only what is selected.
                    Err(ReadError::Damaged(damage)) if damage.keys.is_some() => {
                        merger.maker.discard(begun);
                        levels.clone()
                    }
                    Err(error) => return Err(error),
                }
            }
        };
    }
    Ok(made)
}

/// Writes files with the selected entries of `now` that differ from `base`.
fn difference(
    merger: &mut Merger<'_>,
    now: &Levels,
    base: &Levels,
    definition: &Definition,
) -> Result<Level, ReadError> {
    let pool = merger.pool;
    let reading = Reading { pool, access: Access::Direct };
    let mut run = RunWriter::new(&mut merger.maker, RangeSet::default());
    for (from, to) in definition.selection.stretches() {
        let mut new = Values(Merge::new(now.layers(), reading, &from, to.as_deref()));
        let mut old = Values(Merge::new(base.layers(), reading, &from, to.as_deref()));
        let (mut head, mut old_head) = (new.next()?, old.next()?);
        loop {
            let is_new_first = match (&head, &old_head) {
                (None, None) => break,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some(new), Some(old)) => new.0 <= old.0,
            };
            if is_new_first {
                let Some((key, value)) = head else { break };
                let is_in_base = old_head.as_ref().is_some_and(|old| old.0 == key);
                let is_same = is_in_base
                    && old_head.as_ref().is_some_and(|old| old.1.as_deref() == value.as_deref());
                if !is_same && definition.selection.has(&key) {
                    run.push(&key, value.as_deref())?;
                }
                if is_in_base {
                    old_head = old.next()?;
                }
                head = new.next()?;
            } else {
                let Some((key, _)) = old_head else { break };
                if definition.selection.has(&key) {
                    run.push(&key, None)?;
                }
                old_head = old.next()?;
            }
        }
    }
    let written = run.finish()?;
    open_all(&merger.maker, written)
}

/// A merge that passes over tombstones.
struct Values<'a>(Merge<'a>);

impl<'a> Values<'a> {
    fn next(&mut self) -> Result<Option<Entry<'a>>, ReadError> {
        while let Some(entry) = self.0.advance()? {
            if entry.value().is_some() {
                return Ok(Some(entry.entry()));
            }
        }
        Ok(None)
    }
}
