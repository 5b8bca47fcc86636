//! Sessions that are over and have left something here, and their cleaning.

use alloc::vec::Vec;
use pando_types::{Ino, KeyId, SessionId};

use super::{PUT_OFF, SessionLog};
use crate::state::sessions::over::Over;

/// Pause before unfinished cleaning of ended sessions is taken up again, nanoseconds.
const AGAIN_AFTER: u64 = 1_000_000_000;
/// Pause after a step of cleaning that leaves more to do, nanoseconds.
const CLEAN_AFTER: u64 = 1_000_000;
impl SessionLog {
    /// The key of a session that is over, if the key is known. `None`: the session is not in
    /// `over`.
    pub fn was_of(&self, session: SessionId) -> Option<Option<KeyId>> {
        self.over.get(&session).map(|over| over.key)
    }

    pub fn add_over(&mut self, session: SessionId, over: Over) {
        self.over.insert(session, over);
        self.unclean.insert(session);
        self.cleaning.push_back(session);
    }

    /// Notes that nothing can be cleaned of a session for now.
    pub fn is_clean(&mut self, session: SessionId) {
        self.unclean.remove(&session);
    }

    pub fn forget_over(&mut self, session: SessionId) {
        self.is_clean(session);
        self.over.remove(&session);
    }

    /// Whether the session is over here, and its end is not known everywhere.
    pub fn is_over_somewhere(&self, session: SessionId) -> bool {
        self.over.get(&session).is_some_and(|over| over.at > self.known)
    }

    /// Whether locks of a session that is over must stay for now.
    pub fn has_locks_yet(&self, session: SessionId) -> bool {
        self.over.get(&session).is_some_and(|over| over.at > self.freed)
    }

    /// All sessions that are over and still kept here.
    pub fn over(&self) -> impl Iterator<Item = (SessionId, &Over)> {
        self.over.iter().map(|(session, over)| (*session, over))
    }

    /// The next session to clean.
    pub fn next_to_clean(&mut self) -> Option<SessionId> {
        self.cleaning.pop_front().filter(|session| self.over.contains_key(session))
    }

    pub fn is_cleaning(&self) -> bool {
        !self.cleaning.is_empty()
    }

    /// Notes that cleaning has more to do, after other work.
    pub fn clean_soon(&mut self, now: u64) {
        self.clean_at = now.saturating_add(CLEAN_AFTER);
    }

    /// Notes that an inode could not be read.
    pub fn note_stuck(&mut self, session: SessionId, ino: Ino) {
        if let Some(over) = self.over.get_mut(&session) {
            over.stuck.push(ino);
        }
    }

    /// After all inodes were tried: queues those that could not be read for a later try. Returns
    /// whether there are any.
    pub fn take_up_stuck(&mut self, session: SessionId, now: u64) -> bool {
        let Some(over) = self.over.get_mut(&session) else { return false };
        let is_stuck = !over.stuck.is_empty();
        if is_stuck {
            over.opens = Some(core::mem::take(&mut over.stuck));
            self.clean_at = now.saturating_add(PUT_OFF);
        }
        is_stuck
    }

    /// Whether the inodes are known that an ended session had open when its cleaning began.
    pub fn has_begun_cleaning(&self, session: SessionId) -> bool {
        self.over.get(&session).is_some_and(|over| over.opens.is_some())
    }

    /// Begins the cleaning of an ended session, which had these inodes open.
    pub fn begin_cleaning(&mut self, session: SessionId, opens: Vec<Ino>) {
        if let Some(over) = self.over.get_mut(&session) {
            over.opens = Some(opens);
        }
    }

    /// Takes at most `most` inodes that are not cleaned yet, and whether there are more. `None`: no
    /// such session is kept as over.
    pub fn take_opens(&mut self, session: SessionId, most: usize) -> Option<(Vec<Ino>, bool)> {
        let opens = self.over.get_mut(&session)?.opens.as_mut()?;
        let taken = opens.split_off(opens.len().saturating_sub(most));
        Some((taken, !opens.is_empty()))
    }

    /// Queues all unfinished sessions for cleaning, when their time has come.
    pub fn clean_again(&mut self, now: u64) {
        if self.cleaning.is_empty() && now >= self.clean_at && !self.unclean.is_empty() {
            self.clean_at = now.saturating_add(AGAIN_AFTER);
            self.cleaning.extend(&self.unclean);
        }
    }

    /// When cleaning takes up unfinished sessions again, nanoseconds.
    pub(crate) fn next_cleaning(&self) -> Option<u64> {
        let is_due = !self.unclean.is_empty() && self.cleaning.is_empty();
        is_due.then_some(self.clean_at)
    }
}
