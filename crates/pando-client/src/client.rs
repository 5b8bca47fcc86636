//! The client itself: its parts, its beginning and its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pando_placement::{ClusterMap, Secrets};
use pando_types::op::{MAX_SLOTS, ObjectId, Op};
use pando_types::{Credentials, Errno, Ino, SessionId};
use parking_lot::Mutex;

use crate::cache::{WayStats, Ways};
use crate::call::{Failure, Via};
use crate::clocks::Clocks;
use crate::counters::Counters;
use crate::doubts::Doubts;
use crate::given_back::GivenBack;
use crate::locks::Locks;
use crate::nodes::Nodes;
use crate::openers::Openers;
use crate::renames::Renames;
use crate::route::Routes;
use crate::sessions::Sessions;
use crate::transport::Transport;

/// The system's own credentials, for calls on whose behalf nobody is checked.
pub(crate) const SYSTEM: &Credentials = &Credentials::ROOT;

/// What must be known of a volume before it can be used.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Which volume.
    pub id: [u8; 16],
    /// Its hash secrets.
    pub secrets: Secrets,
    /// Its shards, and who owns which slot.
    pub map: ClusterMap,
}

/// What a client may be told about itself.
#[derive(Clone, Debug)]
pub struct Options {
    /// Changing requests under way at once, 1 to [`MAX_SLOTS`]; others wait.
    pub slots: u16,
    /// Give a request up with `ETIMEDOUT` once no answer came for so long, nanoseconds; `None`:
    /// never. Whether it ran, or will, is then unknown, until [`Client::maintain`] finds out; so
    /// long it has its slot.
    pub patience: Option<u64>,
    /// What remembered ways to directories may take, bytes; some 300 a directory. 0: none is
    /// remembered.
    pub ways_bytes: usize,
    /// Whether components of a path whose directories are not remembered are guessed and asked for
    /// all at once; else one after the other. For measurements: there is no other reason to do
    /// without.
    pub guesses: bool,
    /// Whether contents of open files are asked for on behalf of those who opened them, as the
    /// superuser may not have them: the key makes somebody else of it.
    pub as_openers: bool,
}

impl Default for Options {
    fn default() -> Self {
        let ways_bytes = 32 << 20;
        Self { slots: 256, patience: None, ways_bytes, guesses: true, as_openers: false }
    }
}

/// One user of a volume, in a session at a time. Used by many threads at once; calls are by ino,
/// and an ino must have been looked up.
pub struct Client {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) options: Options,
    volume: [u8; 16],
    pub(crate) secrets: Secrets,
    pub(crate) sessions: Sessions,
    pub(crate) doubts: Doubts,
    pub(crate) routes: Routes,
    pub(crate) nodes: Nodes,
    pub(crate) openers: Openers,
    pub(crate) locks: Locks,
    pub(crate) given_back: GivenBack,
    pub(crate) renames: Renames,
    pub(crate) ways: Ways,
    pub(crate) counters: Counters,
    pub(crate) clocks: Clocks,
    pub(crate) traces: AtomicU64,
    /// Newest hybrid logical clock heard of.
    pub(crate) clock: AtomicU64,
    /// Newest invalidation version heard of.
    pub(crate) version: AtomicU64,
    /// What this client's locks rest on: see [`Head::heard`](pando_types::op::Head::heard).
    pub(crate) heard: AtomicU64,
    objects: AtomicU64,
    /// See [`Client::unneeded`].
    pub(crate) unneeded: Mutex<Vec<ObjectId>>,
}

impl Client {
    /// To be called by a thread that has made use of what came of its last call, and has nothing
    /// else to do at the moment: a shard in this process then does on that thread what nobody had
    /// to wait for.
    pub fn afterwards(&self) {
        self.transport.afterwards();
    }

    /// Opens a session with default [`Options`].
    pub async fn connect(transport: Arc<dyn Transport>, volume: Volume) -> Result<Self, Errno> {
        Self::connect_with(transport, volume, Options::default()).await
    }

    /// Opens a session. `EINVAL` if the options cannot be.
    pub async fn connect_with(
        transport: Arc<dyn Transport>,
        volume: Volume,
        options: Options,
    ) -> Result<Self, Errno> {
        if !(1..=MAX_SLOTS).contains(&options.slots) {
            return Err(Errno::EINVAL);
        }
        let Volume { id, secrets, map } = volume;
        let client = Self {
            transport,
            volume: id,
            secrets,
            sessions: Sessions::new(),
            doubts: Doubts::default(),
            ways: Ways::new(options.ways_bytes),
            openers: Openers::new(options.as_openers),
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
            version: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            objects: AtomicU64::new(1),
            unneeded: Mutex::default(),
        };
        let deadline = client.deadline(Via::Current);
        client.session_for(deadline).await?;
        client.ways.begin(client.version.load(Ordering::Relaxed));
        Ok(client)
    }

    /// Ends the session: what it holds open is closed. Nothing can be asked from then on.
    pub async fn close(&self) -> Result<(), Errno> {
        let deadline = self.deadline(Via::Current);
        let session = self.within(deadline, self.sessions.to_end()).await;
        if let Some(session) = session.ok_or(Errno::ETIMEDOUT)? {
            match self.run(SYSTEM, Op::EndSession(session.id)).await {
                // An earlier copy of the request has ended it, or its lease.
                Ok(_) | Err(Failure::Over) => {}
                Err(failure) => return Err(failure.into()),
            }
        }
        self.sessions.close();
        Ok(())
    }

    /// The root directory.
    #[must_use]
    pub const fn root(&self) -> Ino {
        Ino::ROOT
    }

    /// Which volume this is.
    #[must_use]
    pub const fn volume(&self) -> [u8; 16] {
        self.volume
    }

    /// The newest session.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.sessions.id()
    }

    /// Changing requests that were given up and of which nobody knows yet whether they ran.
    #[must_use]
    pub fn doubts(&self) -> usize {
        self.doubts.count()
    }

    /// Has `told` hear how many owners have lost their locks, each time that some have with a
    /// session. The first who asks is told.
    pub fn watch_locks(&self, told: Box<dyn Fn(usize) + Send + Sync>) {
        self.locks.watch(told);
    }

    /// Files that are open here but count as open nowhere: their session ended, and they were gone,
    /// or elsewhere, when they were to be opened in the next. `None` while there is no session.
    #[must_use]
    pub fn opens_lost(&self) -> Option<Vec<Ino>> {
        let state = self.sessions.state();
        let session = self.sessions.id();
        state.is_live(session).then(|| self.nodes.not_held(session))
    }

    /// Whether what is open is asked for on behalf of those who opened it: [`Options::as_openers`].
    #[must_use]
    pub const fn asks_as_openers(&self) -> bool {
        self.options.as_openers
    }

    /// What was sent so far.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What is remembered of the ways to directories, and what that was good for.
    #[must_use]
    pub fn ways(&self) -> WayStats {
        self.ways.stats()
    }

    /// Inodes in the node table: looked up and not yet forgotten, or open.
    #[must_use]
    pub fn known_inodes(&self) -> usize {
        self.nodes.len()
    }

    /// A name for a new object, never used before: the counter goes on from one session to the
    /// next.
    pub fn new_object(&self) -> ObjectId {
        let number = self.objects.fetch_add(1, Ordering::Relaxed);
        ObjectId(u128::from(self.session().0) << 64 | u128::from(number))
    }

    /// A shard said that `session` is over.
    pub(crate) fn session_over(&self, session: SessionId) {
        if self.sessions.over(session) {
            self.counters.session_over();
        }
    }

    /// Takes `count` lookups of `ino` back; with the last one, and nothing open, it is forgotten.
    pub fn forget(&self, ino: Ino, count: u64) {
        self.nodes.forget(ino, count);
    }
}
