//! Real shards with real stores in virtual time. There may be any number of them, each as if on a
//! machine of its own.
//!
//! ```text
//!   message ── hop ──► queue of a shard: one at a time; the shard handles it for real, and it counts as what its kind costs
//!                        │ goes out at once ── hop ──► …
//!                        └ must be fsynced: waits for the next sync of that log, of all that wait together
//! ```
//!
//! Assumptions:
//! - A shard is one CPU.
//! - Each kind of message always costs its measured median. Each frame in or out costs a constant
//!   more.
//! - A hop always takes equally long. The network has no limit of throughput.
//! - An fsync always takes equally long, and takes no CPU.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Instant;

use pando_core::contract::Need;
use pando_core::{ClientTag, Config, Effects, GroupMeta, Input, Now, Out, Shard, format};
use pando_placement::{ClusterMap, Secrets};
use pando_server::store::{Priority, Room, Store, StoreOptions};
use pando_types::op::{Head, Op, Request, RequestId};
use pando_types::peer::{Peer, PeerMessage, Prepare};
use pando_types::reply::Reply;
use pando_types::{Credentials, KeyId, Lsn, SessionId, ShardIndex, Timestamp};
use serde::Serialize;
use tempfile::TempDir;

use crate::output::failure::Failure;

/// Longest time, in nanoseconds, that a message waits for a sync which it does not request. It is
/// the servers' value.
const BACKGROUND: u64 = 1_000_000_000;

/// Prefix of temporary folders' names.
const PREFIX: &str = "pando-repro-";

/// Modelled times, in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Costs {
    /// One way over the network.
    pub hop: u64,
    /// A frame in, or a frame out: codec and socket.
    pub frame: u64,
    /// An fsync. `None`: syncs take no time in the model, and are measured.
    pub sync: Option<u64>,
    /// Time in the shard, its store and its log, by kind of message. A missing kind counts as
    /// measured.
    pub steps: BTreeMap<&'static str, u64>,
}

/// Times of all handled inputs in nanoseconds, by kind.
pub type Samples = BTreeMap<&'static str, Vec<u64>>;

/// An event of the model.
enum Event {
    Input(ShardIndex, Input),
    /// A frame has arrived. Reading it costs time before it is an input.
    Frame(ShardIndex, Input),
    Synced(ShardIndex),
    /// Messages have waited for any sync for `BACKGROUND` nanoseconds.
    Background(ShardIndex),
    Tick(ShardIndex),
    Answer(u64, Box<Reply>),
}

/// A planned event. Ordered by time, then by the order of planning.
struct Planned {
    at: u64,
    nth: u64,
    event: Event,
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.nth) == (other.at, other.nth)
    }
}

impl Eq for Planned {}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Planned {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.nth).cmp(&(other.at, other.nth))
    }
}

struct Node {
    shard: Shard,
    store: Store,
    /// Time at which it has finished its work so far.
    free_at: u64,
    /// Nanoseconds of work so far.
    busy: u64,
    /// Messages that wait for the sync in progress, and messages that wait for the next one.
    held: [Vec<(ShardIndex, Box<Peer>)>; 2],
    is_syncing: bool,
    wants_sync: bool,
    /// Whether an [`Event::Background`] is planned.
    is_planned: bool,
    tick_at: Option<u64>,
}

/// All shards, their clock and their planned events.
pub struct World {
    nodes: Vec<Node>,
    pub map: ClusterMap,
    pub costs: Costs,
    events: BinaryHeap<Reverse<Planned>>,
    planned: u64,
    pub now: u64,
    pub session: SessionId,
    pub samples: Samples,
    pub syncs: Vec<u64>,
    /// Messages between shards.
    pub messages: u64,
    _folder: TempDir,
}

impl World {
    /// Makes new shards. Their stores are in memory if `/dev/shm` exists and the cost of a sync is
    /// given.
    pub fn new(count: u16, costs: Costs) -> Result<Self, Failure> {
        let in_memory = costs.sync.and_then(|_| TempDir::with_prefix_in(PREFIX, "/dev/shm").ok());
        let folder = in_memory.map_or_else(|| TempDir::with_prefix(PREFIX), Ok);
        let folder = folder
            .map_err(|error| Failure::plain(format!("cannot make a temporary folder: {error}")))?;
        let map = ClusterMap::new(count);
        let secrets = Secrets { dir: [7; 32], name: [9; 16] };
        let (now, mut nodes) = (1_000_000_000, Vec::new());
        for index in 0..count {
            let config = Config {
                lease: u64::MAX / 4,
                ..Config::new(ShardIndex(index), map.clone(), secrets.clone())
            };
            let path = folder.path().join(format!("shard-{index:04}"));
            std::fs::create_dir(&path)
                .map_err(|error| Failure::plain(format!("{}: {error}", path.display())))?;
            let opened = Store::open(&path, u64::from(index) + 1, &StoreOptions::default());
            let (mut store, _) = opened.map_err(Failure::plain)?;
            let meta = GroupMeta::default();
            store.apply(&format(&config, Timestamp::default()), &meta);
            let (shard, effects) =
                Shard::recover(config, moment(now, &store), &store).map_err(stopped)?;
            store.apply(&effects.writes, &meta);
            store.write().map_err(Failure::plain)?;
            nodes.push(Node {
                shard,
                store,
                free_at: now,
                busy: 0,
                held: Default::default(),
                is_syncing: false,
                wants_sync: false,
                is_planned: false,
                tick_at: None,
            });
        }
        let mut world = Self {
            nodes,
            map,
            costs,
            events: BinaryHeap::new(),
            planned: 0,
            now,
            session: SessionId(0),
            samples: Samples::new(),
            syncs: Vec::new(),
            messages: 0,
            _folder: folder,
        };
        for shard in 0..count {
            world.plan(now, Event::Tick(ShardIndex(shard)));
        }
        Ok(world)
    }

    fn plan(&mut self, at: u64, event: Event) {
        self.planned += 1;
        self.events.push(Reverse(Planned { at, nth: self.planned, event }));
    }

    /// Sends a request of this caller now.
    pub fn send(&mut self, caller: u64, shard: ShardIndex, sequence: u64, op: Op) {
        let id = RequestId { session: self.session, slot: caller as u16, sequence };
        let head = Head { id, ..Head::default() };
        let request = Request { head, credentials: Credentials::ROOT, op, trail: None };
        let input = Input::Client(ClientTag(caller, KeyId::OWNER), Box::new(request));
        self.plan(self.now + self.costs.hop, Event::Frame(shard, input));
    }

    /// Lets time pass until a caller has its answer. Returns the caller and the answer.
    pub fn answer(&mut self) -> Result<(u64, Reply), Failure> {
        while let Some(Reverse(Planned { at, event, .. })) = self.events.pop() {
            self.now = at;
            match event {
                Event::Answer(caller, reply) => return Ok((caller, *reply)),
                Event::Input(shard, input) => self.input(shard, input, 0)?,
                Event::Frame(shard, input) => self.input(shard, input, self.costs.frame)?,
                Event::Synced(shard) => self.synced(shard)?,
                Event::Background(shard) => {
                    let node = &mut self.nodes[usize::from(shard.0)];
                    node.is_planned = false;
                    if !node.is_syncing && !node.held[1].is_empty() {
                        self.begin_sync(shard, at);
                    }
                }
                Event::Tick(shard) => {
                    let tick_at = &mut self.nodes[usize::from(shard.0)].tick_at;
                    if tick_at.is_none_or(|wanted| wanted <= at) {
                        *tick_at = None;
                        self.input(shard, Input::Tick, 0)?;
                    }
                }
            }
        }
        Err(Failure::plain("no shard has anything to do, and a caller waits"))
    }

    /// Part of the time since `since` in which each shard was busy. `busy` holds the busy times at
    /// `since`. Work counts in full when it begins.
    pub fn load(&self, since: u64, busy: &[u64]) -> Vec<f64> {
        let time = (self.now - since).max(1) as f64;
        self.busy()
            .iter()
            .zip(busy)
            .map(|(now, then)| ((now - then) as f64 / time).min(1.0))
            .collect()
    }

    /// Nanoseconds of work that each shard has done so far.
    pub fn busy(&self) -> Vec<u64> {
        self.nodes.iter().map(|node| node.busy).collect()
    }

    /// Handles one input, and all work that it makes ready. `before` is the cost of reading it, in
    /// nanoseconds.
    fn input(&mut self, shard: ShardIndex, input: Input, before: u64) -> Result<(), Failure> {
        let node = &mut self.nodes[usize::from(shard.0)];
        let mut at = node.free_at.max(self.now) + before;
        node.busy += before;
        let mut next = Some(input);
        while let Some(input) = next.take() {
            at = self.handle(shard, input, at)?;
            next = self.nodes[usize::from(shard.0)].shard.has_ready().then_some(Input::Ready);
        }
        self.nodes[usize::from(shard.0)].free_at = at;
        Ok(())
    }

    /// Handles one input from time `at` on. Returns the time at which it is done.
    fn handle(&mut self, index: ShardIndex, input: Input, at: u64) -> Result<u64, Failure> {
        let node = &mut self.nodes[usize::from(index.0)];
        let kind = kind(&input);
        let begun = Instant::now();
        let effects = node.shard.handle(moment(at, &node.store), input, &node.store);
        let Effects { writes, out, meta, wake_at } = effects.map_err(stopped)?;
        if !writes.is_empty() {
            if node.store.reserve(1 << 20, Priority::Normal) != Room::Enough {
                return Err(Failure::plain("no room for the log in the temporary folder"));
            }
            node.store.apply(&writes, &meta);
            node.store.write().map_err(Failure::plain)?;
        }
        let nanos = begun.elapsed().as_nanos() as u64;
        self.samples.entry(kind).or_default().push(nanos);
        let step = self.costs.steps.get(kind).copied().unwrap_or(nanos);
        let mut end = at + step;
        for (need, out) in out {
            end = self.out(index, need, out, end);
        }
        let node = &mut self.nodes[usize::from(index.0)];
        node.busy += end - at;
        let is_earlier = |wake: &u64| node.tick_at.is_none_or(|tick| *wake < tick);
        if let Some(wake) = wake_at.filter(is_earlier) {
            let wake = wake.max(end);
            node.tick_at = Some(wake);
            self.plan(wake, Event::Tick(index));
        }
        let node = &mut self.nodes[usize::from(index.0)];
        if node.wants_sync && !node.is_syncing {
            self.begin_sync(index, end);
        }
        Ok(end)
    }

    /// Sends an output that is ready at `at`, or holds it for a sync. Returns the time at which the
    /// shard is done with it.
    fn out(&mut self, index: ShardIndex, need: Need, out: Out, at: u64) -> u64 {
        let Costs { hop, frame, .. } = self.costs;
        match (out, need) {
            (Out::Reply(tag, reply), _) => {
                self.plan(at + frame + hop, Event::Answer(tag.0, reply));
                at + frame
            }
            (Out::Peer(to, peer), Need::Committed) => self.post(index, to, peer, at),
            (Out::Peer(to, peer), Need::Synced | Need::Durable) => {
                let node = &mut self.nodes[usize::from(index.0)];
                node.wants_sync |= need == Need::Synced;
                node.held[1].push((to, peer));
                if !std::mem::replace(&mut node.is_planned, true) {
                    self.plan(at + BACKGROUND, Event::Background(index));
                }
                at
            }
        }
    }

    fn post(&mut self, from: ShardIndex, to: ShardIndex, peer: Box<Peer>, at: u64) -> u64 {
        if to == from {
            self.plan(at, Event::Input(to, Input::Peer(peer)));
            return at;
        }
        self.messages += 1;
        let Costs { hop, frame, .. } = self.costs;
        self.plan(at + frame + hop, Event::Frame(to, Input::Peer(peer)));
        at + frame
    }

    fn begin_sync(&mut self, index: ShardIndex, at: u64) {
        let node = &mut self.nodes[usize::from(index.0)];
        (node.is_syncing, node.wants_sync) = (true, false);
        node.held[0] = std::mem::take(&mut node.held[1]);
        // Until the time of a sync is known, a sync takes no time.
        let sync = self.costs.sync.unwrap_or(0);
        self.plan(at + sync, Event::Synced(index));
    }

    fn synced(&mut self, index: ShardIndex) -> Result<(), Failure> {
        let node = &mut self.nodes[usize::from(index.0)];
        let begun = Instant::now();
        node.store.syncer().sync().map_err(Failure::plain)?;
        self.syncs.push(begun.elapsed().as_nanos() as u64);
        node.is_syncing = false;
        let (held, mut at) = (std::mem::take(&mut node.held[0]), self.now.max(node.free_at));
        let begun_at = at;
        for (to, peer) in held {
            at = self.post(index, to, peer, at);
        }
        let node = &mut self.nodes[usize::from(index.0)];
        node.free_at = at;
        node.busy += at - begun_at;
        if node.wants_sync {
            self.begin_sync(index, at);
        }
        Ok(())
    }
}

/// The kind of an input, as costs and samples name it.
fn kind(input: &Input) -> &'static str {
    match input {
        Input::Client(_, request) => match &request.op {
            Op::Rename { .. } => "a rename begins",
            _ => "another request",
        },
        Input::Tick => "a look at the clock",
        Input::Ready => "something that waited goes on",
        Input::Peer(peer) => match &peer.message {
            PeerMessage::Prepare(_, Prepare::Graph(_)) => "the graph is locked",
            PeerMessage::Prepare(_, Prepare::Look(_)) => "a parent is told",
            PeerMessage::Prepare(_, Prepare::Name { .. }) => "a name is locked",
            PeerMessage::Prepare(_, Prepare::Home(_)) => "a directory's content is locked",
            PeerMessage::Prepare(_, Prepare::Invalidate { .. }) => {
                "a version is given out, and told to all"
            }
            PeerMessage::Prepare(..) => "something else is locked",
            PeerMessage::Voted(_) => "a vote is taken: the next step, or the decision",
            PeerMessage::Finish(_) => "a decision is applied",
            PeerMessage::Finished => "the end is noted",
            PeerMessage::Versions { .. } => "a version is learned",
            PeerMessage::VersionsKnown(_) => "it is noted who knows a version",
            _ => "another message",
        },
    }
}

fn moment(nanos: u64, store: &Store) -> Now {
    Now::at(nanos, store.epoch(), store.applied(), Lsn(store.durable().0))
}

fn stopped(halt: pando_core::Halt) -> Failure {
    Failure::plain(format!("a shard stopped: {halt:?}"))
}
