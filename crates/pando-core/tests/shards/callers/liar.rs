//! A hostile client beside an honest one. It sends random operations with random and mutated
//! arguments, identities of both sessions, and every number that it has seen. No shard stops or
//! panics, and the honest client has what it expects.
//!
//! The liar acts for a user of its own: a server admits no other user for its key. The honest
//! client's files are in a directory that is closed to that user. Both clients use a second
//! directory.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::Cluster;
use pando_core::admission::{Asks, SESSIONS_MAX, asks};
use pando_types::hold::{Holding, Said};
use pando_types::op::{
    FileAt, FileRef, Head, NewNode, ObjectId, ObjectRange, Op, Payload, Piece, RenameFlags,
    Request, RequestId, Target, XattrMode,
};
use pando_types::reply::{Body, Improper, Layout, Refusal, Reply};
use pando_types::{
    Credentials, DirId, DirRef, Epoch, FileKind, HashSlot, Ino, Judge, KeyId, Lock, LockKind,
    LockOwner, LockRange, LockSpace, Name, Order, PartitionIndex, Powers, SessionId, SetAttr,
    ShardIndex, TimeSet, Timestamp, Trail,
};

const ROOT: DirRef = DirRef::ROOT;
const SHARDS: u16 = 3;
const HONEST: KeyId = KeyId(5);
const LIAR: KeyId = KeyId(6);
const LIES_BETWEEN: usize = 6;
/// More rows than shards have before the liar begins, with all that the honest client adds.
const ROWS_BEGUN: usize = 20_000;
/// Most rows that one request leaves: an outcome, a name with its records, pieces of contents.
const ROWS_A_REQUEST: usize = 16;

/// What the honest client has.
struct Honest {
    session: SessionId,
    /// The directory that is closed to other users.
    home: DirRef,
    files: BTreeMap<String, (Ino, Vec<ObjectId>)>,
    objects: u64,
    locked: Option<Ino>,
}

/// What the liar has seen.
#[derive(Default)]
struct Seen {
    sessions: Vec<SessionId>,
    dirs: Vec<DirRef>,
    inos: Vec<Ino>,
    /// Files that the liar has made.
    files: Vec<FileRef>,
    objects: Vec<ObjectId>,
    ids: Vec<RequestId>,
}

struct Liar {
    choices: Choices,
    seen: Seen,
    sequence: u64,
    /// Tags of all requests.
    tags: Vec<u64>,
    /// Number of changing requests that succeeded.
    done: usize,
    /// Refusals that the liar was sent, by [`Improper`].
    improper: [u64; Improper::ALL.len()],
}

/// Source of the liar's choices.
enum Choices {
    /// Pseudo-random numbers.
    Random(fastrand::Rng),
    /// A fuzzer's bytes. When none are left, the liar stops.
    Bytes(std::vec::IntoIter<u8>),
}

impl Choices {
    fn below(&mut self, bound: usize) -> usize {
        match self {
            Self::Random(random) => random.usize(..bound),
            Self::Bytes(bytes) => {
                let count = if bound <= 1 << 8 { 1 } else { 2 };
                bytes.take(count).fold(0, |number, byte| number << 8 | usize::from(byte)) % bound
            }
        }
    }

    fn any(&mut self) -> u64 {
        match self.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => i64::MAX as u64,
            3 => self.below(64) as u64,
            4 => 1 << self.below(64),
            _ => match self {
                Self::Random(random) => random.u64(..),
                Self::Bytes(bytes) => {
                    bytes.take(8).fold(0, |number, byte| number << 8 | u64::from(byte))
                }
            },
        }
    }

    fn is_over(&self) -> bool {
        matches!(self, Self::Bytes(bytes) if bytes.as_slice().is_empty())
    }
}

impl Liar {
    fn below(&mut self, bound: usize) -> usize {
        self.choices.below(bound)
    }

    fn any(&mut self) -> u64 {
        self.choices.any()
    }

    fn of<T: Copy>(&mut self, from: fn(&Seen) -> &Vec<T>, else_: fn(u64) -> T) -> T {
        let count = from(&self.seen).len();
        match count > 0 && self.below(8) > 0 {
            true => from(&self.seen)[self.choices.below(count)],
            false => else_(self.any()),
        }
    }

    fn session(&mut self) -> SessionId {
        self.of(|seen| &seen.sessions, SessionId)
    }

    fn holding(&mut self) -> Holding {
        let (number, epoch) = (self.any(), Epoch(self.below(3) as u64));
        match self.below(4) {
            0 => Holding::Ask(number),
            1 => Holding::End(Said { number, epoch }),
            2 => Holding::Wake(number),
            _ => Holding::Quiet(Said { number, epoch }),
        }
    }

    fn ino(&mut self) -> Ino {
        self.of(|seen| &seen.inos, Ino)
    }

    fn object(&mut self) -> ObjectId {
        if self.below(2) == 0 {
            let session = self.seen.sessions[self.choices.below(self.seen.sessions.len())];
            return ObjectId(u128::from(session.0) << 64 | u128::from(self.any()));
        }
        self.of(|seen| &seen.objects, |n| ObjectId(n.into()))
    }

    fn dir(&mut self) -> DirRef {
        let dir = self.of(
            |seen| &seen.dirs,
            |n| DirRef { id: DirId(u128::from(n).to_be_bytes()), ino: Ino(n) },
        );
        match self.below(16) {
            0 => DirRef { ino: self.ino(), ..dir },
            _ => dir,
        }
    }

    fn name(&mut self) -> Name {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "home", "shared"];
        let number = self.below(12);
        let name = names.get(number).map(|name| (*name).to_owned());
        Name::new(name.unwrap_or_else(|| format!("n{}", self.below(40))).as_bytes()).unwrap()
    }

    fn file(&mut self) -> FileRef {
        if !self.seen.files.is_empty() && self.below(2) == 0 {
            return self.seen.files[self.choices.below(self.seen.files.len())].clone();
        }
        let at = match self.below(3) {
            0 => FileAt::Link,
            _ => FileAt::Name(self.dir(), self.name()),
        };
        FileRef { ino: self.ino(), at }
    }

    fn target(&mut self) -> Target {
        if self.below(2) == 0 { Target::Dir(self.dir()) } else { Target::File(self.file()) }
    }

    fn bytes(&mut self) -> Vec<u8> {
        let lengths = [0, 1, 255, 256, 4096, 4097, 65_537];
        let len = lengths[self.below(lengths.len())];
        let mut bytes = b"user.".to_vec();
        bytes.resize(len, b'x');
        bytes
    }

    fn time(&mut self) -> Timestamp {
        Timestamp { seconds: self.any() as i64, nanos: self.any() as u32 }
    }

    fn set(&mut self) -> SetAttr {
        let time = TimeSet::To(self.time());
        let number = self.any();
        let mut set = SetAttr::default();
        match self.below(6) {
            0 => set.mode = Some(number as u16),
            1 => set.uid = Some(number as u32),
            2 => set.gid = Some(number as u32),
            3 => set.size = Some(number),
            4 => set.atime = Some(time),
            _ => set.mtime = Some(TimeSet::Now),
        }
        set
    }

    fn range(&mut self) -> ObjectRange {
        let (offset, len, object_len) = match self.below(4) {
            0 => (self.any(), self.any(), self.any()),
            _ => (self.below(8) as u64, 1 + self.below(50) as u64, 64),
        };
        let object = self.object();
        ObjectRange { object, offset, len, object_len, store: 0, key: 0, codec: 0 }
    }

    fn piece(&mut self) -> Piece {
        let payload = match self.below(4) {
            0 => Payload::Inline(self.bytes()),
            1 => Payload::Hole(self.any()),
            _ => Payload::Object(self.range()),
        };
        let offset = if self.below(2) == 0 { self.any() } else { self.below(200) as u64 };
        Piece { offset, payload }
    }

    fn lock(&mut self) -> Lock {
        let range = LockRange { first: self.any(), last: self.any() };
        let space = if self.below(2) == 0 { LockSpace::Flock } else { LockSpace::Record };
        let kind = if self.below(2) == 0 { LockKind::Shared } else { LockKind::Exclusive };
        Lock { space, owner: LockOwner(self.any() % 3), range, kind, pid: 1 }
    }

    fn op(&mut self) -> Op {
        let shard = ShardIndex(self.below(usize::from(SHARDS) + 1) as u16);
        let (dir, name, file) = (self.dir(), self.name(), self.file());
        match self.below(38) {
            0 => Op::Lookup(dir, name),
            1..=3 => {
                let kinds = [FileKind::Symlink, FileKind::Directory, FileKind::Fifo];
                let (kind, mode, symlink) = match self.below(4) {
                    0 => (kinds[self.below(kinds.len())], self.any() as u16, self.bytes()),
                    _ => (FileKind::Regular, 0o666, Vec::new()),
                };
                let node = NewNode { kind, mode, rdev: 7, symlink };
                let [exclusive, open] = [0, 1].map(|_| self.below(2) == 0);
                Op::Create { dir, name, node, exclusive, open }
            }
            4 => Op::Mkdir(dir, name, self.any() as u16),
            5 => Op::Unlink(dir, name),
            6 => Op::Rmdir(dir, name),
            7 => Op::Link(file, dir, name),
            8 => {
                let flags =
                    RenameFlags { no_replace: self.below(2) == 0, exchange: self.below(3) == 0 };
                Op::Rename { from: dir, name, to: self.dir(), new_name: self.name(), flags }
            }
            9 => Op::GetAttr(file),
            10 => Op::SetAttr(file, self.set()),
            11 => Op::Readlink(file),
            12 => Op::Open {
                file,
                access: self.any() as u8,
                truncate: self.below(2) == 0,
                kill: None,
            },
            13 => Op::Release(file),
            14 => {
                let count = self.below(70);
                Op::ReleaseAll(shard, (0..count).map(|_| self.file()).collect())
            }
            15 => Op::Access(file, self.any() as u8),
            16 => Op::ReadData { file, offset: self.any(), len: self.any() },
            17..=19 => {
                let base = (self.below(4) == 0).then(|| self.any());
                let count = self.below(5);
                let pieces = (0..count).map(|_| self.piece()).collect();
                let mtime = (self.below(3) == 0).then(|| self.time());
                Op::WriteData { file, base, pieces, mtime, kill: None }
            }
            20 => Op::GetXattr(self.target(), self.bytes()),
            21 => Op::ListXattr(self.target()),
            22 => {
                let (target, name) = (self.target(), self.bytes());
                Op::SetXattr { target, name, value: self.bytes(), mode: XattrMode::Any }
            }
            23 => Op::RemoveXattr(self.target(), self.bytes()),
            24 => Op::PartitionStat(dir, PartitionIndex(self.any() as u32)),
            25 => Op::DirSetAttr(dir, self.set()),
            26 => Op::ReadDir { dir, from: Order(self.any()), limit: self.any() as u32 },
            27 => Op::Parent(dir),
            28 => Op::EndSession(self.session()),
            29 => Op::Garbage(shard, self.any() as u32 % 5_000),
            30 => {
                let count = self.below(4);
                Op::GarbageDone(shard, (0..count).map(|_| self.object()).collect())
            }
            31 => Op::HandOver(shard, HashSlot(self.any() as u16), ShardIndex(self.any() as u16)),
            32 => Op::AddShard(ShardIndex(self.any() as u16)),
            33 => match self.below(2) {
                0 => Op::Renew(self.session()),
                _ => Op::Hold(self.session(), self.holding()),
            },
            34 => Op::OpenName { dir, name, access: 4, truncate: self.below(2) == 0, kill: None },
            35 => {
                let count = self.below(5);
                Op::Glimpse(shard, (0..count).map(|_| (self.dir().id, self.name())).collect())
            }
            36 => match self.below(2) {
                0 => Op::Lock(self.ino(), self.lock()),
                _ => Op::LockOf(self.target(), self.lock()),
            },
            _ => {
                let lock = self.lock();
                match self.below(2) {
                    0 => Op::Unlock(self.ino(), lock.space, lock.owner, lock.range),
                    _ => Op::TestLock(self.ino(), lock),
                }
            }
        }
    }

    fn id(&mut self, own: SessionId) -> RequestId {
        self.sequence += 1;
        // Request slots that random identities rarely name. Those use up the sequences of their
        // request slots.
        let slot = 500 + self.below(8) as u16;
        let fresh = RequestId { session: own, slot, sequence: self.sequence };
        match self.below(6) {
            0 => RequestId { session: self.session(), ..fresh },
            1 => RequestId { slot: self.any() as u16, sequence: self.any(), ..fresh },
            2 => self.of(|seen| &seen.ids, |_| RequestId::default()),
            _ => fresh,
        }
    }

    /// Sends one request, to one shard after the other. Delivers messages only by chance.
    fn lie(&mut self, c: &mut Cluster, own: SessionId) {
        let id = self.id(own);
        let judge = match self.below(8) {
            0 => Judge::Kernel,
            1 => Judge::Powers(Box::new(Powers {
                groups: vec![7; self.below(4)],
                users: vec![(0, 1); self.below(2) * self.below(500)],
                ..Powers::default()
            })),
            2 => Judge::Shard(vec![7; 3]),
            _ => Judge::Shard(Vec::new()),
        };
        let trail = (self.below(5) == 0).then(|| Trail {
            version: self.any(),
            dirs: (0..self.below(5)).map(|_| self.ino()).collect(),
        });
        let credentials = Credentials { uid: 1000, gid: 1000, judge };
        let head = Head {
            id,
            trace: self.any(),
            clock: self.any(),
            version: self.any(),
            ..Head::default()
        };
        let op = self.op();
        let changes = asks(&op) == Asks::Changes;
        let made = match &op {
            Op::Create { dir, name, .. } => Some(FileAt::Name(*dir, name.clone())),
            _ => None,
        };
        let request = Request { head, credentials, op, trail };
        c.key = LIAR;
        let first = self.below(usize::from(SHARDS)) as u16;
        // One shard after the other, as a redirected client does.
        for shard in (0..SHARDS).map(|n| ShardIndex((first + n) % SHARDS)) {
            let tag = c.send(shard, request.clone());
            self.tags.push(tag);
            for _ in 0..self.below(4) {
                c.step();
            }
            let Some(reply) = c.reply(tag) else { return };
            self.count(&reply);
            if let Err(Refusal::Redirect(_) | Refusal::AskHome | Refusal::HashSlot(_)) =
                reply.result
            {
                continue;
            }
            self.done += usize::from(changes && reply.result.is_ok());
            if let (Some(at), Ok(Body::Created(attr, ..))) = (&made, &reply.result) {
                self.seen.files.push(FileRef { ino: attr.ino, at: at.clone() });
                let old = self.seen.files.len().saturating_sub(20);
                self.seen.files.drain(..old);
            }
            return self.learn(reply.result);
        }
    }

    fn count(&mut self, reply: &Reply) {
        if let Err(Refusal::Improper(kind)) = reply.result {
            self.improper[kind as usize] += 1;
        }
    }

    /// Checks that each refusal was counted, and that nothing is left of refused requests. By now
    /// every request is answered.
    fn check(&mut self, c: &mut Cluster) {
        let late: Vec<_> = self.tags.iter().filter_map(|tag| c.reply(*tag)).collect();
        late.iter().for_each(|reply| self.count(reply));
        let counted = c.counters().iter().fold([0; 6], |mut sum, n| {
            sum.iter_mut().zip(n.improper).for_each(|(sum, n)| *sum += n);
            sum
        });
        // A refusal that is repeated from its recorded outcome was counted the first time.
        let again: u64 = c.counters().iter().map(|n| n.repeated).sum();
        let mut kinds = self.improper.into_iter().zip(counted);
        assert!(
            kinds.all(|(told, counted)| (counted..=counted + again).contains(&told)),
            "each refusal is told and counted: {:?}, {counted:?}, {again} again",
            self.improper
        );
        assert_eq!(c.in_flight()[..3], [0; 3], "locks, transactions and steps are over");
        let requests = self.tags.len();
        let rows = c.rows().len();
        assert!(rows <= ROWS_BEGUN + ROWS_A_REQUEST * requests, "{rows} of {requests} requests");
        let sessions =
            c.shard(ShardIndex(0)).session_keys().filter(|(_, key)| *key == LIAR).count();
        assert!(sessions <= SESSIONS_MAX, "{sessions} sessions of one key");
    }

    /// The liar learns of all that the honest client has.
    fn hear_of(&mut self, honest: &Honest, last: RequestId) {
        let inos = honest.files.values().map(|(ino, _)| *ino);
        let objects = honest.files.values().flat_map(|(_, objects)| objects.iter().copied());
        let seen = &mut self.seen;
        seen.inos = inos.chain(seen.inos.iter().copied().rev().take(100)).collect();
        seen.objects = objects.chain(seen.objects.iter().copied().rev().take(100)).collect();
        seen.ids = vec![last, RequestId { sequence: last.sequence + 1, ..last }];
    }

    fn learn(&mut self, result: Result<Body, Refusal>) {
        match result {
            Ok(Body::Created(attr, ..) | Body::Attr(attr)) => self.seen.inos.push(attr.ino),
            Ok(Body::Made(dir, _)) => self.seen.dirs.push(dir),
            Ok(Body::Session(session)) => self.seen.sessions.push(session),
            Ok(Body::Objects(objects)) => self.seen.objects.extend(objects),
            _ => {}
        }
    }
}

impl Honest {
    fn as_self<R>(&mut self, c: &mut Cluster, act: impl FnOnce(&mut Self, &mut Cluster) -> R) -> R {
        (c.key, c.by) = (HONEST, Credentials::ROOT);
        c.session = self.session;
        act(self, c)
    }

    fn lock() -> Lock {
        let range = LockRange { first: 0, last: LockRange::END };
        let (space, owner) = (LockSpace::Record, LockOwner(1));
        Lock { space, owner, range, kind: LockKind::Exclusive, pid: 7 }
    }

    /// Does one more operation, and checks its result.
    fn work(&mut self, c: &mut Cluster, random: &mut fastrand::Rng) {
        let home = self.home;
        let name = format!("h{}", random.usize(..30));
        match (self.files.get(&name).cloned(), random.usize(..6)) {
            (None, _) => {
                let attr = c.create(home, &name).expect("created");
                self.files.insert(name, (attr.ino, Vec::new()));
            }
            (Some((ino, _)), 0..=2) => {
                self.objects += 1;
                let object = ObjectId(u128::from(self.session.0) << 64 | u128::from(self.objects));
                let file = FileRef { ino, at: FileAt::Name(home, c.name(&name)) };
                let range = ObjectRange {
                    object,
                    offset: 0,
                    len: 10,
                    object_len: 10,
                    store: 0,
                    key: 0,
                    codec: 0,
                };
                let objects = &mut self.files.get_mut(&name).unwrap().1;
                let offset = 10 * objects.len() as u64;
                objects.push(object);
                let pieces = vec![Piece { offset, payload: Payload::Object(range) }];
                let op = Op::WriteData { file, base: None, pieces, mtime: None, kill: None };
                assert!(
                    matches!(c.on_owner(&op), Ok(Body::Attr(attr)) if attr.size == offset + 10)
                );
            }
            (Some((ino, _)), 3) if self.locked != Some(ino) => {
                c.unlink(home, &name).expect("removed");
                self.files.remove(&name);
            }
            (Some((ino, _)), 4) if self.locked.is_none() => {
                let locked = c.on_owner(&Op::Lock(ino, Self::lock()));
                assert!(matches!(locked, Ok(Body::Locked(_))), "{locked:?}");
                self.locked = Some(ino);
            }
            (Some(_), _) => {
                let to = format!("h{}", random.usize(..30));
                let replaced = self.files.get(&to).map(|(ino, _)| *ino);
                if to != name && (replaced.is_none() || replaced != self.locked) {
                    c.rename(home, &name, home, &to).expect("renamed");
                    let file = self.files.remove(&name).unwrap();
                    self.files.insert(to, file);
                }
            }
        }
        // The honest client can renew its lease.
        assert!(matches!(c.run(ShardIndex(0), Op::Renew(self.session)), Ok(Body::Lease(_))));
    }

    /// Checks that all files are as the honest client left them, and that none of their objects is
    /// garbage.
    fn check(&mut self, c: &mut Cluster) {
        let home = self.home;
        let names: BTreeSet<_> = c.list(home).into_iter().collect();
        assert_eq!(names, self.files.keys().cloned().collect());
        let mut all = BTreeSet::new();
        for (name, (ino, objects)) in &self.files {
            let file = FileRef { ino: *ino, at: FileAt::Name(home, c.name(name)) };
            let read = Op::ReadData { file, offset: 0, len: u64::MAX };
            let Ok(Body::Layout(Layout { slices, attr, .. })) = c.on_owner(&read) else {
                panic!("{name} cannot be read")
            };
            let there: Vec<_> = slices.iter().map(|slice| slice.range.object).collect();
            assert_eq!((there, attr.uid, attr.nlink), (objects.clone(), 0, 1), "{name}");
            all.extend(objects.iter().copied());
        }
        for shard in (0..SHARDS).map(ShardIndex) {
            let Ok(Body::Objects(garbage)) = c.run(shard, Op::Garbage(shard, 4096)) else {
                panic!()
            };
            assert!(garbage.iter().all(|object| !all.contains(object)), "in use, and garbage");
        }
        if let Some(ino) = self.locked {
            // No other session has got the lock, and the honest session still has it.
            let other = Lock { owner: LockOwner(2), ..Self::lock() };
            let held = c.on_owner(&Op::TestLock(ino, other));
            let Ok(Body::Lock(Some(holder))) = held else { panic!("{held:?}") };
            assert_eq!(holder.session, self.session);
        }
    }
}

/// Runs `steps` steps of the honest client, or until the liar stops. Returns how often the liar was
/// served, and the shards.
fn run(choices: Choices, seed: u64, steps: usize) -> (usize, Cluster) {
    let mut c = Cluster::new(SHARDS, 12);
    let home = c.mkdir(ROOT, "home").unwrap();
    let shared = c.mkdir(ROOT, "shared").unwrap();
    for (dir, mode) in [(home, 0o700), (shared, 0o777)] {
        let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
        c.done(&Op::DirSetAttr(dir, set)).unwrap();
    }
    let mut begin = |key| {
        c.key = key;
        c.begin_session(Op::OpenSession)
    };
    let [session, mut own] = [HONEST, LIAR].map(&mut begin);
    let mut honest = Honest { session, home, files: BTreeMap::new(), objects: 0, locked: None };
    let seen =
        Seen { sessions: vec![session, own], dirs: vec![ROOT, home, shared], ..Seen::default() };
    let improper = [0; Improper::ALL.len()];
    let mut liar = Liar { choices, seen, sequence: 1, tags: Vec::new(), done: 0, improper };
    let mut random = fastrand::Rng::with_seed(seed ^ 0x5DEE_CE66);
    for step in 0..steps {
        if liar.choices.is_over() {
            break;
        }
        for _ in 0..random.usize(..LIES_BETWEEN) {
            liar.lie(&mut c, own);
        }
        honest.as_self(&mut c, |honest, c| honest.work(c, &mut random));
        if step % 20 == 0 {
            liar.hear_of(&honest, c.last_id);
            honest.as_self(&mut c, Honest::check);
        }
        // The liar may have ended its own session.
        if step % 5 == 0 && c.shard(ShardIndex(0)).session_keys().all(|it| it != (own, LIAR)) {
            (c.key, c.by) = (LIAR, Credentials::ROOT);
            c.session = SessionId(0);
            if let Ok(Body::Session(session)) = c.run(ShardIndex(0), Op::OpenSession) {
                own = session;
                liar.seen.sessions.push(session);
            }
        }
    }
    c.settle();
    liar.check(&mut c);
    honest.as_self(&mut c, Honest::check);
    (liar.done, c)
}

/// Runs the liar by a fuzzer's bytes.
pub fn by_bytes(bytes: &[u8]) {
    run(Choices::Bytes(Vec::from(bytes).into_iter()), 1, usize::MAX);
}

#[test]
fn a_liar_harms_no_other_client() {
    let steps = 3_000;
    for seed in 1..=4 {
        let (done, c) = run(Choices::Random(fastrand::Rng::with_seed(seed)), seed, steps);
        assert!(done * 20 > steps, "{done} of {steps}: it is served, where it may");
        let counters = c.counters();
        let sum = |of: fn(&pando_core::Counters) -> u64| counters.iter().map(of).sum::<u64>();
        assert!(sum(|n| n.foreign_sessions) > 0, "it has named the other's session");
        for kind in &Improper::ALL[..5] {
            let count: u64 = counters.iter().map(|n| n.improper[*kind as usize]).sum();
            assert!(count > 0, "each kind of lie was told, {} too", kind.name());
        }
    }
}

/// Inputs of the fuzzer's target `shard`, with those that once failed.
#[test]
fn a_liar_by_the_fuzzers_bytes_harms_no_other_client() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/shard");
    let files = std::fs::read_dir(corpus).unwrap().map(|file| file.unwrap().path());
    let count = files.map(|file| by_bytes(&std::fs::read(file).unwrap())).count();
    assert!(count > 0, "nothing is in {corpus}");
}
