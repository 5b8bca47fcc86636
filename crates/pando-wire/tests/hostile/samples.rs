//! A message of each kind, with each operation, answer, and peer message.

use pando_placement::{ClusterMap, Secrets};
use pando_types::hold::Holding;
use pando_types::lend::{Amendment, Birth, Born, Inos, LentPage, LentRow, Loan, Part};
use pando_types::op::{
    FileAt, FileRef, Head, NewNode, ObjectId, ObjectRange, Op, Payload, Piece, Place, RenameFlags,
    Request, RequestId, Target, XattrMode,
};
use pando_types::peer::{
    Arrival, Behalf, Change, Claim, EntryRows, EntryValue, Floor, HashSlotArrival, Inherit, Inode,
    InodeRows, Peer, PeerMessage, Prepare, RowChange, Seen, SessionAsk, SessionEvent, SessionOpens,
    SessionTable, SessionsTold, Tally, Vote,
};
use pando_types::reply::{
    Access, Body, Delta, DirAttr, Found, HashSlotNews, Improper, Inspected, Layout, Listed,
    Refusal, Reply, Slice, SplitHistory, Spread,
};
use pando_types::watch::{Settled, Watching};
use pando_types::{
    Attr, Credentials, DirId, DirRef, Epoch, Errno, FileKind, Glimpse, HashSlot, Ino, KeyId, Kill,
    Lock, LockHolder, LockKind, LockOwner, LockRange, LockSpace, Lsn, Name, News, Order,
    PartitionIndex, Radix, Search, SessionId, SetAttr, ShardIndex, TimeSet, Timestamp, Trail,
    TxnId,
};
use pando_wire::{
    Ask, Census, Challenge, Group, Hello, Hosting, Message, MoveAsk, MoveStage, MoveToken,
    MoveTold, Moving, Refused, Role, Told, VolumeFacts, Welcome,
};

const SHARD: ShardIndex = ShardIndex(3);
const DIR: DirRef = DirRef { id: DirId([7; 16]), ino: Ino(1 << 40) };
const TIME: Timestamp = Timestamp { seconds: 1_700_000_000, nanos: 7 };
const OBJECT: ObjectRange = ObjectRange {
    object: ObjectId(1 << 90),
    offset: 4096,
    len: 100,
    object_len: 9000,
    store: 1,
    key: 0,
    codec: 0,
};
const LOCK: Lock = Lock {
    space: LockSpace::Record,
    owner: LockOwner(1 << 50),
    range: LockRange { first: 1 << 30, last: LockRange::END },
    kind: LockKind::Exclusive,
    pid: 70_000,
};
const HASH_SLOT: HashSlotNews = HashSlotNews { hash_slot: HashSlot(300), version: 2, owner: SHARD };
const TALLY: Tally = Tally { entries: 5, subdirs: 1, inodes: 4, bytes: 1 << 33 };

/// All samples.
pub fn all() -> Vec<Message> {
    let mut all: Vec<_> = ops().into_iter().map(request).collect();
    all.extend(bodies().into_iter().map(|body| reply(Ok(body))));
    all.extend(refusals().into_iter().map(|refusal| reply(Err(refusal))));
    all.extend(says().into_iter().map(peer));
    all.extend(beginnings());
    all.extend(asks().into_iter().map(Message::Ask));
    all.extend(tolds().into_iter().map(Message::Told));
    all
}

fn name() -> Name {
    Name::new(b"a name").unwrap()
}

fn attr() -> Attr {
    Attr {
        ino: Ino(77),
        kind: FileKind::Regular,
        mode: 0o644,
        nlink: 1,
        uid: 1000,
        gid: 1000,
        rdev: 0,
        size: 12_345,
        atime: TIME,
        mtime: TIME,
        ctime: TIME,
        btime: TIME,
        data_version: 9,
        change: 11,
        project: 0,
    }
}

fn set() -> SetAttr {
    SetAttr {
        mode: Some(0o600),
        uid: Some(1),
        gid: None,
        size: Some(1 << 40),
        size_by_handle: true,
        atime: Some(TimeSet::Now),
        mtime: Some(TimeSet::To(TIME)),
        kill: Some(Kill::UnlessOf(1000)),
    }
}

fn request(op: Op) -> Message {
    Message::Request(Request {
        head: Head {
            id: RequestId { session: SessionId(5), slot: 7, sequence: 300 },
            trace: u64::MAX / 3,
            heard: 1,
            clock: 1 << 60,
            version: 40,
            borrows: true,
            under: None,
            entry: None,
        },
        credentials: Credentials::new(1000, 1000, vec![4, 24, 1000]),
        op,
        trail: Some(Trail { version: 40, dirs: vec![Ino(1), Ino(2), Ino(3)] }),
    })
}

fn ops() -> Vec<Op> {
    let file = || FileRef { ino: Ino(77), at: FileAt::Name(DIR, name()) };
    let linked = || FileRef { ino: Ino(78), at: FileAt::Link };
    let (of_file, of_dir) = (|| Target::File(file()), || Target::Dir(DIR));
    let node =
        NewNode { kind: FileKind::Symlink, mode: 0o777, rdev: 0, symlink: b"to/there".to_vec() };
    let pieces = vec![
        Piece { offset: 0, payload: Payload::Inline(vec![1, 2, 3]) },
        Piece { offset: 9, payload: Payload::Object(OBJECT) },
        Piece { offset: 200, payload: Payload::Hole(77) },
    ];
    let flags = RenameFlags { no_replace: true, exchange: false };
    vec![
        Op::Lookup(DIR, name()),
        Op::Create { dir: DIR, name: name(), node, exclusive: true, open: true },
        Op::Mkdir(DIR, name(), 0o755),
        Op::Unlink(DIR, name()),
        Op::Rmdir(DIR, name()),
        Op::Link(linked(), DIR, name()),
        Op::Rename { from: DIR, name: name(), to: DIR, new_name: name(), flags },
        Op::GetAttr(file()),
        Op::SetAttr(file(), set()),
        Op::Readlink(file()),
        Op::Open { file: linked(), access: 6, truncate: true, kill: Some(Kill::Programs) },
        Op::Release(file()),
        Op::ReleaseAll(ShardIndex(1), vec![file(), file()]),
        Op::Access(file(), 4),
        Op::ReadData { file: file(), offset: 1 << 30, len: 1 << 20 },
        Op::WriteData {
            file: file(),
            base: Some(8),
            pieces,
            mtime: Some(TIME),
            kill: Some(Kill::All),
        },
        Op::GetXattr(of_file(), b"user.a".to_vec()),
        Op::ListXattr(of_dir()),
        Op::SetXattr {
            target: of_dir(),
            name: b"user.a".to_vec(),
            value: b"value".to_vec(),
            mode: XattrMode::Replace,
        },
        Op::RemoveXattr(of_file(), b"user.a".to_vec()),
        Op::DirGetAttr(DIR),
        Op::PartitionStat(DIR, PartitionIndex(5)),
        Op::DirSetAttr(DIR, set()),
        Op::DirAccess(DIR, 5),
        Op::ReadDir { dir: DIR, from: Order(1 << 50), limit: 100 },
        Op::ReadFiles { dir: DIR, from: Order(1 << 50), bytes: 100 },
        Op::BorrowToRead(SessionId(5), 1 << 40, Part { dir: DIR, partition: PartitionIndex(1) }),
        Op::Parent(DIR),
        Op::StatFs(SHARD),
        Op::Sync(SHARD),
        Op::OpenSession,
        Op::OpenLocalSession,
        Op::EndSession(SessionId(5)),
        Op::Garbage(SHARD, 100),
        Op::GarbageDone(SHARD, vec![ObjectId(1), ObjectId(1 << 100)]),
        Op::InspectDir(SHARD, DIR.id),
        Op::HandOver(SHARD, HashSlot(9), ShardIndex(4)),
        Op::AddShard(SHARD),
        Op::Renew(SessionId(5)),
        Op::Hold(SessionId(5), Holding::Await),
        Op::OpenName {
            dir: DIR,
            name: name(),
            access: 4,
            truncate: false,
            kill: Some(Kill::UnlessOf(7)),
        },
        Op::Glimpse(SHARD, vec![(DIR.id, name()), (DIR.id, name())]),
        Op::Lock(Ino(77), LOCK),
        Op::Unlock(Ino(77), LOCK.space, LOCK.owner, LockRange::ALL),
        Op::TestLock(Ino(77), LOCK),
        Op::LockOf(of_file(), LOCK),
        Op::LockOf(of_dir(), LOCK),
        Op::SyncFile(file()),
    ]
}

fn reply(result: Result<Body, Refusal>) -> Message {
    Message::Reply(Reply {
        id: RequestId { session: SessionId(5), slot: 7, sequence: 300 },
        trace: u64::MAX / 3,
        shard: SHARD,
        epoch: Epoch(9),
        durable: Lsn(1 << 40),
        seen: Lsn(1 << 41),
        version: 40,
        clock: 1 << 60,
        result,
        news: Some(News { since: 38, version: 40, changed: vec![(39, Ino(5)), (40, Ino(6))] }),
        amendment: Some(Box::new(Amendment {
            grant: TxnId { shard: SHARD, number: 12 },
            rows: vec![LentRow(vec![1; 20], vec![2; 40]), LentRow(vec![3; 20], Vec::new())],
        })),
    })
}

fn history() -> SplitHistory {
    SplitHistory {
        of: Some(SHARD),
        spread: Some(Spread { base: SHARD, servers: 4, per_server: 2 }),
        leaves: vec![(PartitionIndex(0), Radix(1)), (PartitionIndex(1), Radix(1))],
    }
}

fn delta() -> Delta {
    Delta {
        partition: PartitionIndex(1),
        radix: Radix(1),
        shard: SHARD,
        entries: 4000,
        subdirs: 7,
        change: 9000,
        mtime: TIME,
        generation: 2,
    }
}

fn dir_attr() -> DirAttr {
    DirAttr { base: attr(), generation: 2, deltas: vec![delta(), delta()], history: history() }
}

const ACCESS: Access = Access { dir: DIR, mode: 0o755, uid: 0, gid: 0 };
const SLICE: Slice = Slice { offset: 4096, range: OBJECT };

fn bodies() -> Vec<Body> {
    let listed = |found| Listed { order: Order(1 << 50), name: name(), found };
    let search = Search::new(0o755, 0, 0);
    vec![
        Body::Done,
        Body::Found(Found::File(attr())),
        Body::Attr(attr()),
        Body::Created(attr(), true, Radix(3)),
        Body::Left(vec![0, 300]),
        Body::Lock(None),
        Body::Locked(300),
        Body::Lock(Some(LockHolder { session: SessionId(5), lock: LOCK })),
        Body::Linked(Ino(78), FileKind::Fifo),
        Body::Dir(dir_attr()),
        Body::Made(DIR, dir_attr()),
        Body::Born(DIR, dir_attr(), Box::new(born())),
        Body::Moved(Ino(77), FileKind::Directory, false),
        Body::Delta(delta()),
        Body::Page(
            vec![
                listed(Found::File(attr())),
                listed(Found::Linked(Ino(78), FileKind::Regular)),
                listed(Found::Dir(ACCESS)),
            ],
            Some(Order(7)),
        ),
        Body::Bytes(b"some bytes".to_vec()),
        Body::Names(vec![b"user.a".to_vec(), b"user.b".to_vec()]),
        Body::Layout(Layout {
            attr: attr(),
            is_inline: false,
            inline: b"inline".to_vec(),
            slices: vec![SLICE, SLICE],
            until: 1 << 40,
        }),
        Body::Parent(DIR, Some(name())),
        Body::StatFs { inodes: 1 << 30, bytes: 1 << 50 },
        Body::Session(SessionId(5)),
        Body::Objects(vec![ObjectId(1), ObjectId(2)]),
        Body::Inspected(vec![Inspected { delta: delta(), state: "owned".to_owned() }]),
        Body::Lease(60_000_000_000),
        Body::Entry(Found::Dir(ACCESS), search),
        Body::Glimpses(vec![
            Glimpse::Nothing,
            Glimpse::AskHome,
            Glimpse::Dir { dir: Ino(5), search, access: ACCESS },
        ]),
    ]
}

fn refusals() -> Vec<Refusal> {
    vec![
        Refusal::Errno(Errno::ENOENT),
        Refusal::Redirect(history()),
        Refusal::AskHome,
        Refusal::NotUnderName,
        Refusal::DataChanged,
        Refusal::Answered,
        Refusal::NoSession,
        Refusal::Stale,
        Refusal::HashSlot(HASH_SLOT),
        Refusal::Improper(Improper::ForeignObject),
    ]
}

fn peer(message: PeerMessage) -> Message {
    Message::Peer(Peer {
        from: SHARD,
        trace: u64::MAX / 3,
        clock: 1 << 60,
        behalf: Behalf { session: SessionId(5), heard: 300, borrows: true, under: None },
        txn: TxnId { shard: SHARD, number: 1 << 20 },
        step: 3,
        floor: Floor { below: 1 << 19, but: vec![3, 1 << 18] },
        message,
    })
}

fn rows() -> Vec<RowChange> {
    vec![
        RowChange::Put(b"key".to_vec(), b"value".to_vec()),
        RowChange::Delete(b"key".to_vec()),
        RowChange::DeleteRange(b"a".to_vec(), b"z".to_vec()),
    ]
}

fn inode_rows() -> InodeRows {
    InodeRows {
        xattrs: vec![(b"user.a".to_vec(), b"value".to_vec())],
        inline: b"inline".to_vec(),
        slices: vec![SLICE],
        opens: vec![(SessionId(5), 2)],
    }
}

fn inode() -> Inode {
    Inode { attr: attr(), is_inline: true, has_xattrs: true }
}

fn entry() -> EntryRows {
    EntryRows { value: EntryValue::File(inode()), inode: inode_rows() }
}

fn session_table() -> SessionTable {
    let living = vec![(SessionId(5), KeyId::OWNER), (SessionId(6), KeyId(1 << 60))];
    SessionTable { position: 300, last: 6, living }
}

fn says() -> Vec<PeerMessage> {
    let slots = || vec![(b"slot".to_vec(), b"outcome".to_vec())];
    let place = || Place::Order(DIR, Order(1 << 50));
    let partition = PartitionIndex(1);
    let prepares = vec![
        Prepare::Graph(Claim::Move { moved: DIR, above: vec![DIR, DIR], since: 8 }),
        Prepare::Graph(Claim::Alone),
        Prepare::Name { dir: DIR, name: name(), credentials: Some(Credentials::ROOT) },
        Prepare::Look(DIR),
        Prepare::Home(DIR),
        Prepare::Removal(DIR),
        Prepare::NewHome(DIR.id),
        Prepare::Partition { dir: DIR, partition, seal: true },
        Prepare::Link { ino: Ino(78), new: true },
        Prepare::Arrive(Arrival {
            dir: DIR,
            header: b"header".to_vec(),
            given_back: false,
            pages: 9,
            rows: rows(),
            tally: TALLY,
            opens: vec![SessionOpens {
                ino: Ino(77),
                at: 1 << 50,
                session: SessionId(5),
                count: 1,
            }],
            slots: slots(),
            heard: 300,
        }),
        Prepare::Invalidate { dirs: vec![Ino(5), Ino(6)], graph: Some(2) },
        Prepare::TakeHashSlot(HashSlotArrival {
            hash_slot: HASH_SLOT,
            pages: 9,
            rows: rows(),
            tally: TALLY,
            opens: vec![SessionOpens {
                ino: Ino(77),
                at: Some((DIR.id, 1 << 50)),
                session: SessionId(5),
                count: 1,
            }],
            slots: slots(),
            heard: 300,
        }),
        Prepare::Join,
        Prepare::LookFile { dir: DIR, name: name(), ino: Ino(77) },
    ];
    let mut says: Vec<_> =
        prepares.into_iter().map(|prepare| PeerMessage::Prepare(place(), prepare)).collect();
    let ask = SessionAsk { session: SessionId(9), epoch: Epoch(3), number: 300 };
    let events =
        vec![SessionEvent::Begins(SessionId(5), KeyId(7)), SessionEvent::Ends(SessionId(5))];
    for told in [SessionsTold::Events { since: 298, events }, SessionsTold::All(session_table())] {
        says.push(PeerMessage::Sessions {
            told,
            last: 6,
            known: 299,
            freed: 300,
            answers: Some(ask),
        });
    }
    says.push(PeerMessage::SessionsHeard { position: 300, known: 299, freed: 300 });
    says.push(PeerMessage::AskSessions { position: 300, about: Some(ask) });
    says.push(PeerMessage::Prepare(Place::Link(Ino(78)), Prepare::Home(DIR)));
    says.push(PeerMessage::Prepare(Place::Shard(SHARD), Prepare::Join));
    says.extend(votes().into_iter().map(PeerMessage::Voted));
    says.extend([
        PeerMessage::Finish(None),
        PeerMessage::Finish(Some(changes())),
        PeerMessage::Finished,
        PeerMessage::Ask,
        PeerMessage::Page {
            dir: DIR,
            partition,
            given_back: Some(7),
            radix: Radix(1),
            number: 0,
            synced: true,
            rows: rows(),
        },
        PeerMessage::PageDone(9),
        PeerMessage::HashSlotPage { hash_slot: HASH_SLOT, number: 1, synced: false, rows: rows() },
        PeerMessage::Elsewhere(HASH_SLOT),
        PeerMessage::Versions {
            since: 38,
            version: 40,
            changed: vec![(39, Ino(5)), (40, Ino(6))],
            answers: Some(Epoch(9)),
        },
        PeerMessage::VersionsKnown(40),
        PeerMessage::AskVersions(Epoch(9)),
        PeerMessage::Shrunk { dir: DIR, partition },
    ]);
    says
}

fn votes() -> Vec<Vote> {
    let inherit = Inherit { mode: 0o2755, uid: 0, gid: 4, project: 1 };
    let seen = vec![
        Seen::Nothing,
        Seen::Name { entry: Some(entry()), inherit },
        Seen::Home {
            parent: DIR,
            name: Some(name()),
            base: attr(),
            generation: 2,
            history: history(),
        },
        Seen::Partition(history(), 7),
        Seen::Link(attr(), vec![(SessionId(5), 1)]),
        Seen::Arrived(TALLY),
        Seen::Version(40),
        Seen::Position(8),
        Seen::Lends(birth().inos),
    ];
    let mut votes: Vec<_> = seen.into_iter().map(Vote::Yes).collect();
    votes.extend([
        Vote::No(Errno::EEXIST),
        Vote::Busy,
        Vote::Redirect(history()),
        Vote::AskHome,
        Vote::HashSlot(HASH_SLOT),
        Vote::Overtaken(8),
    ]);
    votes
}

fn changes() -> Vec<Change> {
    let (dir, partition, at) = (DIR, PartitionIndex(1), TIME);
    let linked = EntryRows {
        value: EntryValue::Linked(Ino(78), FileKind::Regular),
        inode: InodeRows::default(),
    };
    vec![
        Change::RemoveEntry { dir, name: name(), destroy: true, at },
        Change::PutEntry { dir, name: name(), entry: entry(), destroy: false, at },
        Change::PutEntry { dir, name: name(), entry: linked, destroy: false, at },
        Change::SetAccess { dir, name: name(), access: ACCESS },
        Change::NewHome { dir, base: attr(), parent: DIR, name: name() },
        Change::SetParent { dir, parent: DIR, name: name(), at },
        Change::SetBase { dir, base: attr(), generation: 3 },
        Change::SetHeader { dir, partition, inherit: Inherit::default(), generation: 3 },
        Change::DropHome { dir, tombstone: true },
        Change::DropPartition { dir, partition },
        Change::Bury(DIR),
        Change::PutLink { inode: inode(), rows: inode_rows(), names: vec![(DIR, name())] },
        Change::AddName { ino: Ino(78), dir, name: name(), at },
        Change::DropName { ino: Ino(78), dir, name: name(), at },
        Change::Own { dir, partition },
        Change::OwnHashSlot(HASH_SLOT),
        Change::Join(session_table()),
        Change::NewLentHome { dir, base: attr(), parent: DIR, name: name(), birth: birth() },
    ]
}

fn birth() -> Birth {
    let grant = TxnId { shard: SHARD, number: 300 };
    let inos = Inos { first: Ino(78), end: Ino(300) };
    Birth { grant, session: SessionId(5), key: KeyId::OWNER, home: SHARD, inos }
}

/// A loan that came with its directory.
fn born() -> Born {
    let Birth { grant, home, inos, .. } = birth();
    let partition = PartitionIndex(3);
    let loan = Loan { grant, partition, inos: vec![inos], entries_max: 300 };
    let rows = vec![LentRow(vec![1, 2], vec![3]), LentRow(vec![1, 3], Vec::new())];
    Born { home, loan, page: LentPage { rows, next: vec![4], opens: Vec::new() } }
}

fn hosting() -> Hosting {
    let addresses = vec!["unix:/srv/volume/run/server.sock".to_owned(), "10.0.0.1:7400".to_owned()];
    Hosting { shard: SHARD, epoch: Epoch(9), host: [5; 16], addresses }
}

fn beginnings() -> Vec<Message> {
    let hello = |role| Hello::new([1; 16], role, vec![[2; 16]; 2]);
    let of_client = hello(Role::Client(SHARD));
    let refusals = [
        Refused::Version { oldest: 3, newest: 4 },
        Refused::Volume([1; 16]),
        Refused::NotHere(SHARD),
        Refused::Plaintext,
        Refused::NotOwner(1000),
        Refused::Key("why".to_owned()),
        Refused::Full(4096),
        Refused::FullOfKey(512),
        Refused::KeyEnded("why".to_owned()),
        Refused::Malformed("why".to_owned()),
        Refused::Stopping,
        Refused::Features { needed: 2, found: 1 },
    ];
    let mut words = vec![
        Message::Hello(of_client),
        Message::Hello(hello(Role::Peer(SHARD, vec![hosting(), hosting()]))),
        Message::Hello(hello(Role::Tool)),
        Message::Challenge(Challenge { volume: [1; 16], features: 1 }),
        Message::Welcome(Welcome {
            epoch: Epoch(9),
            in_flight: 1024,
            hosts: vec![hosting()],
            revoked: vec![[3; 16]],
        }),
        Message::Revoked(vec![[4; 16], [5; 16]]),
    ];
    words.extend(refusals.map(Message::Refused));
    words
}

fn moving(stage: MoveStage) -> Moving {
    let (from, to) = (vec!["10.0.0.1:7400".to_owned()], vec!["10.0.0.2:7400".to_owned()]);
    Moving { shard: SHARD, from, to, stage, copied: 1 << 30, total: 1 << 31 }
}

fn asks() -> Vec<Ask> {
    let token = MoveToken([4; 16]);
    let steps = [
        MoveAsk::Follow(None),
        MoveAsk::Follow(Some(Lsn(9))),
        MoveAsk::Freeze(Lsn(9)),
        MoveAsk::GiveAway { last: (Epoch(9), Lsn(9)), to: hosting() },
        MoveAsk::Moved(hosting()),
        MoveAsk::SoFar(moving(MoveStage::Copying)),
    ];
    let mut asks = vec![
        Ask::Volume,
        Ask::Hosts,
        Ask::Status,
        Ask::Scan { shard: SHARD, from: b"key".to_vec(), bytes: 1 << 20 },
        Ask::Stop,
        Ask::Superblock,
        Ask::Census(SHARD, b"key".to_vec()),
        Ask::Moves,
        Ask::Adopt(SHARD, 1 << 30),
        Ask::Found(SHARD),
        Ask::Watch(SHARD, 7),
        Ask::Settle(SHARD, 7, ObjectId(1 << 100)),
    ];
    asks.extend(steps.map(|step| Ask::Move(SHARD, token, step)));
    asks
}

fn tolds() -> Vec<Told> {
    let group = || Group { now: 1 << 60, changes: rows() };
    vec![
        Told::Volume(Box::new(VolumeFacts {
            id: [1; 16],
            secrets: Secrets { dir: [7; 32], name: [9; 16] },
            map: ClusterMap::new(4),
            objects: "/srv/objects".to_owned(),
            host: [5; 16],
            hosts: vec![hosting()],
        })),
        Told::Hosts(vec![hosting(), hosting()]),
        Told::Json("{}".to_owned()),
        Told::Rows { rows: vec![(b"key".to_vec(), b"value".to_vec())], is_last: false },
        Told::Stopping,
        Told::Failed("why".to_owned()),
        Told::Superblock { file: vec![7; 100], objects: "/srv/objects".to_owned() },
        Told::Census(Census { partitions: 5, entries: 4000, next: Some(b"key".to_vec()) }),
        Told::Moves(vec![
            moving(MoveStage::Copying),
            moving(MoveStage::Exchanging),
            moving(MoveStage::Asking),
            moving(MoveStage::Opening),
            moving(MoveStage::Done),
            moving(MoveStage::Failed("why".to_owned())),
        ]),
        Told::Adopting,
        Told::Move(MoveTold::Changes {
            groups: vec![group(), group()],
            upto: Lsn(9),
            last: Lsn(9),
            epoch: Epoch(9),
            clock: 1 << 60,
            bytes: 1 << 30,
        }),
        Told::Move(MoveTold::Given),
        Told::Move(MoveTold::Done),
        Told::Move(MoveTold::Over("why".to_owned())),
        Told::Founded,
        Told::Watching(Watching { sessions: vec![SessionId(7)], heard: 300, shards: 4 }),
        Told::Settled(Settled::Forgotten),
        Told::Settled(Settled::TooMuch),
        Told::Settled(Settled::NotYet),
        Told::Settled(Settled::Seen { objects: vec![ObjectId(9)], is_last: true, shards: 4 }),
        Told::Gap { keys: b"a".to_vec()..b"b".to_vec(), why: "why".to_owned() },
    ]
}
