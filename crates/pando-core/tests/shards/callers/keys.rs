//! Clients with two keys: neither can use the other's sessions, locks or objects.

use crate::support::{Cluster, LEASE, dir_at};
use pando_core::admission::{Asks, SESSIONS_MAX, asks};
use pando_core::keys::{self, Table};
use pando_core::record::{Record, SessionRecord};
use pando_types::hold::Holding;
use pando_types::lend::{LentRows, Part};
use pando_types::op::{
    FileAt, FileRef, GARBAGE_MAX, GLIMPSES_MAX, LAYOUT_SLICES_MAX, MAX_SLOTS, NewNode, ObjectId,
    ObjectRange, Op, Payload, Piece, RenameFlags, RequestId, Target, XattrMode,
};
use pando_types::reply::{Body, Improper, Layout, Refusal};
use pando_types::{
    Credentials, DirId, DirRef, Errno, FileKind, HashSlot, Ino, Judge, KeyId, Lock, LockKind,
    LockOwner, LockRange, LockSpace, Name, Order, PartitionIndex, Powers, SessionId, SetAttr,
    ShardIndex, TimeSet, Timestamp, TxnId,
};

const ROOT: DirRef = DirRef::ROOT;
const HERE: ShardIndex = ShardIndex(0);
const HONEST: KeyId = KeyId(5);
const LIAR: KeyId = KeyId(6);
const NO_SESSION: Result<Body, Refusal> = Err(Refusal::NoSession);

/// A cluster, the honest client's session, and the liar's. Requests are the liar's.
fn two_keys(shards: u16) -> (Cluster, SessionId, SessionId) {
    let mut c = Cluster::new(shards, 100);
    let [honest, liar] = [HONEST, LIAR].map(|key| {
        c.key = key;
        c.begin_session(Op::OpenSession)
    });
    (c, honest, liar)
}

fn as_honest<R>(c: &mut Cluster, session: SessionId, act: impl FnOnce(&mut Cluster) -> R) -> R {
    let (key, before) = (c.key, c.session);
    c.key = HONEST;
    c.session = session;
    let result = act(c);
    c.key = key;
    c.session = before;
    result
}

fn lock() -> Lock {
    let range = LockRange { first: 0, last: LockRange::END };
    let (space, owner) = (LockSpace::Record, LockOwner(1));
    Lock { space, owner, range, kind: LockKind::Exclusive, pid: 7 }
}

fn range(object: ObjectId) -> ObjectRange {
    ObjectRange { object, offset: 0, len: 10, object_len: 10, store: 0, key: 0, codec: 0 }
}

fn object(session: SessionId, number: u64) -> ObjectId {
    ObjectId(u128::from(session.0) << 64 | u128::from(number))
}

fn write(c: &Cluster, ino: Ino, name: &str, offset: u64, payload: Payload) -> Op {
    let file = FileRef { ino, at: FileAt::Name(ROOT, c.name(name)) };
    Op::WriteData {
        file,
        base: None,
        pieces: vec![Piece { offset, payload }],
        mtime: None,
        kill: None,
    }
}

/// One of each operation. An operation that is missing in `number` does not compile.
fn all_ops() -> Vec<Op> {
    let name = || Name::new(b"a").unwrap();
    let file = || FileRef { ino: Ino(7), at: FileAt::Link };
    let node = NewNode { kind: FileKind::Regular, mode: 0o644, rdev: 0, symlink: Vec::new() };
    let flags = RenameFlags::default();
    let value = b"v".to_vec();
    let grant = TxnId { shard: HERE, number: 1 };
    vec![
        Op::Lookup(ROOT, name()),
        Op::Create { dir: ROOT, name: name(), node, exclusive: false, open: true },
        Op::Mkdir(ROOT, name(), 0o755),
        Op::Unlink(ROOT, name()),
        Op::Rmdir(ROOT, name()),
        Op::Link(file(), ROOT, name()),
        Op::Rename { from: ROOT, name: name(), to: ROOT, new_name: name(), flags },
        Op::GetAttr(file()),
        Op::SetAttr(file(), SetAttr::default()),
        Op::Readlink(file()),
        Op::Open { file: file(), access: 4, truncate: false, kill: None },
        Op::Release(file()),
        Op::ReleaseAll(HERE, vec![file()]),
        Op::Access(file(), 4),
        Op::ReadData { file: file(), offset: 0, len: 1 },
        Op::WriteData { file: file(), base: None, pieces: Vec::new(), mtime: None, kill: None },
        Op::GetXattr(Target::File(file()), b"user.a".to_vec()),
        Op::ListXattr(Target::Dir(ROOT)),
        Op::SetXattr {
            target: Target::Dir(ROOT),
            name: b"user.a".to_vec(),
            value,
            mode: XattrMode::Any,
        },
        Op::RemoveXattr(Target::Dir(ROOT), b"user.a".to_vec()),
        Op::DirGetAttr(ROOT),
        Op::PartitionStat(ROOT, PartitionIndex(0)),
        Op::DirSetAttr(ROOT, SetAttr::default()),
        Op::DirAccess(ROOT, 4),
        Op::ReadDir { dir: ROOT, from: Order(0), limit: 1 },
        Op::Parent(ROOT),
        Op::StatFs(HERE),
        Op::Sync(HERE),
        Op::OpenSession,
        Op::EndSession(SessionId(1)),
        Op::Garbage(HERE, 1),
        Op::GarbageDone(HERE, Vec::new()),
        Op::InspectDir(HERE, DirId::ROOT),
        Op::HandOver(HERE, HashSlot(1), ShardIndex(1)),
        Op::AddShard(ShardIndex(1)),
        Op::Renew(SessionId(1)),
        Op::Hold(SessionId(1), Holding::Ask(0)),
        Op::OpenName { dir: ROOT, name: name(), access: 4, truncate: false, kill: None },
        Op::Glimpse(HERE, vec![(DirId::ROOT, name())]),
        Op::Lock(Ino(7), lock()),
        Op::Unlock(Ino(7), LockSpace::Record, LockOwner(1), lock().range),
        Op::TestLock(Ino(7), lock()),
        Op::OpenLocalSession,
        Op::LockOf(Target::Dir(ROOT), lock()),
        Op::SyncFile(file()),
        Op::Borrow(SessionId(1), 1, ROOT, Order(0)),
        Op::LentRows(HERE, grant, LentRows::Part(Vec::new())),
        Op::Attend { shard: HERE, session: SessionId(1), recalled: Vec::new(), over: Vec::new() },
        Op::Stream { shard: HERE, elements: Vec::new(), synced: false },
        Op::ReadFiles { dir: ROOT, from: Order(0), bytes: 1 },
        Op::BorrowToRead(SessionId(1), 1, Part { dir: ROOT, partition: PartitionIndex(0) }),
    ]
}

/// Index of an operation in [`all_ops`].
fn number(op: &Op) -> usize {
    match op {
        Op::Lookup(..) => 0,
        Op::Create { .. } => 1,
        Op::Mkdir(..) => 2,
        Op::Unlink(..) => 3,
        Op::Rmdir(..) => 4,
        Op::Link(..) => 5,
        Op::Rename { .. } => 6,
        Op::GetAttr(..) => 7,
        Op::SetAttr(..) => 8,
        Op::Readlink(..) => 9,
        Op::Open { .. } => 10,
        Op::Release(..) => 11,
        Op::ReleaseAll(..) => 12,
        Op::Access(..) => 13,
        Op::ReadData { .. } => 14,
        Op::WriteData { .. } => 15,
        Op::GetXattr(..) => 16,
        Op::ListXattr(..) => 17,
        Op::SetXattr { .. } => 18,
        Op::RemoveXattr(..) => 19,
        Op::DirGetAttr(..) => 20,
        Op::PartitionStat(..) => 21,
        Op::DirSetAttr(..) => 22,
        Op::DirAccess(..) => 23,
        Op::ReadDir { .. } => 24,
        Op::Parent(..) => 25,
        Op::StatFs(..) => 26,
        Op::Sync(..) => 27,
        Op::OpenSession => 28,
        Op::EndSession(..) => 29,
        Op::Garbage(..) => 30,
        Op::GarbageDone(..) => 31,
        Op::InspectDir(..) => 32,
        Op::HandOver(..) => 33,
        Op::AddShard(..) => 34,
        Op::Renew(..) => 35,
        Op::Hold(..) => 36,
        Op::OpenName { .. } => 37,
        Op::Glimpse(..) => 38,
        Op::Lock(..) => 39,
        Op::Unlock(..) => 40,
        Op::TestLock(..) => 41,
        Op::OpenLocalSession => 42,
        Op::LockOf(..) => 43,
        Op::SyncFile(..) => 44,
        Op::Borrow(..) => 45,
        Op::LentRows(..) => 46,
        Op::Attend { .. } => 47,
        Op::Stream { .. } => 48,
        Op::ReadFiles { .. } => 49,
        Op::BorrowToRead(..) => 50,
    }
}

/// A request without session and sequence changes nothing, except that sessions begin. In another
/// key's session no request runs.
#[test]
fn of_each_operation_what_it_needs_is_asked_for() {
    let all = all_ops();
    for (at, op) in all.iter().enumerate() {
        assert_eq!(number(op), at, "{op:?}");
    }
    for op in all {
        let (mut c, honest, _) = two_keys(1);
        let before = c.rows();
        let unnumbered = c.run(HERE, (RequestId::default(), op.clone()));
        let is_session_alone = RequestId { session: c.session, slot: 0, sequence: 0 };
        let half = c.run(HERE, (is_session_alone, op.clone()));
        let (refused, changes) = (Err(Improper::Unnumbered.into()), asks(&op) == Asks::Changes);
        assert_eq!((unnumbered == refused, half == refused), (changes, changes), "{op:?}");
        let begins = asks(&op) == Asks::Begins;
        assert_eq!(c.rows() == before, !begins, "{op:?}");
        let before = c.rows();
        let id = RequestId { session: honest, slot: 1, sequence: 1 };
        let foreign = c.run(HERE, (id, op.clone()));
        let is_owners = matches!(asks(&op), Asks::Owns);
        if is_owners {
            assert_eq!(foreign, Err(Improper::NotOwner.into()), "{op:?}");
        } else {
            assert_eq!(foreign, NO_SESSION, "{op:?}");
        }
        assert_eq!(c.rows(), before, "{op:?}");
    }
}

#[test]
fn another_keys_session_is_not_ended_renewed_or_used() {
    let (mut c, honest, liar) = two_keys(3);
    for op in [Op::EndSession(honest), Op::Renew(honest), Op::Hold(honest, Holding::Wake(1))] {
        assert_eq!(c.run(HERE, op), NO_SESSION);
        assert_eq!(c.counters()[0].foreign_sessions, 1, "on its own");
        c.restart(c.all());
        c.settle();
    }
    // The answer is that for a session that never was.
    assert_eq!(c.run(HERE, Op::EndSession(SessionId(12_345))), NO_SESSION);
    let home = c.home(ROOT);
    let id = RequestId { session: honest, slot: 3, sequence: 9 };
    let (stolen, own) = (c.create_open_op(ROOT, "stolen"), c.create_open_op(ROOT, "own"));
    assert_eq!(c.run(home, (id, stolen)), NO_SESSION);
    // The request has not used up its sequence number.
    as_honest(&mut c, honest, |c| assert!(c.run(home, (id, own.clone())).is_ok()));
    // Nor can the liar get the recorded answer.
    assert_eq!(c.run(home, (id, own.clone())), NO_SESSION);
    as_honest(&mut c, honest, |c| {
        assert!(matches!(c.run(home, (id, own)), Ok(Body::Created(_, true, _))));
        assert_eq!(c.list(ROOT), ["own"]);
        assert!(c.run(HERE, Op::Renew(honest)).is_ok());
        assert_eq!(c.run(HERE, Op::EndSession(honest)), Ok(Body::Done));
    });
    // The volume's owner may end any session.
    c.key = KeyId::OWNER;
    c.session = SessionId(0);
    assert_eq!(c.run(HERE, Op::EndSession(liar)), Ok(Body::Done));
}

/// A request waits for the begin of its session. Another key's request with this identity does not
/// replace it.
#[test]
fn what_waits_keeps_its_place() {
    let (mut c, _, _) = two_keys(3);
    let owner = ShardIndex(2);
    c.by = Credentials::ROOT;
    let (_, dir) = dir_at(&mut c, ROOT, "dir", |home| home == owner);
    c.settle();
    c.key = HONEST;
    c.session = SessionId(0);
    c.silence([owner]);
    let Ok(Body::Session(honest)) = c.run(HERE, Op::OpenSession) else { panic!("it begins") };
    let id = RequestId { session: honest, slot: 4, sequence: 50 };
    let op = c.create_op(dir, "a");
    let tags = [HONEST, LIAR].map(|key| {
        c.key = key;
        c.send(owner, (id, op.clone()))
    });
    assert_eq!((c.answer(tags[0]), c.answer(tags[1])), (None, None), "whose it is is not known");
    c.silence([]);
    c.settle();
    let made = c.answer(tags[0]);
    assert!(matches!(made, Some(Ok(Body::Created(..)))), "{made:?}");
    assert_eq!(c.answer(tags[1]), Some(NO_SESSION));
}

/// A shard that has not heard of a session's begin does not know its key yet.
#[test]
fn a_session_that_begins_is_waited_for_by_each_key_for_itself() {
    let mut c = Cluster::new(3, 100);
    c.key = HONEST;
    c.session = SessionId(0);
    let tag = c.send(HERE, (RequestId::default(), Op::OpenSession));
    let session = loop {
        match c.answer(tag) {
            Some(Ok(Body::Session(session))) => break session,
            Some(other) => panic!("{other:?}"),
            None => assert!(c.step()),
        }
    };
    let late = ShardIndex(2);
    assert!(c.shard(late).session_keys().all(|(of, _)| of != session), "the word is on its way");
    let id = RequestId { session, slot: 4, sequence: 50 };
    let op = Op::ReleaseAll(late, Vec::new());
    let tags = [HONEST, LIAR].map(|key| {
        c.key = key;
        c.send(late, (id, op.clone()))
    });
    assert_eq!(tags.map(|tag| c.answer(tag)), [None, None]);
    c.settle();
    assert_eq!(tags.map(|tag| c.answer(tag)), [Some(Ok(Body::Left(Vec::new()))), Some(NO_SESSION)]);
}

#[test]
fn the_key_of_a_session_is_known_to_all_shards_and_kept() {
    let (mut c, honest, liar) = two_keys(3);
    let check = |c: &Cluster| {
        for shard in c.all() {
            let known: Vec<_> = c.shard(shard).session_keys().collect();
            assert!(
                known.contains(&(honest, HONEST)) && known.contains(&(liar, LIAR)),
                "{known:?}"
            );
        }
    };
    check(&c);
    c.restart(c.all());
    c.settle();
    check(&c);
    // A shard that is added gets the sessions with the decision.
    let new = c.found();
    c.key = KeyId::OWNER;
    c.session = SessionId(0);
    assert_eq!(c.run(HERE, Op::AddShard(new)), Ok(Body::Done));
    c.settle();
    check(&c);
    let row = c.rows()[&(new.0, keys::session(liar))].clone();
    assert_eq!(SessionRecord::decode(&row).unwrap().key, Some(LIAR));
}

#[test]
fn opens_and_locks_are_of_ones_own_session() {
    let (mut c, honest, _) = two_keys(2);
    let attr = as_honest(&mut c, honest, |c| {
        let Ok(Body::Created(attr, ..)) = c.on_owner(&c.create_open_op(ROOT, "a")) else {
            panic!()
        };
        let locked = c.on_owner(&Op::Lock(attr.ino, lock()));
        assert!(matches!(locked, Ok(Body::Locked(_))), "{locked:?}");
        attr
    });
    let file = FileRef { ino: attr.ino, at: FileAt::Name(ROOT, c.name("a")) };
    let before = c.count(c.all(), &keys::table(Table::Open));
    assert_eq!(c.on_owner(&Op::Release(file)), Ok(Body::Done), "of nothing");
    assert_eq!(c.count(c.all(), &keys::table(Table::Open)), before);
    let unlock = Op::Unlock(attr.ino, LockSpace::Record, LockOwner(1), lock().range);
    assert_eq!(c.on_owner(&unlock), Ok(Body::Done), "of nothing");
    // The lock is in the way for any other client. Even a request that names its session does not
    // make it the liar's own.
    for session in [honest, c.session] {
        let id = RequestId { session, slot: 0, sequence: 0 };
        let shards = (0..2).map(ShardIndex);
        let mut told =
            shards.filter_map(|at| match c.run(at, (id, Op::TestLock(attr.ino, lock()))) {
                Ok(Body::Lock(holder)) => Some(holder.map(|holder| holder.session)),
                _ => None,
            });
        assert_eq!(told.next(), Some(Some(honest)));
    }
}

#[test]
fn a_piece_names_objects_of_its_own_session_only() {
    let (mut c, honest, liar) = two_keys(1);
    let theirs = object(honest, 1);
    let (victim, own) = as_honest(&mut c, honest, |c| {
        let victim = c.create(ROOT, "victim").unwrap();
        let own = c.create(ROOT, "own").unwrap();
        let op = write(c, victim.ino, "victim", 0, Payload::Object(range(theirs)));
        assert!(matches!(c.run(HERE, op), Ok(Body::Attr(_))));
        (victim, own)
    });
    let foreign = Err(Improper::ForeignObject.into());
    // The attack: put another session's object into one's own file, and truncate that.
    for other in [theirs, object(SessionId(0), 1), object(SessionId(liar.0 + 1), 1)] {
        let op = write(&c, own.ino, "own", 0, Payload::Object(range(other)));
        assert_eq!(c.run(HERE, op), foreign);
    }
    assert_eq!(c.counters()[0].improper[Improper::ForeignObject as usize], 3);
    // The whole request is refused, also if another piece would be accepted.
    let [good, bad] = [object(liar, 1), theirs].map(|of| Payload::Object(range(of)));
    let file = FileRef { ino: own.ino, at: FileAt::Name(ROOT, c.name("own")) };
    let pieces = vec![Piece { offset: 0, payload: good }, Piece { offset: 10, payload: bad }];
    let op = Op::WriteData { file: file.clone(), base: None, pieces, mtime: None, kill: None };
    assert_eq!(c.run(HERE, op), foreign);
    let cut = SetAttr { size: Some(0), ..SetAttr::default() };
    assert!(c.run(HERE, Op::SetAttr(file, cut)).is_ok());
    assert_eq!(c.run(HERE, Op::Garbage(HERE, 10)), Ok(Body::Objects(Vec::new())));
    // This holds for the file's owner, and for an earlier session of its key, too: the bytes are
    // stored again.
    let read = Op::ReadData {
        file: FileRef { ino: victim.ino, at: FileAt::Name(ROOT, c.name("victim")) },
        offset: 0,
        len: 100,
    };
    let Ok(Body::Layout(Layout { slices, .. })) = c.run(HERE, read) else { panic!() };
    assert_eq!(slices.iter().map(|slice| slice.range.object).collect::<Vec<_>>(), [theirs]);
    as_honest(&mut c, honest, |c| {
        c.begin_session(Op::OpenSession);
        let op = write(c, own.ino, "own", 0, Payload::Object(range(theirs)));
        assert_eq!(c.run(HERE, op), foreign);
        let anew = object(c.session, 1);
        let op = write(c, own.ino, "own", 0, Payload::Object(range(anew)));
        assert!(c.run(HERE, op).is_ok());
    });
}

#[test]
fn slots_end_where_the_protocol_says() {
    let (mut c, _, liar) = two_keys(1);
    let ask = |c: &mut Cluster, slot| {
        let id = RequestId { session: liar, slot, sequence: 1 };
        c.run(HERE, (id, Op::ReleaseAll(HERE, Vec::new())))
    };
    assert!(ask(&mut c, MAX_SLOTS - 1).is_ok());
    for slot in [MAX_SLOTS, u16::MAX] {
        assert_eq!(ask(&mut c, slot), Err(Improper::Slot.into()));
    }
    assert_eq!(c.counters()[0].improper[Improper::Slot as usize], 2);
    assert_eq!(c.count(c.all(), &keys::table(Table::Outcome)), 1);
}

#[test]
fn what_is_the_owners_is_for_no_other_key() {
    let (mut c, ..) = two_keys(2);
    let refused = Err(Improper::NotOwner.into());
    assert_eq!(c.run(HERE, Op::HandOver(HERE, HashSlot(1), ShardIndex(1))), refused);
    assert_eq!(c.run(HERE, Op::AddShard(ShardIndex(2))), refused);
}

#[test]
fn a_key_has_so_many_sessions_and_others_have_theirs() {
    let mut c = Cluster::new(1, 100);
    c.key = LIAR;
    c.session = SessionId(0);
    for _ in 0..SESSIONS_MAX {
        assert!(matches!(c.run(HERE, Op::OpenSession), Ok(Body::Session(_))));
    }
    let full = Err(Improper::Sessions.into());
    assert_eq!(c.run(HERE, Op::OpenSession), full);
    c.key = HONEST;
    assert!(c.run(HERE, Op::OpenSession).is_ok());
    c.key = LIAR;
    assert_eq!(c.run(HERE, Op::OpenSession), full);
    c.wait(2 * LEASE);
    assert!(c.run(HERE, Op::OpenSession).is_ok(), "leases have ended");
}

#[test]
fn too_much_of_anything_is_refused_or_cut() {
    let (mut c, ..) = two_keys(1);
    let too_much = Err(Improper::TooMuch.into());
    let done = |n| Op::GarbageDone(HERE, vec![ObjectId(1); n]);
    assert_eq!(c.run(HERE, done(GARBAGE_MAX)), Ok(Body::Done));
    assert_eq!(c.run(HERE, done(GARBAGE_MAX + 1)), too_much);
    let glimpse = |c: &Cluster, n| Op::Glimpse(HERE, vec![(DirId::ROOT, c.name("a")); n]);
    assert!(c.run(HERE, glimpse(&c, GLIMPSES_MAX)).is_ok());
    assert_eq!(c.run(HERE, glimpse(&c, GLIMPSES_MAX + 1)), too_much);
    let users = vec![(0, 1); Powers::RANGES_MAX + 1];
    c.by.judge = Judge::Powers(Box::new(Powers { users, ..Powers::default() }));
    assert_eq!(c.run(HERE, Op::DirAccess(ROOT, 1)), too_much);
    c.by = Credentials::ROOT;
    // Timestamps that are out of range.
    let time = TimeSet::To(Timestamp { seconds: 0, nanos: 1_000_000_000 });
    let invalid = Err(Refusal::Errno(Errno::EINVAL));
    let set = SetAttr { atime: Some(time), ..SetAttr::default() };
    assert_eq!(c.run(HERE, Op::DirSetAttr(ROOT, set.clone())), invalid);
    let attr = c.create(ROOT, "a").unwrap();
    let file = FileRef { ino: attr.ino, at: FileAt::Name(ROOT, c.name("a")) };
    assert_eq!(c.run(HERE, Op::SetAttr(file.clone(), set)), invalid);
    let TimeSet::To(mtime) = time else { unreachable!() };
    let op = Op::WriteData { file, base: None, pieces: Vec::new(), mtime: Some(mtime), kill: None };
    assert_eq!(c.run(HERE, op), invalid);
}

/// Clients set sizes. Sums of sizes may exceed 64 bits.
#[test]
fn the_largest_files_together_are_no_trouble() {
    let (mut c, ..) = two_keys(1);
    let mut files = Vec::new();
    for name in ["a", "b", "c"] {
        let Ok(Body::Created(attr, ..)) = c.run(HERE, c.create_open_op(ROOT, name)) else {
            panic!()
        };
        let file = FileRef { ino: attr.ino, at: FileAt::Name(ROOT, c.name(name)) };
        let size = Some(pando_types::op::FILE_SIZE_MAX);
        let set = SetAttr { size, ..SetAttr::default() };
        assert!(c.run(HERE, Op::SetAttr(file.clone(), set)).is_ok());
        assert_eq!(c.run(HERE, Op::Unlink(ROOT, c.name(name))), Ok(Body::Done));
        files.push(file);
    }
    // All three files are destroyed in one input.
    assert_eq!(c.run(HERE, Op::EndSession(c.session)), Ok(Body::Done));
    let Some(Ok(Body::StatFs { bytes, .. })) = c.ask(HERE, Op::StatFs(HERE)) else { panic!() };
    assert_eq!(bytes, 0);
}

#[test]
fn a_layout_of_very_many_slices_comes_in_parts() {
    let (mut c, _, liar) = two_keys(1);
    let attr = c.create(ROOT, "crumbs").unwrap();
    let file = FileRef { ino: attr.ino, at: FileAt::Name(ROOT, c.name("crumbs")) };
    let count = 2 * LAYOUT_SLICES_MAX as u64 + 10;
    let piece = |n: u64| {
        let range = ObjectRange { len: 1, ..range(object(liar, n + 1)) };
        Piece { offset: n * 2, payload: Payload::Object(range) }
    };
    let pieces = (0..count).map(piece).collect();
    let op = Op::WriteData { file: file.clone(), base: None, pieces, mtime: None, kill: None };
    assert!(c.run(HERE, op).is_ok());
    let (mut from, mut seen) = (0, Vec::new());
    while from < u64::MAX {
        let op = Op::ReadData { file: file.clone(), offset: from, len: u64::MAX };
        let Ok(Body::Layout(layout)) = c.run(HERE, op) else { panic!() };
        assert!(layout.slices.len() <= LAYOUT_SLICES_MAX && layout.until > from);
        seen.extend(layout.slices.iter().map(|slice| slice.offset));
        from = layout.until;
    }
    assert_eq!(seen, (0..count).map(|n| n * 2).collect::<Vec<_>>());
}
