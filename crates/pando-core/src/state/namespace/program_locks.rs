//! Index of the files of which sessions have program locks.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use pando_types::{HashSlot, Ino, SessionId};

use crate::state::ctx::LockChange;

/// The pairs of session and file for which a row of locks exists.
#[derive(Default, Debug)]
pub struct Locked(BTreeSet<(SessionId, Ino)>);

impl Locked {
    /// Takes over a change that an input made.
    pub fn update(&mut self, change: LockChange) {
        if change.is_there {
            self.0.insert((change.session, change.ino));
        } else {
            self.0.remove(&(change.session, change.ino));
        }
    }

    /// Loads a pair whose row exists, at the start.
    pub(crate) fn load(&mut self, session: SessionId, ino: Ino) {
        self.0.insert((session, ino));
    }

    /// Sessions that have locks; a session comes once for each file.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.0.iter().map(|(session, _)| *session)
    }

    /// Files of which a session has locks.
    pub fn of_session(&self, session: SessionId) -> impl Iterator<Item = Ino> + '_ {
        self.0.range((session, Ino(0))..=(session, Ino(u64::MAX))).map(|(_, ino)| *ino)
    }

    pub(crate) fn of_hash_slot(&self, hash_slot: HashSlot) -> Vec<(SessionId, Ino)> {
        self.0.iter().filter(|(_, ino)| ino.hash_slot() == hash_slot).copied().collect()
    }
}
