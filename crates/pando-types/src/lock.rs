//! Advisory locks of programs (`flock`, `fcntl`): what one is, and what becomes of those that one
//! owner has when it locks and unlocks ranges, as Linux has it.
//!
//! ```text
//!   held  [0 ─────── shared ─────── 99]      [200 ── exclusive ── 299]
//!   exclusive 50 ..= 199 is put
//!   held  [0 shared 49][50 ──────────────── exclusive ──────────────── 299]
//! ```

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::SessionId;

/// Who holds a lock, within its session: a process (`fcntl`) or an open file (`flock`, `F_OFD_*`).
/// Clients number them, and never give a number twice in a session.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct LockOwner(pub u64);

/// Locks of different spaces do not meet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum LockSpace {
    /// `flock`: of whole files.
    Flock,
    /// `fcntl`: of ranges of bytes.
    Record,
}

/// Whom a lock keeps out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum LockKind {
    /// Exclusive ones.
    Shared,
    /// All others.
    Exclusive,
}

/// Bytes of a file: from the first to the last, both included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct LockRange {
    /// First byte.
    pub first: u64,
    /// Last byte, not before the first and at most [`LockRange::END`], which stands for all there
    /// will ever be.
    pub last: u64,
}

impl LockRange {
    /// The last byte a file can have: what `loff_t` can say.
    pub const END: u64 = i64::MAX as u64;
    /// A whole file.
    pub const ALL: Self = Self { first: 0, last: Self::END };

    /// Whether it is one.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.first <= self.last && self.last <= Self::END
    }

    /// Whether there is a byte in both.
    #[must_use]
    pub const fn meets(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// One lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Lock {
    /// Which kind of lock.
    pub space: LockSpace,
    /// Who has it.
    pub owner: LockOwner,
    /// Of what.
    pub range: LockRange,
    /// Whom it keeps out.
    pub kind: LockKind,
    /// The process that asked for it, for people; a number of its client's machine.
    pub pid: u32,
}

impl Lock {
    /// Whether these two cannot be held at once, by different owners.
    #[must_use]
    pub fn excludes(&self, other: &Self) -> bool {
        self.space == other.space
            && (self.kind == LockKind::Exclusive || other.kind == LockKind::Exclusive)
            && self.range.meets(other.range)
    }
}

/// A lock that is in the way of another, and whose it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LockHolder {
    /// The session.
    pub session: SessionId,
    /// The lock.
    pub lock: Lock,
}

/// Locks that one session has of one file. Those of one owner do not overlap, and touch only if
/// they differ.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct LockSet(pub Vec<Lock>);

impl LockSet {
    /// Most locks in it.
    pub const MAX: usize = 1024;

    /// Adds a lock, which replaces what its owner has of its range.
    pub fn put(&mut self, lock: Lock) {
        self.clear(lock.space, lock.owner, lock.range);
        let mut lock = lock;
        // What touches it and keeps out the same is one lock with it.
        self.0.retain(|held| {
            let touches =
                held.range.last + 1 == lock.range.first || lock.range.last + 1 == held.range.first;
            let same = is_of(held, lock.space, lock.owner) && held.kind == lock.kind;
            if touches && same {
                lock.range.first = lock.range.first.min(held.range.first);
                lock.range.last = lock.range.last.max(held.range.last);
            }
            !(touches && same)
        });
        let at = self.0.partition_point(|held| place(held) < place(&lock));
        self.0.insert(at, lock);
    }

    /// The owner has nothing of this range any more.
    pub fn clear(&mut self, space: LockSpace, owner: LockOwner, range: LockRange) {
        let meets = |held: &Lock| is_of(held, space, owner) && held.range.meets(range);
        if !self.0.iter().any(meets) {
            return;
        }
        let mut left = Vec::with_capacity(self.0.len() + 1);
        for held in &self.0 {
            if !meets(held) {
                left.push(*held);
                continue;
            }
            if held.range.first < range.first {
                let before = LockRange { first: held.range.first, last: range.first - 1 };
                left.push(Lock { range: before, ..*held });
            }
            if held.range.last > range.last {
                let behind = LockRange { first: range.last + 1, last: held.range.last };
                left.push(Lock { range: behind, ..*held });
            }
        }
        self.0 = left;
    }

    /// The first lock in here that keeps `wanted` out. `of_its_session`: whether this is the set of
    /// the session that wants it.
    #[must_use]
    pub fn in_the_way(&self, wanted: &Lock, of_its_session: bool) -> Option<&Lock> {
        let is_other = |held: &Lock| !of_its_session || held.owner != wanted.owner;
        self.0.iter().find(|held| is_other(held) && held.excludes(wanted))
    }

    /// What an owner has in a space.
    pub fn of(&self, space: LockSpace, owner: LockOwner) -> impl Iterator<Item = &Lock> {
        self.0.iter().filter(move |held| is_of(held, space, owner))
    }
}

fn is_of(held: &Lock, space: LockSpace, owner: LockOwner) -> bool {
    held.space == space && held.owner == owner
}

fn place(lock: &Lock) -> (LockSpace, LockOwner, u64) {
    (lock.space, lock.owner, lock.range.first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    /// Bytes of the model's file.
    const LEN: u64 = 24;

    fn range(first: u64, last: u64) -> LockRange {
        LockRange { first, last }
    }

    fn lock(owner: u64, first: u64, last: u64, kind: LockKind) -> Lock {
        let (space, owner) = (LockSpace::Record, LockOwner(owner));
        Lock { space, owner, range: range(first, last), kind, pid: 7 }
    }

    /// Every byte by itself: who has it, and how.
    type Bytes = BTreeMap<(u64, u64), LockKind>;

    fn bytes_of(set: &LockSet) -> Bytes {
        let mut bytes = Bytes::new();
        for held in &set.0 {
            for byte in held.range.first..=held.range.last {
                let twice = bytes.insert((held.owner.0, byte), held.kind);
                assert_eq!(twice, None, "{set:?} has byte {byte} twice");
            }
        }
        bytes
    }

    fn assert_is_whole(set: &LockSet) {
        assert!(set.0.is_sorted_by_key(place), "{set:?}");
        for pair in set.0.windows(2) {
            let same = (pair[0].owner, pair[0].kind) == (pair[1].owner, pair[1].kind);
            let touch = pair[0].range.last + 1 == pair[1].range.first;
            assert!(!(same && touch), "{set:?} is not merged");
        }
    }

    #[test]
    fn sets_of_locks_are_what_each_byte_says() {
        let mut state = 1u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..300 {
            let (mut set, mut model) = (LockSet::default(), Bytes::new());
            for _ in 0..40 {
                let (owner, a, b) = (random(3), random(LEN), random(LEN));
                let (first, last) = (a.min(b), a.max(b));
                let kind = [LockKind::Shared, LockKind::Exclusive][random(2) as usize];
                let wanted = lock(owner, first, last, kind);
                let others = (first..=last).any(|byte| {
                    (0..3).filter(|other| *other != owner).any(|other| {
                        model.get(&(other, byte)).is_some_and(|held| {
                            (*held, kind) != (LockKind::Shared, LockKind::Shared)
                        })
                    })
                });
                assert_eq!(set.in_the_way(&wanted, true).is_some(), others, "{set:?} {wanted:?}");
                if random(3) == 0 {
                    set.clear(LockSpace::Record, LockOwner(owner), range(first, last));
                    model.retain(|(who, byte), _| *who != owner || !(first..=last).contains(byte));
                } else if !others {
                    set.put(wanted);
                    model.extend((first..=last).map(|byte| ((owner, byte), kind)));
                }
                assert_eq!(bytes_of(&set), model);
                assert_is_whole(&set);
            }
        }
    }

    #[test]
    fn a_lock_to_the_end_is_split_and_merged_as_any() {
        let mut set = LockSet::default();
        set.put(lock(1, 0, LockRange::END, LockKind::Shared));
        set.put(lock(1, 10, 10, LockKind::Exclusive));
        assert_eq!(set.0.len(), 3);
        assert_eq!(set.0[2].range, range(11, LockRange::END));
        set.put(lock(1, 10, LockRange::END, LockKind::Shared));
        assert_eq!(set.0, [lock(1, 0, LockRange::END, LockKind::Shared)]);
        set.clear(LockSpace::Record, LockOwner(1), LockRange::ALL);
        assert_eq!(set, LockSet::default());
    }

    #[test]
    fn spaces_do_not_meet_and_other_sessions_owners_are_others() {
        let mut set = LockSet::default();
        set.put(lock(1, 0, 9, LockKind::Exclusive));
        let wanted = lock(1, 5, 5, LockKind::Shared);
        assert_eq!(set.in_the_way(&wanted, true), None);
        assert!(set.in_the_way(&wanted, false).is_some());
        assert_eq!(set.in_the_way(&Lock { space: LockSpace::Flock, ..wanted }, false), None);
    }

    #[test]
    fn ranges_that_cannot_be_are_known() {
        assert!(LockRange::ALL.is_valid() && range(5, 5).is_valid());
        assert!(!range(6, 5).is_valid() && !range(0, LockRange::END + 1).is_valid());
    }
}
