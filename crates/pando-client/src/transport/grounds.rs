//! Grounds on which a kernel may remember what it was told of single directories: loans and read
//! grants (docs/design/read-grants.md, "What kernels remember").
//!
//! ```text
//!   stand ──► told ──wanted back──► falls ──the kernel has forgotten──► given back
//!                │                    │
//!                └── not told ────────┴── all that was told has timed out ──► given back
//! ```
//!
//! Whoever has a grant lets it [stand](Grounds::stand) and [fall](Grounds::fall). The mount asks
//! what it may tell, and is told what [falls](Grounds::falls). Times are nanoseconds by the clock
//! that goes on while the machine sleeps.
//!
//! Invariants:
//! 1. Nothing is told by a ground that falls.
//! 2. Nothing is told in answer to a request that was read before its ground stood, or before the
//!    last change of this session that takes names out of the directory.
//! 3. A ground has fallen when its kernel has forgotten, or when all that was told has timed out.

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use foldhash::fast::FixedState;
use futures_util::task::AtomicWaker;
use pando_types::{Ino, Name, ShardIndex, TxnId};
use parking_lot::Mutex;

/// Nodes whose attributes a kernel may remember by grounds, at most.
const NODES_MAX: usize = 65_536;
/// How often nodes are dropped for want of room, nanoseconds.
const PRUNE_EVERY: u64 = 1_000_000_000;
/// Grounds at most. One more says nothing to the kernel.
const GROUNDS_MAX: usize = 16_384;
/// So long after names had to be forgotten before their time, none are told of their directory,
/// nanoseconds. To forget them costs the kernel all names.
const PAUSE: u64 = 10_000_000_000;
/// Directories with such a pause, at most.
const PAUSES_MAX: usize = 1_024;
/// The kernel rounds times up to its own unit, nanoseconds.
const ROUNDED: u64 = 20_000_000;
/// [`key`] of what is told of a directory itself.
const ITSELF: u64 = u64::MAX;

/// What a ground is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A read grant.
    Read,
    /// A loan of the whole directory.
    Loan,
}

/// A shard's grants of one kind. The same answers of the shard prolong them.
pub type Side = (ShardIndex, Kind);

/// Tells the highest number of a request that a mount has read.
pub type Newest = Box<dyn Fn() -> u64 + Send + Sync>;

/// What falls, and what of it the kernel is to forget.
#[derive(Default, Debug)]
pub struct Falls {
    /// The grants.
    pub grants: Vec<TxnId>,
    /// Until when names may be remembered that were told.
    pub names_until: u64,
    /// Nodes whose attributes may be remembered.
    pub nodes: Vec<Ino>,
}

/// What the kernel was told on one ground.
#[derive(Default)]
struct Told {
    /// Until when something may be remembered.
    until: u64,
    names_until: u64,
    /// By the [`key`] of the name, a node and until when its attributes may be remembered.
    nodes: HashMap<u64, (Ino, u64), FixedState>,
    /// Nodes whose key another one has now.
    others: Vec<(Ino, u64)>,
}

impl Told {
    fn nodes(&self) -> usize {
        self.nodes.len() + self.others.len()
    }

    /// Drops nodes whose time is over.
    fn prune(&mut self, now: u64) {
        self.nodes.retain(|_, (_, until)| *until > now);
        self.others.retain(|(_, until)| *until > now);
    }

    fn add(&mut self, key: u64, ino: Ino, until: u64) {
        let before = self.nodes.insert(key, (ino, until));
        self.others.extend(before.filter(|before| before.0 != ino));
        self.until = self.until.max(until);
    }
}

struct Ground {
    side: Side,
    grant: TxnId,
    /// Until when it stands, whatever becomes of the side's time.
    until: u64,
    /// Whether what prolongs its side prolongs it.
    goes_on: bool,
    /// The highest number of a request that may have been answered by older certainties.
    older: u64,
    told: Told,
}

struct Falling {
    dir: Ino,
    told: Told,
    /// Whether the mount has begun with it.
    is_taken: bool,
}

#[derive(Default)]
struct State {
    standing: HashMap<Ino, Ground, FixedState>,
    by_grant: HashMap<TxnId, Ino, FixedState>,
    falling: BTreeMap<TxnId, Falling>,
    /// Until when the grants of a side stand, by the last answer that prolonged them.
    sides: BTreeMap<Side, u64>,
    /// Directories out of which this session is taking names, and how often at this moment.
    changing: HashMap<Ino, u32, FixedState>,
    /// Until when no names are told of a directory.
    pauses: HashMap<Ino, u64, FixedState>,
    /// Number of nodes in all that stands.
    nodes: usize,
    /// No node is dropped for want of room before this moment.
    prune_after: u64,
    is_closed: bool,
}

/// All grounds of a session, with what its kernel was told by them.
#[derive(Default)]
pub struct Grounds {
    state: Mutex<State>,
    newest: OnceLock<Newest>,
    count: AtomicU64,
    /// Woken when something falls: the mount.
    to_forget: AtomicWaker,
    /// Woken then, and when something has fallen: whoever gives grants back.
    to_give_back: AtomicWaker,
}

impl std::fmt::Debug for Grounds {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state.lock();
        let (standing, falling) = (state.standing.len(), state.falling.len());
        write!(formatter, "{standing} stand, {falling} fall")
    }
}

/// The key of a name in its directory. Two names may have one.
#[must_use]
pub fn key(name: &Name) -> u64 {
    FixedState::default().hash_one(name.as_bytes()) & !(1 << 63)
}

/// What whoever has the grants does.
impl Grounds {
    /// Lets a grant of a whole directory be a ground, as itself until `until`. It is prolonged with
    /// its side if it `goes_on`.
    pub fn stand(&self, (side, grant): (Side, TxnId), dir: Ino, until: u64, goes_on: bool) {
        let mut state = self.state.lock();
        let Some(newest) = self.newest.get() else { return };
        if state.is_closed || state.standing.len() >= GROUNDS_MAX {
            return;
        }
        let older = newest();
        let ground = Ground { side, grant, until, goes_on, older, told: Told::default() };
        let before = state.standing.insert(dir, ground);
        state.by_grant.insert(grant, dir);
        let Some(before) = before else { return };
        state.nodes -= before.told.nodes();
        state.by_grant.remove(&before.grant);
        state.fall(before.grant, dir, before.told);
        drop(state);
        self.wake();
    }

    /// Sets whether a ground is prolonged with its side.
    pub fn set_goes_on(&self, grant: TxnId, goes_on: bool) {
        let mut state = self.state.lock();
        let State { standing, by_grant, .. } = &mut *state;
        let ground = by_grant.get(&grant).and_then(|dir| standing.get_mut(dir));
        ground.into_iter().for_each(|ground| ground.goes_on = goes_on);
    }

    /// Lets the grounds of a side stand until `until`.
    pub fn prolong(&self, side: Side, until: u64) {
        let mut state = self.state.lock();
        let its = state.sides.entry(side).or_default();
        *its = until.max(*its);
    }

    /// A grant is to be given back. It may be once it is not [falling](Grounds::is_falling).
    pub fn fall(&self, grant: TxnId) {
        let mut state = self.state.lock();
        let Some(dir) = state.by_grant.remove(&grant) else { return };
        let Some(ground) = state.standing.remove(&dir) else { return };
        state.nodes -= ground.told.nodes();
        state.fall(grant, dir, ground.told);
        drop(state);
        self.wake();
    }

    /// Whether a kernel may yet remember something by a grant.
    pub fn is_falling(&self, grant: TxnId, now: u64) -> bool {
        let state = self.state.lock();
        !is_planted!(GivenBackBeforeForgotten)
            && state.falling.get(&grant).is_some_and(|it| it.is_remembered(now))
    }

    /// How often something has fallen, or was to fall.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Ready when the [count](Grounds::count) is another than this one.
    pub async fn changed(&self, count: u64) {
        poll_fn(|context| {
            self.to_give_back.register(context.waker());
            if self.count() == count { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    /// When the next ground will have fallen by time.
    pub fn next_end(&self) -> Option<u64> {
        self.state.lock().falling.values().map(Falling::end).min()
    }

    fn wake(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.to_forget.wake();
        self.to_give_back.wake();
    }
}

impl State {
    fn fall(&mut self, grant: TxnId, dir: Ino, told: Told) {
        if told.until > 0 && !self.is_closed {
            self.falling.insert(grant, Falling { dir, told, is_taken: false });
        }
    }

    /// Tells no names of a directory for a while, if some had to be forgotten before their time.
    fn pause(&mut self, falling: &Falling, now: u64) {
        if falling.told.names_until <= now {
            return;
        }
        if self.pauses.len() >= PAUSES_MAX {
            self.pauses.retain(|_, until| *until > now);
        }
        if self.pauses.len() < PAUSES_MAX {
            self.pauses.insert(falling.dir, now.saturating_add(PAUSE));
        }
    }
}

impl Falling {
    /// When all that was told has timed out.
    fn end(&self) -> u64 {
        self.told.until.saturating_add(ROUNDED)
    }

    fn is_remembered(&self, now: u64) -> bool {
        now < self.end()
    }
}

/// What the mount does.
impl Grounds {
    /// Begins: from now on grants become grounds.
    pub fn watch(&self, newest: Newest) {
        // A second mount of one client would be told nothing by grounds.
        let _ = self.newest.set(newest);
    }

    /// Ends: there is no kernel any more that remembers anything.
    pub fn close(&self) {
        let mut state = self.state.lock();
        *state = State { is_closed: true, ..State::default() };
        drop(state);
        self.wake();
    }

    /// Tells the kernel what a name leads to, or that it leads nowhere, in answer to the request of
    /// this number: for how long, of `most` nanoseconds. 0: it may not remember that.
    pub fn tell_name(&self, dir: Ino, (request, now): (u64, u64), most: u64) -> u64 {
        let mut state = self.state.lock();
        if state.pauses.get(&dir).is_some_and(|until| now < *until) {
            return 0;
        }
        let Some((ground, time)) = state.ground(dir, (request, now), most) else { return 0 };
        let until = now.saturating_add(time);
        ground.told.names_until = ground.told.names_until.max(until);
        ground.told.until = ground.told.until.max(until);
        time
    }

    /// The same of the attributes of a file that lies in the entry of this [key].
    pub fn tell_file(
        &self,
        (dir, key): (Ino, u64),
        ino: Ino,
        moments: (u64, u64),
        most: u64,
    ) -> u64 {
        let mut state = self.state.lock();
        if state.is_full(moments.1) {
            return 0;
        }
        let Some((ground, time)) = state.ground(dir, moments, most) else { return 0 };
        let before = ground.told.nodes();
        ground.told.add(key, ino, moments.1.saturating_add(time));
        let more = ground.told.nodes() - before;
        state.nodes += more;
        time
    }

    /// The same of the attributes of a directory.
    pub fn tell_dir(&self, dir: Ino, moments: (u64, u64), most: u64) -> u64 {
        self.tell_file((dir, ITSELF), dir, moments, most)
    }

    /// This session is about to take names out of a directory, or a file out of its entry.
    pub fn change_begins(&self, dir: Ino) {
        *self.state.lock().changing.entry(dir).or_default() += 1;
    }

    /// Such a change has run. Returns the node of this name, if the kernel may remember its
    /// attributes: it has to forget them before [`Grounds::change_ended`].
    pub fn change_ends(&self, dir: Ino, key: u64) -> Option<Ino> {
        let state = self.state.lock();
        state.standing.get(&dir)?.told.nodes.get(&key).map(|(ino, _)| *ino)
    }

    /// The kernel is about to hear of such a change.
    pub fn change_ended(&self, dir: Ino, key: u64) {
        let newest = self.newest.get().map_or(u64::MAX, |newest| newest());
        let mut state = self.state.lock();
        let state = &mut *state;
        if let Some(count) = state.changing.get_mut(&dir) {
            *count -= 1;
            if *count == 0 {
                state.changing.remove(&dir);
            }
        }
        let Some(ground) = state.standing.get_mut(&dir) else { return };
        ground.older = ground.older.max(newest);
        state.nodes -= usize::from(ground.told.nodes.remove(&key).is_some());
    }

    /// Waits until something falls.
    pub async fn falls(&self) -> Falls {
        poll_fn(|context| {
            self.to_forget.register(context.waker());
            match self.take_falls() {
                Some(falls) => Poll::Ready(falls),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Takes what falls, unless nothing does.
    pub fn take_falls(&self) -> Option<Falls> {
        let mut falls = Falls::default();
        let mut state = self.state.lock();
        for (grant, falling) in state.falling.iter_mut().filter(|(_, it)| !it.is_taken) {
            falling.is_taken = true;
            falls.grants.push(*grant);
            falls.names_until = falls.names_until.max(falling.told.names_until);
            let Told { nodes, others, .. } = &falling.told;
            falls.nodes.extend(nodes.values().chain(others).map(|(ino, _)| *ino));
        }
        (!falls.grants.is_empty()).then_some(falls)
    }

    /// The kernel has forgotten what it was told by these grants.
    pub fn forgotten(&self, grants: &[TxnId], now: u64) {
        let mut state = self.state.lock();
        for grant in grants {
            if let Some(falling) = state.falling.remove(grant) {
                state.pause(&falling, now);
            }
        }
        drop(state);
        self.wake();
    }
}

impl State {
    /// Whether there is no room for another node.
    fn is_full(&mut self, now: u64) -> bool {
        if self.nodes >= NODES_MAX && now >= self.prune_after {
            self.prune_after = now.saturating_add(PRUNE_EVERY);
            self.standing.values_mut().for_each(|ground| ground.told.prune(now));
            self.nodes = self.standing.values().map(|ground| ground.told.nodes()).sum();
        }
        self.nodes >= NODES_MAX
    }

    /// The ground of a directory on which the answer to a request may rest, and for how long.
    fn ground(
        &mut self,
        dir: Ino,
        (request, now): (u64, u64),
        most: u64,
    ) -> Option<(&mut Ground, u64)> {
        let is_changing = self.changing.contains_key(&dir);
        let ground = self.standing.get_mut(&dir)?;
        let by_side = self.sides.get(&ground.side).filter(|_| ground.goes_on);
        let until = ground.until.max(by_side.copied().unwrap_or_default());
        let is_older = request <= ground.older && !is_planted!(ToldOfBefore);
        let time = until.saturating_sub(now).min(most);
        (time > 0 && !is_older && !is_changing).then_some((ground, time))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const SIDE: Side = (ShardIndex(1), Kind::Loan);
    const DIR: Ino = Ino(7);
    const FILE: Ino = Ino(70);
    /// A moment, and how long things are remembered at most.
    const NOW: u64 = 1_000_000_000_000;
    const MOST: u64 = 4_000_000_000;
    /// How long a grant is good for by itself.
    const OWN: u64 = 8_000_000_000;

    fn id(number: u64) -> TxnId {
        TxnId { shard: SIDE.0, number }
    }

    /// With a grant of one directory, which came when request 10 had been read. What is set is the
    /// highest number of a request.
    fn standing() -> (Grounds, Arc<AtomicU64>) {
        let (grounds, newest) = (Grounds::default(), Arc::new(AtomicU64::new(10)));
        let told = Arc::clone(&newest);
        grounds.watch(Box::new(move || told.load(Ordering::SeqCst)));
        grounds.stand((SIDE, id(1)), DIR, NOW + OWN, true);
        (grounds, newest)
    }

    #[test]
    fn nothing_is_told_without_a_ground_or_beyond_its_time() {
        let (grounds, _) = standing();
        let name = |now| grounds.tell_name(DIR, (12, now), MOST);
        assert_eq!(name(NOW), MOST);
        assert_eq!(name(NOW + OWN - 5), 5);
        assert_eq!(name(NOW + OWN), 0);
        assert_eq!(grounds.tell_name(Ino(8), (12, NOW), MOST), 0);
        grounds.prolong(SIDE, NOW + OWN + 9);
        grounds.prolong(SIDE, NOW);
        assert_eq!(name(NOW + OWN), 9);
        grounds.set_goes_on(id(1), false);
        assert_eq!(name(NOW + OWN), 0, "a birth in doubt is not prolonged");
        grounds.set_goes_on(id(1), true);
        grounds.prolong((SIDE.0, Kind::Read), NOW + 2 * OWN);
        assert_eq!(name(NOW + OWN), 9, "that prolongs read grants");
    }

    #[test]
    fn what_was_asked_before_the_ground_stood_is_not_remembered() {
        let (grounds, _) = standing();
        let file = |request| grounds.tell_file((DIR, 5), FILE, (request, NOW), MOST);
        assert_eq!((file(10), file(12)), (0, MOST));
        assert_eq!(grounds.tell_dir(DIR, (9, NOW), MOST), 0);
        assert_eq!(grounds.tell_dir(DIR, (11, NOW), MOST), MOST);
    }

    #[cfg(feature = "planted")]
    #[test]
    fn an_answer_of_before_is_told_if_that_is_planted() {
        let (grounds, _) = standing();
        crate::Planted::plant(Some(crate::Planted::ToldOfBefore));
        let told = grounds.tell_name(DIR, (10, NOW), MOST);
        crate::Planted::plant(None);
        assert_eq!(told, MOST);
    }

    #[test]
    fn what_falls_is_forgotten_before_it_is_given_back() {
        let (grounds, _) = standing();
        assert_eq!(grounds.tell_name(DIR, (12, NOW), MOST), MOST);
        assert_eq!(grounds.tell_file((DIR, 5), FILE, (12, NOW), MOST / 2), MOST / 2);
        // Another file has the key now, so the first one is not known by it any more.
        assert_eq!(grounds.tell_file((DIR, 5), Ino(71), (12, NOW), MOST), MOST);
        let count = grounds.count();
        grounds.fall(id(1));
        assert!(grounds.count() > count && grounds.is_falling(id(1), NOW));
        assert_eq!(grounds.tell_name(DIR, (14, NOW), MOST), 0);
        let falls = grounds.take_falls().unwrap();
        let mut nodes = falls.nodes;
        nodes.sort_unstable();
        assert_eq!((falls.grants, falls.names_until), (vec![id(1)], NOW + MOST));
        assert_eq!(nodes, [FILE, Ino(71)]);
        assert!(grounds.take_falls().is_none() && grounds.is_falling(id(1), NOW));
        grounds.forgotten(&[id(1)], NOW + 1);
        assert!(!grounds.is_falling(id(1), NOW));
        // Names of a directory that others want are not told for a while.
        grounds.stand((SIDE, id(2)), DIR, NOW + 2 * PAUSE, true);
        assert_eq!(grounds.tell_name(DIR, (14, NOW + PAUSE), MOST), 0);
        assert_eq!(grounds.tell_file((DIR, 5), FILE, (14, NOW + PAUSE), MOST), MOST);
        assert_eq!(grounds.tell_name(DIR, (14, NOW + 1 + PAUSE), MOST), MOST);
    }

    #[test]
    fn what_was_not_told_or_has_timed_out_falls_at_once() {
        let (grounds, _) = standing();
        grounds.fall(id(1));
        assert!(!grounds.is_falling(id(1), NOW) && grounds.take_falls().is_none());
        grounds.stand((SIDE, id(2)), DIR, NOW + OWN, true);
        grounds.tell_name(DIR, (12, NOW), MOST);
        grounds.fall(id(2));
        let end = grounds.next_end().unwrap();
        assert!(end > NOW + MOST && grounds.is_falling(id(2), end - 1));
        assert!(!grounds.is_falling(id(2), end));
    }

    #[test]
    fn one_grant_of_a_directory_takes_the_place_of_another() {
        let (grounds, _) = standing();
        grounds.tell_name(DIR, (12, NOW), MOST);
        grounds.stand(((SIDE.0, Kind::Read), id(2)), DIR, NOW + OWN, true);
        assert!(grounds.is_falling(id(1), NOW));
        assert_eq!(grounds.tell_name(DIR, (12, NOW), MOST), MOST);
        grounds.fall(id(1));
        assert_eq!(grounds.tell_name(DIR, (12, NOW), MOST), MOST);
    }

    #[test]
    fn while_files_leave_their_entries_nothing_is_told() {
        let (grounds, newest) = standing();
        let file = |request| grounds.tell_file((DIR, 5), FILE, (request, NOW), MOST);
        assert_eq!(file(12), MOST);
        grounds.change_begins(DIR);
        grounds.change_begins(DIR);
        assert_eq!(file(14), 0);
        assert_eq!(grounds.change_ends(DIR, 5), Some(FILE));
        assert_eq!(grounds.change_ends(DIR, 6), None);
        newest.store(20, Ordering::SeqCst);
        grounds.change_ended(DIR, 5);
        assert_eq!(file(22), 0, "there is another change");
        grounds.change_ended(DIR, 6);
        assert_eq!((file(20), file(22)), (0, MOST), "what was read before may be older");
    }

    #[test]
    fn memory_is_bounded() {
        let (grounds, _) = standing();
        let told =
            |nth: u64, now| grounds.tell_file((DIR, nth), Ino(1_000 + nth), (12, now), 1_000) > 0;
        let most = NODES_MAX as u64;
        assert_eq!((0..2 * most).filter(|nth| told(*nth, NOW)).count(), NODES_MAX);
        // What has timed out makes room.
        assert!(!told(3 * most, NOW + 1_000) && told(3 * most, NOW + PRUNE_EVERY));
        for ino in 0..2 * GROUNDS_MAX as u64 {
            grounds.stand((SIDE, id(5 + ino)), Ino(5_000 + ino), NOW + OWN, true);
        }
        assert!(grounds.state.lock().standing.len() <= GROUNDS_MAX);
    }

    #[test]
    fn without_a_kernel_there_are_no_grounds() {
        let (grounds, _) = standing();
        grounds.tell_name(DIR, (12, NOW), MOST);
        grounds.fall(id(1));
        grounds.close();
        grounds.stand((SIDE, id(2)), DIR, NOW + OWN, true);
        assert!(!grounds.is_falling(id(1), NOW));
        assert_eq!(grounds.tell_name(DIR, (12, NOW), MOST), 0);
    }
}
