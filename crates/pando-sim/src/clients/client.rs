//! A simulated client, which connects, runs its lanes, and closes.

use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};

use pando_client::{Client, Volume};
use pando_types::SessionId;

use crate::base::lock::lock;
use crate::check::History;
use crate::clients::blocking::desk::Desk;
use crate::clients::borrows::Borrows;
use crate::clients::kernel::Kernel;
use crate::clients::local::Here;
use crate::clients::workload::Known;
use crate::judges::locks::Locks;
use crate::judges::promises::Promises;
use crate::machines::objects::Objects;
use crate::model::Who;
use crate::network::mail::Mail;

/// What all clients share.
#[derive(Clone)]
pub struct Shared {
    /// The clients' end of the network.
    pub mail: Mail,
    /// The volume.
    pub volume: Volume,
    /// The history of what all clients did.
    pub history: Arc<Mutex<History>>,
    /// How long a client waits for an answer, nanoseconds; `None`: without a limit.
    pub patience: Option<u64>,
    /// Number of file names in use.
    pub names: u8,
    /// Mean number of operations of a lane between two times that it makes, fills and removes a
    /// directory.
    pub churn: u64,
    /// Percentage of operations that go by path.
    pub by_path: u64,
    /// Percentage of the operations by number that move directories.
    pub moves: u64,
    /// Maximum size of a client's remembered paths, bytes.
    pub paths_bytes: usize,
    /// How often a directory is emptied and filled again before it is removed.
    pub ebbs: u64,
    /// Mean number of operations between two fsyncs of a name of the lane's own; 0: the lane makes
    /// none.
    pub keeping: u64,
    /// Promises made by these fsyncs.
    pub promises: Arc<Mutex<Promises>>,
    /// Mean number of operations between two locks that a lane takes; 0: it takes none.
    pub locking: u64,
    /// How long a lane waits for a lock at most, nanoseconds; `None`: without a limit.
    pub lock_patience: Option<u64>,
    /// The judge of locks.
    pub locks: Arc<Mutex<Locks>>,
    /// Whether clients borrow directories.
    pub lends: bool,
    /// Whether clients remember what they read while no other one changes anything.
    pub holds: bool,
    /// Whether there are kernels before clients that borrow, which remember what they are told.
    pub kernels: bool,
    /// Objects, if files have them.
    pub objects: Option<Arc<Objects>>,
    /// The process that hosts all shards, if this client is in it.
    pub here: Option<Arc<Here>>,
}

impl Shared {
    /// A copy for client `who`, with that client's handle of the network.
    #[must_use]
    pub fn of(&self, who: Who) -> Self {
        Self { mail: self.mail.of(who), ..self.clone() }
    }
}

/// One client, shared by its lanes.
pub struct ClientRun {
    /// Number of this client among all clients of the run.
    pub who: Who,
    /// What all clients share.
    pub shared: Shared,
    pub(crate) client: Mutex<Option<Arc<Client>>>,
    pub(crate) borrows: Borrows,
    pub(crate) kernel: Kernel,
    pub(crate) known: Mutex<Known>,
    pub(crate) lanes_left: AtomicUsize,
    pub(crate) lanes_wanted: usize,
    pub(crate) operations: u64,
    /// Where the client uses files with objects; `Some(None)`: a lane is using it.
    pub(crate) desk: Mutex<Option<Option<Desk>>>,
    /// Number of operations that its lanes have not begun.
    pub(crate) left: AtomicU64,
    /// Number of opens lost with a session.
    pub losses: AtomicUsize,
    /// The session before the current one, and the current one, as far as the client has noticed.
    pub(crate) sessions: Mutex<[SessionId; 2]>,
}

impl ClientRun {
    /// A client of `lanes` lanes, with `operations` operations each.
    #[must_use]
    pub fn new(who: Who, shared: Shared, lanes: usize, operations: u64) -> Arc<Self> {
        let (names, moves) = (shared.names, shared.moves);
        Arc::new(Self {
            who,
            shared,
            client: Mutex::new(None),
            borrows: Borrows::default(),
            kernel: Kernel::default(),
            known: Mutex::new(Known::new(names, moves)),
            lanes_left: AtomicUsize::new(lanes),
            lanes_wanted: lanes,
            operations,
            desk: Mutex::default(),
            left: AtomicU64::new(operations * lanes as u64),
            losses: AtomicUsize::new(0),
            sessions: Mutex::default(),
        })
    }

    /// The client, once it has connected.
    pub fn client(&self) -> Option<Arc<Client>> {
        lock(&self.client).clone()
    }

    /// The session before the current one, or the current one if it is the first. Nothing was lost
    /// before the time when this session was last known to be alive.
    pub fn session_noticed(&self) -> SessionId {
        lock(&self.sessions)[0]
    }

    pub(crate) fn new_lanes(&self) -> (usize, usize) {
        let mut history = lock(&self.shared.history);
        (history.lane(), history.lane())
    }
}
