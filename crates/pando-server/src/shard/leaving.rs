//! A shard that another process copies: keeps the insert groups that come meanwhile, and freezes
//! the shard in the end.
//!
//! None of this is recorded: a process that restarts has forgotten it, and the copy begins anew.

use std::collections::VecDeque;

use pando_core::contract::{GroupMeta, Write};
use pando_types::Lsn;
use pando_types::peer::RowChange;
use pando_wire::{Group, MoveToken};

/// Most bytes of insert groups that are kept. A follower that does not fetch them in time copies
/// anew.
const KEPT_MAX: usize = 64 << 20;
/// A follower that is silent for this long has given up, nanoseconds.
const SILENT_MAX: u64 = 60_000_000_000;

/// The follower of a shard, and whether the shard is frozen.
#[derive(Default)]
pub(crate) struct Leaving {
    follower: Option<Follower>,
    /// The attempt for which the shard is frozen.
    frozen: Option<MoveToken>,
    /// The shard was being given away, and whether that is durable is unknown. It runs here no
    /// more.
    pub(crate) may_be_given: bool,
}

struct Follower {
    token: MoveToken,
    /// The groups that are kept come after this position.
    after: Lsn,
    groups: VecDeque<(Lsn, usize, Group)>,
    bytes: usize,
    /// When the follower last asked, by the clock of timers.
    heard: u64,
}

impl Leaving {
    /// Whether the shard must run nothing.
    pub(crate) const fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// Keeps the insert groups after `last` for the attempt `token`. A later attempt takes an
    /// earlier one's place. Answers false while the shard is frozen.
    pub(crate) fn follow(&mut self, token: MoveToken, last: Lsn, now: u64) -> bool {
        if self.is_frozen() {
            return false;
        }
        let (groups, bytes) = Default::default();
        self.follower = Some(Follower { token, after: last, groups, bytes, heard: now });
        true
    }

    /// Keeps a group that was applied, if there is a follower. Drops the follower if it is too slow
    /// or silent.
    pub(crate) fn note(&mut self, lsn: Lsn, writes: &[Write], meta: &GroupMeta, now: u64) {
        let Some(follower) = &mut self.follower else { return };
        let changes: Vec<RowChange> = writes.iter().map(change).collect();
        let bytes = writes.iter().map(bytes_of).sum::<usize>() + size_of::<Group>();
        follower.bytes += bytes;
        follower.groups.push_back((lsn, bytes, Group { now: meta.now, changes }));
        if follower.bytes > KEPT_MAX || now.saturating_sub(follower.heard) > SILENT_MAX {
            self.follower = None;
        }
    }

    /// The groups after the position `after`, up to about `most` bytes, and the position of the
    /// last of them. There is at least one group if any came since. Groups up to `after` are
    /// dropped. `None`: the groups are not kept for this attempt.
    pub(crate) fn after(
        &mut self,
        token: MoveToken,
        after: Lsn,
        most: usize,
        now: u64,
    ) -> Option<(Vec<Group>, Lsn)> {
        let follower = self.follower.as_mut().filter(|follower| follower.token == token)?;
        if after < follower.after {
            return None;
        }
        follower.heard = now;
        while let Some((lsn, bytes, _)) = follower.groups.front()
            && *lsn <= after
        {
            follower.bytes -= bytes;
            follower.after = *lsn;
            follower.groups.pop_front();
        }
        let (mut groups, mut upto, mut sum) = (Vec::new(), after, 0);
        for (lsn, bytes, group) in &follower.groups {
            if sum >= most {
                break;
            }
            sum += bytes;
            upto = *lsn;
            groups.push(group.clone());
        }
        Some((groups, upto))
    }

    /// Bytes of groups that the follower has not taken. `None`: no group is kept for this attempt.
    pub(crate) fn left(&self, token: MoveToken) -> Option<usize> {
        let follower = self.follower.as_ref().filter(|follower| follower.token == token)?;
        Some(follower.bytes)
    }

    /// Freezes the shard for the attempt `token`: it runs nothing until [`Leaving::thaw`].
    pub(crate) fn freeze(&mut self, token: MoveToken) {
        self.frozen = Some(token);
    }

    /// Thaws the shard and keeps the follower. Answers whether the shard was frozen for this
    /// attempt. The follower may be gone by then.
    pub(crate) fn thaw(&mut self, token: MoveToken) -> bool {
        let is_its_own = self.frozen == Some(token);
        if is_its_own {
            self.frozen = None;
        }
        is_its_own
    }
}

fn change(write: &Write) -> RowChange {
    match write {
        Write::Put(key, value) => RowChange::Put(key.clone(), value.clone()),
        Write::Delete(key) => RowChange::Delete(key.clone()),
        Write::DeleteRange(from, to) => RowChange::DeleteRange(from.clone(), to.clone()),
    }
}

fn bytes_of(write: &Write) -> usize {
    size_of::<RowChange>()
        + match write {
            Write::Put(key, value) => key.len() + value.len(),
            Write::Delete(key) => key.len(),
            Write::DeleteRange(from, to) => from.len() + to.len(),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: MoveToken = MoveToken([1; 16]);
    const TWO: MoveToken = MoveToken([2; 16]);

    fn note(leaving: &mut Leaving, lsn: u64) {
        let write = Write::Put(lsn.to_be_bytes().to_vec(), vec![0; 100]);
        leaving.note(Lsn(lsn), &[write], &GroupMeta { now: lsn, ..GroupMeta::default() }, 0);
    }

    fn times(groups: &[Group]) -> Vec<u64> {
        groups.iter().map(|group| group.now).collect()
    }

    #[test]
    fn what_changed_is_told_in_order_and_again_until_it_is_asked_for_what_follows() {
        let mut leaving = Leaving::default();
        note(&mut leaving, 6);
        assert!(leaving.follow(ONE, Lsn(6), 0));
        (7..10).for_each(|lsn| note(&mut leaving, lsn));
        for _ in 0..2 {
            let (groups, upto) = leaving.after(ONE, Lsn(6), 1, 0).unwrap();
            assert_eq!((times(&groups), upto), (vec![7], Lsn(7)));
        }
        let (groups, upto) = leaving.after(ONE, Lsn(7), usize::MAX, 0).unwrap();
        assert_eq!((times(&groups), upto), (vec![8, 9], Lsn(9)));
        assert_eq!(leaving.after(ONE, Lsn(9), 1, 0), Some((vec![], Lsn(9))));
        assert_eq!(leaving.left(ONE), Some(0));
        assert_eq!(leaving.after(ONE, Lsn(7), 1, 0), None, "that is gone");
    }

    #[test]
    fn one_attempt_at_a_time_and_none_after_it_was_frozen_for_another() {
        let mut leaving = Leaving::default();
        assert!(leaving.follow(ONE, Lsn(0), 0) && leaving.follow(TWO, Lsn(0), 0));
        assert_eq!(leaving.after(ONE, Lsn(0), 1, 0), None);
        leaving.freeze(TWO);
        assert!(!leaving.follow(ONE, Lsn(0), 0));
        assert!(!leaving.thaw(ONE) && leaving.is_frozen());
        assert!(leaving.thaw(TWO) && !leaving.is_frozen());
        note(&mut leaving, 1);
        assert_eq!(leaving.after(TWO, Lsn(0), 1, 0).unwrap().1, Lsn(1));
    }

    #[test]
    fn a_shard_thaws_though_its_follower_was_dropped_meanwhile() {
        let mut leaving = Leaving::default();
        assert!(leaving.follow(ONE, Lsn(0), 0));
        leaving.freeze(ONE);
        leaving.note(Lsn(1), &[], &GroupMeta::default(), SILENT_MAX + 1);
        assert_eq!(leaving.left(ONE), None);
        assert!(leaving.thaw(ONE) && !leaving.is_frozen());
        assert!(leaving.follow(TWO, Lsn(1), SILENT_MAX + 1));
    }

    #[test]
    fn a_target_that_is_too_slow_copies_anew() {
        let mut leaving = Leaving::default();
        leaving.follow(ONE, Lsn(0), 0);
        let write = Write::Put(vec![1], vec![0; KEPT_MAX / 2]);
        leaving.note(Lsn(1), std::slice::from_ref(&write), &GroupMeta::default(), 0);
        assert!(leaving.after(ONE, Lsn(0), 1, 0).is_some());
        leaving.note(Lsn(2), &[write], &GroupMeta::default(), 0);
        assert_eq!(leaving.after(ONE, Lsn(0), 1, 0), None);
    }
}
