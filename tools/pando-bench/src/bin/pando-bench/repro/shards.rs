//! Real shards with real stores, driven step by step in this thread. It shows the cost of each
//! step, and the total work. The shell around the shards (sockets, threads, timers) is left out;
//! `pando-bench parts` measures that.
//!
//! Invariants:
//! 1. Messages are delivered one at a time, in the order of sending, when the driver says so.
//! 2. A message that requests a sync is sent after a sync in this thread.
//! 3. A create goes where the client's map says, and follows redirects as a client does.

use std::collections::VecDeque;
use std::time::Instant;

use pando_core::contract::Need;
use pando_core::{ClientTag, Config, Counters, Effects, Input, Now, Out, Shard, format};
use pando_placement::{ClusterMap, DirMap, Secrets};
use pando_server::store::{Priority, Room, Store, StoreOptions};
use pando_types::op::{Head, NewNode, Op, Request, RequestId};
use pando_types::peer::{Change, Peer, PeerMessage, Prepare};
use pando_types::reply::{Body, Refusal, Reply};
use pando_types::{
    Credentials, DirRef, FileKind, KeyId, Lsn, Name, SessionId, ShardIndex, Timestamp,
};
use tempfile::TempDir;

use crate::output::failure::Failure;
use crate::volume::make;

/// Size of a store's tree at which it makes a checkpoint, as in `pando up`.
const CHECKPOINT_BYTES: usize = 64 << 20;
/// A shard that wants to be woken within this many nanoseconds is woken at once. A split within a
/// shard counts its entries in such steps.
const SOON: u64 = 100_000;
/// Messages and ticks after which a request without an answer is an error.
const TURNS_MAX: u32 = 1_000_000;

/// The kind of work that an input made a shard do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A create that succeeded.
    Create,
    /// A create that is redirected to another shard.
    Redirect,
    /// The source reads a page of a split.
    PageRead,
    /// The target takes a page of a split.
    PageTake,
    /// The source closes the half and sends the exchange.
    Close,
    /// The target votes on the exchange.
    Arrive,
    /// The source decides the split.
    Decide,
    /// The target owns the partition.
    Own,
    /// A split within one shard.
    SplitHere,
    /// An fsync of the log.
    Sync,
    /// Any other work.
    Other,
}

/// The time of one step, in the shard, its store and its log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    pub step: Step,
    pub nanos: u64,
    /// Number of rows, if the step is a page.
    pub rows: u64,
}

/// Encoded bytes of messages between shards.
#[derive(Clone, Copy, Default, Debug)]
pub struct Sent {
    pub bytes: u64,
    /// Bytes of split pages and of the answers to them. They are part of `bytes`.
    pub page_bytes: u64,
    /// Rows in split pages.
    pub page_rows: u64,
}

/// A shard and its store.
struct Node {
    shard: Shard,
    store: Store,
    /// Messages that wait for a sync.
    held: Vec<(ShardIndex, Box<Peer>)>,
}

/// All shards of a volume in a temporary folder.
pub struct Shards {
    nodes: Vec<Node>,
    map: ClusterMap,
    secrets: Secrets,
    mail: VecDeque<(ShardIndex, Box<Peer>)>,
    reply: Option<Box<Reply>>,
    session: SessionId,
    sequence: u64,
    now: u64,
    /// The steps so far. `None`: steps are not recorded.
    pub samples: Option<Vec<Sample>>,
    /// The last page of a split that was sent.
    pub last_page: Option<Peer>,
    pub sent: Sent,
    frame: Vec<u8>,
    _folder: TempDir,
}

/// A directory and the map of its partitions, as one client knows them.
pub struct Known {
    pub dir: DirRef,
    map: DirMap,
    /// Requests that reached the wrong shard.
    pub astray: u64,
}

impl Shards {
    /// Makes `count` new shards. A partition splits beyond `threshold` entries. A directory has at
    /// most `per_server` partitions on a shard.
    pub fn new(count: u16, per_server: u16, threshold: u64) -> Result<Self, Failure> {
        let folder = make::temporary("pando-repro-")?;
        let map = ClusterMap::new(count);
        let secrets = Secrets { dir: [7; 32], name: [9; 16] };
        let mut shards = Self {
            nodes: Vec::new(),
            map: map.clone(),
            secrets: secrets.clone(),
            mail: VecDeque::new(),
            reply: None,
            session: SessionId(0),
            sequence: 0,
            now: 1_000_000_000,
            samples: None,
            last_page: None,
            sent: Sent::default(),
            frame: Vec::new(),
            _folder: folder,
        };
        for index in 0..count {
            let config = Config {
                split_threshold: threshold,
                partitions_per_shard: per_server,
                lease: u64::MAX / 4,
                ..Config::new(ShardIndex(index), map.clone(), secrets.clone())
            };
            let path = shards._folder.path().join(format!("shard-{index:04}"));
            std::fs::create_dir(&path)
                .map_err(|error| Failure::plain(format!("{}: {error}", path.display())))?;
            let opened = Store::open(&path, u64::from(index) + 1, &StoreOptions::default());
            let (mut store, _) = opened.map_err(Failure::plain)?;
            let meta = pando_core::GroupMeta::default();
            store.apply(&format(&config, Timestamp::default()), &meta);
            let (shard, effects) = Shard::recover(config, moment(1_000_000_000, &store), &store)
                .map_err(|halt| stopped(index, &halt))?;
            store.apply(&effects.writes, &meta);
            store.write().map_err(Failure::plain)?;
            shards.nodes.push(Node { shard, store, held: Vec::new() });
        }
        let opened = shards.call(ShardIndex(0), Op::OpenSession)?;
        shards.session = match opened {
            Ok(Body::Session(session)) => session,
            other => return Err(unexpected(&other)),
        };
        shards.settle()?;
        Ok(shards)
    }

    /// Makes a new directory in the root.
    pub fn mkdir(&mut self, name: &str) -> Result<Known, Failure> {
        let home = self.map.home(DirRef::ROOT.id);
        let name = Name::new(name.as_bytes()).map_err(|errno| unexpected(&errno))?;
        let made = self.call(home, Op::Mkdir(DirRef::ROOT, name, 0o755))?;
        self.settle()?;
        match made {
            Ok(Body::Made(dir, _)) => Ok(Known { dir, map: DirMap::new(), astray: 0 }),
            other => Err(unexpected(&other)),
        }
    }

    /// Makes a new file. Messages between shards are delivered only while its answer waits for
    /// them.
    pub fn create(&mut self, known: &mut Known, name: &str) -> Result<(), Failure> {
        let name = Name::new(name.as_bytes()).map_err(|errno| unexpected(&errno))?;
        let order = self.secrets.order(name.as_bytes());
        self.sequence += 1;
        let op = Self::create_op(known.dir, name);
        loop {
            let home = self.map.home(known.dir.id);
            let shard = known.map.shard(home, known.map.locate(order).0);
            match self.call_as(shard, self.sequence, op.clone())? {
                Ok(Body::Created(_, true, _)) => return Ok(()),
                Err(Refusal::Redirect(history)) => {
                    known.astray += 1;
                    if !known.map.merge(&history) {
                        // The redirect brings no news: the shard that it names is not ready yet.
                        self.turn()?;
                    }
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Another client that does not know the directory's partitions.
    pub fn stranger(known: &Known) -> Known {
        Known { dir: known.dir, map: DirMap::new(), astray: 0 }
    }

    pub fn create_op(dir: DirRef, name: Name) -> Op {
        let node = NewNode { kind: FileKind::Regular, mode: 0o644, rdev: 0, symlink: Vec::new() };
        Op::Create { dir, name, node, exclusive: true, open: false }
    }

    /// A create's request and its reply, as they travel.
    pub fn example(&mut self, known: &mut Known, name: &str) -> Result<(Request, Reply), Failure> {
        self.create(known, name)?;
        let id = RequestId { session: self.session, slot: 0, sequence: self.sequence };
        let name = Name::new(name.as_bytes()).map_err(|errno| unexpected(&errno))?;
        let request = Request {
            head: Head { id, ..Head::default() },
            credentials: Credentials::ROOT,
            op: Self::create_op(known.dir, name),
            trail: None,
        };
        // The request is repeated, so the shard answers it from the session slot's outcome.
        let answer = self.answer(known, &request)?;
        Ok((request, *answer))
    }

    fn answer(&mut self, known: &Known, request: &Request) -> Result<Box<Reply>, Failure> {
        let Op::Create { name, .. } = &request.op else { return Err(unexpected(&request.op)) };
        let order = self.secrets.order(name.as_bytes());
        let shard = known.map.shard(self.map.home(known.dir.id), known.map.locate(order).0);
        self.reply = None;
        self.input(shard, Input::Client(ClientTag(0, KeyId::OWNER), Box::new(request.clone())))?;
        self.reply.take().ok_or_else(|| Failure::plain("a repeated create is not answered"))
    }

    /// Delivers one message. Returns false if there is none.
    pub fn deliver(&mut self) -> Result<bool, Failure> {
        if self.mail.is_empty() {
            // If no other message is left, a sync lets the held messages go.
            for index in 0..self.nodes.len() {
                if !self.nodes[index].held.is_empty() {
                    self.sync(index)?;
                }
            }
        }
        let Some((to, peer)) = self.mail.pop_front() else { return Ok(false) };
        self.input(to, Input::Peer(peer))?;
        Ok(true)
    }

    /// Delivers all messages and lets time pass, until none is left.
    pub fn settle(&mut self) -> Result<(), Failure> {
        for _ in 0..4 {
            while self.deliver()? {}
            self.now += 2_000_000_000;
            for shard in 0..self.map.shards {
                self.input(ShardIndex(shard), Input::Tick)?;
            }
        }
        Ok(())
    }

    /// Whether a partition is moving from one shard to another.
    #[cfg(test)]
    pub fn is_moving(&self) -> bool {
        self.nodes.iter().any(|node| node.shard.copies_alive() != [0; 4])
    }

    /// The sum of a counter over all shards.
    pub fn sum(&self, of: impl Fn(&Counters) -> u64) -> u64 {
        self.nodes.iter().map(|node| of(node.shard.counters())).sum()
    }

    /// Delivers one message. If there is none, time passes.
    fn turn(&mut self) -> Result<(), Failure> {
        if !self.deliver()? {
            self.now += 50_000_000;
            for shard in 0..self.map.shards {
                self.input(ShardIndex(shard), Input::Tick)?;
            }
        }
        Ok(())
    }

    fn call(&mut self, shard: ShardIndex, op: Op) -> Result<Result<Body, Refusal>, Failure> {
        self.sequence += 1;
        let sequence = if self.session.0 == 0 { 0 } else { self.sequence };
        self.call_as(shard, sequence, op)
    }

    fn call_as(
        &mut self,
        shard: ShardIndex,
        sequence: u64,
        op: Op,
    ) -> Result<Result<Body, Refusal>, Failure> {
        let id = RequestId { session: self.session, slot: 0, sequence };
        let head = Head { id, ..Head::default() };
        let request = Request { head, credentials: Credentials::ROOT, op, trail: None };
        self.reply = None;
        self.input(shard, Input::Client(ClientTag(0, KeyId::OWNER), Box::new(request)))?;
        for _ in 0..TURNS_MAX {
            if let Some(reply) = self.reply.take() {
                return Ok(reply.result);
            }
            self.turn()?;
        }
        Err(Failure::plain("a shard does not answer"))
    }

    fn input(&mut self, shard: ShardIndex, input: Input) -> Result<(), Failure> {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let wake_at = self.handle(shard, input)?;
            let is_ready = self.nodes[usize::from(shard.0)].shard.has_ready();
            next = is_ready.then_some(Input::Ready);
            // A shard that counts a half wants its next step soon. It gets that at once.
            if next.is_none() && wake_at.is_some_and(|at| at <= self.now + SOON) {
                self.now += SOON;
                next = Some(Input::Tick);
            }
        }
        Ok(())
    }

    /// Handles one input, as `State::run` of a host does. Returns the time at which the shard wants
    /// to be woken.
    fn handle(&mut self, index: ShardIndex, input: Input) -> Result<Option<u64>, Failure> {
        self.now += 1_000;
        let node = &mut self.nodes[usize::from(index.0)];
        let (kind, before) = (Kind::of(&input), *node.shard.counters());
        let begun = Instant::now();
        let now = moment(self.now, &node.store);
        let effects = node.shard.handle(now, input, &node.store);
        let Effects { writes, out, meta, wake_at } =
            effects.map_err(|halt| stopped(index.0, &halt))?;
        if !writes.is_empty() {
            let bytes = |write: &pando_core::Write| match write {
                pando_core::Write::Put(key, value) => key.len() + value.len(),
                pando_core::Write::Delete(key) => key.len(),
                pando_core::Write::DeleteRange(from, to) => from.len() + to.len(),
            };
            let room = writes.iter().map(|write| bytes(write) as u64 + 64).sum::<u64>() + 4_096;
            if node.store.reserve(room, Priority::Normal) != Room::Enough {
                return Err(Failure::plain("no room for the log in the temporary folder"));
            }
            node.store.apply(&writes, &meta);
            node.store.write().map_err(Failure::plain)?;
        }
        let nanos = begun.elapsed().as_nanos() as u64;
        let after = *node.shard.counters();
        if let Some(samples) = &mut self.samples {
            let (step, rows) = kind.step(&out, &before, &after);
            samples.push(Sample { step, nanos, rows });
        }
        checkpoint(&mut node.store)?;
        self.take(index, out)?;
        Ok(wake_at)
    }

    /// Takes a shard's output: keeps the reply, queues messages, and syncs if one requests it.
    fn take(&mut self, from: ShardIndex, out: Vec<(Need, Out)>) -> Result<(), Failure> {
        let index = usize::from(from.0);
        let mut must_sync = false;
        for (need, out) in out {
            match out {
                Out::Reply(_, reply) => self.reply = Some(reply),
                Out::Peer(to, peer) => {
                    self.count(&peer);
                    must_sync |= need == Need::Synced;
                    match need {
                        Need::Committed => self.mail.push_back((to, peer)),
                        Need::Synced | Need::Durable => self.nodes[index].held.push((to, peer)),
                    }
                }
            }
        }
        if must_sync { self.sync(index) } else { Ok(()) }
    }

    fn count(&mut self, peer: &Peer) {
        self.frame.clear();
        // A message that is too long for a frame is not counted. Pages are far shorter than that.
        if !pando_wire::encode_peer(&mut self.frame, peer) {
            return;
        }
        let bytes = self.frame.len() as u64;
        self.sent.bytes += bytes;
        match &peer.message {
            PeerMessage::Page { rows, .. } => {
                self.sent.page_bytes += bytes;
                self.sent.page_rows += rows.len() as u64;
                if self.samples.is_some() {
                    self.last_page = Some(peer.clone());
                }
            }
            PeerMessage::PageDone(_) => self.sent.page_bytes += bytes,
            _ => {}
        }
    }

    fn sync(&mut self, index: usize) -> Result<(), Failure> {
        let node = &mut self.nodes[index];
        let begun = Instant::now();
        node.store.syncer().sync().map_err(Failure::plain)?;
        let nanos = begun.elapsed().as_nanos() as u64;
        if let Some(samples) = &mut self.samples {
            samples.push(Sample { step: Step::Sync, nanos, rows: 0 });
        }
        self.mail.extend(node.held.drain(..));
        Ok(())
    }
}

/// The kind of an input, as far as it is known before the shard handles it.
enum Kind {
    Create,
    Page(u64),
    Arrive,
    Voted,
    Own,
    Other,
}

impl Kind {
    fn of(input: &Input) -> Self {
        match input {
            Input::Client(_, request) if matches!(request.op, Op::Create { .. }) => Self::Create,
            Input::Peer(peer) => match &peer.message {
                PeerMessage::Page { rows, .. } => Self::Page(rows.len() as u64),
                PeerMessage::Prepare(_, Prepare::Arrive(_)) => Self::Arrive,
                PeerMessage::Voted(_) => Self::Voted,
                PeerMessage::Finish(Some(changes))
                    if matches!(changes[..], [Change::Own { .. }]) =>
                {
                    Self::Own
                }
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }

    /// The step that was done, judged by its output and counters. For a page also its number of
    /// rows.
    fn step(&self, out: &[(Need, Out)], before: &Counters, after: &Counters) -> (Step, u64) {
        for (_, out) in out {
            match (out, self) {
                (Out::Peer(_, peer), _) => match &peer.message {
                    PeerMessage::Page { rows, .. } => return (Step::PageRead, rows.len() as u64),
                    PeerMessage::Prepare(_, Prepare::Arrive(it)) => {
                        return (Step::Close, it.rows.len() as u64);
                    }
                    _ => {}
                },
                (Out::Reply(_, reply), Self::Create) => match reply.result {
                    Ok(Body::Created(_, true, _)) => return (Step::Create, 0),
                    Err(Refusal::Redirect(_)) => return (Step::Redirect, 0),
                    _ => {}
                },
                _ => {}
            }
        }
        match self {
            Self::Page(rows) => (Step::PageTake, *rows),
            Self::Arrive => (Step::Arrive, 0),
            Self::Voted if after.splits_moved > before.splits_moved => (Step::Decide, 0),
            Self::Own => (Step::Own, 0),
            _ if after.splits_local > before.splits_local => (Step::SplitHere, 0),
            _ => (Step::Other, 0),
        }
    }
}

fn checkpoint(store: &mut Store) -> Result<(), Failure> {
    if store.unflushed_bytes() < CHECKPOINT_BYTES {
        return Ok(());
    }
    match store.begin_checkpoint() {
        Ok(Some(job)) => {
            let done = job.run().map_err(Failure::plain)?;
            store.install(done).remove().map_err(Failure::plain)
        }
        Ok(None) => Ok(()),
        Err(room) => Err(Failure::plain(format!("no room for a checkpoint: {room:?}"))),
    }
}

fn moment(nanos: u64, store: &Store) -> Now {
    Now::at(nanos, store.epoch(), store.applied(), Lsn(store.durable().0))
}

fn stopped(shard: u16, halt: &pando_core::Halt) -> Failure {
    Failure::plain(format!("shard {shard} stopped: {halt:?}"))
}

fn unexpected(what: &impl std::fmt::Debug) -> Failure {
    Failure::plain(format!("a shard answered something else than was to be: {what:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_splits_over_real_shards_and_every_step_is_seen() {
        let mut shards = Shards::new(2, 2, 200).unwrap();
        let mut known = shards.mkdir("big").unwrap();
        shards.samples = Some(Vec::new());
        for number in 0..1_000 {
            shards.create(&mut known, &format!("f{number}")).unwrap();
            if number % 4 == 0 {
                shards.deliver().unwrap();
            }
        }
        shards.settle().unwrap();
        assert!(!shards.is_moving());
        assert_eq!(shards.sum(|n| n.splits_moved), 1, "the other is a power of two: at home");
        assert_eq!(shards.sum(|n| n.splits_local), 2);
        let samples = shards.samples.take().unwrap();
        let count = |step| samples.iter().filter(|sample| sample.step == step).count();
        // A create that waits for the exchange is answered while another input is handled.
        assert!((990..=1_000).contains(&count(Step::Create)));
        assert!((1..10).contains(&known.astray) && count(Step::Redirect) as u64 <= known.astray);
        assert_eq!(count(Step::PageRead), count(Step::PageTake));
        for step in [Step::Close, Step::Arrive, Step::Decide, Step::Own] {
            assert_eq!(count(step), 1, "{step:?}");
        }
        assert_eq!(count(Step::SplitHere), 2);
        assert!(count(Step::Sync) >= 2 && count(Step::PageRead) >= 1);
        assert!(shards.sent.page_bytes > 50 * shards.sent.page_rows && shards.sent.page_rows >= 80);
    }
}
