//! Which parts of directories a session changes so often that it is worth borrowing them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;

use pando_core::{Counted, LentCore};
use pando_placement::{Secrets, hash_of_order, partition_of, range};
use pando_types::op::{Op, Request};
use pando_types::reply::Body;
use pando_types::requests::asked::changes_at;
use pando_types::{DirId, DirRef, Order, Radix};

use crate::settings::MILLIS;

/// Parts that are watched at most.
const MOST: usize = 4_096;
/// Time after a refusal in which a part is not asked for, nanoseconds. It doubles with each loan
/// that was not worth it.
const REFUSED_FOR: u64 = 500 * MILLIS;
/// Longest such time, nanoseconds.
const REFUSED_MAX: u64 = 32 * REFUSED_FOR;
/// Shortest such time after a loan that was not worth it, nanoseconds.
const REFUSED_MIN: u64 = 20 * MILLIS;
/// Rows that are read in the time of a change that travels.
const ROWS_A_CHANGE: u64 = 256;
/// A loan was worth it that has answered so many requests.
const WORTH: u32 = 16;

/// Changes by part. Where the parts of a directory lie is guessed by what the shard tells: a guess
/// that is wrong costs a request.
#[derive(Default, Debug)]
pub(crate) struct Eager {
    known: HashMap<DirId, Known>,
    /// Number of all parts.
    count: usize,
    ready: VecDeque<Wanted>,
}

/// What is known of a directory at this shard.
#[derive(Default, Debug)]
struct Known {
    /// Parts that are disjoint, by the first order.
    parts: BTreeMap<u64, Changes>,
    /// Whether the shard is its home. `None`: it has not told.
    is_home: Option<bool>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Changes {
    /// One past the last order of the part.
    end: u64,
    /// How many entries it had when that was told last.
    entries: u64,
    count: u32,
    not_before: u64,
    /// The last pause.
    pause: u64,
}

/// A part that is to be borrowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    /// The directory.
    pub(crate) dir: DirRef,
    /// An order in the part.
    pub(crate) order: Order,
    /// Where the part is thought to lie.
    pub(crate) orders: Range<u64>,
    /// After how many changes it is wanted.
    count: u32,
}

impl Changes {
    /// Whether so much was changed that it pays to read all of the part. `after`: number of changes
    /// after which an empty part is borrowed.
    fn is_worth(&self, after: u32) -> bool {
        u64::from(self.count) >= u64::from(after).saturating_add(self.entries / ROWS_A_CHANGE)
    }

    /// If the part is to be borrowed now, after how many changes. They count anew.
    fn take_due(&mut self, now: u64, after: u32) -> Option<u32> {
        let is_due = self.is_worth(after) && self.not_before <= now;
        is_due.then(|| std::mem::take(&mut self.count))
    }

    /// How many entries it has in a range, if they are spread evenly. `start`: its first order.
    fn entries_in(&self, start: u64, orders: &Range<u64>) -> u64 {
        let common = self.end.min(orders.end).saturating_sub(start.max(orders.start));
        let share = u128::from(self.entries) * u128::from(common);
        u64::try_from(share / u128::from((self.end - start).max(1))).unwrap_or(u64::MAX)
    }
}

impl Wanted {
    /// Whether a core has the part.
    pub(crate) fn is_at(&self, core: &LentCore) -> bool {
        core.grant_at(self.dir.id, self.order).is_some()
    }
}

/// What a request tells about parts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Watched {
    /// It changes entries of the part with this order, or inodes in these.
    Changed(DirRef, Order),
    /// It asks how many entries parts of this directory have.
    Counted(DirId),
}

impl Watched {
    /// What a request tells about parts.
    pub(crate) fn of(request: &Request, secrets: &Secrets) -> Option<Self> {
        if let Op::DirGetAttr(dir) | Op::PartitionStat(dir, _) = &request.op {
            return Some(Self::Counted(dir.id));
        }
        let [first, second] = changes_at(&request.op).filter(|_| request.head.id.sequence > 0)?;
        let (dir, name) = first?;
        let is_one = second.is_none_or(|(other, _)| other == dir);
        is_one.then(|| Self::Changed(dir, secrets.order(name.as_bytes())))
    }
}

impl Eager {
    /// Notes that a shard has changed something in the part with this order.
    pub(crate) fn changed(
        &mut self,
        (dir, order): (DirRef, Order),
        body: &Body,
        (now, after): (u64, u32),
    ) {
        if let Body::Created(_, _, radix) = body
            && let Some(orders) = range_of(order, *radix)
        {
            self.lies_at(dir.id, orders);
        }
        let (start, changes) = self.part(dir.id, order);
        changes.count = changes.count.saturating_add(1);
        if let Some(count) = changes.take_due(now, after) {
            let orders = start..changes.end;
            self.ready.push_back(Wanted { dir, order, orders, count });
        }
    }

    /// Notes how many entries a shard's parts of a directory have.
    pub(crate) fn counted(&mut self, dir: DirId, body: &Body) {
        // A directory in which nothing changes is not watched.
        let Some(known) = self.known.get_mut(&dir) else { return };
        let deltas = match body {
            Body::Delta(delta) => std::slice::from_ref(delta),
            Body::Dir(attr) => {
                known.is_home = Some(true);
                &attr.deltas[..]
            }
            _ => &[],
        };
        for its in deltas {
            let orders = range(its.partition, its.radix);
            self.learn(Counted { dir, orders, entries: its.entries });
        }
    }

    /// Notes where a part lies, and how many entries it has.
    pub(crate) fn learn(&mut self, part: Counted) {
        let Counted { dir, orders, entries } = part;
        let order = Order(orders.start);
        if self.lies_at(dir, orders) {
            self.part(dir, order).1.entries = entries;
        }
    }

    /// Notes how many entries a part has that is given back. One that is read at no cost is not
    /// watched for that: a tree has many of them.
    pub(crate) fn returned(&mut self, part: Counted) {
        if part.entries >= ROWS_A_CHANGE || self.known.contains_key(&part.dir) {
            self.learn(part);
        }
    }

    /// Notes where a part lies. False: nowhere.
    fn lies_at(&mut self, dir: DirId, orders: Range<u64>) -> bool {
        if orders.is_empty() {
            return false;
        }
        let (start, known) = self.part(dir, Order(orders.start));
        if start == orders.start && known.end == orders.end {
            return true;
        }
        let Some(Known { parts, .. }) = self.known.get_mut(&dir) else { return false };
        let overlapping: Vec<_> = parts
            .range(..orders.end)
            .rev()
            .take_while(|(_, its)| its.end > orders.start)
            .map(|(start, its)| (*start, its.entries_in(*start, &orders)))
            .collect();
        for (start, _) in &overlapping {
            parts.remove(start);
        }
        let entries = overlapping.iter().map(|(_, entries)| entries).sum();
        parts.insert(orders.start, Changes { end: orders.end, entries, ..Changes::default() });
        self.count = self.count + 1 - overlapping.len();
        true
    }

    /// Notes that a part was not lent.
    pub(crate) fn refused(&mut self, wanted: &Wanted, now: u64) {
        let (_, changes) = self.part(wanted.dir.id, wanted.order);
        changes.not_before = now.saturating_add(REFUSED_FOR);
    }

    /// Notes that a part was given back because this session needed more than that, after it has
    /// answered so many requests.
    pub(crate) fn given_up(&mut self, part: Counted, answered: u32, now: u64) {
        let (dir, order) = (part.dir, Order(part.orders.start));
        self.learn(part);
        let (_, changes) = self.part(dir, order);
        changes.pause = match answered < WORTH {
            true => (changes.pause * 2).clamp(REFUSED_MIN, REFUSED_MAX),
            false => 0,
        };
        changes.not_before = now.saturating_add(changes.pause);
    }

    /// The part of a directory that has an order, with its first order: one that is known, or else
    /// what lies between these.
    fn part(&mut self, dir: DirId, order: Order) -> (u64, &mut Changes) {
        let known = self.known.get(&dir).and_then(|known| {
            let (start, its) = known.parts.range(..=order.0).next_back()?;
            (order.0 < its.end).then_some(*start)
        });
        if known.is_none() {
            if self.count >= MOST {
                self.known.clear();
                self.count = 0;
            }
            self.count += 1;
        }
        let parts = &mut self.known.entry(dir).or_default().parts;
        let start = known
            .unwrap_or_else(|| parts.range(..=order.0).next_back().map_or(0, |(_, its)| its.end));
        let end = parts.range(start + 1..).next().map_or(Order::END, |(next, _)| *next);
        let changes = parts.entry(start).or_insert(Changes { end, ..Changes::default() });
        (start, changes)
    }

    /// Whether the shard is the home of a directory. `None`: it has not told.
    pub(crate) fn is_home(&self, dir: DirId) -> Option<bool> {
        self.known.get(&dir)?.is_home
    }

    /// Notes that the shard has no part with the first order: it is not the home.
    pub(crate) fn is_not_home(&mut self, dir: DirId) {
        if let Some(known) = self.known.get_mut(&dir) {
            known.is_home = Some(false);
        }
    }

    /// The part with the first order of its directory, which has to be borrowed before another one
    /// that is wanted. `None`: not now. What was changed in the other one counts for it.
    pub(crate) fn first_of(&mut self, wanted: &Wanted, (now, after): (u64, u32)) -> Option<Wanted> {
        let (start, changes) = self.part(wanted.dir.id, Order(0));
        changes.count = changes.count.saturating_add(wanted.count);
        let count = changes.take_due(now, after)?;
        let orders = start..changes.end;
        Some(Wanted { dir: wanted.dir, order: Order(0), orders, count })
    }

    /// Whether a part is to be borrowed.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes a part that is to be borrowed.
    pub(crate) fn take_ready(&mut self) -> Option<Wanted> {
        self.ready.pop_front()
    }
}

/// The orders of the partition that holds an order, and has this depth. `None`: no partition has.
fn range_of(order: Order, radix: Radix) -> Option<Range<u64>> {
    (radix <= Radix::MAX).then(|| range(partition_of(hash_of_order(order), radix), radix))
}

#[cfg(test)]
mod tests {
    use pando_types::reply::{Body, Delta};
    use pando_types::{Ino, PartitionIndex, ShardIndex, Timestamp};

    use super::*;

    const DIR: DirRef = DirRef { id: DirId([7; 16]), ino: Ino(9) };
    const AFTER: u32 = 8;

    /// So many changes at an order, of which shards tell nothing. Returns what is to be borrowed.
    fn changes(eager: &mut Eager, order: Order, count: u32, now: u64) -> Vec<Wanted> {
        for _ in 0..count {
            eager.changed((DIR, order), &Body::Done, (now, AFTER));
        }
        std::iter::from_fn(|| eager.take_ready()).collect()
    }

    fn counted(eager: &mut Eager, (partition, radix): (u32, u8), entries: u64) {
        let delta = Delta {
            partition: PartitionIndex(partition),
            radix: Radix(radix),
            shard: ShardIndex(0),
            entries,
            subdirs: 0,
            change: 0,
            mtime: Timestamp::default(),
            generation: 0,
        };
        eager.counted(DIR.id, &Body::Delta(delta));
    }

    fn whole() -> Counted {
        Counted { dir: DIR.id, orders: 0..Order::END, entries: 0 }
    }

    const LOW: Order = Order(5);
    const HIGH: Order = Order(Order::END - 5);

    #[test]
    fn a_directory_of_which_nothing_is_known_is_one_part() {
        let mut eager = Eager::default();
        assert_eq!(changes(&mut eager, LOW, AFTER - 1, 0), []);
        let wanted = changes(&mut eager, HIGH, 1, 0);
        assert_eq!(wanted, [Wanted { dir: DIR, order: HIGH, orders: 0..Order::END, count: AFTER }]);
        assert_eq!(changes(&mut eager, HIGH, AFTER - 1, 0), []);
    }

    #[test]
    fn parts_are_counted_apart_once_it_is_known_where_they_lie() {
        let mut eager = Eager::default();
        assert_eq!(changes(&mut eager, LOW, 1, 0), []);
        counted(&mut eager, (1, 1), 3);
        let half = Order::END / 2;
        assert_eq!(changes(&mut eager, LOW, AFTER - 1, 0), []);
        let wanted = changes(&mut eager, HIGH, AFTER, 0);
        assert_eq!((wanted[0].order, wanted[0].orders.clone()), (HIGH, half..Order::END));
        // What lies beside a part that is known is another one.
        let wanted = changes(&mut eager, LOW, AFTER, 0);
        assert_eq!((wanted[0].order, wanted[0].orders.clone()), (LOW, 0..half));
    }

    #[test]
    fn what_is_told_last_counts() {
        let mut eager = Eager::default();
        changes(&mut eager, LOW, 1, 0);
        counted(&mut eager, (0, 2), 3);
        counted(&mut eager, (0, 1), 3);
        let wanted = changes(&mut eager, LOW, AFTER, 0);
        assert_eq!(wanted[0].orders, 0..Order::END / 2, "two parts have become one");
        counted(&mut eager, (2, 2), 3);
        let wanted = changes(&mut eager, LOW, AFTER, 0);
        assert_eq!(wanted[0].orders, 0..Order::END / 4, "it has split");
    }

    #[test]
    fn a_part_is_read_only_if_that_costs_no_more_than_what_was_changed() {
        let mut eager = Eager::default();
        changes(&mut eager, LOW, 1, 0);
        counted(&mut eager, (0, 0), 100 * ROWS_A_CHANGE);
        assert_eq!(changes(&mut eager, LOW, AFTER + 98, 0), []);
        assert_eq!(changes(&mut eager, LOW, 1, 0).len(), 1);
    }

    #[test]
    fn a_refusal_concerns_one_part() {
        let mut eager = Eager::default();
        changes(&mut eager, LOW, 1, 0);
        counted(&mut eager, (0, 1), 0);
        counted(&mut eager, (1, 1), 0);
        let wanted = changes(&mut eager, LOW, AFTER, 1);
        eager.refused(&wanted[0], 1);
        assert_eq!(changes(&mut eager, LOW, AFTER, REFUSED_FOR), []);
        assert_eq!(changes(&mut eager, HIGH, AFTER, 1).len(), 1);
        assert_eq!(changes(&mut eager, LOW, 1, 1 + REFUSED_FOR).len(), 1);
    }

    #[test]
    fn a_loan_that_was_not_worth_it_pauses_longer_each_time() {
        let mut eager = Eager::default();
        for pause in [REFUSED_MIN, 2 * REFUSED_MIN] {
            eager.given_up(whole(), WORTH - 1, 0);
            assert_eq!(changes(&mut eager, LOW, AFTER, pause - 1), []);
            assert_eq!(changes(&mut eager, LOW, AFTER, pause).len(), 1);
        }
        eager.given_up(whole(), WORTH, 0);
        assert_eq!(changes(&mut eager, LOW, AFTER, 0).len(), 1);
    }

    #[test]
    fn what_no_shard_can_tell_is_no_part() {
        let mut eager = Eager::default();
        changes(&mut eager, LOW, 1, 0);
        counted(&mut eager, (5, 2), 3);
        counted(&mut eager, (0, 25), 3);
        assert_eq!(changes(&mut eager, LOW, AFTER, 0)[0].orders, 0..Order::END);
        assert_eq!(range_of(LOW, Radix(200)), None);
    }

    /// Who asks a home for attributes would want all other parts back without it.
    #[test]
    fn the_first_part_goes_before_others_if_that_pays() {
        let mut eager = Eager::default();
        changes(&mut eager, LOW, 1, 0);
        counted(&mut eager, (0, 1), 20 * ROWS_A_CHANGE);
        counted(&mut eager, (1, 1), 0);
        let wanted = changes(&mut eager, HIGH, AFTER, 0).remove(0);
        let mut asked = 1;
        let first = loop {
            match eager.first_of(&wanted, (0, AFTER)) {
                Some(first) => break first,
                None => asked += 1,
            }
        };
        assert_eq!((first.order, first.orders.clone()), (Order(0), 0..Order::END / 2));
        assert_eq!(asked, (AFTER + 20).div_ceil(AFTER));
        eager.refused(&first, 0);
        for _ in 0..100 {
            assert_eq!(eager.first_of(&wanted, (REFUSED_FOR - 1, AFTER)), None);
        }
    }

    #[test]
    fn a_shard_tells_whether_it_is_the_home() {
        let mut eager = Eager::default();
        changes(&mut eager, LOW, 1, 0);
        assert_eq!(eager.is_home(DIR.id), None);
        counted(&mut eager, (0, 1), 0);
        assert_eq!(eager.is_home(DIR.id), None, "any shard tells of a part");
        eager.is_not_home(DIR.id);
        assert_eq!(eager.is_home(DIR.id), Some(false));
    }

    #[test]
    fn parts_of_a_part_have_its_entries() {
        let mut eager = Eager::default();
        changes(&mut eager, LOW, 1, 0);
        counted(&mut eager, (0, 0), 100 * ROWS_A_CHANGE);
        assert!(eager.lies_at(DIR.id, 0..Order::END / 2));
        assert_eq!(changes(&mut eager, LOW, AFTER + 49, 0), []);
        assert_eq!(changes(&mut eager, LOW, 1, 0).len(), 1);
    }

    /// A tree that is extracted would else push out what is watched.
    #[test]
    fn small_parts_that_are_given_back_are_not_watched() {
        let mut eager = Eager::default();
        eager.returned(Counted { entries: ROWS_A_CHANGE - 1, ..whole() });
        assert_eq!(eager.count, 0);
        eager.returned(Counted { entries: 100 * ROWS_A_CHANGE, ..whole() });
        assert_eq!(changes(&mut eager, LOW, AFTER + 99, 0), []);
        assert_eq!(changes(&mut eager, LOW, 1, 0).len(), 1);
    }

    #[test]
    fn only_so_many_parts_are_watched() {
        let mut eager = Eager::default();
        for n in 0..3 * MOST as u128 {
            let dir = DirRef { id: DirId(n.to_be_bytes()), ino: Ino(9) };
            eager.changed((dir, LOW), &Body::Done, (0, AFTER));
        }
        let watched =
            |eager: &Eager| eager.known.values().map(|known| known.parts.len()).sum::<usize>();
        assert_eq!(watched(&eager), eager.count);
        assert!(eager.count <= MOST);
    }
}
