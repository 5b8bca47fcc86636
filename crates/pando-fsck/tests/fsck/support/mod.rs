//! Some real shards over real stores in one thread. Messages are delivered at once. The cluster can
//! be stopped at any moment, damaged, checked and started again.

pub mod finds;
mod requests;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use babu::{Batch, Db, MemDisk};
use pando_core::record::Record;
use pando_core::{ClientTag, Config, Effects, Halt, Input, Now, Out, Rows as _, Shard, Write};
use pando_fsck::{
    Gap, Mode, Objects, Page, Repaired, Repairs, Report, Rows, Stored, Unwatched, Volume,
};
use pando_placement::{ClusterMap, Secrets};
use pando_types::op::ObjectId;
use pando_types::peer::Peer;
use pando_types::reply::{Body, Refusal};
use pando_types::watch::{Settled, Watching};
use pando_types::{Epoch, Lsn, SessionId, ShardIndex, Timestamp};

pub use requests::{Made, NAMES_OF_BIG, name, object_range};

pub const SHARDS: u16 = 4;

/// A store as the core reads it.
struct View<'a>(&'a Db);

impl pando_core::Rows for View<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Halt> {
        let value = self.0.get(key).map_err(|error| Halt::Broken(error.to_string()))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Halt> {
        for row in self.0.scan(from, Some(to)) {
            let (key, value) = row.map_err(|error| Halt::Broken(error.to_string()))?;
            if !visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }
}

fn apply(db: &mut Db, writes: &[Write]) {
    let mut batch = Batch::new();
    for write in writes {
        match write {
            Write::Put(key, value) => batch.put(key, value),
            Write::Delete(key) => batch.delete(key),
            Write::DeleteRange(from, to) => batch.delete_range(from, to),
        }
    }
    db.apply(&batch, b"");
    db.write().unwrap();
}

/// An object store in memory: objects with their sizes in bytes.
#[derive(Default)]
pub struct Bucket(pub BTreeMap<ObjectId, u64>);

/// Bytes that the bucket adds to each object.
pub const TRAILER: u64 = 44;

impl Objects for Bucket {
    fn list(&mut self, after: Option<ObjectId>, most: usize) -> Result<Vec<Stored>, String> {
        let from = after.map_or(0, |after| after.0 + 1);
        let rest = self.0.range(ObjectId(from)..).take(most.min(2));
        Ok(rest.map(|(id, bytes)| Stored { id: *id, bytes: *bytes }).collect())
    }

    fn size(&mut self, id: ObjectId) -> Result<Option<u64>, String> {
        Ok(self.0.get(&id).copied())
    }

    fn size_for(&self, content: u64) -> u64 {
        content + TRAILER
    }

    fn delete(&mut self, id: ObjectId) -> Result<(), String> {
        self.0.remove(&id);
        Ok(())
    }
}

/// The stores of all shards. They outlive the shards.
pub struct Stores {
    dbs: Vec<Db>,
    page_bytes: usize,
    /// Ranges of keys that cannot be read.
    pub gaps: Vec<(ShardIndex, Range<Vec<u8>>)>,
}

impl Stores {
    /// The first gap with keys from `from` on.
    fn gap(&self, shard: ShardIndex, from: &[u8]) -> Option<Range<Vec<u8>>> {
        let ahead = self.gaps.iter().filter(|(at, keys)| *at == shard && *keys.end > *from);
        ahead.map(|(_, keys)| keys.clone()).min_by(|a, b| a.start.cmp(&b.start))
    }
}

impl Rows for Stores {
    fn page(&mut self, shard: ShardIndex, from: &[u8], bytes: usize) -> Result<Page, String> {
        let mut page = Page::default();
        let mut size = 0;
        let gap = self.gap(shard, from);
        let to = gap.as_ref().map(|keys| &keys.start[..]);
        for row in self.dbs[usize::from(shard.0)].scan(from, to) {
            let (key, value) = row.map_err(|error| error.to_string())?;
            if size >= bytes.min(self.page_bytes) && size > 0 {
                return Ok(page);
            }
            size += key.len() + value.len();
            page.rows.push((key.to_vec(), value.to_vec()));
        }
        page.is_last = gap.is_none();
        page.gap = gap
            .filter(|_| page.rows.is_empty())
            .map(|keys| Gap { keys, why: "idx-7 is damaged".to_owned() });
        Ok(page)
    }
}

impl Repairs for Stores {
    fn write(&mut self, shard: ShardIndex, writes: Vec<Write>) -> Result<(), String> {
        apply(&mut self.dbs[usize::from(shard.0)], &writes);
        Ok(())
    }
}

/// The shards with their stores, objects and messages.
pub struct Cluster {
    pub volume: Volume,
    pub stores: Stores,
    pub bucket: Bucket,
    pub made: Made,
    configs: Vec<Config>,
    shards: Vec<Shard>,
    messages: VecDeque<(ShardIndex, Box<Peer>)>,
    answers: BTreeMap<u64, Result<Body, Refusal>>,
    pub session: SessionId,
    sequence: u64,
    objects: u64,
    now: u64,
}

impl Cluster {
    /// Makes an empty, running volume with a session.
    pub fn new() -> Self {
        let map = ClusterMap::new(SHARDS);
        let secrets = Secrets { dir: [7; 32], name: [9; 16] };
        let config = |shard| Config {
            split_threshold: 8,
            partitions_per_shard: 2,
            split_page_rows: 3,
            handover_rate: u64::MAX,
            lease: u64::MAX / 4,
            ..Config::new(ShardIndex(shard), map.clone(), secrets.clone())
        };
        let configs: Vec<_> = (0..SHARDS).map(config).collect();
        let dbs = configs.iter().map(|config| {
            let options = babu::Options { log_chunk_bytes: 64 << 10, ..babu::Options::default() };
            let (mut db, _) = Db::open(Arc::new(MemDisk::new()), options).unwrap();
            apply(&mut db, &pando_core::format(config, Timestamp::default()));
            db
        });
        let mut cluster = Self {
            stores: Stores { dbs: dbs.collect(), page_bytes: 4096, gaps: Vec::new() },
            volume: Volume { map, secrets },
            bucket: Bucket::default(),
            made: Made::default(),
            configs,
            shards: Vec::new(),
            messages: VecDeque::new(),
            answers: BTreeMap::new(),
            session: SessionId(0),
            sequence: 0,
            objects: 0,
            now: 1_000_000_000,
        };
        cluster.start();
        cluster.begin_session();
        cluster
    }

    /// Starts all shards. They finish their pending transactions.
    pub fn start(&mut self) {
        self.messages.clear();
        self.shards.clear();
        for index in 0..self.configs.len() {
            let now = self.moment();
            let db = &mut self.stores.dbs[index];
            let config = self.configs[index].clone();
            let (shard, effects) = Shard::recover(config, now, &View(db)).unwrap();
            apply(db, &effects.writes);
            self.shards.push(shard);
        }
        self.settle();
    }

    /// Stops all shards at once. Undelivered messages are lost.
    pub fn stop(&mut self) {
        self.messages.clear();
        self.shards.clear();
    }

    fn moment(&self) -> Now {
        Now::at(self.now, Epoch(1), Lsn(0), Lsn(0))
    }

    pub fn input(&mut self, shard: ShardIndex, input: Input) {
        self.now += 1000;
        let now = self.moment();
        let index = usize::from(shard.0);
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let db = &mut self.stores.dbs[index];
            let effects = self.shards[index].handle(now, input, &View(db)).unwrap();
            let Effects { writes, out, .. } = effects;
            apply(db, &writes);
            for (_, out) in out {
                match out {
                    Out::Reply(tag, reply) => drop(self.answers.insert(tag.0, reply.result)),
                    Out::Peer(to, peer) => self.messages.push_back((to, peer)),
                }
            }
            next = self.shards[index].has_ready().then_some(Input::Ready);
        }
    }

    /// Delivers one message. Returns false if there is none.
    pub fn deliver(&mut self) -> bool {
        let Some((to, peer)) = self.messages.pop_front() else { return false };
        self.input(to, Input::Peer(peer));
        true
    }

    /// Lets timers fire.
    pub fn tick(&mut self) {
        self.now += 300_000_000;
        for shard in 0..SHARDS {
            self.input(ShardIndex(shard), Input::Tick);
        }
    }

    /// Delivers all messages and fires timers, until nothing is left.
    pub fn settle(&mut self) {
        for _ in 0..20 {
            while self.deliver() {}
            self.tick();
        }
    }

    pub fn answer(&mut self, tag: ClientTag) -> Option<Result<Body, Refusal>> {
        self.answers.remove(&tag.0)
    }

    pub fn watch(&mut self, shard: ShardIndex, id: u64) -> Watching {
        self.shards[usize::from(shard.0)].watch(id).expect("it has joined")
    }

    pub fn settle_watch(&mut self, shard: ShardIndex, id: u64, first: ObjectId) -> Settled {
        self.shards[usize::from(shard.0)].settle_watch(id, first)
    }

    // ---- stopped ----

    pub fn check(&mut self) -> Report {
        let objects: &mut dyn Objects = &mut self.bucket;
        let (rows, volume) = (&mut self.stores, &self.volume);
        pando_fsck::check(rows, Some(objects), volume, Mode::Stopped, &mut Unwatched).unwrap()
    }

    pub fn repair(&mut self) -> Repaired {
        let objects: &mut dyn Objects = &mut self.bucket;
        pando_fsck::repair(&mut self.stores, Some(objects), &self.volume, &mut Unwatched).unwrap()
    }

    pub fn get(&self, shard: ShardIndex, key: &[u8]) -> Option<Vec<u8>> {
        View(&self.stores.dbs[usize::from(shard.0)]).get(key).unwrap()
    }

    pub fn record<R: Record>(&self, shard: ShardIndex, key: &[u8]) -> R {
        let bytes = self.get(shard, key).unwrap_or_else(|| panic!("no row {}", key.escape_ascii()));
        R::decode(&bytes).unwrap()
    }

    pub fn put(&mut self, shard: ShardIndex, key: &[u8], value: &[u8]) {
        self.stores.write(shard, vec![Write::Put(key.to_vec(), value.to_vec())]).unwrap();
    }

    pub fn delete(&mut self, shard: ShardIndex, key: &[u8]) {
        assert!(self.get(shard, key).is_some(), "no row {}", key.escape_ascii());
        self.stores.write(shard, vec![Write::Delete(key.to_vec())]).unwrap();
    }

    /// Changes a record in its store.
    pub fn change<R: Record>(&mut self, shard: ShardIndex, key: &[u8], change: impl Fn(&mut R)) {
        let mut record = self.record::<R>(shard, key);
        change(&mut record);
        self.put(shard, key, &record.encode());
    }

    /// Rows of a shard with keys that begin with `prefix`.
    pub fn rows(&self, shard: ShardIndex, prefix: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let rows = self.stores.dbs[usize::from(shard.0)].prefix(prefix);
        rows.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
    }

    pub fn all_shards() -> impl Iterator<Item = ShardIndex> {
        (0..SHARDS).map(ShardIndex)
    }
}
