//! What fsynced names must lead to, and the promises that were broken.

use std::collections::BTreeMap;

use pando_types::{Ino, Name};

/// What a name must lead to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Promise {
    /// To nothing.
    Nothing,
    /// To this directory.
    Dir(Ino),
    /// To this file, with this content.
    File(Ino, Vec<u8>),
}

/// All promises, and the ones that were broken.
#[derive(Default, Debug)]
pub struct Promises {
    pub(crate) names: BTreeMap<(Ino, Name), Promise>,
    /// Number of promises made.
    pub made: u64,
    /// Number of looks at promised names.
    pub looks: u64,
    /// Broken promises, in words.
    pub broken: Vec<String>,
}

impl Promises {
    pub(crate) fn doubt(&mut self, (dir, name): &(Ino, Name)) {
        self.names.remove(&(*dir, name.clone()));
    }

    pub(crate) fn make(&mut self, at: (Ino, Name), promise: Promise) {
        self.made += 1;
        self.names.insert(at, promise);
    }

    pub(crate) fn judge(&mut self, (dir, name): &(Ino, Name), promised: &Promise, seen: &Promise) {
        self.looks += 1;
        if seen != promised {
            self.broken.push(format!("{name} in {dir:?} is {seen:?}, fsynced as {promised:?}"));
        }
    }
}
