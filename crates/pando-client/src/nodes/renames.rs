//! This client's pending renames. While one is pending, the node table may not know the file's
//! place.
//!
//! A request that misses a file under a name that is being renamed looks again. If renames of that
//! file follow each other, it may be late each time. Then it holds further renames up until it has
//! found the file.

use pando_types::op::FileAt;
use pando_types::{DirRef, Name};
use parking_lot::Mutex;

/// The pending renames, and the requests that hold further ones up.
#[derive(Default)]
pub(crate) struct Renames {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Number and both names of each.
    pending: Vec<(u64, [(DirRef, Name); 2])>,
    begun: u64,
    holds: u32,
}

/// A pending rename. It ends when the node table has been told.
pub(crate) struct Renaming<'a> {
    renames: &'a Renames,
    number: u64,
}

/// Holds renames up: none begins.
pub(crate) struct Hold<'a>(&'a Renames);

impl Renames {
    /// Begins a rename; `None` while a request holds renames up.
    pub(crate) fn begin(&self, names: [(DirRef, &Name); 2]) -> Option<Renaming<'_>> {
        let mut state = self.state.lock();
        if state.holds > 0 {
            return None;
        }
        state.begun += 1;
        let number = state.begun;
        state.pending.push((number, names.map(|(dir, name)| (dir, name.clone()))));
        Some(Renaming { renames: self, number })
    }

    /// Whether a pending rename may have moved the file that is not at `at`.
    pub(crate) fn concern(&self, at: &FileAt) -> bool {
        let FileAt::Name(dir, name) = at else { return false };
        let is_it = |(of, called): &(DirRef, Name)| of == dir && called == name;
        self.state.lock().pending.iter().any(|(_, names)| names.iter().any(is_it))
    }

    pub(crate) fn hold(&self) -> Hold<'_> {
        self.state.lock().holds += 1;
        Hold(self)
    }
}

impl Drop for Renaming<'_> {
    fn drop(&mut self) {
        self.renames.state.lock().pending.retain(|(number, _)| *number != self.number);
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.state.lock().holds -= 1;
    }
}
