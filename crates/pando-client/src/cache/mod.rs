//! The ways to directories that this client remembers: access metadata only, no file, no attribute,
//! no name that leads nowhere (InfiniFS §3.4).
//!
//! A path whose directories are all remembered costs one request, whatever its depth. Nobody tells
//! a client when they change; each request carries its trail ([`Trail`]), and the shard that runs
//! it refuses one whose way has changed. What a reply tells in news drops what it names.
//!
//! Invariants:
//! 1. Everything in the tree was true once `version` and no version above it had been taken into
//!    account. What a shard told that knew less is put in only if no version between names it; so a
//!    late answer spoils nothing.
//! 2. A directory stands beneath another only as long as users may search that as they might when
//!    it was read. A change of permissions of a directory without subdirectories has no version:
//!    what is made beneath it afterwards comes with the new permissions, and then the old ones go,
//!    and all beneath them.
//! 3. A remembered "yes" to a search holds as long as the version does. A "no" is asked for anew,
//!    each time.

mod on_path;
mod recent;
mod tree;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use pando_types::reply::Access;
use pando_types::{Credentials, Ino, Name, News, Search};
use parking_lot::Mutex;

pub(crate) use on_path::At;
pub use on_path::OnPath;
pub use recent::{Applied, Recent};
use tree::Tree;

/// Who hears of all news, in order.
pub(crate) type Watcher = Box<dyn Fn(&News) + Send + Sync>;

/// What the memory of ways has done since the client began.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WayStats {
    /// Directories remembered now.
    pub directories: usize,
    /// What they take, bytes.
    pub bytes: usize,
    /// Components of paths that were remembered.
    pub hits: u64,
    /// Those that were not, or that the user might not search.
    pub misses: u64,
    /// Requests refused because their way had changed.
    pub refusals: u64,
    /// Directories forgotten because something had changed.
    pub drops: u64,
    /// Directories forgotten to make room.
    pub evictions: u64,
    /// Rounds in which many components were guessed at once.
    pub rounds: u64,
    /// Of these, how often some were asked for once more, elsewhere, as their directories had split
    /// unnoticed.
    pub repeats: u64,
}

/// See the module.
pub(crate) struct Ways {
    state: Mutex<State>,
    watcher: OnceLock<Watcher>,
    refusals: AtomicU64,
    rounds: AtomicU64,
    repeats: AtomicU64,
}

struct State {
    tree: Tree,
    recent: Recent,
    hits: u64,
    misses: u64,
    drops: u64,
    evictions: u64,
}

/// What was read of a component.
pub(crate) struct Read<'a> {
    /// The directory.
    pub(crate) dir: Ino,
    /// Who may search it.
    pub(crate) search: Search,
    /// The name.
    pub(crate) name: &'a Name,
    /// The subdirectory it leads to.
    pub(crate) access: Access,
    /// What the shard knew when it was read.
    pub(crate) version: u64,
}

impl Ways {
    pub(crate) fn new(budget: usize) -> Self {
        let state = State {
            tree: Tree::new(budget),
            recent: Recent::default(),
            hits: 0,
            misses: 0,
            drops: 0,
            evictions: 0,
        };
        Self {
            state: Mutex::new(state),
            watcher: OnceLock::new(),
            refusals: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            repeats: AtomicU64::new(0),
        }
    }

    /// Up to where everything in the tree has been taken into account.
    pub(crate) fn version(&self) -> u64 {
        self.state.lock().recent.version()
    }

    /// Has somebody hear of all news from now on, in order, each before anything is asked with its
    /// version; the version he begins with. Only one can.
    pub(crate) fn watch(&self, watcher: Watcher) -> u64 {
        let state = self.state.lock();
        let _ = self.watcher.set(watcher);
        state.recent.version()
    }

    /// A shard knows this version. Who remembers nothing has missed nothing.
    pub(crate) fn begin(&self, version: u64) {
        let mut state = self.state.lock();
        if state.tree.len() == 0 && state.recent.version() < version && self.watcher.get().is_none()
        {
            state.tree.clear();
            state.recent = Recent::new(version);
        }
    }

    /// The subdirectory `name` of `dir`, if it is remembered, and that `by` may search `dir`.
    pub(crate) fn step(&self, by: &Credentials, dir: Ino, name: &Name) -> Option<Access> {
        let mut state = self.state.lock();
        let may = state.tree.search(dir).is_some_and(|search| search.allows(by));
        let found = if may { state.tree.child(dir, name) } else { None };
        match found {
            Some(_) => state.hits += 1,
            None => state.misses += 1,
        }
        found
    }

    /// Remembers what a shard told.
    pub(crate) fn learn(&self, read: &Read<'_>) {
        let State { tree, recent, drops, evictions, .. } = &mut *self.state.lock();
        if !recent.still_holds(read.version, &[read.access.dir.ino, read.dir]) {
            return;
        }
        match tree.search(read.dir) {
            Some(search) if search == read.search => {}
            _ if read.dir == Ino::ROOT => {
                *drops += tree.clear();
                tree.set_root(read.search);
            }
            Some(_) => {
                *drops += tree.remove(read.dir);
                return;
            }
            None => return,
        }
        *evictions += tree.insert(read.dir, read.name, read.access);
    }

    /// Takes news into account.
    pub(crate) fn apply(&self, news: &News) {
        let mut state = self.state.lock();
        let state = &mut *state;
        match state.recent.apply(news) {
            Applied::Known => return,
            Applied::All => state.drops += state.tree.clear(),
            Applied::These(dirs) => {
                state.drops += dirs.iter().map(|dir| state.tree.remove(*dir)).sum::<u64>();
            }
        }
        // Under the lock, so that nobody hears of them in another order.
        if let Some(watcher) = self.watcher.get() {
            watcher(news);
        }
    }

    /// Forgets these directories, and all beneath them: one of them is gone, or none is where it
    /// was.
    pub(crate) fn forget(&self, dirs: &[Ino]) {
        let mut state = self.state.lock();
        for dir in dirs.iter().filter(|dir| **dir != Ino::ROOT) {
            let dropped = state.tree.remove(*dir);
            state.drops += dropped;
        }
    }

    /// A request was refused because its way had changed.
    pub(crate) fn refused(&self) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
    }

    /// Components were guessed.
    pub(crate) fn guessed(&self) {
        self.rounds.fetch_add(1, Ordering::Relaxed);
    }

    /// Some of them were asked for once more.
    pub(crate) fn repeated(&self) {
        self.repeats.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self) -> WayStats {
        let state = self.state.lock();
        WayStats {
            directories: state.tree.len(),
            bytes: state.tree.bytes(),
            hits: state.hits,
            misses: state.misses,
            refusals: self.refusals.load(Ordering::Relaxed),
            drops: state.drops,
            evictions: state.evictions,
            rounds: self.rounds.load(Ordering::Relaxed),
            repeats: self.repeats.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
