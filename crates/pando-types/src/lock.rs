//! Advisory locks of programs (`flock`, `fcntl`), and how one owner's locks change when it locks
//! and unlocks ranges. Ranges split and merge as in Linux.
//!
//! ```text
//!   held  [0 ─────── shared ─────── 99]      [200 ── exclusive ── 299]
//!   exclusive 50 ..= 199 is put
//!   held  [0 shared 49][50 ──────────────── exclusive ──────────────── 299]
//! ```

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::SessionId;

/// Holder of a lock within its session: a process (`fcntl`) or an open file (`flock`, `F_OFD_*`).
/// Clients number the holders, and use no number twice in a session.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct LockOwner(pub u64);

/// Kind of lock. Locks of different spaces do not conflict.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum LockSpace {
    /// `flock`: locks whole files.
    Flock,
    /// `fcntl`: locks ranges of bytes.
    Record,
}

/// Which other locks a lock excludes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum LockKind {
    /// Excludes exclusive locks.
    Shared,
    /// Excludes all other locks.
    Exclusive,
}

/// Range of bytes of a file, first and last byte included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct LockRange {
    /// First byte.
    pub first: u64,
    /// Last byte: at least `first`, at most [`LockRange::END`], which stands for the end of any
    /// file.
    pub last: u64,
}

impl LockRange {
    /// The last byte a file can have: the largest `loff_t`.
    pub const END: u64 = i64::MAX as u64;
    /// A whole file.
    pub const ALL: Self = Self { first: 0, last: Self::END };

    /// Whether the bounds are in order and not beyond [`LockRange::END`].
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.first <= self.last && self.last <= Self::END
    }

    /// Whether some byte is in both ranges.
    #[must_use]
    pub const fn meets(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// One lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Lock {
    /// The lock's space.
    pub space: LockSpace,
    /// Holder within the session.
    pub owner: LockOwner,
    /// Range that is locked.
    pub range: LockRange,
    /// Which other locks it excludes.
    pub kind: LockKind,
    /// Process that asked for the lock, as numbered on its client's machine. Only shown to people.
    pub pid: u32,
}

impl Lock {
    /// Whether two different owners cannot hold these locks at once.
    #[must_use]
    pub fn excludes(&self, other: &Self) -> bool {
        self.space == other.space
            && (self.kind == LockKind::Exclusive || other.kind == LockKind::Exclusive)
            && self.range.meets(other.range)
    }
}

/// A lock that is in the way of another one, and its session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LockHolder {
    /// The session.
    pub session: SessionId,
    /// The lock.
    pub lock: Lock,
}

/// Locks that one session has of one file. Locks of one owner and space do not overlap. They touch
/// only if their kinds differ.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct LockSet(pub Vec<Lock>);

impl LockSet {
    /// Most locks in a set.
    pub const MAX: usize = 1024;

    /// Adds a lock. It replaces what its owner has locked of its range.
    pub fn put(&mut self, lock: Lock) {
        self.clear(lock.space, lock.owner, lock.range);
        let mut lock = lock;
        // Merge with locks that touch it and have its kind.
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

    /// Removes all that the owner has locked of this range.
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

    /// The first lock in the set that excludes `wanted`. `of_its_session`: the set belongs to the
    /// session that wants the lock.
    #[must_use]
    pub fn in_the_way(&self, wanted: &Lock, of_its_session: bool) -> Option<&Lock> {
        let is_other = |held: &Lock| !of_its_session || held.owner != wanted.owner;
        self.0.iter().find(|held| is_other(held) && held.excludes(wanted))
    }

    /// Locks of an owner in a space.
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

    /// The model: owner and byte, with the kind of its lock.
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
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..300 {
            let (mut set, mut model) = (LockSet::default(), Bytes::new());
            for _ in 0..40 {
                let (owner, a, b) = (random.u64(..3), random.u64(..LEN), random.u64(..LEN));
                let (first, last) = (a.min(b), a.max(b));
                let kind = [LockKind::Shared, LockKind::Exclusive][random.usize(..2)];
                let wanted = lock(owner, first, last, kind);
                let others = (first..=last).any(|byte| {
                    (0..3).filter(|other| *other != owner).any(|other| {
                        model.get(&(other, byte)).is_some_and(|held| {
                            (*held, kind) != (LockKind::Shared, LockKind::Shared)
                        })
                    })
                });
                assert_eq!(set.in_the_way(&wanted, true).is_some(), others, "{set:?} {wanted:?}");
                if random.u8(..3) == 0 {
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
