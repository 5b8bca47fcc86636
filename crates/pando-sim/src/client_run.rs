//! One client: connects, lets its lanes work, closes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pando_client::{Client, Options, Transport, Volume};
use pando_model::{Call, Op, Outcome, Value, Who};
use pando_types::{Credentials, Errno};

use crate::check::History;
use crate::config::MILLISECOND;
use crate::execute::execute;
use crate::mail::Mail;
use crate::random::Random;
use crate::workload::{Known, empty, fill};

/// What all clients share.
#[derive(Clone)]
pub struct Shared {
    /// The network.
    pub mail: Mail,
    /// The volume.
    pub volume: Volume,
    /// What everyone did.
    pub history: Arc<Mutex<History>>,
}

impl Shared {
    /// The same, with the network as a client has it.
    #[must_use]
    pub fn of(&self, who: Who) -> Self {
        Self { mail: self.mail.of(who), ..self.clone() }
    }
}

/// One client, shared by its lanes.
pub struct ClientRun {
    /// Its number among all clients there ever were.
    pub who: Who,
    /// What all share.
    pub shared: Shared,
    client: Mutex<Option<Arc<Client>>>,
    known: Mutex<Known>,
    lanes_left: AtomicUsize,
    lanes_wanted: usize,
    operations: u64,
}

/// What nobody else may hold while a panic passes does not matter here.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClientRun {
    /// A client with so many lanes of so many operations each.
    #[must_use]
    pub fn new(who: Who, shared: Shared, lanes: usize, operations: u64) -> Arc<Self> {
        Arc::new(Self {
            who,
            shared,
            client: Mutex::new(None),
            known: Mutex::default(),
            lanes_left: AtomicUsize::new(lanes),
            lanes_wanted: lanes,
            operations,
        })
    }

    /// The connected client.
    pub fn client(&self) -> Option<Arc<Client>> {
        lock(&self.client).clone()
    }

    /// Opens the session, patiently.
    pub async fn connect(self: Arc<Self>) {
        loop {
            let transport: Arc<dyn Transport> = Arc::new(self.shared.mail.clone());
            // Few slots, so that operations queue for them.
            let options = Options { slots: self.lanes_wanted.max(2) as u16, ..Options::default() };
            let volume = self.shared.volume.clone();
            match Client::connect_with(transport, volume, options).await {
                Ok(client) => {
                    *lock(&self.client) = Some(Arc::new(client));
                    return;
                }
                Err(_) => self.shared.mail.sleep(10 * MILLISECOND).await,
            }
        }
    }

    async fn connected(&self) -> Arc<Client> {
        loop {
            if let Some(client) = self.client() {
                return client;
            }
            self.shared.mail.sleep(MILLISECOND).await;
        }
    }

    /// One lane's work. The last lane to end closes the client.
    pub async fn lane(self: Arc<Self>, mut random: Random) {
        let client = self.connected().await;
        let mut lanes = self.new_lanes();
        for _ in 0..self.operations {
            if random.chance(2, 3) {
                self.shared.mail.sleep(random.below(3 * MILLISECOND)).await;
            }
            if random.chance(1, 60) {
                self.churn(&client, &mut lanes, &mut random).await;
            }
            let (credentials, op) = lock(&self.known).choose(&mut random);
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

    /// A directory grows, is emptied, removed, and at once made and filled again under the same name.
    async fn churn(&self, client: &Client, lanes: &mut (usize, usize), random: &mut Random) {
        let (parent, name) = lock(&self.known).place(random);
        let root = Credentials::ROOT;
        for round in 0..3 {
            let make = Op::Mkdir(parent, name.clone(), 0o777);
            let made = self.perform(client, lanes, random, root.clone(), make).await;
            let Ok(Value::Stat(stat)) = made else { return };
            let look = Op::Lookup(parent, name.clone());
            self.perform(client, lanes, random, root.clone(), look).await.ok();
            for op in fill(stat.ino, random) {
                self.perform(client, lanes, random, root.clone(), op).await.ok();
            }
            if round == 2 {
                return;
            }
            for op in empty(stat.ino) {
                self.perform(client, lanes, random, root.clone(), op).await.ok();
            }
            let remove = Op::Rmdir(parent, name.clone());
            if self.perform(client, lanes, random, root.clone(), remove).await.is_err() {
                return;
            }
        }
    }

    async fn finish(&self, client: &Client, lanes: &mut (usize, usize), random: &mut Random) {
        while random.chance(2, 3) {
            let Some(ino) = lock(&self.known).take_open() else { break };
            self.perform(client, lanes, random, Credentials::ROOT, Op::Release(ino)).await.ok();
        }
        self.perform(client, lanes, random, Credentials::ROOT, Op::EndSession).await.ok();
    }

    async fn perform(
        &self,
        client: &Client,
        lanes: &mut (usize, usize),
        random: &mut Random,
        credentials: Credentials,
        op: Op,
    ) -> Outcome {
        let call = Call { who: self.who, credentials, op };
        let event = lock(&self.shared.history).invoke(lanes.0, call.clone(), false);
        let outcome = execute(client, &call, random.between(1, 9) as u32).await;
        lock(&self.known).ended(&call.op);
        // The answer to a change of a directory is completed by a look at it; meanwhile it may have gone.
        let halfway = |errno| match &call.op {
            Op::SetAttr(ino, _) => errno == Errno::ESTALE && lock(&self.known).is_dir(*ino),
            _ => false,
        };
        if let Err(errno) = outcome
            && (matches!(errno, Errno::EIO | Errno::ETIMEDOUT | Errno::EINTR) || halfway(errno))
        {
            // Nobody knows whether it ran: it stays unanswered, and the lane goes on as another.
            lock(&self.shared.history).lose(event, errno);
            *lanes = self.new_lanes();
            return outcome;
        }
        lock(&self.shared.history).respond(event, outcome.clone(), lanes.1);
        if !matches!(call.op, Op::Mkdir(..)) {
            lock(&self.known).learn(random, &call.op, &outcome);
        }
        outcome
    }

    fn new_lanes(&self) -> (usize, usize) {
        let mut history = lock(&self.shared.history);
        (history.lane(), history.lane())
    }
}
