//! A few shards in one thread, over stores in memory. A test says when a message arrives, and when
//! time passes.
//!
//! | verb | what it does |
//! |---|---|
//! | `Cluster::new`, `with` | makes shards, and begins a session |
//! | `found` | makes one more shard, of which no other has heard |
//! | `restart` | starts shards again; messages on their way to them are lost |
//! | `begin_session` | begins a session, to which later requests belong |
//! | `send` | sends a request, and delivers nothing; `send_txn` tells its transaction, too |
//! | `answer`, `reply` | takes the answer to what was sent, or the whole reply, if it is there |
//! | `ask` | `send`, and `answer` at once |
//! | `at_once` | asks for an answer without effects |
//! | `run` | sends a request, and delivers everything until it is answered |
//! | `on_owner`, `body`, `done` | `run` by whichever shard owns what the operation is about |
//! | `create`, `mkdir`, `lookup`, … | the operation of this name, by its owner |
//! | `step`, `step_of`, `step_txn` | delivers the oldest message, the oldest of some, those of a transaction |
//! | `messages`, `take`, `put_back` | messages on their way: looks at them, takes some off, puts them back |
//! | `deliver` | delivers messages that are not on their way |
//! | `take_sent` | takes the messages sent since the last call |
//! | `silence` | loses messages to some shards |
//! | `tick` | time passes, and timers of some shards fire; delivers nothing |
//! | `wait` | time passes; timers fire, and messages are delivered |
//! | `settle` | delivers everything, and fires all timers, until nothing is left |
//! | `cost` | runs a request, and counts its messages |
//! | `fail`, `has_failed`, `spoil`, `write` | one read or input fails; keys are unreadable; rows change |
//! | `keep_logs`, `lose_power` | distinguishes what is synced; loses the rest |
//! | `shard`, `rows`, `count`, `partitions`, … | looks at shards from outside |
//!
//! Where a verb takes shards, it takes `[shard]` or `c.all()`. What it sends is an operation, alone
//! or as `(op, trail)` or `(id, op)`, or a whole request. An operation that changes something is
//! the next of the session, in a request slot of its own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pando_core::{Config, Need, Shard, format};
use pando_placement::{ClusterMap, Secrets};
use pando_types::op::{Op, RequestId};
use pando_types::peer::Peer;
use pando_types::reply::{Body, Reply};
use pando_types::{Credentials, KeyId, SessionId, ShardIndex, Timestamp};

mod cost;
mod looks;
mod messages;
mod names;
mod power;
mod requests;
mod store;

pub use cost::Cost;
pub use messages::Versions;
pub use names::dir_at;
pub use requests::Asked;
pub use store::Fault;
use store::{Faults, Store};

/// Lease, nanoseconds: longer than any test that does not wait for its end.
pub const LEASE: u64 = 3_600_000_000_000;

/// A message, and the shard that it goes to.
pub type Message = (ShardIndex, Box<Peer>);

pub struct Cluster {
    pub configs: Vec<Config>,
    /// Secrets of the volume, which determine the orders of names.
    pub secrets: Secrets,
    shards: Vec<(Shard, Store)>,
    messages: VecDeque<Message>,
    replies: BTreeMap<u64, Reply>,
    silent: BTreeSet<ShardIndex>,
    /// Messages for which this holds are lost.
    pub loses: fn(ShardIndex, &Peer) -> bool,
    /// Messages of more bytes are lost.
    pub frame_max: usize,
    /// Messages sent, if they are noted, each with what it waited for.
    sent: Option<Vec<(Need, ShardIndex, Peer)>>,
    /// When the last input wanted to be followed by a tick.
    pub last_wake: Option<u64>,
    /// What the last reply waited for.
    pub last_need: Option<Need>,
    /// Log epoch of shards that start from now on.
    pub epoch: u64,
    /// The session to which requests belong.
    pub session: SessionId,
    sequence: u64,
    /// Identity of the last request that got one here.
    pub last_id: RequestId,
    /// Tag of the last request.
    tag: u64,
    pub by: Credentials,
    /// Key by which requests come.
    pub key: KeyId,
    /// The time.
    pub nanos: u64,
    /// By how much the time of day of a shard is ahead of that of others, nanoseconds.
    pub ahead: BTreeMap<ShardIndex, u64>,
    /// Whether timers that are due almost at once fire at once.
    pub hurries: bool,
    /// One log for each shard, if the test distinguishes what is synced.
    logs: Vec<power::Log>,
    faults: Faults,
    /// Whether no shard has room for changes that take space.
    pub is_full: bool,
    /// Whether no shard has room for any change: what an input writes is dropped.
    pub is_spent: bool,
    /// Most bytes that an input may write.
    pub write_max: usize,
    /// Whether shards may hear messages that no sound shard sends.
    pub expects_bad: bool,
}

impl Cluster {
    pub fn new(count: u16, threshold: u64) -> Self {
        Self::with(count, |config| config.split_threshold = threshold)
    }

    /// Shards with pages of three rows and two partitions each. `change` alters that.
    pub fn with(count: u16, change: impl Fn(&mut Config)) -> Self {
        let map = ClusterMap::new(count);
        let secrets = Secrets { dir: [7; 32], name: [9; 16] };
        let mut cluster = Self {
            configs: Vec::new(),
            secrets: secrets.clone(),
            shards: Vec::new(),
            messages: VecDeque::new(),
            replies: BTreeMap::new(),
            silent: BTreeSet::new(),
            loses: |_, _| false,
            frame_max: usize::MAX,
            sent: None,
            last_wake: None,
            last_need: None,
            epoch: 1,
            session: SessionId(0),
            sequence: 0,
            last_id: RequestId::default(),
            tag: 0,
            by: Credentials::ROOT,
            key: KeyId::OWNER,
            nanos: 1_000_000_000,
            ahead: BTreeMap::new(),
            hurries: true,
            logs: Vec::new(),
            faults: Faults::default(),
            is_full: false,
            is_spent: false,
            write_max: usize::MAX,
            expects_bad: false,
        };
        for shard in (0..count).map(ShardIndex) {
            let mut config = Config {
                partitions_per_shard: 2,
                split_page_rows: 3,
                handover_rate: u64::MAX,
                // Tests in `silent.rs` cover transactions while a shard is away. In others,
                // transactions wait.
                votes_wait: u64::MAX,
                lease: LEASE,
                ..Config::new(shard, map.clone(), secrets.clone())
            };
            change(&mut config);
            cluster.add(config);
        }
        cluster.begin_session(Op::OpenSession);
        cluster
    }

    /// Makes a further shard, of which no other shard has heard.
    pub fn found(&mut self) -> ShardIndex {
        let shard = ShardIndex(self.configs.len() as u16);
        self.add(Config { shard, ..self.configs[0].clone() });
        shard
    }

    fn add(&mut self, config: Config) {
        let reads_left = self.faults.reads_left.clone();
        let mut store = Store { reads_left, ..Store::default() };
        store.apply(format(&config, Timestamp::default()));
        let shard = self.recover(config.clone(), &mut store);
        self.configs.push(config);
        self.shards.push((shard, store));
    }

    /// Starts shards again, and delivers nothing. Messages on their way to them are lost.
    pub fn restart(&mut self, shards: impl IntoIterator<Item = ShardIndex> + Clone) {
        for shard in shards.clone() {
            self.messages.retain(|(to, _)| *to != shard);
        }
        for index in shards.into_iter().map(|shard| usize::from(shard.0)) {
            let mut store = std::mem::take(&mut self.shards[index].1);
            let shard = self.recover(self.configs[index].clone(), &mut store);
            self.shards[index] = (shard, store);
        }
    }

    fn recover(&self, config: Config, store: &mut Store) -> Shard {
        let recovered = Shard::recover(config, self.now(), store);
        #[cfg_attr(not(feature = "planted"), expect(unused_mut, reason = "nothing is planted"))]
        let (mut shard, effects) = recovered.unwrap();
        #[cfg(feature = "planted")]
        crate::planted::plant_into(&mut shard);
        store.apply(effects.writes);
        shard
    }

    /// Begins a session, by one of the operations for that. Later requests belong to it.
    pub fn begin_session(&mut self, op: Op) -> SessionId {
        match self.run(ShardIndex(0), op) {
            Ok(Body::Session(session)) => self.session = session,
            other => panic!("no session: {other:?}"),
        }
        self.session
    }
}
