//! The client: its parts and its options.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pando_placement::{ClusterMap, Secrets};
use pando_types::op::ObjectId;
use pando_types::{Epoch, Ino, SessionId};
use parking_lot::Mutex;

use crate::cache::remembered::{PathStats, RememberedPaths};
use crate::nodes::openers::Openers;
use crate::nodes::renames::Renames;
use crate::nodes::table::Nodes;
use crate::nodes::untold::Untold;
use crate::nodes::walks::Walks;
use crate::route::routes::Routes;
use crate::session::doubts::Doubts;
use crate::session::hold::Hold;
use crate::session::locks::Locks;
use crate::session::sessions::Sessions;
use crate::session::unlocks::GivenBack;
use crate::transport::clocks::Clocks;
use crate::transport::counters::Counters;
use crate::transport::traits::Transport;

/// What a client must know of a volume before it can use it.
#[derive(Clone, Debug)]
pub struct Volume {
    /// The volume's id.
    pub id: [u8; 16],
    /// The secrets of its hashes.
    pub secrets: Secrets,
    /// Its shards, and the owners of hash slots.
    pub map: ClusterMap,
}

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct Options {
    /// Most pending changing requests, 1 to [`MAX_SLOTS`](pando_types::op::MAX_SLOTS).
    /// Further ones wait.
    pub slots: u16,
    /// After this time without an answer a request fails with `ETIMEDOUT`, nanoseconds. `None`:
    /// never. Whether it ran, or will, is unknown until [`Client::maintain`] finds out. Until then
    /// it has its slot.
    pub patience: Option<u64>,
    /// Most memory for remembered paths of directories, bytes. A directory takes some 300. With 0
    /// none is remembered.
    pub paths_bytes: usize,
    /// Whether the client guesses the unknown components of a path, and asks for all at once. Else
    /// it asks for one after the other, which serves measurements only.
    pub guesses: bool,
    /// Whether the contents of open files are asked for with the credentials of the users that
    /// opened them. Needed where the client's key may not act as the superuser.
    pub as_openers: bool,
}

impl Default for Options {
    fn default() -> Self {
        let paths_bytes = 32 << 20;
        Self { slots: 256, patience: None, paths_bytes, guesses: true, as_openers: false }
    }
}

/// One client of a volume, with one session at a time. Many threads may use it at once. Calls are
/// by ino, and an ino must have been looked up.
pub struct Client {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) options: Options,
    volume: [u8; 16],
    pub(crate) secrets: Secrets,
    pub(crate) sessions: Sessions,
    pub(crate) doubts: Doubts,
    pub(crate) hold: Hold,
    pub(crate) routes: Routes,
    pub(crate) nodes: Nodes,
    pub(crate) openers: Openers,
    pub(crate) untold: Untold,
    pub(crate) walks: Walks,
    pub(crate) locks: Locks,
    pub(crate) given_back: GivenBack,
    pub(crate) renames: Renames,
    pub(crate) paths: RememberedPaths,
    pub(crate) counters: Counters,
    pub(crate) clocks: Clocks,
    pub(crate) traces: AtomicU64,
    /// The newest hybrid logical clock heard of.
    pub(crate) clock: AtomicU64,
    /// The start of shard 0 that has answered last.
    epoch: AtomicU64,
    /// The newest version of directory changes heard of.
    pub(crate) version: AtomicU64,
    /// The clock on which this client's locks rest: [`Head::heard`](pando_types::op::Head::heard).
    pub(crate) heard: AtomicU64,
    objects: AtomicU64,
    /// Objects of requests that turned out not to have run: [`Client::unneeded`] takes them.
    pub(crate) unneeded: Mutex<Vec<ObjectId>>,
}

impl Client {
    /// A client without a session.
    pub(crate) fn new(transport: Arc<dyn Transport>, volume: Volume, options: Options) -> Self {
        let Volume { id, secrets, map } = volume;
        Self {
            transport,
            volume: id,
            secrets,
            sessions: Sessions::new(),
            doubts: Doubts::default(),
            hold: Hold::new(),
            paths: RememberedPaths::new(options.paths_bytes),
            openers: Openers::new(options.as_openers),
            untold: Untold::default(),
            walks: Walks::default(),
            options,
            routes: Routes::new(map),
            nodes: Nodes::new(),
            locks: Locks::default(),
            given_back: GivenBack::default(),
            renames: Renames::default(),
            counters: Counters::new(),
            clocks: Clocks::new(),
            traces: AtomicU64::new(1),
            clock: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            version: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            objects: AtomicU64::new(1),
            unneeded: Mutex::default(),
        }
    }

    /// Lets a shard in this process do deferred work on the calling thread. Call it when the thread
    /// has used the result of its last call, and has nothing else to do.
    pub fn afterwards(&self) {
        self.transport.afterwards();
    }

    /// The ino of the root directory.
    #[must_use]
    pub const fn root(&self) -> Ino {
        Ino::ROOT
    }

    /// The volume's id.
    #[must_use]
    pub const fn volume(&self) -> [u8; 16] {
        self.volume
    }

    /// The newest session.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.sessions.id()
    }

    /// Number of changing requests that were given up, and may or may not have run.
    #[must_use]
    pub fn doubts(&self) -> usize {
        self.doubts.count()
    }

    /// Has `told` hear how many owners have lost their locks, each time that a session's end has
    /// cost some. Only the first watcher counts.
    pub fn watch_locks(&self, told: Box<dyn Fn(usize) + Send + Sync>) {
        self.locks.watch(told);
    }

    /// Files that are open here, but that no shard counts as open, though shards were told. Their
    /// session ended, and the next could not open them: they were gone or elsewhere. `None` while
    /// there is no session.
    #[must_use]
    pub fn opens_lost(&self) -> Option<Vec<Ino>> {
        let state = self.sessions.state();
        let session = self.sessions.id();
        let is_lost = |ino: &Ino| !self.untold.has(*ino);
        state
            .is_live(session)
            .then(|| self.nodes.not_held(session).into_iter().filter(is_lost).collect())
    }

    /// Whether requests about open files carry their openers' credentials
    /// ([`Options::as_openers`]).
    #[must_use]
    pub const fn asks_as_openers(&self) -> bool {
        self.options.as_openers
    }

    /// Counts of what was sent so far.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What is remembered of paths, and how often that helped.
    #[must_use]
    pub fn path_stats(&self) -> PathStats {
        self.paths.stats()
    }

    /// Number of inodes in the node table: looked up and not yet forgotten, or open.
    #[must_use]
    pub fn known_inodes(&self) -> usize {
        self.nodes.len()
    }

    /// A name for a new object, never used before. The counter goes on from one session to the
    /// next.
    pub fn new_object(&self) -> ObjectId {
        let number = self.objects.fetch_add(1, Ordering::Relaxed);
        ObjectId(u128::from(self.session().0) << 64 | u128::from(number))
    }

    /// The start of shard 0 that has answered last.
    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::Relaxed))
    }

    /// Notes which start of shard 0 has answered.
    pub(crate) fn answered_by(&self, epoch: Epoch) {
        // Written only if that changes something, as many threads share the cell.
        if self.epoch() != epoch {
            self.epoch.store(epoch.0, Ordering::Relaxed);
        }
    }

    /// Notes that a shard does not know `session` any more.
    pub(crate) fn session_over(&self, session: SessionId) {
        if self.sessions.over(session) {
            self.counters.session_over();
        }
    }

    /// Forgets `count` lookups of `ino`. With the last one, and if it is not open, the client
    /// forgets the inode.
    pub fn forget(&self, ino: Ino, count: u64) {
        self.nodes.forget(ino, count);
    }
}
