//! Removed files that lose their slices in steps.

/// When slices could not be read first, and when they are tried again.
#[derive(Clone, Copy)]
pub struct Stuck {
    pub(crate) since: u64,
    pub(crate) again: u64,
}

/// The lock under which a file is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Under {
    /// No lock. The slices go in steps only if no transaction holds the file's lock.
    Nothing,
    /// No lock, for one of many files that are removed at once. Only a few slices may go now. The
    /// rest go in steps, only if no transaction holds the file's lock.
    NothingOfMany,
    /// The lock of the step that removes the file by its decision. The slices go in steps only if
    /// no other step holds it.
    Its,
}
