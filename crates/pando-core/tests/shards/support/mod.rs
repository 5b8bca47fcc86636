//! A few shards in one thread, with messages delivered at once and in order, over `BTreeMap`
//! stores.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pando_core::record::{Content, Record};
use pando_core::{
    ClientTag, Config, Effects, Halt, Input, Need, Now, Out, Rows, Shard, Write, format, keys,
};
use pando_placement::{ClusterMap, Secrets};
use pando_types::op::{FileAt, FileRef, Head, NewNode, Op, RenameFlags, Request, RequestId};
use pando_types::peer::{Peer, Say};
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

/// Numbers that look random, and are the same each time.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// By this the time of day is ahead of the clock of timers: a timer that went by it would never
/// come.
const AHEAD: u64 = 1 << 60;

/// Nanoseconds in which a half is counted further.
const SOON: u64 = 100_000;

/// Longer than any test that does not wait for its end.
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
    /// By how much the time of day of a shard is ahead of others.
    fast: BTreeMap<ShardIndex, u64>,
    /// One a shard, if it matters what is synced.
    logs: Vec<power::Log>,
    /// Messages that were sent since it is watched, and what each waited for.
    sent: Option<Vec<(Need, ShardIndex, Peer)>>,
    /// What the last reply waited for.
    pub last_need: Option<Need>,
    dropped: Option<fn(ShardIndex, &Peer) -> bool>,
    /// Whether timers that are due within [`SOON`] fire at once.
    pub hurries: bool,
    pub by: Credentials,
    /// Whether shards hear what no sound shard says.
    pub expects_bad: bool,
    /// By which key requests come.
    pub key: KeyId,
    /// What of the inputs to come cannot be read, or written.
    faults: damage::Faults,
    /// No shard has room for what takes space.
    pub is_full: bool,
    /// No shard has room for anything: what an input writes is dropped.
    pub is_spent: bool,
    /// Messages of more bytes reach nobody.
    pub frame_max: usize,
}

impl Cluster {
    pub fn new(count: u16, threshold: u64) -> Self {
        Self::with_lease(count, threshold, LEASE)
    }

    pub fn with_lease(count: u16, threshold: u64, lease: u64) -> Self {
        Self::with(count, |config| (config.split_threshold, config.lease) = (threshold, lease))
    }

    /// Shards with pages of three rows and two partitions each, or whatever `change` makes of that.
    pub fn with(count: u16, change: impl Fn(&mut Config)) -> Self {
        let map = ClusterMap::new(count);
        let secrets = Secrets { dir: [7; 32], name: [9; 16] };
        let configs: Vec<_> = (0..count)
            .map(|shard| {
                let mut config = Config {
                    partitions_per_shard: 2,
                    split_page_rows: 3,
                    handover_rate: u64::MAX,
                    // What becomes of a transaction of which a shard is away is tried in
                    // `silent.rs`; else it waits.
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

    /// A new session, which requests belong to from now on.
    pub fn begin_session(&mut self) {
        self.begin_by(Op::OpenSession);
    }

    /// The same of a client that ends when the shards do.
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

    /// Requests belong to this session from now on.
    pub fn act_in(&mut self, session: SessionId) {
        self.session = session;
    }

    /// How many rows a shard has whose keys begin so.
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

    /// All shards stop and start again; what was on its way is lost.
    pub fn restart_with(&mut self, change: impl Fn(&mut Config)) {
        self.configs.iter_mut().for_each(change);
        self.restart();
    }

    pub fn restart(&mut self) {
        self.restart_at_once();
        self.settle();
    }

    /// The same, before anything else happens.
    pub fn restart_at_once(&mut self) {
        self.messages.clear();
        for index in 0..self.shards.len() {
            let mut store = std::mem::take(&mut self.shards[index].1);
            let shard = self.recovered(index, &mut store);
            self.shards[index] = (shard, store);
        }
    }

    /// One shard stops and starts again. What is on its way to it is lost.
    pub fn restart_one(&mut self, shard: ShardIndex) {
        let index = usize::from(shard.0);
        self.messages.retain(|(to, _)| *to != shard);
        let mut store = std::mem::take(&mut self.shards[index].1);
        let recovered = self.recovered(index, &mut store);
        self.shards[index] = (recovered, store);
    }

    /// Somebody has made one shard more, which nobody else has heard of.
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

    /// What a shard knows of slots.
    pub fn map(&self, shard: ShardIndex) -> ClusterMap {
        self.shards[usize::from(shard.0)].0.map().clone()
    }

    /// Shards are added to the running cluster; they own no slots. All restart, to hear of it.
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

    /// Delivers one message; false: there is none.
    pub fn step(&mut self) -> bool {
        let Some((to, peer)) = self.messages.pop_front() else { return false };
        self.input(to, Input::Peer(peer));
        true
    }

    /// Sends a request that reads, and delivers nothing: its answer, if there is one at once.
    pub fn glance(&mut self, shard: ShardIndex, op: Op) -> Option<Result<Body, Refusal>> {
        let request =
            Request { head: Head::default(), credentials: self.by.clone(), op, trail: None };
        self.answers.remove(&2);
        self.input(shard, Input::Client(ClientTag(2, self.key), Box::new(request)));
        self.answers.remove(&2)
    }

    /// Sends a request that changes something, and delivers nothing: its answer, if there is one at
    /// once. One that waits has the slot for itself.
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

    /// The same, by a way, of the newest such request.
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

    /// The same, in a slot of its own: its tag, which is its trace as well.
    pub fn start(&mut self, shard: ShardIndex, op: Op, trail: Option<Trail>) -> u64 {
        self.sequence += 1;
        let tag = 1_000 + self.sequence;
        let head = Head { id: self.id_of(tag), trace: tag, ..Head::default() };
        let request = Request { head, credentials: self.by.clone(), op, trail };
        self.input(shard, Input::Client(ClientTag(tag, self.key), Box::new(request)));
        tag
    }

    /// Sends a request under an identity, and delivers nothing: its tag.
    pub fn send_as(&mut self, shard: ShardIndex, id: RequestId, op: Op) -> u64 {
        self.sequence += 1;
        let tag = 1_000 + self.sequence;
        let head = Head { id, ..Head::default() };
        let request = Request { head, credentials: self.by.clone(), op, trail: None };
        self.input(shard, Input::Client(ClientTag(tag, self.key), Box::new(request)));
        tag
    }

    /// Sends a request with a tag of the caller's, and delivers nothing.
    pub fn send(&mut self, shard: ShardIndex, tag: u64, request: Request) {
        self.input(shard, Input::Client(ClientTag(tag, self.key), Box::new(request)));
    }

    /// What is answered without effects; `None`: it is not.
    pub fn at_once(&mut self, shard: ShardIndex, op: Op) -> Option<Result<Body, Refusal>> {
        let (head, credentials) = (Head::default(), self.by.clone());
        self.at_once_as(shard, Request { head, credentials, op, trail: None })
    }

    /// The same, of a whole request.
    pub fn at_once_as(
        &mut self,
        shard: ShardIndex,
        request: Request,
    ) -> Option<Result<Body, Refusal>> {
        let (now, key) = (self.moment(), self.key);
        let (core, store) = &mut self.shards[usize::from(shard.0)];
        core.answer_at_once(now, key, &request, store).unwrap().map(|reply| reply.result)
    }

    /// Sessions that a shard knows, and whose they are.
    pub fn session_keys(&self, shard: ShardIndex) -> Vec<(SessionId, KeyId)> {
        self.shards[usize::from(shard.0)].0.session_keys().collect()
    }

    /// How many rows of a table there are on all shards.
    pub fn rows_of_table(&self, table: keys::Table) -> usize {
        let prefix = keys::table(table);
        (0..self.shard_count()).map(|shard| self.rows_of(ShardIndex(shard), &prefix)).sum()
    }

    /// The request of that tag.
    pub fn id_of(&self, tag: u64) -> RequestId {
        let sequence = tag - 1_000;
        RequestId { session: self.session, slot: 100 + (sequence % 500) as u16, sequence }
    }

    /// The answer to such a request.
    pub fn answer(&mut self, tag: u64) -> Option<Result<Body, Refusal>> {
        self.answers.remove(&tag)
    }

    /// Transactions of which a message is on its way.
    pub fn txns_on_their_way(&self) -> BTreeSet<TxnId> {
        self.messages.iter().map(|(_, peer)| peer.txn).collect()
    }

    /// Delivers what is on its way of a transaction (and about versions), until there is nothing,
    /// or something that is an end.
    pub fn deliver_of(&mut self, txn: TxnId, versions: bool, is_end: impl Fn(&Say) -> bool) {
        loop {
            let is_its = |peer: &Peer| peer.txn == txn || (versions && peer.txn.number == 0);
            if self.messages.iter().any(|(_, peer)| peer.txn == txn && is_end(&peer.say)) {
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

    /// What came of the request begun last, by now.
    pub fn last_poked(&mut self) -> Option<Result<Body, Refusal>> {
        self.answers.remove(&self.poked)
    }

    /// Asks what reads, by a way, and delivers nothing: the whole reply, if there is one at once.
    pub fn ask(&mut self, shard: ShardIndex, op: Op, trail: Option<Trail>) -> Option<Reply> {
        self.replies.remove(&3);
        self.ask_as(3, shard, op, trail);
        self.reply(3)
    }

    /// The same, with a tag below 1,000 by which the reply can be had later.
    pub fn ask_as(&mut self, tag: u64, shard: ShardIndex, op: Op, trail: Option<Trail>) {
        let credentials = self.by.clone();
        let request = Request { head: Head::default(), credentials, op, trail };
        self.input(shard, Input::Client(ClientTag(tag, self.key), Box::new(request)));
    }

    /// The whole reply to what was asked with that tag.
    pub fn reply(&mut self, tag: u64) -> Option<Reply> {
        self.replies.remove(&tag)
    }

    /// Delivers the oldest message of a transaction, or of all others if it is none; false: there
    /// is none.
    pub fn step_of(&mut self, of: impl Fn(&Peer) -> bool) -> bool {
        let at = self.messages.iter().position(|(_, peer)| of(peer));
        let Some((to, peer)) = at.and_then(|at| self.messages.remove(at)) else { return false };
        self.input(to, Input::Peer(peer));
        true
    }

    /// Whether such a message is on its way.
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

    /// Home of a directory.
    pub fn home(&self, dir: DirRef) -> ShardIndex {
        self.configs[0].map.home(dir.id)
    }

    /// From now on nothing reaches these shards.
    pub fn silence(&mut self, shards: impl IntoIterator<Item = ShardIndex>) {
        self.silent = shards.into_iter().collect();
        self.messages.retain(|(to, _)| !self.silent.contains(to));
    }

    /// A shard has lost a directory's partitions.
    pub fn lose_partitions(&mut self, shard: ShardIndex, dir: DirRef) {
        let from = keys::dir(dir.id, keys::Kind::Header, 0);
        let to = keys::dir(dir.id, keys::Kind::Header, u64::MAX);
        let (_, store) = &mut self.shards[usize::from(shard.0)];
        store.0.retain(|key, _| *key < from || *key > to);
        self.restart_one(shard);
    }

    /// From now on these messages reach nobody.
    pub fn drop_messages(&mut self, of: fn(ShardIndex, &Peer) -> bool) {
        self.dropped = Some(of);
    }

    /// Sessions that are over, and have left something on any shard.
    pub fn sessions_over(&self) -> usize {
        self.shards.iter().map(|(shard, _)| shard.sessions_over().count()).sum()
    }

    /// From now on messages are noted, also those that reach nobody.
    pub fn watch(&mut self) {
        self.sent = Some(Vec::new());
    }

    /// What was sent since, and what each message waited for.
    pub fn take_sent(&mut self) -> Vec<(Need, ShardIndex, Peer)> {
        self.sent.take().expect("it was watched")
    }

    /// Takes what is on its way to a shard from shard 0; first what is on its way there is
    /// delivered.
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

    /// All that is on its way is held up.
    pub fn take_all_messages(&mut self) -> Vec<(ShardIndex, Box<Peer>)> {
        self.messages.drain(..).collect()
    }

    /// What was held up is on its way again.
    pub fn put_back(&mut self, messages: Vec<(ShardIndex, Box<Peer>)>) {
        self.messages.extend(messages);
    }

    pub fn deliver(&mut self, shard: ShardIndex, late: Vec<Peer>) {
        for peer in late {
            self.input(shard, Input::Peer(Box::new(peer)));
        }
    }

    /// Epoch of the logs of shards that start from now on.
    pub fn set_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// Live copies, over all shards.
    pub fn copies(&self) -> u64 {
        self.shards.iter().flat_map(|(shard, _)| shard.copies_alive()).sum()
    }

    /// What is on its way to a shard is lost.
    pub fn lose_messages_to(&mut self, shard: ShardIndex) {
        self.messages.retain(|(to, _)| *to != shard);
    }

    /// Time passes; timers fire, nothing is delivered.
    pub fn pass_time(&mut self, nanos: u64) {
        self.now += nanos;
        for shard in 0..self.shards.len() as u16 {
            self.input(ShardIndex(shard), Input::Tick);
        }
    }

    /// A timer of one shard fires.
    pub fn pass_time_of(&mut self, shard: ShardIndex) {
        self.input(shard, Input::Tick);
    }

    /// Partitions that a shard owns, with their depth and entries.
    pub fn owned(&mut self, shard: ShardIndex, dir: DirRef) -> Vec<(u32, u8, u64)> {
        let list = self.inspected(shard, dir).into_iter();
        list.map(|it| (it.delta.partition.0, it.delta.radix.0, it.delta.entries)).collect()
    }

    /// The time of day of a shard is ahead of others by so much from now on.
    pub fn set_fast(&mut self, shard: ShardIndex, nanos: u64) {
        self.fast.insert(shard, nanos);
    }

    /// The time of day, where nobody is ahead.
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

    /// What each partition says of itself, in the order of their numbers.
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

    /// The orders of names follow from it.
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
            // What is to come almost at once comes before anything else.
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

    /// Runs a request on one shard, with a sequence of its own.
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

    /// The session that requests belong to.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// What time it is, nanoseconds.
    pub fn nanos(&self) -> u64 {
        self.now
    }

    /// Time goes by, and no timer fires.
    pub fn pass(&mut self, nanos: u64) {
        self.now += nanos;
    }

    /// Lets time pass, in steps of a tenth of a second, for timers only.
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

    /// Last request id used.
    pub fn last_id(&self) -> RequestId {
        RequestId { session: self.session, slot: 0, sequence: self.sequence }
    }

    /// Tries all shards until one answers for good.
    pub fn on_owner(&mut self, op: &Op) -> Result<Body, Refusal> {
        let mut last = Err(Refusal::AskHome);
        for shard in 0..self.shards.len() as u16 {
            let answer = self.run(ShardIndex(shard), op.clone());
            let elsewhere = matches!(
                answer,
                Err(Refusal::Redirect(_)
                    | Refusal::AskHome
                    | Refusal::Slot(_)
                    | Refusal::NotUnderName
                    | Refusal::Errno(Errno::ESTALE))
            );
            if !elsewhere {
                return answer;
            }
            // An owner that has nothing says more than who is none.
            if !matches!(answer, Err(Refusal::AskHome | Refusal::Slot(_))) {
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

    pub fn create_op(&self, dir: DirRef, name: &str, open: bool) -> Op {
        let node = NewNode { kind: FileKind::Regular, mode: 0o644, rdev: 0, symlink: Vec::new() };
        Op::Create { dir, name: self.name(name), node, exclusive: true, open }
    }

    pub fn create(&mut self, dir: DirRef, name: &str) -> Result<Attr, Errno> {
        let op = self.create_op(dir, name, false);
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
