//! On whose behalf the contents of open files are asked for.
//!
//! Linux decides when a file is opened, and whoever has it open goes on. So contents are asked for as the superuser, who needs no
//! permission. Where the key makes somebody else of the superuser ([`Options::as_openers`](crate::Options)), that one may not, and
//! the shards do not know by what an open was permitted. There each request comes on behalf of one who has the file open: the shard
//! permits that one what its owner or its mode permits now.
//!
//! Which of them asks is not known, as contents belong to the file and not to a handle. So all are tried, the last first, until the
//! shard permits one. Nothing is told that any of them may not know: the kernel lets only those read who have it open.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use foldhash::fast::RandomState;
use pando_types::op::AccessMask;
use pando_types::{Credentials, Ino};
use parking_lot::Mutex;

use crate::client::SYSTEM;

/// To read.
pub(crate) const READ: AccessMask = 4;
/// To write.
pub(crate) const WRITE: AccessMask = 2;

/// Most who are remembered for a file: the last.
const OPENERS_MAX: usize = 8;

/// See the module.
pub(crate) struct Openers {
    is_used: bool,
    files: Mutex<HashMap<Ino, Opened, RandomState>>,
}

/// An open file.
#[derive(Default)]
struct Opened {
    opens: u64,
    /// Who, and for what; the last at the end.
    by: Vec<(Credentials, AccessMask)>,
}

impl Openers {
    pub(crate) fn new(is_used: bool) -> Self {
        Self { is_used, files: Mutex::default() }
    }

    /// `by` was permitted to open the file.
    pub(crate) fn opened(&self, ino: Ino, by: &Credentials, access: AccessMask) {
        if !self.is_used {
            return;
        }
        let mut files = self.files.lock();
        let file = files.entry(ino).or_default();
        file.opens += 1;
        let before = file.by.iter().position(|(of, _)| of == by);
        let may = before.map_or(0, |at| file.by.remove(at).1);
        if file.by.len() == OPENERS_MAX {
            file.by.remove(0);
        }
        file.by.push((by.clone(), may | access));
    }

    /// One open less. Who it was is not known, so all are remembered until the last.
    pub(crate) fn closed(&self, ino: Ino) {
        if !self.is_used {
            return;
        }
        if let Entry::Occupied(mut file) = self.files.lock().entry(ino) {
            file.get_mut().opens -= 1;
            if file.get().opens == 0 {
                file.remove();
            }
        }
    }

    /// On whose behalf to ask, in this order, at least one. `None`: the superuser's, whom nobody refuses.
    pub(crate) fn of(&self, ino: Ino, access: AccessMask) -> Option<Vec<Credentials>> {
        if !self.is_used {
            return None;
        }
        let files = self.files.lock();
        let by = files.get(&ino).map_or(&[][..], |file| &file.by);
        let may = by.iter().rev().filter(|(_, of)| of & access != 0);
        // Who writes a part of a block reads the rest of it.
        let others = by.iter().rev().filter(|(_, of)| of & access == 0 && access == READ);
        let mut all: Vec<_> = may.chain(others).map(|(by, _)| by.clone()).collect();
        if all.is_empty() {
            all.push(SYSTEM.clone());
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Ino = Ino(7);

    fn user(uid: u32) -> Credentials {
        Credentials::new(uid, uid, Vec::new())
    }

    fn of(openers: &Openers, access: AccessMask) -> Vec<u32> {
        let all = openers.of(FILE, access).unwrap();
        all.iter().map(|by| by.uid).collect()
    }

    #[test]
    fn the_last_who_may_comes_first_until_the_last_close() {
        let openers = Openers::new(true);
        assert_eq!(of(&openers, READ), [0], "nobody is known");
        openers.opened(FILE, &user(1), READ);
        openers.opened(FILE, &user(2), WRITE);
        openers.opened(FILE, &user(3), READ | WRITE);
        assert_eq!((of(&openers, READ), of(&openers, WRITE)), (vec![3, 1, 2], vec![3, 2]));
        openers.opened(FILE, &user(1), WRITE);
        assert_eq!((of(&openers, READ), of(&openers, WRITE)), (vec![1, 3, 2], vec![1, 3, 2]));
        (0..3).for_each(|_| openers.closed(FILE));
        assert_eq!(of(&openers, WRITE), [1, 3, 2]);
        openers.closed(FILE);
        assert_eq!(of(&openers, WRITE), [0]);
        openers.closed(FILE);
    }

    #[test]
    fn no_more_than_the_last_are_remembered_and_nobody_where_the_superuser_may() {
        let openers = Openers::new(true);
        (0..20).for_each(|uid| openers.opened(FILE, &user(uid), READ));
        let last: Vec<u32> = (12..20).rev().collect();
        assert_eq!(of(&openers, READ), last);
        let unused = Openers::new(false);
        unused.opened(FILE, &user(1), READ);
        assert!(unused.of(FILE, READ).is_none() && unused.files.lock().is_empty());
    }
}
