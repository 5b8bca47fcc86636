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
/// Grounds at most. One more says nothing to the kernel.
const GROUNDS_MAX: usize = 16_384;
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
    /// Number of nodes in all that stands.
    nodes: usize,
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
        state.fall(before.grant, before.told);
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
        state.fall(grant, ground.told);
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
    fn fall(&mut self, grant: TxnId, told: Told) {
        if told.until > 0 && !self.is_closed {
            self.falling.insert(grant, Falling { told, is_taken: false });
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
        let is_full = state.nodes >= NODES_MAX;
        let Some((ground, time)) = state.ground(dir, moments, most) else { return 0 };
        let before = ground.told.nodes();
        if is_full {
            ground.told.prune(moments.1);
        }
        let may = !is_full || ground.told.nodes() < before;
        if may {
            ground.told.add(key, ino, moments.1.saturating_add(time));
        }
        let after = ground.told.nodes();
        state.nodes = state.nodes - before + after;
        if may { time } else { 0 }
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
    pub fn forgotten(&self, grants: &[TxnId]) {
        let mut state = self.state.lock();
        grants.iter().for_each(|grant| drop(state.falling.remove(grant)));
        drop(state);
        self.wake();
    }
}

impl State {
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
