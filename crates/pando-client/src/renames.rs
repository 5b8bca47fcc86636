//! Renames that this client has under way: while one is, its file is no longer where the node table
//! says, or not yet.
//!
//! Who misses a file under a name that is being renamed looks again. If renames of that file come
//! one upon the other, it may be late each time; then it holds up further ones until it is through.

use pando_types::op::FileAt;
use pando_types::{DirRef, Name};
use parking_lot::Mutex;

/// See the module.
#[derive(Default)]
pub(crate) struct Renames {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Both names of each.
    under_way: Vec<(u64, [(DirRef, Name); 2])>,
    begun: u64,
    holds: u32,
}

/// A rename under way: kept until the node table was told of it.
pub(crate) struct Renaming<'a> {
    renames: &'a Renames,
    number: u64,
}

/// No rename begins.
pub(crate) struct Hold<'a>(&'a Renames);

impl Renames {
    /// `None` while somebody holds renames up.
    pub(crate) fn begin(&self, names: [(DirRef, &Name); 2]) -> Option<Renaming<'_>> {
        let mut state = self.state.lock();
        if state.holds > 0 {
            return None;
        }
        state.begun += 1;
        let number = state.begun;
        state.under_way.push((number, names.map(|(dir, name)| (dir, name.clone()))));
        Some(Renaming { renames: self, number })
    }

    /// Whether a file missed at `at` may be on its way from there.
    pub(crate) fn concern(&self, at: &FileAt) -> bool {
        let FileAt::Name(dir, name) = at else { return false };
        let is_it = |(of, called): &(DirRef, Name)| of == dir && called == name;
        self.state.lock().under_way.iter().any(|(_, names)| names.iter().any(is_it))
    }

    pub(crate) fn hold(&self) -> Hold<'_> {
        self.state.lock().holds += 1;
        Hold(self)
    }
}

impl Drop for Renaming<'_> {
    fn drop(&mut self) {
        self.renames.state.lock().under_way.retain(|(number, _)| *number != self.number);
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.state.lock().holds -= 1;
    }
}
