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
//! what it may tell, and is told what [falls](Grounds::falls).
//!
//! Grants count by the clock that goes on while the machine sleeps. The kernel's timeouts stand
//! still meanwhile, so they count by a clock of their own ([`Watch`]). Both in nanoseconds.
//!
//! Invariants:
//! 1. Nothing is told by a ground that falls.
//! 2. Nothing is told in answer to a request that was read before its ground stood, or before the
//!    last change of this session that takes names out of the directory.
//! 3. A ground has fallen when its kernel has forgotten, or when all that was told has timed out.

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use foldhash::fast::FixedState;
use futures_util::task::AtomicWaker;
use pando_types::{Ino, Name, ShardIndex, TxnId};
use parking_lot::Mutex;

/// How long a kernel may remember something by a ground at most, nanoseconds.
pub const KEPT_MAX: u64 = 4 * SECOND;
const SECOND: u64 = 1_000_000_000;
/// A thread may take an answer in somewhat later than it was written. Its time counts from then.
const TAKEN_IN: u64 = SECOND;
/// So long after names had to be forgotten before their time, none are told of their directory. To
/// forget them costs the kernel all names.
const PAUSE: u64 = 10 * SECOND;
/// Directories with such a pause, at most.
const PAUSES_MAX: usize = 1_024;
/// So often names may have to be forgotten within a second. Then none are told for [`LULL`].
const OFTEN: u32 = 4;
/// See [`OFTEN`].
const LULL: u64 = 5 * SECOND;
/// Nodes whose attributes a kernel may remember by grounds, at most.
const NODES_MAX: usize = 65_536;
/// How often nodes are dropped for want of room.
const PRUNE_EVERY: u64 = SECOND;
/// Grounds at most. One more says nothing to the kernel.
const GROUNDS_MAX: usize = 16_384;
/// [`Grounds::key`] of what is told of a directory itself.
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

/// What a mount tells of its kernel.
pub struct Watch {
    /// The highest number of a request that was read.
    pub newest: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Nanoseconds by the clock of the kernel's timeouts.
    pub clock: Box<dyn Fn() -> u64 + Send + Sync>,
}

/// What falls, and what of it the kernel is to forget.
#[derive(Default, Debug)]
pub struct Falls {
    /// The grants.
    pub grants: Vec<TxnId>,
    /// How long names may yet be remembered that were told, nanoseconds.
    pub names_left: u64,
    /// Nodes whose attributes may be remembered.
    pub nodes: Vec<Ino>,
}

/// What the kernel was told on one ground. Times are those of the kernel, with [`TAKEN_IN`].
#[derive(Default)]
struct Told {
    /// Until when something may be remembered.
    until: u64,
    names_until: u64,
    /// By the key of the name, a node and until when its attributes may be remembered.
    nodes: HashMap<u64, (Ino, u64), FixedState>,
    /// Nodes whose key another one has now.
    others: Vec<(u64, Ino, u64)>,
}

impl Told {
    fn nodes(&self) -> usize {
        self.nodes.len() + self.others.len()
    }

    /// Drops nodes whose time is over.
    fn prune(&mut self, now: u64) {
        self.nodes.retain(|_, (_, until)| *until > now);
        self.others.retain(|(_, _, until)| *until > now);
    }

    fn add(&mut self, key: u64, ino: Ino, until: u64) {
        let before = self.nodes.insert(key, (ino, until)).filter(|before| before.0 != ino);
        self.others.extend(before.map(|(ino, until)| (key, ino, until)));
        self.until = self.until.max(until);
    }

    fn of(&self, key: u64) -> impl Iterator<Item = Ino> {
        let others = self.others.iter().filter(move |it| it.0 == key).map(|it| it.1);
        self.nodes.get(&key).map(|it| it.0).into_iter().chain(others)
    }

    fn remove(&mut self, key: u64) {
        self.nodes.remove(&key);
        self.others.retain(|it| it.0 != key);
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
    /// Since when names had to be forgotten, and how often.
    forgotten: (u64, u32),
    /// Until when no names are told at all.
    lull: u64,
    /// Until when the kernel may remember anything, since an answer was written late.
    late_until: u64,
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
    watch: OnceLock<Watch>,
    keys: RandomState,
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

/// What whoever has the grants does.
impl Grounds {
    /// Lets a grant of a whole directory be a ground, as itself until `until`. It is prolonged with
    /// its side if it `goes_on`.
    pub fn stand(&self, (side, grant): (Side, TxnId), dir: Ino, until: u64, goes_on: bool) {
        let mut state = self.state.lock();
        let Some(watch) = self.watch.get() else { return };
        let is_known = state.by_grant.contains_key(&grant);
        if state.is_closed || is_known || state.standing.len() >= GROUNDS_MAX {
            return;
        }
        let older = (watch.newest)();
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
    pub fn is_falling(&self, grant: TxnId) -> bool {
        let state = self.state.lock();
        !is_planted!(GivenBackBeforeForgotten)
            && state.falling.get(&grant).is_some_and(|it| self.now() < state.end_of(it))
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

    /// In how many nanoseconds the next ground will have fallen by time.
    pub fn next_end(&self) -> Option<u64> {
        let (state, now) = (self.state.lock(), self.now());
        let left = |it: &Falling| state.end_of(it).checked_sub(now).filter(|left| *left > 0);
        state.falling.values().filter_map(left).min()
    }

    fn wake(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.to_forget.wake();
        self.to_give_back.wake();
    }

    /// The present, by the clock of the kernel's timeouts.
    fn now(&self) -> u64 {
        self.watch.get().map_or(0, |watch| (watch.clock)())
    }
}

impl State {
    fn fall(&mut self, grant: TxnId, dir: Ino, told: Told) {
        if told.until > 0 && !self.is_closed {
            self.falling.insert(grant, Falling { dir, told, is_taken: false });
        }
    }

    /// When all that was told has timed out.
    fn end_of(&self, falling: &Falling) -> u64 {
        falling.told.until.max(self.late_until)
    }

    /// Names are to be forgotten before their time: tells no others of their directory for a while.
    fn pause(&mut self, dir: Ino, now: u64) {
        let (since, count) = &mut self.forgotten;
        if since.saturating_add(SECOND) <= now {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        if *count >= OFTEN {
            self.lull = now.saturating_add(LULL);
        }
        if self.pauses.len() >= PAUSES_MAX {
            self.pauses.retain(|_, until| *until > now);
        }
        match self.pauses.len() < PAUSES_MAX {
            true => drop(self.pauses.insert(dir, now.saturating_add(PAUSE))),
            false => self.lull = now.saturating_add(LULL),
        }
    }
}

/// What the mount does.
impl Grounds {
    /// Begins: from now on grants become grounds. False: another mount has begun before.
    pub fn watch(&self, watch: Watch) -> bool {
        self.watch.set(watch).is_ok()
    }

    /// Ends: there is no kernel any more that remembers anything.
    pub fn close(&self) {
        let mut state = self.state.lock();
        *state = State { is_closed: true, ..State::default() };
        drop(state);
        self.wake();
    }

    /// The key of a name in its directory. No other name has it, by all odds.
    pub fn key(&self, name: &Name) -> u64 {
        self.keys.hash_one(name.as_bytes()) >> 1
    }

    /// Tells the kernel what a name leads to, or that it leads nowhere, in answer to the request of
    /// this number: for how long, of `most` nanoseconds. 0: it may not remember that. `now`: by the
    /// clock of the grants.
    pub fn tell_name(&self, dir: Ino, (request, now): (u64, u64), most: u64) -> u64 {
        let (mut state, kernel) = (self.state.lock(), self.now());
        let is_paused = state.pauses.get(&dir).is_some_and(|until| kernel < *until);
        if is_paused || kernel < state.lull {
            return 0;
        }
        let Some((ground, time)) = state.ground(dir, (request, now), most) else { return 0 };
        let until = kernel.saturating_add(time).saturating_add(TAKEN_IN);
        ground.told.names_until = ground.told.names_until.max(until);
        ground.told.until = ground.told.until.max(until);
        time
    }

    /// The same of the attributes of a file that lies in the entry of this [key](Grounds::key).
    pub fn tell_file(
        &self,
        (dir, key): (Ino, u64),
        ino: Ino,
        moments: (u64, u64),
        most: u64,
    ) -> u64 {
        let (mut state, kernel) = (self.state.lock(), self.now());
        if state.is_full(kernel) {
            return 0;
        }
        let Some((ground, time)) = state.ground(dir, moments, most) else { return 0 };
        let before = ground.told.nodes();
        ground.told.add(key, ino, kernel.saturating_add(time).saturating_add(TAKEN_IN));
        let more = ground.told.nodes() - before;
        state.nodes += more;
        time
    }

    /// The same of the attributes of a directory.
    pub fn tell_dir(&self, dir: Ino, moments: (u64, u64), most: u64) -> u64 {
        self.tell_file((dir, ITSELF), dir, moments, most)
    }

    /// An answer is written later than its time was chosen. The kernel counts from then.
    pub fn written_late(&self) {
        let late = self.now().saturating_add(KEPT_MAX + TAKEN_IN);
        self.state.lock().late_until = late;
    }

    /// This session is about to take names out of a directory, or a file out of its entry.
    pub fn change_begins(&self, dir: Ino) {
        *self.state.lock().changing.entry(dir).or_default() += 1;
    }

    /// Such a change has run. Returns the nodes of this name of which the kernel may remember
    /// attributes. It has to forget these before [`Grounds::change_ended`].
    pub fn change_ends(&self, dir: Ino, key: u64) -> Vec<Ino> {
        let state = self.state.lock();
        state.standing.get(&dir).map_or_else(Vec::new, |ground| ground.told.of(key).collect())
    }

    /// The kernel is about to hear of such a change. If it may yet run, the directory is no ground
    /// any more.
    pub fn change_ended(&self, dir: Ino, key: u64, is_known: bool) {
        let newest = self.watch.get().map_or(u64::MAX, |watch| (watch.newest)());
        let mut state = self.state.lock();
        let state = &mut *state;
        if let Some(count) = state.changing.get_mut(&dir) {
            *count -= 1;
            if *count == 0 {
                state.changing.remove(&dir);
            }
        }
        let Some(ground) = state.standing.get_mut(&dir) else { return };
        ground.older = if is_known { ground.older.max(newest) } else { u64::MAX };
        let before = ground.told.nodes();
        ground.told.remove(key);
        state.nodes -= before - ground.told.nodes();
    }

    /// Names have left these directories, or may yet, and what the kernel remembers of them goes
    /// along. Returns for how long it may, nanoseconds. 0: not at all.
    pub fn names_leave(&self, dirs: &[Ino]) -> u64 {
        let (mut state, now) = (self.state.lock(), self.now());
        let mut until = 0;
        for dir in dirs {
            let Some(ground) = state.standing.get(dir) else { continue };
            let names_until = match ground.told.names_until {
                0 => continue,
                names_until => names_until.max(state.late_until),
            };
            if names_until > now {
                until = until.max(names_until);
                state.pause(*dir, now);
            }
        }
        until.saturating_sub(now)
    }

    /// Names of this directory have been forgotten.
    pub fn names_forgotten(&self, dirs: &[Ino]) {
        let mut state = self.state.lock();
        for dir in dirs {
            if let Some(ground) = state.standing.get_mut(dir) {
                ground.told.names_until = 0;
            }
        }
    }

    /// Waits until something falls.
    pub async fn falls(&self) {
        poll_fn(|context| {
            self.to_forget.register(context.waker());
            let is_any = self.state.lock().falling.values().any(|falling| !falling.is_taken);
            if is_any { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Takes what falls. Every answer that was told by it has been written.
    pub fn take_falls(&self) -> Falls {
        let (mut falls, now) = (Falls::default(), self.now());
        let mut state = self.state.lock();
        let late = state.late_until;
        let mut pauses = Vec::new();
        for (grant, falling) in state.falling.iter_mut().filter(|(_, it)| !it.is_taken) {
            falling.is_taken = true;
            falls.grants.push(*grant);
            let Told { nodes, others, names_until, .. } = &falling.told;
            let names_until = if *names_until > 0 { late.max(*names_until) } else { 0 };
            if names_until > now {
                pauses.push(falling.dir);
                falls.names_left = falls.names_left.max(names_until - now);
            }
            let others = others.iter().map(|(_, ino, _)| *ino);
            falls.nodes.extend(nodes.values().map(|(ino, _)| *ino).chain(others));
        }
        pauses.into_iter().for_each(|dir| state.pause(dir, now));
        falls
    }

    /// The kernel has forgotten what it was told by these grants.
    pub fn forgotten(&self, grants: &[TxnId]) {
        let mut state = self.state.lock();
        for grant in grants {
            state.falling.remove(grant);
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
        let time = until.saturating_sub(now).min(most).min(KEPT_MAX);
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
    /// A moment of the grants.
    const NOW: u64 = 1_000 * SECOND;
    const MOST: u64 = KEPT_MAX;
    /// How long a grant is good for by itself.
    const OWN: u64 = 8 * SECOND;

    fn id(number: u64) -> TxnId {
        TxnId { shard: SIDE.0, number }
    }

    /// A kernel: the highest number of a request, and its clock.
    #[derive(Clone, Default)]
    struct Kernel(Arc<(AtomicU64, AtomicU64)>);

    impl Kernel {
        fn has_read(&self, number: u64) {
            self.0.0.store(number, Ordering::SeqCst);
        }

        fn wait(&self, nanos: u64) {
            self.0.1.fetch_add(nanos, Ordering::SeqCst);
        }

        fn watch(&self, grounds: &Grounds) -> bool {
            let [newest, clock] = [(); 2].map(|()| Arc::clone(&self.0));
            grounds.watch(Watch {
                newest: Box::new(move || newest.0.load(Ordering::SeqCst)),
                clock: Box::new(move || clock.1.load(Ordering::SeqCst)),
            })
        }
    }

    /// With a grant of one directory, which came when request 10 had been read.
    fn standing() -> (Grounds, Kernel) {
        let (grounds, kernel) = (Grounds::default(), Kernel::default());
        assert!(kernel.watch(&grounds) && !kernel.watch(&grounds));
        kernel.has_read(10);
        kernel.wait(77 * SECOND);
        grounds.stand((SIDE, id(1)), DIR, NOW + OWN, true);
        (grounds, kernel)
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
        let (grounds, kernel) = standing();
        let file = |request| grounds.tell_file((DIR, 5), FILE, (request, NOW), MOST);
        assert_eq!((file(10), file(12)), (0, MOST));
        assert_eq!(grounds.tell_dir(DIR, (9, NOW), MOST), 0);
        assert_eq!(grounds.tell_dir(DIR, (11, NOW), MOST), MOST);
        kernel.has_read(20);
        grounds.stand((SIDE, id(1)), DIR, NOW + 2 * OWN, true);
        assert_eq!(file(12), MOST, "it stood before");
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
        let (grounds, kernel) = standing();
        assert_eq!(grounds.tell_name(DIR, (12, NOW), MOST), MOST);
        assert_eq!(grounds.tell_file((DIR, 5), FILE, (12, NOW), MOST / 2), MOST / 2);
        // Another file has the key now.
        assert_eq!(grounds.tell_file((DIR, 5), Ino(71), (12, NOW), MOST), MOST);
        let count = grounds.count();
        grounds.fall(id(1));
        assert!(grounds.count() > count && grounds.is_falling(id(1)));
        assert_eq!(grounds.tell_name(DIR, (14, NOW), MOST), 0);
        let falls = grounds.take_falls();
        let mut nodes = falls.nodes;
        nodes.sort_unstable();
        assert_eq!((falls.grants, falls.names_left), (vec![id(1)], MOST + TAKEN_IN));
        assert_eq!(nodes, [FILE, Ino(71)]);
        assert!(grounds.take_falls().grants.is_empty() && grounds.is_falling(id(1)));
        grounds.forgotten(&[id(1)]);
        assert!(!grounds.is_falling(id(1)));
        // Names of a directory that others want are not told for a while.
        grounds.stand((SIDE, id(2)), DIR, NOW + 2 * PAUSE, true);
        kernel.wait(PAUSE - 1);
        assert_eq!(grounds.tell_name(DIR, (14, NOW), MOST), 0);
        assert_eq!(grounds.tell_file((DIR, 5), FILE, (14, NOW), MOST), MOST);
        kernel.wait(1);
        assert_eq!(grounds.tell_name(DIR, (14, NOW), MOST), MOST);
    }

    #[cfg(feature = "planted")]
    #[test]
    fn what_falls_is_given_back_at_once_if_that_is_planted() {
        let (grounds, _) = standing();
        grounds.tell_name(DIR, (12, NOW), MOST);
        grounds.fall(id(1));
        crate::Planted::plant(Some(crate::Planted::GivenBackBeforeForgotten));
        let is_falling = grounds.is_falling(id(1));
        crate::Planted::plant(None);
        assert!(!is_falling && grounds.is_falling(id(1)));
    }

    #[test]
    fn what_was_not_told_or_has_timed_out_falls_at_once() {
        let (grounds, kernel) = standing();
        grounds.fall(id(1));
        assert!(!grounds.is_falling(id(1)) && grounds.take_falls().grants.is_empty());
        grounds.stand((SIDE, id(2)), DIR, NOW + OWN, true);
        grounds.tell_name(DIR, (12, NOW), MOST);
        grounds.fall(id(2));
        let left = grounds.next_end().unwrap();
        assert_eq!(left, MOST + TAKEN_IN);
        kernel.wait(left - 1);
        assert!(grounds.is_falling(id(2)));
        kernel.wait(1);
        assert!(!grounds.is_falling(id(2)) && grounds.next_end().is_none());
        assert_eq!(grounds.take_falls().names_left, 0);
    }

    #[test]
    fn an_answer_that_is_written_late_is_remembered_for_longer() {
        let (grounds, kernel) = standing();
        grounds.tell_name(DIR, (12, NOW), MOST);
        kernel.wait(MOST + TAKEN_IN);
        grounds.written_late();
        grounds.fall(id(1));
        assert!(grounds.is_falling(id(1)));
        assert_eq!(grounds.take_falls().names_left, MOST + TAKEN_IN);
    }

    #[test]
    fn one_grant_of_a_directory_takes_the_place_of_another() {
        let (grounds, _) = standing();
        grounds.tell_name(DIR, (12, NOW), MOST);
        grounds.stand(((SIDE.0, Kind::Read), id(2)), DIR, NOW + OWN, true);
        assert!(grounds.is_falling(id(1)));
        assert_eq!(grounds.tell_name(DIR, (12, NOW), MOST), MOST);
        grounds.fall(id(1));
        assert_eq!(grounds.tell_name(DIR, (12, NOW), MOST), MOST);
    }

    #[test]
    fn while_files_leave_their_entries_nothing_is_told() {
        let (grounds, kernel) = standing();
        let file = |request| grounds.tell_file((DIR, 5), FILE, (request, NOW), MOST);
        assert_eq!(file(12), MOST);
        grounds.change_begins(DIR);
        grounds.change_begins(DIR);
        assert_eq!(file(14), 0);
        assert_eq!(grounds.change_ends(DIR, 5), [FILE]);
        assert_eq!(grounds.change_ends(DIR, 6), []);
        kernel.has_read(20);
        grounds.change_ended(DIR, 5, true);
        assert_eq!(file(22), 0, "there is another change");
        grounds.change_ended(DIR, 6, true);
        assert_eq!((file(20), file(22)), (0, MOST), "what was read before may be older");
        grounds.change_begins(DIR);
        grounds.change_ended(DIR, 5, false);
        assert_eq!(file(1 << 40), 0, "it may run yet");
    }

    #[test]
    fn names_that_leave_take_their_time_along() {
        let (grounds, kernel) = standing();
        assert_eq!(grounds.names_leave(&[DIR, Ino(8)]), 0);
        grounds.tell_name(DIR, (12, NOW), MOST);
        kernel.wait(SECOND);
        assert_eq!(grounds.names_leave(&[Ino(8), DIR]), MOST);
        grounds.names_forgotten(&[DIR]);
        assert_eq!(grounds.names_leave(&[DIR]), 0);
        assert_eq!(grounds.tell_name(DIR, (14, NOW), MOST), 0, "others would leave, too");
    }

    #[test]
    fn if_names_are_forgotten_often_none_are_told_for_a_while() {
        let (grounds, kernel) = standing();
        for nth in 0..u64::from(OFTEN) {
            let dir = Ino(100 + nth);
            grounds.stand((SIDE, id(100 + nth)), dir, NOW + OWN, true);
            assert_eq!(grounds.tell_name(dir, (12, NOW), MOST), MOST);
            grounds.fall(id(100 + nth));
            grounds.take_falls();
        }
        assert_eq!(grounds.tell_name(DIR, (12, NOW), MOST), 0);
        kernel.wait(LULL);
        assert_eq!(grounds.tell_name(DIR, (12, NOW), MOST), MOST);
    }

    #[test]
    fn memory_is_bounded() {
        let (grounds, kernel) = standing();
        let told = |nth: u64| grounds.tell_file((DIR, nth), Ino(1_000 + nth), (12, NOW), 1) > 0;
        let most = NODES_MAX as u64;
        assert_eq!((0..2 * most).filter(|nth| told(*nth)).count(), NODES_MAX);
        // What has timed out makes room, but that is not looked at each time.
        kernel.wait(1 + TAKEN_IN);
        assert!(told(3 * most));
        for ino in 0..2 * GROUNDS_MAX as u64 {
            grounds.stand((SIDE, id(5 + ino)), Ino(5_000 + ino), NOW + OWN, true);
        }
        assert!(grounds.state.lock().standing.len() <= GROUNDS_MAX);
    }

    #[test]
    fn without_a_kernel_there_are_no_grounds() {
        let (grounds, _) = standing();
        grounds.tell_name(DIR, (12, NOW), MOST);
        grounds.change_begins(DIR);
        grounds.fall(id(1));
        grounds.close();
        grounds.change_ended(DIR, 5, true);
        grounds.stand((SIDE, id(2)), DIR, NOW + OWN, true);
        assert!(!grounds.is_falling(id(1)));
        assert_eq!(grounds.tell_name(DIR, (12, NOW), MOST), 0);
    }
}
