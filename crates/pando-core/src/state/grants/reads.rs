//! Read grants: which sessions are told before another one changes a part
//! (docs/design/read-grants.md).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use pando_types::{DirId, KeyId, PartitionIndex, SessionId, TxnId};

use crate::state::grants::held::{AT_ONCE, Holder, Recall, fence_after};
use crate::state::grants::pauses::Pauses;

/// Most read grants of a shard. More than a session may have, so that one leaves room for others.
pub const READS_MAX: usize = 65_536;
/// Most read grants of a session.
pub const OF_SESSION_MAX: usize = 4_096;

/// A part, by directory and partition.
pub type At = (DirId, PartitionIndex);

/// A read grant.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// The session that has it.
    pub session: SessionId,
    /// The session's key.
    pub key: KeyId,
    /// What is read. `None`: any part of the shard, as before its start (a *whole*).
    pub at: Option<At>,
    /// When it was given, or the shard started.
    pub since: u64,
    /// Whether, and since when, somebody wants to change the part.
    pub recalled: Option<Recall>,
}

/// All read grants of a shard.
#[derive(Default, Debug)]
pub struct Reads {
    all: BTreeMap<TxnId, Read>,
    of_parts: BTreeMap<At, BTreeMap<SessionId, TxnId>>,
    of_sessions: BTreeSet<(SessionId, TxnId)>,
    wholes: BTreeSet<TxnId>,
    /// Recalled ones, by when they end.
    fences: BTreeSet<(u64, TxnId)>,
    /// Parts that came back because others wanted to change them.
    pub pauses: Pauses,
}

impl Reads {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Number of read grants.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Read grants of a session, ascending by generation.
    pub fn of_session(&self, session: SessionId) -> impl Iterator<Item = (TxnId, &Read)> {
        let least = TxnId { shard: pando_types::ShardIndex(0), number: 0 };
        let its = self.of_sessions.range((session, least)..);
        its.take_while(move |(of, _)| *of == session)
            .filter_map(|(_, id)| Some((*id, self.all.get(id)?)))
    }

    /// Sessions that have read grants.
    pub fn sessions(&self) -> BTreeSet<SessionId> {
        self.of_sessions.iter().map(|(session, _)| *session).collect()
    }

    /// Enters a read grant. It takes the place of another one of that part, which is to be taken
    /// out next.
    pub fn enter(&mut self, generation: TxnId, read: Read) {
        match read.at {
            Some(at) => drop(self.of_parts.entry(at).or_default().insert(read.session, generation)),
            None => drop(self.wholes.insert(generation)),
        }
        self.of_sessions.insert((read.session, generation));
        if let Some(recall) = read.recalled {
            self.fences.insert((recall.fence_at, generation));
        }
        self.all.insert(generation, read);
    }

    /// A read grant.
    pub fn get(&self, generation: TxnId) -> Option<&Read> {
        self.all.get(&generation)
    }

    /// Takes a read grant out.
    pub fn take(&mut self, generation: TxnId) -> Option<Read> {
        let read = self.all.remove(&generation)?;
        self.of_sessions.remove(&(read.session, generation));
        self.wholes.remove(&generation);
        if let Some(recall) = read.recalled {
            self.fences.remove(&(recall.fence_at, generation));
        }
        if let Some(at) = read.at
            && let Some(readers) = self.of_parts.get_mut(&at)
        {
            if readers.get(&read.session) == Some(&generation) {
                readers.remove(&read.session);
            }
            if readers.is_empty() {
                self.of_parts.remove(&at);
            }
        }
        Some(read)
    }

    /// The read grant of a part that a session has.
    pub fn of(&self, at: At, session: SessionId) -> Option<TxnId> {
        self.of_parts.get(&at)?.get(&session).copied()
    }

    /// Whether a part has readers.
    pub fn is_read(&self, at: At) -> bool {
        self.of_parts.contains_key(&at)
    }

    /// Whether a part has a reader other than this session.
    pub fn is_read_by_others(&self, at: At, session: SessionId) -> bool {
        let readers = self.of_parts.get(&at);
        readers.is_some_and(|readers| readers.keys().any(|reader| *reader != session))
    }

    /// Whether a session other than this one may read any part, since before the shard's start.
    pub fn has_whole_of_others(&self, session: SessionId) -> bool {
        let is_its = |id: &TxnId| self.all.get(id).is_some_and(|read| read.session == session);
        self.wholes.iter().any(|id| !is_its(id))
    }

    /// Parts that are read, of those for which `is_it` holds.
    pub fn parts(&self, is_it: impl Fn(At) -> bool) -> Vec<At> {
        self.of_parts.keys().copied().filter(|at| is_it(*at)).collect()
    }

    /// Since when a part has been wanted.
    pub fn wanted_since(&self, at: At) -> Option<u64> {
        let readers = self.of_parts.get(&at)?.values();
        readers.filter_map(|id| Some(self.all.get(id)?.recalled?.at)).min()
    }

    /// Notes that somebody wants to change a part. `holder` tells of a session that has read
    /// grants. Returns sessions to which that is news.
    pub fn recall(
        &mut self,
        at: At,
        holder: impl Fn(SessionId) -> Holder,
        now: u64,
    ) -> Vec<SessionId> {
        let readers = self.of_parts.get(&at);
        let ids: Vec<_> = readers.iter().flat_map(|it| it.values().copied()).collect();
        let mut news = Vec::new();
        for id in ids {
            let Some(read) = self.all.get_mut(&id).filter(|read| read.recalled.is_none()) else {
                continue;
            };
            let fence_at = fence_after(read.since, holder(read.session), now);
            read.recalled = Some(Recall { at: now, fence_at });
            self.fences.insert((fence_at, id));
            news.push(read.session);
        }
        news
    }

    /// Read grants that their sessions do not use any more at `now`, though somebody waits.
    pub fn to_fence(&self, now: u64) -> Vec<TxnId> {
        let due = self.fences.iter().take_while(|(at, _)| *at <= now).take(AT_ONCE);
        due.map(|(_, id)| *id).collect()
    }

    /// Wants all back that a session reads. Its holder is `holder`.
    pub fn recall_all_of(&mut self, session: SessionId, holder: Holder, now: u64) {
        let its: Vec<_> = self.of_session(session).map(|(id, _)| id).collect();
        for id in its {
            if let Some(read) = self.all.get_mut(&id).filter(|read| read.recalled.is_none()) {
                let fence_at = fence_after(read.since, holder, now);
                read.recalled = Some(Recall { at: now, fence_at });
                self.fences.insert((fence_at, id));
            }
        }
    }

    /// Since when there has been a whole.
    pub fn whole_since(&self) -> Option<u64> {
        self.wholes.iter().filter_map(|id| Some(self.all.get(id)?.since)).min()
    }

    /// When the next one ends by itself.
    pub fn next_fence(&self) -> Option<u64> {
        self.fences.first().map(|(at, _)| *at)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = (TxnId, &Read)> {
        self.all.iter().map(|(id, read)| (*id, read))
    }
}

#[cfg(test)]
mod tests {
    use pando_types::ShardIndex;

    use super::*;

    const AT: At = (DirId::ROOT, PartitionIndex(0));

    fn id(number: u64) -> TxnId {
        TxnId { shard: ShardIndex(0), number }
    }

    fn read(session: u64, at: Option<At>) -> Read {
        Read { session: SessionId(session), key: KeyId::default(), at, since: 5, recalled: None }
    }

    #[test]
    fn a_part_is_wanted_from_all_readers_once() {
        let mut reads = Reads::default();
        reads.enter(id(1), read(7, Some(AT)));
        assert!(!reads.is_read_by_others(AT, SessionId(7)));
        reads.enter(id(2), read(8, Some(AT)));
        assert!(reads.is_read_by_others(AT, SessionId(7)));
        let holder = |_| Holder::default();
        assert_eq!(reads.recall(AT, holder, 9), [SessionId(7), SessionId(8)]);
        assert_eq!(reads.recall(AT, holder, 10), []);
        assert_eq!(reads.wanted_since(AT), Some(9));
        let fence = reads.next_fence().unwrap();
        assert_eq!(reads.to_fence(fence - 1), []);
        assert_eq!(reads.to_fence(fence), [id(1), id(2)]);
        assert!(reads.take(id(1)).is_some() && reads.is_read(AT));
        assert!(reads.take(id(2)).is_some() && !reads.is_read(AT));
        assert!(reads.is_empty() && reads.next_fence().is_none() && reads.take(id(2)).is_none());
    }

    #[test]
    fn a_whole_stands_in_the_way_of_others() {
        let mut reads = Reads::default();
        reads.enter(id(1), read(7, None));
        assert!(reads.has_whole_of_others(SessionId(8)));
        assert!(!reads.has_whole_of_others(SessionId(7)) && !reads.is_read(AT));
        reads.take(id(1));
        assert!(!reads.has_whole_of_others(SessionId(8)) && reads.sessions().is_empty());
    }
}
