//! The directories that this client remembers by their paths. It keeps access metadata only: no
//! file, no other attribute, no absent name (InfiniFS §3.4).
//!
//! A path of remembered directories costs one request, whatever its depth. No shard tells a client
//! of a change on its own. Each request carries its trail ([`Trail`](pando_types::Trail)), and the
//! shard refuses it if a directory on the trail has changed. The client drops the directories that
//! a reply's news name. The protocol is in docs/design/path-versions.md.
//!
//! Invariants:
//! 1. The tree holds at `version`: all versions up to it have been applied. An answer from a shard
//!    that knew less is put in only if no version between names its directories. So a late answer
//!    spoils nothing.
//! 2. A directory stays beneath another only while the other has the search permissions under which
//!    it was read. A permission change of a directory without subdirectories has no version. When a
//!    subdirectory is made later, the answer tells the new permissions. Then the client drops the
//!    directory, and all beneath it.
//! 3. A remembered "yes" to a search holds as long as the version does. A "no" is asked for anew
//!    each time.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use pando_types::reply::Access;
use pando_types::{Credentials, Ino, Name, News, Search};
use parking_lot::Mutex;

use crate::cache::recent::{Applied, Recent};
use crate::cache::tree::Tree;

/// Hears all news of changed directories, in order.
pub(crate) type Watcher = Box<dyn Fn(&News) + Send + Sync>;

/// What the memory of paths has done since the client began.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PathStats {
    /// Directories remembered now.
    pub directories: usize,
    /// Memory they take, bytes.
    pub bytes: usize,
    /// Components of paths that were remembered.
    pub hits: u64,
    /// Components that were not remembered, or that the user might not search.
    pub misses: u64,
    /// Requests refused because a directory on their trail had changed.
    pub refusals: u64,
    /// Directories dropped because something had changed.
    pub drops: u64,
    /// Directories evicted to make room.
    pub evictions: u64,
    /// Rounds in which many components were guessed at once.
    pub rounds: u64,
    /// Rounds that asked other shards once more, because directories had split unnoticed.
    pub repeats: u64,
}

/// The memory of paths: a tree of directories, and the versions heard last.
pub(crate) struct RememberedPaths {
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

/// A component of a path, as a shard told of it.
pub(crate) struct Read<'a> {
    /// The directory that has the name.
    pub(crate) dir: Ino,
    /// Its search permissions.
    pub(crate) search: Search,
    /// The name of the component.
    pub(crate) name: &'a Name,
    /// The subdirectory that the name leads to.
    pub(crate) access: Access,
    /// The version that the shard knew when it answered.
    pub(crate) version: u64,
}

impl RememberedPaths {
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

    /// The version at which everything in the tree holds.
    pub(crate) fn version(&self) -> u64 {
        self.state.lock().recent.version()
    }

    /// Sets the watcher of all news from now on, and returns the version with which it begins. Each
    /// news arrives before any request carries its version. Only the first watcher counts.
    pub(crate) fn watch(&self, watcher: Watcher) -> u64 {
        let state = self.state.lock();
        let _ = self.watcher.set(watcher);
        state.recent.version()
    }

    /// Begins at `version`, which a shard knows. A client that remembers nothing, without a
    /// watcher, has missed nothing before it.
    pub(crate) fn begin(&self, version: u64) {
        let mut state = self.state.lock();
        if state.tree.len() == 0 && state.recent.version() < version && self.watcher.get().is_none()
        {
            state.tree.clear();
            state.recent = Recent::new(version);
        }
    }

    /// The subdirectory `name` of `dir`, if it is remembered and `by` may search `dir`.
    pub(crate) fn step(&self, credentials: &Credentials, dir: Ino, name: &Name) -> Option<Access> {
        let mut state = self.state.lock();
        let may = state.tree.search(dir).is_some_and(|search| search.allows(credentials));
        let found = if may { state.tree.child(dir, name) } else { None };
        match found {
            Some(_) => state.hits += 1,
            None => state.misses += 1,
        }
        found
    }

    /// Remembers a subdirectory that a shard told of.
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

    /// Applies news: drops the directories that changed, and calls the watcher.
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
        // Called under the lock, so the watcher hears news in order.
        if let Some(watcher) = self.watcher.get() {
            watcher(news);
        }
    }

    /// Drops these directories and all beneath them: one is gone, or none is where it was.
    pub(crate) fn forget(&self, dirs: &[Ino]) {
        let mut state = self.state.lock();
        for dir in dirs.iter().filter(|dir| **dir != Ino::ROOT) {
            let dropped = state.tree.remove(*dir);
            state.drops += dropped;
        }
    }

    /// Counts a request that was refused because a directory on its trail had changed.
    pub(crate) fn refused(&self) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a round of guesses.
    pub(crate) fn guessed(&self) {
        self.rounds.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a round that asked for some components once more.
    pub(crate) fn repeated(&self) {
        self.repeats.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self) -> PathStats {
        let state = self.state.lock();
        PathStats {
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
mod tests;
