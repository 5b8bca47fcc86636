//! A simulated client, which connects, runs its lanes, and closes.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pando_client::{Client, Options, Transport, Volume};
use pando_model::{Call, Op, Outcome, Value, Who};
use pando_types::{Credentials, Errno, Judge, SessionId};

use crate::check::{EventIndex, History};
use crate::config::MILLISECOND;
use crate::execute::Executed;
use crate::keeping::{Keeper, Promises};
use crate::local::{Here, Local};
use crate::locking;
use crate::locking::judge::Locks;
use crate::mail::Mail;
use crate::objects::{Desk, Objects};
use crate::random::Random;
use crate::workload::{Known, empty, fill};

/// A watcher of the network recognizes a client's operation by an extra group in its credentials.
/// The group is this number plus the number of the event.
const MARK: u32 = 1 << 24;

/// The operation that a request with these credentials is part of, if it is a client's.
#[must_use]
pub fn event_of(by: &Credentials) -> Option<EventIndex> {
    by.groups().iter().find_map(|group| group.checked_sub(MARK)).map(|event| event as EventIndex)
}

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
    client: Mutex<Option<Arc<Client>>>,
    known: Mutex<Known>,
    lanes_left: AtomicUsize,
    lanes_wanted: usize,
    operations: u64,
    /// Where the client uses files with objects; `Some(None)`: a lane is using it.
    pub(crate) desk: Mutex<Option<Option<Desk>>>,
    /// Number of operations that its lanes have not begun.
    pub(crate) left: AtomicU64,
    /// Number of opens lost with a session.
    pub losses: AtomicUsize,
    /// The session before the current one, and the current one, as far as the client has noticed.
    sessions: Mutex<[SessionId; 2]>,
}

/// Locks a mutex, also if a panic has poisoned it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Opens a session, and retries until that succeeds.
    pub async fn connect(self: Arc<Self>) {
        loop {
            let mail = self.shared.mail.clone();
            let transport: Arc<dyn Transport> = match self.shared.here.clone() {
                Some(here) => Arc::new(Local { here, mail }),
                None => Arc::new(mail),
            };
            // The client has few request slots, so that operations wait for them.
            let slots = self.lanes_wanted.max(2) as u16;
            let (patience, paths_bytes) = (self.shared.patience, self.shared.paths_bytes);
            let options = Options { slots, patience, paths_bytes, ..Options::default() };
            let volume = self.shared.volume.clone();
            match Client::connect_with(transport, volume, options).await {
                Ok(client) => {
                    *lock(&self.sessions) = [client.session(); 2];
                    *lock(&self.client) = Some(Arc::new(client));
                    return;
                }
                Err(_) => self.shared.mail.sleep(10 * MILLISECOND).await,
            }
        }
    }

    /// Runs the client's own background work.
    pub async fn maintain(self: Arc<Self>) {
        self.connected().await.maintain().await;
    }

    async fn connected(&self) -> Arc<Client> {
        loop {
            if let Some(client) = self.client() {
                return client;
            }
            self.shared.mail.sleep(MILLISECOND).await;
        }
    }

    /// Runs one lane. The last lane that ends closes the client.
    pub async fn lane(self: Arc<Self>, mut random: Random) {
        let client = self.connected().await;
        let mut lanes = self.new_lanes();
        let mut keeper = Keeper::new(lanes.0);
        for _ in 0..self.operations {
            self.left.fetch_sub(1, Ordering::Relaxed);
            if random.chance(2, 3) {
                self.shared.mail.sleep(random.below(3 * MILLISECOND)).await;
            }
            if self.shared.keeping > 0 && random.chance(1, self.shared.keeping) {
                self.keep(&client, &mut keeper, &mut random).await;
            }
            if self.shared.locking > 0 && random.chance(1, self.shared.locking) {
                self.use_lock(&client, &mut lanes, &mut random).await;
            }
            let every = self.shared.objects.as_ref().map_or(0, |objects| objects.every);
            if every > 0 && random.chance(1, every) {
                self.use_objects(&client, &mut lanes, &mut random).await;
            }
            if random.chance(1, self.shared.churn) {
                self.churn(&client, &mut lanes, &mut random).await;
            }
            let by_path = random.chance(self.shared.by_path, 100);
            let (credentials, op) = lock(&self.known).choose(&mut random, by_path);
            let follow = match &op {
                Op::Mkdir(dir, name, _) => Some(Op::Lookup(*dir, name.clone())),
                _ => None,
            };
            let outcome = self.perform(&client, &mut lanes, &mut random, credentials, op).await;
            if let (Some(op), Ok(_)) = (follow, outcome) {
                self.perform(&client, &mut lanes, &mut random, Credentials::ROOT, op).await.ok();
            }
        }
        if self.lanes_left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.finish(&client, &mut lanes, &mut random).await;
        }
    }

    /// Makes, fills and empties a directory. Then it removes the directory, and makes it again
    /// under that name at once.
    async fn churn(&self, client: &Arc<Client>, lanes: &mut (usize, usize), random: &mut Random) {
        let (parent, name) = lock(&self.known).place(random);
        let root = Credentials::ROOT;
        for round in 0..3 {
            let make = Op::Mkdir(parent, name.clone(), 0o777);
            let made = self.perform(client, lanes, random, root.clone(), make).await;
            let Ok(Value::Stat(stat)) = made else { return };
            let look = Op::Lookup(parent, name.clone());
            self.perform(client, lanes, random, root.clone(), look).await.ok();
            for ebb in 0.. {
                for op in fill(stat.ino, random, self.shared.names) {
                    self.perform(client, lanes, random, root.clone(), op).await.ok();
                }
                if round == 2 && ebb == self.shared.ebbs {
                    return;
                }
                for op in empty(stat.ino, random, self.shared.names) {
                    self.perform(client, lanes, random, root.clone(), op).await.ok();
                }
                if ebb == self.shared.ebbs {
                    break;
                }
                // Meanwhile, or while the directory is filled again, its partitions are given back.
                self.shared.mail.sleep(random.below(60 * MILLISECOND)).await;
                for op in [Op::ReadDir(stat.ino), Op::GetAttr(stat.ino)] {
                    self.perform(client, lanes, random, root.clone(), op).await.ok();
                }
            }
            let remove = Op::Rmdir(parent, name.clone());
            if self.perform(client, lanes, random, root.clone(), remove).await.is_err() {
                return;
            }
        }
    }

    async fn finish(&self, client: &Arc<Client>, lanes: &mut (usize, usize), random: &mut Random) {
        while random.chance(2, 3) {
            let Some(ino) = lock(&self.known).take_open() else { break };
            self.perform(client, lanes, random, Credentials::ROOT, Op::Release(ino)).await.ok();
        }
        self.leave_objects(client).await;
        while !self.notice_losses(client, None).await {
            self.shared.mail.sleep(MILLISECOND).await;
        }
        // Shards hear of the end one after another. The session may also have ended unnoticed
        // before.
        {
            let mut history = lock(&self.shared.history);
            let since = history.last_alive(client.session());
            history.gone(self.who, since);
        }
        while client.close().await.is_err() {
            self.shared.mail.sleep(10 * MILLISECOND).await;
        }
    }

    pub(crate) async fn perform(
        &self,
        client: &Arc<Client>,
        lanes: &mut (usize, usize),
        random: &mut Random,
        credentials: Credentials,
        op: Op,
    ) -> Outcome {
        let call = Call { who: self.who, credentials, op };
        let event = lock(&self.shared.history).invoke(lanes.0, call.clone(), false);
        let over_before = client.counters().sessions_over();
        let had_session = client.opens_lost().is_some();
        let mut marked = call.clone();
        if let Judge::Shard(groups) = &mut marked.credentials.judge {
            groups.push(MARK + event as u32);
        }
        let executed = self.execute(client, &marked, random.between(1, 9) as u32).await;
        let Executed { outcome, is_loose, attr } = executed;
        lock(&self.shared.history).walked(event, is_loose);
        let lost_session = client.counters().sessions_over() > over_before;
        lock(&self.known).ended(&call.op);
        if matches!(call.op, Op::Release(_)) && (lost_session || !had_session) {
            // The file was closed when the session ended, before this release was sent.
            let mut history = lock(&self.shared.history);
            let since = history.last_alive(lock(&self.sessions)[0]);
            history.backdate(event, since);
        }
        // A change of a directory's attributes is followed by a look at the directory. The
        // directory may have gone in between.
        let halfway = |errno| match &call.op {
            Op::SetAttr(ino, _) => errno == Errno::ESTALE && lock(&self.known).is_dir(*ino),
            _ => false,
        };
        if let Err(errno) = outcome
            && (matches!(errno, Errno::EIO | Errno::ETIMEDOUT | Errno::EINTR | Errno::ENOSPC)
                || halfway(errno))
        {
            // Whether the operation ran is unknown. It stays unanswered, and the lane goes on as
            // another one.
            lock(&self.shared.history).lose(event, errno, lost_session);
            *lanes = self.new_lanes();
            self.notice_losses(client, None).await;
            return outcome;
        }
        {
            let mut history = lock(&self.shared.history);
            history.respond(event, outcome.clone(), lanes.1);
            history.mark(event, attr);
        }
        // `Known` stands for a kernel, which does not see operations by path.
        if !matches!(call.op, Op::Mkdir(..) | Op::ByPath { .. }) && !locking::concerns(&call.op) {
            lock(&self.known).learn(random, &call.op, &outcome);
        }
        self.notice_losses(client, Some(event)).await;
        outcome
    }

    /// Closes the files that were open when a session ended and that the next session could not
    /// open again. A program would close them in the end, too. False: the client has no session.
    async fn notice_losses(&self, client: &Arc<Client>, event: Option<EventIndex>) -> bool {
        let Some(lost) = client.opens_lost() else { return false };
        let mut closed = Vec::new();
        {
            let mut history = lock(&self.shared.history);
            let mut sessions = lock(&self.sessions);
            let is_new = sessions[1] != client.session();
            if is_new {
                *sessions = [sessions[1], client.session()];
            }
            let before = history.last_alive(sessions[0]);
            let since = event.map_or(before, |event| before.min(history.invoked(event)));
            if is_new {
                history.begun_anew(self.who, since);
            }
            for ino in lost {
                for _ in 0..lock(&self.known).forget_opens(ino) {
                    history.let_go(self.who, ino, since);
                    closed.push(ino);
                }
            }
        }
        self.losses.fetch_add(closed.len(), Ordering::Relaxed);
        for ino in closed {
            client.release(ino).await.ok();
        }
        true
    }

    fn new_lanes(&self) -> (usize, usize) {
        let mut history = lock(&self.shared.history);
        (history.lane(), history.lane())
    }
}
