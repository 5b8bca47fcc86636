//! The credentials with which contents of open files are asked for.
//!
//! Linux decides when a file is opened, and a process that has it open may go on. So the client
//! asks for contents as the superuser, who needs no permission. Where the client's key does not act
//! as the superuser ([`Options::as_openers`](crate::Options)), shards would refuse that. They also
//! do not know by what an open was permitted. There each request carries the credentials of a user
//! that has the file open. The shard permits what owner and mode permit that user now.
//!
//! Contents belong to the file and not to a handle, so it is not known which opener asks. The
//! client tries all of them, the last one first, until the shard permits one. That reveals nothing:
//! the kernel lets only those read that have the file open.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use foldhash::fast::RandomState;
use pando_types::op::AccessMask;
use pando_types::{Credentials, Ino};
use parking_lot::Mutex;

/// Credentials for the client's own requests, which no user's permissions restrict.
pub(crate) const SYSTEM: &Credentials = &Credentials::ROOT;

/// Permission to read.
pub(crate) const READ: AccessMask = 4;
/// Permission to write.
pub(crate) const WRITE: AccessMask = 2;

/// Permission to execute. Openers that have only this are tried last for a read.
const EXEC: AccessMask = 1;
/// The kinds of opens that are told apart.
const KINDS: [AccessMask; 3] = [READ, WRITE, EXEC];

/// Most openers remembered for a file and a kind.
const OPENERS_MAX: usize = 8;

/// The openers of all open files.
pub(crate) struct Openers {
    is_used: bool,
    files: Mutex<HashMap<Ino, Opened, RandomState>>,
}

/// The openers of an open file.
#[derive(Default)]
struct Opened {
    opens: u64,
    /// Openers by kind, as in [`KINDS`], so that readers never displace a writer. The last opener
    /// is at the end.
    by: [Vec<Credentials>; 3],
}

impl Openers {
    pub(crate) fn new(is_used: bool) -> Self {
        Self { is_used, files: Mutex::default() }
    }

    /// Notes that `by` was permitted to open the file.
    pub(crate) fn opened(&self, ino: Ino, credentials: &Credentials, access: AccessMask) {
        if !self.is_used {
            return;
        }
        let mut files = self.files.lock();
        let file = files.entry(ino).or_default();
        file.opens += 1;
        for (all, kind) in file.by.iter_mut().zip(KINDS) {
            if access & kind != 0 {
                remember(all, credentials);
            }
        }
    }

    /// Notes that one open was released. It is not known which opener it was, so all are kept until
    /// the last close.
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

    /// The credentials to try, in this order; at least one. `None` if requests go out as the
    /// superuser.
    pub(crate) fn of(&self, ino: Ino, access: AccessMask) -> Option<Vec<Credentials>> {
        if !self.is_used {
            return None;
        }
        let files = self.files.lock();
        let mut all: Vec<Credentials> = Vec::new();
        if let Some(file) = files.get(&ino) {
            let may = KINDS.map(|kind| access & kind != 0);
            let first = file.by.iter().zip(may).filter(|(_, may)| *may);
            // A program that writes a part of a block must read the rest of it.
            let others = file.by.iter().zip(may).filter(|(_, may)| !may && access == READ);
            for by in first.chain(others).flat_map(|(by, _)| by.iter().rev()) {
                if !all.contains(by) {
                    all.push(by.clone());
                }
            }
        }
        if all.is_empty() {
            all.push(SYSTEM.clone());
        }
        Some(all)
    }
}

/// Remembers an opener. Of one user and group only the newest credentials are kept, as they were
/// permitted last. If the list is full, the user with the most entries loses the oldest. So one
/// user's groups do not displace other users.
fn remember(all: &mut Vec<Credentials>, credentials: &Credentials) {
    all.retain(|known| (known.uid, known.gid) != (credentials.uid, credentials.gid));
    all.push(credentials.clone());
    if all.len() > OPENERS_MAX {
        let count = |uid| all.iter().filter(|known| known.uid == uid).count();
        let most = all.iter().map(|known| count(known.uid)).max();
        let oldest = all.iter().position(|known| Some(count(known.uid)) == most);
        all.remove(oldest.unwrap_or(0));
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
    fn the_last_permitted_opener_comes_first_until_the_last_close() {
        let openers = Openers::new(true);
        assert_eq!(of(&openers, READ), [0], "nobody is known");
        openers.opened(FILE, &user(1), READ);
        openers.opened(FILE, &user(2), WRITE);
        openers.opened(FILE, &user(3), READ | WRITE);
        assert_eq!((of(&openers, READ), of(&openers, WRITE)), (vec![3, 1, 2], vec![3, 2]));
        openers.opened(FILE, &user(1), WRITE);
        assert_eq!((of(&openers, READ), of(&openers, WRITE)), (vec![3, 1, 2], vec![1, 3, 2]));
        (0..3).for_each(|_| openers.closed(FILE));
        assert_eq!(of(&openers, WRITE), [1, 3, 2]);
        openers.closed(FILE);
        assert_eq!(of(&openers, WRITE), [0]);
        openers.closed(FILE);
    }

    #[test]
    fn no_more_than_the_last_openers_are_remembered_and_none_where_the_superuser_may() {
        let openers = Openers::new(true);
        (0..20).for_each(|uid| openers.opened(FILE, &user(uid), READ));
        let last: Vec<u32> = (12..20).rev().collect();
        assert_eq!(of(&openers, READ), last);
        let unused = Openers::new(false);
        unused.opened(FILE, &user(1), READ);
        assert!(unused.of(FILE, READ).is_none() && unused.files.lock().is_empty());
    }

    #[test]
    fn no_number_of_readers_takes_the_place_of_a_writer_or_the_reverse() {
        let openers = Openers::new(true);
        openers.opened(FILE, &user(1), WRITE);
        (2..30).for_each(|uid| openers.opened(FILE, &user(uid), READ));
        assert_eq!(of(&openers, WRITE), [1]);
        let openers = Openers::new(true);
        openers.opened(FILE, &user(1), READ);
        (2..30).for_each(|uid| openers.opened(FILE, &user(uid), WRITE));
        assert_eq!(of(&openers, READ)[0], 1);
    }

    #[test]
    fn one_user_in_many_groups_takes_no_other_users_place() {
        let openers = Openers::new(true);
        openers.opened(FILE, &user(1), WRITE);
        let in_group = |gid| Credentials::new(2, gid, Vec::new());
        (0..30).for_each(|gid| openers.opened(FILE, &in_group(gid), WRITE));
        assert_eq!((of(&openers, WRITE).len(), of(&openers, WRITE).last()), (8, Some(&1)));
        let newest = openers.of(FILE, WRITE).unwrap()[0].gid;
        assert_eq!(newest, 29, "the oldest of the same user goes");
    }

    #[test]
    fn of_one_user_and_group_the_newest_credentials_that_may_are_kept() {
        let openers = Openers::new(true);
        let with = |groups| Credentials::new(1, 1, groups);
        openers.opened(FILE, &with(vec![7]), WRITE);
        openers.opened(FILE, &with(vec![8]), WRITE);
        // An opener for reading may have left the group by which it could write.
        openers.opened(FILE, &with(vec![]), READ);
        assert_eq!(openers.of(FILE, WRITE).unwrap(), [with(vec![8])]);
        assert_eq!(openers.of(FILE, READ).unwrap(), [with(vec![]), with(vec![8])]);
    }
}
