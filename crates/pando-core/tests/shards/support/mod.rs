//! A few shards in one thread, over `BTreeMap` stores. Messages are delivered in order, and only
//! when a test asks for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pando_core::record::{Content, Record};
use pando_core::{
    ClientTag, Config, Effects, Halt, Input, Need, Now, Out, Rows, Shard, Write, format, keys,
};
use pando_placement::{ClusterMap, Secrets};
use pando_types::op::{FileAt, FileRef, Head, NewNode, Op, RenameFlags, Request, RequestId};
use pando_types::peer::{Peer, PeerMessage};
use pando_types::reply::{Body, Delta, Found, Inspected, Refusal, Reply};
use pando_types::{
    Attr, Credentials, DirId, DirRef, Epoch, Errno, FileKind, Ino, KeyId, Lsn, Name, Order,
    SessionId, ShardIndex, Timestamp, Trail, TxnId, codec,
};

mod cost;
mod damage;
mod places;
mod power;

pub use cost::Cost;
use damage::Damage;
pub use places::dir_at;

/// Pseudo-random numbers. One seed always gives one sequence.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// By this much the time of day is ahead of the clock of timers. A timer that went by the time of
/// day would never fire.
const AHEAD: u64 = 1 << 60;

/// Longest delay of a timer that fires at once, nanoseconds. A split that counts its half has such
/// timers.
const SOON: u64 = 100_000;

/// Lease, nanoseconds: longer than any test that does not wait for its end.
pub const LEASE: u64 = 3_600_000_000_000;

#[derive(Default)]
struct Store(BTreeMap<Vec<u8>, Vec<u8>>, Damage);

impl Rows for Store {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Halt> {
        self.1.read(key, key)?;
        Ok(self.0.get(key).cloned())
    }

    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Halt> {
        self.1.read(from, from)?;
        for (key, value) in self.0.range(from.to_vec()..to.to_vec()) {
            self.1.touch(key)?;
            if !visit(key, value) {
                break;
            }
        }
        Ok(())
    }
}

impl Store {
    fn apply(&mut self, writes: Vec<Write>) {
        for write in writes {
            match write {
                Write::Put(key, value) => drop(self.0.insert(key, value)),
                Write::Delete(key) => drop(self.0.remove(&key)),
                Write::DeleteRange(from, to) => {
                    self.0.retain(|key, _| *key < from || *key >= to);
                }
            }
        }
    }
}

/// What becomes of messages about versions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    Delivered,
    Held,
}

pub struct Cluster {
    configs: Vec<Config>,
    shards: Vec<(Shard, Store)>,
    messages: VecDeque<(ShardIndex, Box<Peer>)>,
    answers: BTreeMap<u64, Result<Body, Refusal>>,
    replies: BTreeMap<u64, Reply>,
    poked: u64,
    silent: BTreeSet<ShardIndex>,
    epoch: u64,
    session: SessionId,
    sequence: u64,
    now: u64,
    /// By how much the time of day of a shard is ahead of that of others.
    fast: BTreeMap<ShardIndex, u64>,
    /// One log for each shard, if the test distinguishes what is synced.
    logs: Vec<power::Log>,
    /// Messages sent since [`Cluster::watch`], each with what it waited for.
    sent: Option<Vec<(Need, ShardIndex, Peer)>>,
    /// What the last reply waited for.
    pub last_need: Option<Need>,
    dropped: Option<fn(ShardIndex, &Peer) -> bool>,
    /// Whether timers that are due within [`SOON`] fire at once.
    pub hurries: bool,
    pub by: Credentials,
    /// Whether shards may hear messages that no sound shard sends.
    pub expects_bad: bool,
    /// Key by which requests come.
    pub key: KeyId,
    /// Reads and inputs that are to fail.
    faults: damage::Faults,
    /// Whether no shard has room for changes that take space.
    pub is_full: bool,
    /// Whether no shard has room for any change: what an input writes is dropped.
    pub is_spent: bool,
    /// Messages of more bytes are lost.
    pub frame_max: usize,
}

impl Cluster {
    pub fn new(count: u16, threshold: u64) -> Self {
        Self::with_lease(count, threshold, LEASE)
    }

    pub fn with_lease(count: u16, threshold: u64, lease: u64) -> Self {
        Self::with(count, |config| (config.split_threshold, config.lease) = (threshold, lease))
    }

    /// Shards with pages of three rows and two partitions each. `change` alters that.
    pub fn with(count: u16, change: impl Fn(&mut Config)) -> Self {
        let map = ClusterMap::new(count);
        let secrets = Secrets { dir: [7; 32], name: [9; 16] };
        let configs: Vec<_> = (0..count)
            .map(|shard| {
                let mut config = Config {
                    partitions_per_shard: 2,
                    split_page_rows: 3,
                    handover_rate: u64::MAX,
                    // Tests in `silent.rs` cover transactions while a shard is away. In others,
                    // transactions wait.
                    votes_wait: u64::MAX,
                    lease: LEASE,
                    ..Config::new(ShardIndex(shard), map.clone(), secrets.clone())
                };
                change(&mut config);
                config
            })
            .collect();
        let mut cluster = Self {
            shards: Vec::new(),
            messages: VecDeque::new(),
            answers: BTreeMap::new(),
            replies: BTreeMap::new(),
            poked: 0,
            silent: BTreeSet::new(),
            epoch: 1,
            session: SessionId(0),
            sequence: 0,
            fast: BTreeMap::new(),
            now: 1_000_000_000,
            logs: Vec::new(),
            sent: None,
            last_need: None,
            dropped: None,
            hurries: true,
            by: Credentials::ROOT,
            key: KeyId::OWNER,
            expects_bad: false,
            is_full: false,
            is_spent: false,
            faults: damage::Faults::default(),
            frame_max: usize::MAX,
            configs,
        };
        for index in 0..usize::from(count) {
            let mut store = Store(BTreeMap::new(), cluster.faults.damage());
            store.apply(format(&cluster.configs[index], Timestamp::default()));
            let shard = cluster.recovered(index, &mut store);
            cluster.shards.push((shard, store));
        }
        cluster.begin_session();
        cluster
    }

    /// Begins a session. Later requests belong to it.
    pub fn begin_session(&mut self) {
        self.begin_by(Op::OpenSession);
    }

    /// Begins a session of a local client, which ends when the shards do.
    pub fn begin_local_session(&mut self) {
        self.begin_by(Op::OpenLocalSession);
    }

    fn begin_by(&mut self, op: Op) {
        self.session = SessionId(0);
        match self.run(ShardIndex(0), op) {
            Ok(Body::Session(session)) => self.session = session,
            other => panic!("no session: {other:?}"),
        }
    }

    /// Makes later requests belong to this session.
    pub fn act_in(&mut self, session: SessionId) {
        self.session = session;
    }

    /// Number of rows of a shard with this prefix of the key.
    pub fn rows_of(&self, shard: ShardIndex, prefix: &[u8]) -> usize {
        let (_, store) = &self.shards[usize::from(shard.0)];
        store.0.keys().filter(|key| key.starts_with(prefix)).count()
    }

    /// All rows of all shards.
    pub fn rows(&self) -> BTreeMap<(u16, Vec<u8>), Vec<u8>> {
        let shards = (0..).zip(&self.shards);
        let rows =
            shards.flat_map(|(shard, (_, store))| store.0.iter().map(move |row| (shard, row)));
        rows.map(|(shard, (key, value))| ((shard, key.clone()), value.clone())).collect()
    }

    fn recovered(&self, index: usize, store: &mut Store) -> Shard {
        let recovered = Shard::recover(self.configs[index].clone(), self.moment(), store);
        #[cfg_attr(not(feature = "planted"), expect(unused_mut, reason = "nothing is planted"))]
        let (mut shard, effects) = recovered.unwrap();
        #[cfg(feature = "planted")]
        crate::planted::plant_into(&mut shard);
        store.apply(effects.writes);
        shard
    }

    /// Restarts all shards with changed configurations. Messages on their way are lost.
    pub fn restart_with(&mut self, change: impl Fn(&mut Config)) {
        self.configs.iter_mut().for_each(change);
        self.restart();
    }

    pub fn restart(&mut self) {
        self.restart_at_once();
        self.settle();
    }

    /// Restarts all shards, and delivers nothing afterwards.
    pub fn restart_at_once(&mut self) {
        self.messages.clear();
        for index in 0..self.shards.len() {
            let mut store = std::mem::take(&mut self.shards[index].1);
            let shard = self.recovered(index, &mut store);
            self.shards[index] = (shard, store);
        }
    }

    /// Restarts one shard. Messages on their way to it are lost.
    pub fn restart_one(&mut self, shard: ShardIndex) {
        let index = usize::from(shard.0);
        self.messages.retain(|(to, _)| *to != shard);
        let mut store = std::mem::take(&mut self.shards[index].1);
        let recovered = self.recovered(index, &mut store);
        self.shards[index] = (recovered, store);
    }

    /// Makes a further shard, of which no other shard has heard.
    pub fn found(&mut self) -> ShardIndex {
        let index = self.configs.len();
        let shard = ShardIndex(index as u16);
        self.configs.push(Config { shard, ..self.configs[0].clone() });
        let mut store = Store::default();
        store.apply(format(&self.configs[index], Timestamp::default()));
        let recovered = self.recovered(index, &mut store);
        self.shards.push((recovered, store));
        shard
    }

    /// What a shard knows of the owners of hash slots.
    pub fn map(&self, shard: ShardIndex) -> ClusterMap {
        self.shards[usize::from(shard.0)].0.map().clone()
    }

    /// Adds shards, which own no hash slots, to the running cluster. All shards restart, to learn
    /// of them.
    pub fn add_shards(&mut self, count: u16) {
        let mut map = self.configs[0].map.clone();
        for _ in 0..count {
            map.add_shard().unwrap();
        }
        let first = self.configs[0].clone();
        for shard in self.configs.len() as u16..map.shards {
            self.configs.push(Config { shard: ShardIndex(shard), ..first.clone() });
        }
        for config in &mut self.configs {
            config.map = map.clone();
        }
        for index in self.shards.len()..self.configs.len() {
            let mut store = Store::default();
            store.apply(format(&self.configs[index], Timestamp::default()));
            let shard = self.recovered(index, &mut store);
            self.shards.push((shard, store));
        }
        self.restart();
        self.begin_session();
    }

    /// Delivers one message. False: there is none.
    pub fn step(&mut self) -> bool {
        let Some((to, peer)) = self.messages.pop_front() else { return false };
        self.input(to, Input::Peer(peer));
        true
    }

    /// Sends a reading request, and delivers nothing: its answer, if there is one at once.
    pub fn glance(&mut self, shard: ShardIndex, op: Op) -> Option<Result<Body, Refusal>> {
        let request =
            Request { head: Head::default(), credentials: self.by.clone(), op, trail: None };
        self.answers.remove(&2);
        self.input(shard, Input::Client(ClientTag(2, self.key), Box::new(request)));
        self.answers.remove(&2)
    }

    /// Sends a changing request in this request slot, and delivers nothing: its answer, if there is
    /// one at once. While one waits, its request slot takes no other.
    pub fn poke(&mut self, shard: ShardIndex, slot: u16, op: Op) -> Option<Result<Body, Refusal>> {
        self.sequence += 1;
        let id = RequestId { session: self.session, slot, sequence: self.sequence };
        let request = Request {
            head: Head { id, ..Head::default() },
            credentials: self.by.clone(),
            op,
            trail: None,
        };
        let tag = 1_000 + self.sequence;
        self.input(shard, Input::Client(ClientTag(tag, self.key), Box::new(request)));
        self.answers.remove(&tag)
    }

    /// Sends a request with a trail, and delivers nothing: its answer, if there is one at once.
    /// [`Cluster::last_poked`] finds it later.
    pub fn begin(
        &mut self,
        shard: ShardIndex,
        op: Op,
        trail: Option<Trail>,
    ) -> Option<Result<Body, Refusal>> {
        self.sequence += 1;
        let id = RequestId { session: self.session, slot: 7, sequence: self.sequence };
        let head = Head { id, ..Head::default() };
        self.poked = 1_000 + self.sequence;
        let request = Request { head, credentials: self.by.clone(), op, trail };
        self.input(shard, Input::Client(ClientTag(self.poked, self.key), Box::new(request)));
        self.last_poked()
    }

    /// Sends a request in a request slot of its own, and delivers nothing. Returns its tag, which
    /// is also its trace.
    pub fn start(&mut self, shard: ShardIndex, op: Op, trail: Option<Trail>) -> u64 {
        self.sequence += 1;
        let tag = 1_000 + self.sequence;
        let head = Head { id: self.id_of(tag), trace: tag, ..Head::default() };
        let request = Request { head, credentials: self.by.clone(), op, trail };
        self.input(shard, Input::Client(ClientTag(tag, self.key), Box::new(request)));
        tag
    }

    /// Sends a request under this identity, and delivers nothing. Returns its tag.
    pub fn send_as(&mut self, shard: ShardIndex, id: RequestId, op: Op) -> u64 {
        self.sequence += 1;
        let tag = 1_000 + self.sequence;
        let head = Head { id, ..Head::default() };
        let request = Request { head, credentials: self.by.clone(), op, trail: None };
        self.input(shard, Input::Client(ClientTag(tag, self.key), Box::new(request)));
        tag
    }

    /// Sends a request with this tag, and delivers nothing.
    pub fn send(&mut self, shard: ShardIndex, tag: u64, request: Request) {
        self.input(shard, Input::Client(ClientTag(tag, self.key), Box::new(request)));
    }

    /// The answer that needs no effects. `None`: there is none.
    pub fn at_once(&mut self, shard: ShardIndex, op: Op) -> Option<Result<Body, Refusal>> {
        let (head, credentials) = (Head::default(), self.by.clone());
        self.at_once_as(shard, Request { head, credentials, op, trail: None })
    }

    /// The answer to a whole request that needs no effects.
    pub fn at_once_as(
        &mut self,
        shard: ShardIndex,
        request: Request,
    ) -> Option<Result<Body, Refusal>> {
        let (now, key) = (self.moment(), self.key);
        let (core, store) = &mut self.shards[usize::from(shard.0)];
        core.answer_at_once(now, key, &request, store).unwrap().map(|reply| reply.result)
    }

    /// Sessions that a shard knows, with their keys.
    pub fn session_keys(&self, shard: ShardIndex) -> Vec<(SessionId, KeyId)> {
        self.shards[usize::from(shard.0)].0.session_keys().collect()
    }

    /// Number of rows of a table on all shards.
    pub fn rows_of_table(&self, table: keys::Table) -> usize {
        let prefix = keys::table(table);
        (0..self.shard_count()).map(|shard| self.rows_of(ShardIndex(shard), &prefix)).sum()
    }

    /// Identity of the request with this tag.
    pub fn id_of(&self, tag: u64) -> RequestId {
        let sequence = tag - 1_000;
        RequestId { session: self.session, slot: 100 + (sequence % 500) as u16, sequence }
    }

    /// Takes the answer to the request with this tag.
    pub fn answer(&mut self, tag: u64) -> Option<Result<Body, Refusal>> {
        self.answers.remove(&tag)
    }

    /// Transactions with a message on its way.
    pub fn txns_on_their_way(&self) -> BTreeSet<TxnId> {
        self.messages.iter().map(|(_, peer)| peer.txn).collect()
    }

    /// Delivers messages of a transaction. Stops when there is none left, or when a message of the
    /// transaction is an end.
    pub fn deliver_of(
        &mut self,
        txn: TxnId,
        versions: Versions,
        is_end: impl Fn(&PeerMessage) -> bool,
    ) {
        loop {
            let is_its = |peer: &Peer| {
                peer.txn == txn || (versions == Versions::Delivered && peer.txn.number == 0)
            };
            if self.messages.iter().any(|(_, peer)| peer.txn == txn && is_end(&peer.message)) {
                return;
            }
            let Some(at) = self.messages.iter().position(|(_, peer)| is_its(peer)) else { return };
            if let Some((to, peer)) = self.messages.remove(at) {
                self.input(to, Input::Peer(peer));
            }
        }
    }

    /// The newest version that any shard knows.
    pub fn newest_version(&mut self) -> u64 {
        let shards = (0..self.shard_count()).map(ShardIndex);
        let ask = |shard| self.ask(shard, Op::StatFs(shard), None).map(|reply| reply.version);
        shards.filter_map(ask).max().unwrap_or(0)
    }

    /// Takes the answer to the request that began last, if it is answered by now.
    pub fn last_poked(&mut self) -> Option<Result<Body, Refusal>> {
        self.answers.remove(&self.poked)
    }

    /// Sends a reading request with a trail, and delivers nothing: the whole reply, if there is one
    /// at once.
    pub fn ask(&mut self, shard: ShardIndex, op: Op, trail: Option<Trail>) -> Option<Reply> {
        self.replies.remove(&3);
        self.ask_as(3, shard, op, trail);
        self.reply(3)
    }

    /// Sends a reading request with a trail and a tag below 1,000. [`Cluster::reply`] finds the
    /// reply later.
    pub fn ask_as(&mut self, tag: u64, shard: ShardIndex, op: Op, trail: Option<Trail>) {
        let credentials = self.by.clone();
        let request = Request { head: Head::default(), credentials, op, trail };
        self.input(shard, Input::Client(ClientTag(tag, self.key), Box::new(request)));
    }

    /// Takes the whole reply to the request with this tag.
    pub fn reply(&mut self, tag: u64) -> Option<Reply> {
        self.replies.remove(&tag)
    }

    /// Delivers the oldest message for which `of` holds. False: there is none.
    pub fn step_of(&mut self, of: impl Fn(&Peer) -> bool) -> bool {
        let at = self.messages.iter().position(|(_, peer)| of(peer));
        let Some((to, peer)) = at.and_then(|at| self.messages.remove(at)) else { return false };
        self.input(to, Input::Peer(peer));
        true
    }

    /// Whether a message is on its way for which `of` holds.
    pub fn is_on_its_way(&self, of: impl Fn(&Peer) -> bool) -> bool {
        self.messages.iter().any(|(_, peer)| of(peer))
    }

    /// Puts the content record of another directory under this id, as if two birth triples had one
    /// hash.
    pub fn occupy(&mut self, id: DirId) {
        let home = self.configs[0].map.home(id);
        let root: Content = {
            let home = self.configs[0].map.home(DirId::ROOT);
            let store = &self.shards[usize::from(home.0)].1;
            let bytes = store.get(&keys::dir(DirId::ROOT, keys::Kind::Content, 0)).unwrap();
            Content::decode(&bytes.expect("the root is there")).unwrap()
        };
        let mut content = root;
        content.base.ino = Ino::new(home, (1 << 40) + u64::from(id.0[15]));
        let store = &mut self.shards[usize::from(home.0)].1;
        let key = keys::dir(id, keys::Kind::Content, 0);
        store.apply(vec![Write::Put(key, content.encode())]);
    }

    /// The home of a directory.
    pub fn home(&self, dir: DirRef) -> ShardIndex {
        self.configs[0].map.home(dir.id)
    }

    /// From now on no message reaches these shards.
    pub fn silence(&mut self, shards: impl IntoIterator<Item = ShardIndex>) {
        self.silent = shards.into_iter().collect();
        self.messages.retain(|(to, _)| !self.silent.contains(to));
    }

    /// Deletes a directory's partitions from a shard, and restarts it.
    pub fn lose_partitions(&mut self, shard: ShardIndex, dir: DirRef) {
        let from = keys::dir(dir.id, keys::Kind::Header, 0);
        let to = keys::dir(dir.id, keys::Kind::Header, u64::MAX);
        let (_, store) = &mut self.shards[usize::from(shard.0)];
        store.0.retain(|key, _| *key < from || *key > to);
        self.restart_one(shard);
    }

    /// From now on messages for which `of` holds are lost.
    pub fn drop_messages(&mut self, of: fn(ShardIndex, &Peer) -> bool) {
        self.dropped = Some(of);
    }

    /// Number of sessions that are over and have left something on a shard.
    pub fn sessions_over(&self) -> usize {
        self.shards.iter().map(|(shard, _)| shard.sessions_over().count()).sum()
    }

    /// From now on messages are noted, also those that are lost.
    pub fn watch(&mut self) {
        self.sent = Some(Vec::new());
    }

    /// Messages sent since [`Cluster::watch`], each with what it waited for.
    pub fn take_sent(&mut self) -> Vec<(Need, ShardIndex, Peer)> {
        self.sent.take().expect("it was watched")
    }

    /// Takes all messages on their way to `shard`. Messages on their way to `from` are delivered
    /// first.
    pub fn take_messages_to(&mut self, shard: ShardIndex, from: ShardIndex) -> Vec<Peer> {
        while let Some(at) = self.messages.iter().position(|(to, _)| *to == from) {
            if let Some((to, peer)) = self.messages.remove(at) {
                self.input(to, Input::Peer(peer));
            }
        }
        let all: Vec<_> = self.messages.drain(..).collect();
        let (taken, left): (Vec<_>, Vec<_>) = all.into_iter().partition(|(to, _)| *to == shard);
        self.messages.extend(left);
        taken.into_iter().map(|(_, peer)| *peer).collect()
    }

    /// Takes all messages on their way.
    pub fn take_all_messages(&mut self) -> Vec<(ShardIndex, Box<Peer>)> {
        self.messages.drain(..).collect()
    }

    /// Puts messages back on their way.
    pub fn put_back(&mut self, messages: Vec<(ShardIndex, Box<Peer>)>) {
        self.messages.extend(messages);
    }

    pub fn deliver(&mut self, shard: ShardIndex, late: Vec<Peer>) {
        for peer in late {
            self.input(shard, Input::Peer(Box::new(peer)));
        }
    }

    /// Sets the log epoch of shards that start from now on.
    pub fn set_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// Number of live copies, over all shards.
    pub fn copies(&self) -> u64 {
        self.shards.iter().flat_map(|(shard, _)| shard.copies_alive()).sum()
    }

    /// Loses all messages on their way to a shard.
    pub fn lose_messages_to(&mut self, shard: ShardIndex) {
        self.messages.retain(|(to, _)| *to != shard);
    }

    /// Lets time pass and timers fire. Delivers nothing.
    pub fn pass_time(&mut self, nanos: u64) {
        self.now += nanos;
        for shard in 0..self.shards.len() as u16 {
            self.input(ShardIndex(shard), Input::Tick);
        }
    }

    /// Fires the timers of one shard.
    pub fn pass_time_of(&mut self, shard: ShardIndex) {
        self.input(shard, Input::Tick);
    }

    /// Partitions that a shard owns, with their depths and numbers of entries.
    pub fn owned(&mut self, shard: ShardIndex, dir: DirRef) -> Vec<(u32, u8, u64)> {
        let list = self.inspected(shard, dir).into_iter();
        list.map(|it| (it.delta.partition.0, it.delta.radix.0, it.delta.entries)).collect()
    }

    /// Sets by how much the time of day of a shard is ahead of that of others.
    pub fn set_fast(&mut self, shard: ShardIndex, nanos: u64) {
        self.fast.insert(shard, nanos);
    }

    /// The time of day of a shard that is not ahead.
    pub fn wall(&self) -> u64 {
        self.moment().wall
    }

    /// Partitions that a shard owns, as it shows them.
    pub fn inspected(&mut self, shard: ShardIndex, dir: DirRef) -> Vec<Inspected> {
        match self.glance(shard, Op::InspectDir(shard, dir.id)) {
            Some(Ok(Body::Inspected(list))) => list,
            other => panic!("{other:?}"),
        }
    }

    /// Counts and times of each partition, in the order of their indexes.
    pub fn deltas(&mut self, dir: DirRef) -> Vec<Delta> {
        let mut deltas = Vec::new();
        for shard in 0..self.shard_count() {
            deltas.extend(self.inspected(ShardIndex(shard), dir).into_iter().map(|it| it.delta));
        }
        deltas.sort_unstable_by_key(|delta: &Delta| delta.partition);
        deltas
    }

    pub fn shard_count(&self) -> u16 {
        self.shards.len() as u16
    }

    /// Secrets of the volume, which determine the orders of names.
    pub fn secrets(&self) -> &Secrets {
        &self.configs[0].secrets
    }

    fn moment(&self) -> Now {
        Now {
            nanos: self.now,
            wall: AHEAD + self.now,
            epoch: Epoch(self.epoch),
            seen: Lsn(0),
            durable: Lsn(0),
            is_full: self.is_full,
            is_spent: self.is_spent,
        }
    }

    fn input(&mut self, shard: ShardIndex, input: Input) {
        self.now += 1000;
        let mut moment = self.moment();
        moment.wall += self.fast.get(&shard).copied().unwrap_or(0);
        let (core, store) = &mut self.shards[usize::from(shard.0)];
        let mut log = self.logs.get_mut(usize::from(shard.0));
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let now = log.as_ref().map_or(moment, |log| log.at(moment));
            let handled = self.faults.handle(core, (now, input), store);
            let Effects { writes, out, wake_at, .. } = handled.unwrap();
            if let (Some(log), false) = (&mut log, writes.is_empty()) {
                log.written();
            }
            store.apply(writes);
            for (need, out) in out {
                match out {
                    Out::Reply(tag, reply) => {
                        self.last_need = Some(need);
                        self.answers.insert(tag.0, reply.result.clone());
                        self.replies.insert(tag.0, *reply);
                    }
                    Out::Peer(to, peer) => {
                        let sent = self.sent.as_mut();
                        sent.into_iter().for_each(|sent| sent.push((need, to, (*peer).clone())));
                        match &mut log {
                            _ if self.silent.contains(&to) => {}
                            _ if self.dropped.is_some_and(|of| of(to, &peer)) => {}
                            _ if codec::encode(0, &*peer).len() > self.frame_max => {}
                            Some(log) => self.messages.extend(log.send(store, need, (to, peer))),
                            None => self.messages.push_back((to, peer)),
                        }
                    }
                }
            }
            assert!(self.expects_bad || core.counters().bad_messages == 0, "refused what is sound");
            next = core.has_ready().then_some(Input::Ready);
            // Inputs that are due almost at once come before anything else.
            if next.is_none() && self.hurries && wake_at.is_some_and(|at| at <= self.now + SOON) {
                self.now += SOON;
                moment = Now { nanos: self.now, wall: moment.wall + SOON, ..moment };
                next = Some(Input::Tick);
            }
        }
    }

    /// Delivers all messages and lets timers fire until nothing is left.
    pub fn settle(&mut self) {
        for _ in 0..20 {
            while let Some((to, peer)) = self.messages.pop_front() {
                self.input(to, Input::Peer(peer));
            }
            self.now += 2_000_000_000;
            for shard in 0..self.shards.len() as u16 {
                self.input(ShardIndex(shard), Input::Tick);
            }
        }
    }

    /// Runs a request on one shard, with a new sequence.
    pub fn run(&mut self, shard: ShardIndex, op: Op) -> Result<Body, Refusal> {
        self.sequence += 1;
        let sequence = if self.session.0 == 0 { 0 } else { self.sequence };
        self.run_as(shard, RequestId { session: self.session, slot: 0, sequence }, op)
    }

    pub fn run_as(&mut self, shard: ShardIndex, id: RequestId, op: Op) -> Result<Body, Refusal> {
        let head = Head { id, ..Head::default() };
        let request = Request { head, credentials: self.by.clone(), op, trail: None };
        self.answers.remove(&1);
        self.input(shard, Input::Client(ClientTag(1, self.key), Box::new(request)));
        for _ in 0..20 {
            while let Some((to, peer)) = self.messages.pop_front() {
                self.input(to, Input::Peer(peer));
            }
            if let Some(answer) = self.answers.remove(&1) {
                return answer;
            }
            self.now += 300_000_000;
            for shard in 0..self.shards.len() as u16 {
                self.input(ShardIndex(shard), Input::Tick);
            }
        }
        panic!("no answer");
    }

    /// The session to which requests belong.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The time, nanoseconds.
    pub fn nanos(&self) -> u64 {
        self.now
    }

    /// Lets time pass, and fires no timer.
    pub fn pass(&mut self, nanos: u64) {
        self.now += nanos;
    }

    /// Lets time pass in steps of a tenth of a second. Timers fire, and messages are delivered.
    pub fn wait(&mut self, nanos: u64) {
        let until = self.now + nanos;
        while self.now < until {
            self.now += 100_000_000;
            for shard in 0..self.shards.len() as u16 {
                self.input(ShardIndex(shard), Input::Tick);
            }
            while let Some((to, peer)) = self.messages.pop_front() {
                self.input(to, Input::Peer(peer));
            }
        }
    }

    /// Identity of the last request.
    pub fn last_id(&self) -> RequestId {
        RequestId { session: self.session, slot: 0, sequence: self.sequence }
    }

    /// Runs a request on one shard after the other, until an owner answers.
    pub fn on_owner(&mut self, op: &Op) -> Result<Body, Refusal> {
        let mut last = Err(Refusal::AskHome);
        for shard in 0..self.shards.len() as u16 {
            let answer = self.run(ShardIndex(shard), op.clone());
            let elsewhere = matches!(
                answer,
                Err(Refusal::Redirect(_)
                    | Refusal::AskHome
                    | Refusal::HashSlot(_)
                    | Refusal::NotUnderName
                    | Refusal::Errno(Errno::ESTALE))
            );
            if !elsewhere {
                return answer;
            }
            // An owner that has nothing is a better answer than a shard that owns nothing.
            if !matches!(answer, Err(Refusal::AskHome | Refusal::HashSlot(_))) {
                last = answer;
            }
        }
        last
    }

    fn errno<T>(
        result: Result<Body, Refusal>,
        take: impl Fn(Body) -> Option<T>,
    ) -> Result<T, Errno> {
        match result {
            Ok(body) => Ok(take(body.clone()).unwrap_or_else(|| panic!("unexpected {body:?}"))),
            Err(Refusal::Errno(errno)) => Err(errno),
            Err(other) => panic!("refused: {other:?}"),
        }
    }

    pub fn create_op(&self, dir: DirRef, name: &str) -> Op {
        let node = NewNode { kind: FileKind::Regular, mode: 0o644, rdev: 0, symlink: Vec::new() };
        Op::Create { dir, name: self.name(name), node, exclusive: true, open: false }
    }

    pub fn create_open_op(&self, dir: DirRef, name: &str) -> Op {
        let mut op = self.create_op(dir, name);
        if let Op::Create { open, .. } = &mut op {
            *open = true;
        }
        op
    }

    pub fn create(&mut self, dir: DirRef, name: &str) -> Result<Attr, Errno> {
        let op = self.create_op(dir, name);
        Self::errno(self.on_owner(&op), |body| match body {
            Body::Created(attr, true, _) => Some(attr),
            _ => None,
        })
    }

    pub fn mkdir(&mut self, dir: DirRef, name: &str) -> Result<DirRef, Errno> {
        Self::errno(self.on_owner(&Op::Mkdir(dir, self.name(name), 0o755)), |body| match body {
            Body::Made(dir, _) => Some(dir),
            _ => None,
        })
    }

    pub fn lookup(&mut self, dir: DirRef, name: &str) -> Result<Found, Errno> {
        Self::errno(self.on_owner(&Op::Lookup(dir, self.name(name))), |body| match body {
            Body::Found(found) => Some(found),
            _ => None,
        })
    }

    pub fn done(&mut self, op: &Op) -> Result<(), Errno> {
        Self::errno(self.on_owner(op), |_| Some(()))
    }

    pub fn unlink(&mut self, dir: DirRef, name: &str) -> Result<(), Errno> {
        self.done(&Op::Unlink(dir, self.name(name)))
    }

    pub fn rmdir(&mut self, dir: DirRef, name: &str) -> Result<(), Errno> {
        self.done(&Op::Rmdir(dir, self.name(name)))
    }

    pub fn rename(&mut self, from: DirRef, name: &str, to: DirRef, new: &str) -> Result<(), Errno> {
        self.done(&Op::Rename {
            from,
            name: self.name(name),
            to,
            new_name: self.name(new),
            flags: RenameFlags::default(),
        })
    }

    pub fn link(
        &mut self,
        file: (DirRef, &str, Attr),
        dir: DirRef,
        name: &str,
    ) -> Result<(), Errno> {
        let (old_dir, old, attr) = file;
        let file = FileRef { ino: attr.ino, at: FileAt::Name(old_dir, self.name(old)) };
        self.done(&Op::Link(file, dir, self.name(name)))
    }

    /// Names in a directory, over all shards.
    pub fn list(&mut self, dir: DirRef) -> Vec<String> {
        let mut names = Vec::new();
        let mut from = Some(Order(0));
        while let Some(order) = from {
            match self.on_owner(&Op::ReadDir { dir, from: order, limit: 7 }) {
                Ok(Body::Page(page, next)) => {
                    names.extend(page.into_iter().map(|e| e.name.to_string()));
                    from = next;
                }
                other => panic!("{other:?}"),
            }
        }
        names
    }

    pub fn name(&self, name: &str) -> Name {
        Name::new(name.as_bytes()).unwrap()
    }

    pub fn counters(&self) -> Vec<pando_core::Counters> {
        self.shards.iter().map(|(shard, _)| *shard.counters()).collect()
    }

    /// Locks, transactions, prepared steps, opens, over all shards.
    pub fn in_flight(&self) -> [usize; 4] {
        let mut sum = [0; 4];
        for (shard, _) in &self.shards {
            for (total, one) in sum.iter_mut().zip(shard.in_flight()) {
                *total += one;
            }
        }
        sum
    }
}
