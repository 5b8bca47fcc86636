//! Locks of transactions, and the inputs that wait for them. They are soft state: after a restart
//! they follow from the prepared records.
//!
//! 1. A lock belongs to a transaction, which may hold it through several steps.
//! 2. Operations of one shard take no locks. They run between inputs, and only check whether a
//!    transaction holds one.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;
use pando_types::peer::PeerMessage;
use pando_types::{DirId, HashSlot, Ino, PartitionIndex, SessionId, ShardIndex, TxnId};

use crate::contract::{ClientTag, Input};
use crate::state::lock_key::{Hold, LockKey};
use crate::state::stop::Stop;

#[derive(Debug)]
struct Lock {
    owner: TxnId,
    steps: u32,
    hold: Hold,
    /// The grant of what a transaction of its holder has locked. It has the lock again after that.
    lent_by: Option<TxnId>,
}

/// Whether two inputs are one request or peer message, repeated.
fn same(a: &Input, b: &Input) -> bool {
    match (a, b) {
        // A request of another key is no repetition, whatever it says.
        (Input::Client(by, a), Input::Client(other, b)) => {
            by.1 == other.1 && a.head.id.sequence > 0 && a.head.id == b.head.id
        }
        (Input::Peer(a), Input::Peer(b)) => a.txn == b.txn && a.step == b.step,
        _ => false,
    }
}

/// The first and the last directory id of a hash slot.
fn ids_of(hash_slot: HashSlot) -> (DirId, DirId) {
    let [high, low] = hash_slot.0.to_be_bytes();
    let id = |rest: u8| {
        let mut id = [rest; 16];
        (id[0], id[1]) = (high, low);
        DirId(id)
    };
    (id(0), id(u8::MAX))
}

/// All locks of a shard, and the inputs that wait for locks.
#[derive(Default, Debug)]
pub struct Locks {
    held: BTreeMap<LockKey, Lock>,
    waiting: BTreeMap<LockKey, VecDeque<Input>>,
}

impl Locks {
    /// Fails with [`Stop::Wait`] if a transaction holds the lock.
    pub fn free(&self, key: LockKey) -> Result<(), Stop> {
        if self.held.contains_key(&key) { Err(Stop::Wait(key)) } else { Ok(()) }
    }

    /// Fails with [`Stop::Wait`] if a transaction other than `txn` holds the lock.
    pub fn free_for(&self, key: LockKey, txn: TxnId) -> Result<(), Stop> {
        match self.held.get(&key) {
            Some(lock) if lock.owner != txn => Err(Stop::Wait(key)),
            _ => Ok(()),
        }
    }

    /// Whether the lock is free once the step at hand releases it.
    pub fn is_last(&self, key: LockKey) -> bool {
        self.held.get(&key).is_none_or(|lock| lock.steps == 1)
    }

    /// Which transaction holds a lock, and how.
    pub fn hold(&self, key: LockKey) -> Option<(TxnId, Hold)> {
        self.held.get(&key).map(|lock| (lock.owner, lock.hold))
    }

    /// Takes the lock for one more step of `txn`.
    ///
    /// # Panics
    /// If another transaction holds it.
    pub fn take(&mut self, key: LockKey, txn: TxnId, hold: Hold) {
        let new = Lock { owner: txn, steps: 0, hold, lent_by: None };
        let lock = self.held.entry(key).or_insert(new);
        assert_eq!(lock.owner, txn, "{key:?} is held by another transaction");
        lock.steps += 1;
        lock.hold = hold;
    }

    /// Takes the lock for a step of `txn`, which changes what `grant` has lent to its session.
    ///
    /// # Panics
    /// If another transaction holds the lock.
    pub fn take_over(&mut self, key: LockKey, txn: TxnId, (hold, grant): (Hold, TxnId)) {
        if let Some(lock) = self.held.get_mut(&key).filter(|lock| lock.owner == grant) {
            *lock = Lock { owner: txn, steps: 0, hold, lent_by: Some(grant) };
        }
        self.take(key, txn, hold);
    }

    /// Takes the lock for a grant. A transaction of its holder may have it at a start.
    pub fn lend(&mut self, key: LockKey, grant: TxnId) {
        match self.held.get_mut(&key) {
            Some(lock) if lock.owner != grant => lock.lent_by = Some(grant),
            _ => self.take(key, grant, Hold::Lent),
        }
    }

    /// Releases the lock for one step of `txn`. After the last step, returns the inputs that
    /// waited.
    pub fn release(&mut self, key: LockKey, txn: TxnId) -> VecDeque<Input> {
        let Some(lock) = self.held.get_mut(&key) else { return VecDeque::new() };
        if lock.owner != txn {
            // A grant that ends below a transaction.
            lock.lent_by = lock.lent_by.filter(|grant| *grant != txn);
            return VecDeque::new();
        }
        lock.steps -= 1;
        if lock.steps > 0 {
            return VecDeque::new();
        }
        let lent_by = lock.lent_by;
        self.held.remove(&key);
        if let Some(grant) = lent_by {
            self.take(key, grant, Hold::Lent);
        }
        self.waiting.remove(&key).unwrap_or_default()
    }

    /// Changes how `txn` holds a lock that it has.
    ///
    /// # Panics
    /// If it does not hold the lock.
    pub fn set_hold(&mut self, key: LockKey, txn: TxnId, hold: Hold) {
        match self.held.get_mut(&key) {
            Some(lock) if lock.owner == txn => lock.hold = hold,
            _ => panic!("{key:?} is not held by {txn:?}"),
        }
    }

    /// Returns the inputs that wait for a lock, to be handled again: how the lock is held has
    /// changed.
    pub fn wake(&mut self, key: LockKey) -> VecDeque<Input> {
        self.waiting.remove(&key).unwrap_or_default()
    }

    /// Queues an input behind a lock. A repetition of a queued input replaces it.
    pub fn wait(&mut self, key: LockKey, input: Input) {
        let queue = self.waiting.entry(key).or_default();
        match queue.iter_mut().find(|queued| same(queued, &input)) {
            Some(queued) => *queued = input,
            None => queue.push_back(input),
        }
    }

    /// Takes all waiting inputs of all locks.
    pub fn take_waiting(&mut self) -> impl Iterator<Item = Input> + use<> {
        core::mem::take(&mut self.waiting).into_values().flatten()
    }

    /// Whether an input waits for the lock.
    pub fn is_awaited(&self, key: LockKey) -> bool {
        self.waiting.contains_key(&key)
    }

    /// Clients that have a request waiting for the lock.
    pub fn waiting_clients(&self, key: LockKey) -> impl Iterator<Item = ClientTag> + '_ {
        let waiting = self.waiting.get(&key).into_iter().flatten();
        waiting.filter_map(|input| match input {
            Input::Client(tag, _) => Some(*tag),
            _ => None,
        })
    }

    /// Sessions that have requests waiting for their begin to be heard of.
    pub fn awaited_sessions(&self) -> impl Iterator<Item = SessionId> + '_ {
        let (first, last) = (SessionId(0), SessionId(u64::MAX));
        let sessions = LockKey::Session(first)..=LockKey::Session(last);
        self.waiting.range(sessions).filter_map(|(key, _)| match key {
            LockKey::Session(session) => Some(*session),
            _ => None,
        })
    }

    /// Whether a transaction moves a directory to another parent.
    pub fn any_graph(&self) -> bool {
        // `Graph` sorts before all other keys.
        matches!(self.held.first_key_value(), Some((LockKey::Graph(_), _)))
    }

    /// Takes the `Prepare` of an undone step out of the queues. Returns the inputs that waited
    /// beside it: they may have waited for it alone, and must be handled again.
    pub fn forget(&mut self, txn: TxnId, step: u16) -> VecDeque<Input> {
        let is_it = |input: &Input| matches!(input, Input::Peer(p) if p.txn == txn && p.step == step && matches!(p.message, PeerMessage::Prepare(..)));
        let mut woken = VecDeque::new();
        self.waiting.retain(|_, queue| {
            let is_in_it = queue.iter().any(is_it);
            if is_in_it {
                woken.extend(queue.drain(..).filter(|input| !is_it(input)));
            }
            !is_in_it
        });
        woken
    }

    /// Whether a name in this range of orders is locked.
    pub fn any_name(&self, dir: DirId, orders: &Range<u64>) -> bool {
        let (from, to) = (LockKey::Name(dir, orders.start), LockKey::Name(dir, orders.end));
        self.held.range(from..to).next().is_some()
    }

    /// The first order in this range at which a transaction other than `but` has locked a name.
    pub fn first_name(&self, dir: DirId, orders: &Range<u64>, but: Option<TxnId>) -> Option<u64> {
        let (from, to) = (LockKey::Name(dir, orders.start), LockKey::Name(dir, orders.end));
        let mut names = self.held.range(from..to).filter(|(_, lock)| Some(lock.owner) != but);
        match names.next() {
            Some((LockKey::Name(_, order), _)) => Some(*order),
            _ => None,
        }
    }

    /// The first name lock in this range of orders that a transaction of a shard other than `own`
    /// holds.
    pub fn name_of_others(
        &self,
        dir: DirId,
        orders: &Range<u64>,
        own: ShardIndex,
    ) -> Option<LockKey> {
        let (from, to) = (LockKey::Name(dir, orders.start), LockKey::Name(dir, orders.end));
        let mut names = self.held.range(from..to);
        names.find(|(_, lock)| lock.owner.shard != own).map(|(key, _)| *key)
    }

    /// Whether anything that moves with a hash slot is locked.
    pub fn any_of_hash_slot(&self, hash_slot: HashSlot) -> bool {
        let (first, last) = ids_of(hash_slot);
        let names = LockKey::Name(first, 0)..=LockKey::Name(last, u64::MAX);
        let homes = LockKey::Home(first)..=LockKey::Home(last);
        let partitions = LockKey::Partition(first, PartitionIndex(0))
            ..=LockKey::Partition(last, PartitionIndex(u32::MAX));
        let links = LockKey::Link(Ino(0))..=LockKey::Link(Ino(u64::MAX));
        let first_partition = |key: &LockKey| matches!(key, LockKey::Partition(_, i) if i.0 == 0);
        let is_its_link =
            |key: &LockKey| matches!(key, LockKey::Link(ino) if ino.hash_slot() == hash_slot);
        self.held.range(names).next().is_some()
            || self.held.range(homes).next().is_some()
            || self.held.range(partitions).any(|(key, _)| first_partition(key))
            || self.held.range(links).any(|(key, _)| is_its_link(key))
    }

    /// Whether a partition 0 in a hash slot is taking back a child.
    pub fn any_merge_of_hash_slot(&self, hash_slot: HashSlot) -> bool {
        let (first, last) = ids_of(hash_slot);
        let partitions = LockKey::Partition(first, PartitionIndex(0))
            ..=LockKey::Partition(last, PartitionIndex(u32::MAX));
        self.held.range(partitions).any(|(key, lock)| {
            let is_first = matches!(key, LockKey::Partition(_, i) if i.0 == 0);
            is_first && matches!(lock.hold, Hold::Arrival { .. })
        })
    }

    /// Orders of a directory that are on their way here, each with the partition that is locked for
    /// them.
    pub fn arrivals(&self, dir: DirId) -> Vec<(PartitionIndex, Range<u64>)> {
        let (from, to) = (
            LockKey::Partition(dir, PartitionIndex(0)),
            LockKey::Partition(dir, PartitionIndex(u32::MAX)),
        );
        self.held
            .range(from..=to)
            .filter_map(|(key, lock)| match (key, lock.hold) {
                (LockKey::Partition(_, i), Hold::Arrival { from, to }) => Some((*i, from..to)),
                _ => None,
            })
            .collect()
    }

    /// Number of locks held, without those of grants.
    pub fn count_unlent(&self) -> usize {
        self.held.values().filter(|lock| !matches!(lock.hold, Hold::Lent | Hold::Read)).count()
    }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use pando_types::op::Place;
    use pando_types::peer::{Behalf, Claim, Floor, Peer, Prepare};

    use super::*;

    fn prepare(number: u64) -> Input {
        let (trace, clock, step) = (0, 0, 1);
        let (behalf, floor) = (Behalf::default(), Floor::default());
        let (from, txn) = (ShardIndex(1), TxnId { shard: ShardIndex(1), number });
        let message = PeerMessage::Prepare(Place::Link(Ino(7)), Prepare::Graph(Claim::Alone));
        Input::Peer(Box::new(Peer { from, trace, clock, behalf, txn, step, floor, message }))
    }

    #[test]
    fn what_waits_behind_a_step_that_is_undone_looks_again() {
        let (first, second) = (LockKey::Graph(DirId::ROOT), LockKey::Link(Ino(7)));
        let mut locks = Locks::default();
        [1, 2, 3].into_iter().for_each(|number| locks.wait(first, prepare(number)));
        locks.wait(second, prepare(4));
        let woken = locks.forget(TxnId { shard: ShardIndex(1), number: 2 }, 1);
        let number = |input: &Input| match input {
            Input::Peer(peer) => peer.txn.number,
            _ => 0,
        };
        assert_eq!(woken.iter().map(number).collect::<Vec<_>>(), [1, 3]);
        assert!(!locks.is_awaited(first) && locks.is_awaited(second));
        assert!(locks.forget(TxnId { shard: ShardIndex(1), number: 9 }, 1).is_empty());
    }
}
