//! Sessions begin and end without a vote (docs/design/sessions.md): what each shard hears of it,
//! and what it does until then.

use pando_core::Need;
use pando_core::keys::{self, Table};
use pando_types::op::{FileAt, FileRef, Head, Op, RenameFlags, Request, RequestId};
use pando_types::peer::{Behalf, Floor, Peer, PeerMessage, SessionsTold};
use pando_types::reply::{Body, Refusal};
use pando_types::{
    Credentials, DirRef, KeyId, Lock, LockKind, LockOwner, LockRange, LockSpace, SessionId,
    ShardIndex, TxnId,
};

use crate::support::{Cluster, dir_at};

const ROOT: DirRef = DirRef::ROOT;
const ZERO: ShardIndex = ShardIndex(0);
const ONE: ShardIndex = ShardIndex(1);
const TWO: ShardIndex = ShardIndex(2);
const SECOND: u64 = 1_000_000_000;
const NO_SESSION: Result<Body, Refusal> = Err(Refusal::NoSession);

fn begin(c: &mut Cluster) -> SessionId {
    c.begin_session(Op::OpenSession)
}

/// Ends a session, by a request without a session.
fn end(c: &mut Cluster, session: SessionId) {
    let ended = c.run(ZERO, (RequestId::default(), Op::EndSession(session)));
    assert_eq!(ended, Ok(Body::Done));
}

/// Delivers a message of shard 1 to shard 0.
fn one_says(c: &mut Cluster, message: PeerMessage) {
    let (txn, floor, behalf) =
        (TxnId { shard: ZERO, number: 0 }, Floor::default(), Behalf::default());
    c.deliver([(
        ZERO,
        Peer { from: ONE, trace: 0, clock: 0, behalf, txn, step: 0, floor, message },
    )]);
}

fn knows(c: &Cluster, shard: ShardIndex, session: SessionId) -> bool {
    c.shard(shard).session_keys().any(|(of, _)| of == session)
}

#[test]
fn a_shard_that_is_away_keeps_no_client_out_and_holds_up_no_end_elsewhere() {
    let mut c = Cluster::new(3, 1_000);
    let (_, dir) = dir_at(&mut c, ROOT, "dir", |home| home == ONE);
    c.settle();
    c.silence([TWO]);
    let dead = begin(&mut c);
    let ino = c.create(dir, "file").unwrap().ino;
    let file = FileRef { ino, at: FileAt::Name(dir, c.name("file")) };
    c.done(&Op::Open { file, access: 4, truncate: false, kill: None }).unwrap();
    assert_eq!(c.count(c.all(), &keys::table(Table::Open)), 1);
    end(&mut c, dead);
    let next = begin(&mut c);
    c.create(dir, "another").unwrap();
    c.tick(c.all(), SECOND);
    assert_eq!(c.count(c.all(), &keys::table(Table::Open)), 0, "what it had open is closed");
    assert_eq!([ZERO, ONE, TWO].map(|shard| knows(&c, shard, dead)), [false, false, false]);
    assert_eq!([ZERO, ONE, TWO].map(|shard| knows(&c, shard, next)), [true, true, false]);
    c.silence([]);
    c.tick(c.all(), SECOND);
    c.settle();
    assert_eq!([ZERO, ONE, TWO].map(|shard| knows(&c, shard, next)), [true, true, true]);
    assert_eq!(c.count([ONE], &keys::session(dead)), 0, "all have heard it");
    assert_eq!(c.count([ONE], &keys::outcome(dead, 0)), 0);
}

#[test]
fn what_comes_of_a_session_that_was_not_heard_of_waits_and_a_made_up_one_is_refused() {
    let mut c = Cluster::new(3, 1_000);
    let (_, dir) = dir_at(&mut c, ROOT, "dir", |home| home == TWO);
    c.settle();
    c.silence([TWO]);
    let session = begin(&mut c);
    let op = c.create_op(dir, "file");
    let waits = c.send(TWO, op.clone());
    let id = RequestId { session: SessionId(1 << 40), slot: 0, sequence: 1 };
    let made_up = c.send(TWO, (id, op));
    c.tick(c.all(), SECOND);
    assert_eq!((c.answer(waits), c.answer(made_up)), (None, None));
    c.silence([]);
    c.tick(c.all(), SECOND);
    c.settle();
    assert!(knows(&c, TWO, session));
    assert!(matches!(c.answer(waits), Some(Ok(Body::Created(..)))));
    assert_eq!(c.answer(made_up), Some(NO_SESSION));
}

/// A client makes up the number of a session that has not begun. When it then begins, its own
/// request is not refused for that.
#[test]
fn an_answer_to_an_earlier_question_refuses_no_session_that_came_later() {
    let mut c = Cluster::new(3, 1_000);
    let (_, dir) = dir_at(&mut c, ROOT, "dir", |home| home == TWO);
    c.settle();
    let op = c.create_op(dir, "file");
    let next = SessionId(begin(&mut c).number() + 1);
    c.settle();
    let id = |sequence| RequestId { session: next, slot: 0, sequence };
    let made_up = c.send(TWO, (id(1), op.clone()));
    // Shard 0 has answered, and the session begins. Nothing of that has reached shard 2.
    assert!(c.step_of(|_, peer| matches!(peer.message, PeerMessage::AskSessions { .. })));
    assert_eq!(begin_at_once(&mut c), next);
    let own = c.send(TWO, (id(2), op));
    assert!(
        c.step_of(|_, peer| matches!(peer.message, PeerMessage::Sessions { answers: Some(_), .. }))
    );
    assert_eq!((c.answer(made_up), c.answer(own)), (Some(NO_SESSION), None));
    c.settle();
    let own = c.answer(own);
    assert!(matches!(own, Some(Ok(Body::Created(..)))), "{own:?}");
}

/// Begins a session, and delivers nothing.
fn begin_at_once(c: &mut Cluster) -> SessionId {
    let tag = c.send(ZERO, (RequestId::default(), Op::OpenSession));
    match c.answer(tag) {
        Some(Ok(Body::Session(session))) => session,
        other => panic!("no session: {other:?}"),
    }
}

#[test]
fn what_ran_in_a_session_that_is_over_is_answered_until_every_shard_has_heard_it() {
    let mut c = Cluster::new(3, 1_000);
    let (_, dir) = dir_at(&mut c, ROOT, "dir", |home| home == ONE);
    c.settle();
    let session = begin(&mut c);
    let op = c.create_op(dir, "file");
    let ran = c.send(ONE, op.clone());
    let id = c.last_id;
    c.settle();
    assert!(matches!(c.answer(ran), Some(Ok(Body::Created(..)))));
    c.silence([TWO]);
    end(&mut c, session);
    for restarts in [false, true] {
        if restarts {
            c.restart([ONE]);
        }
        let again = c.run(ONE, (id, op.clone()));
        assert!(matches!(again, Ok(Body::Created(..))), "{again:?}");
        let newer = RequestId { sequence: id.sequence + 1, ..id };
        assert_eq!(c.run(ONE, (newer, op.clone())), NO_SESSION);
        c.key = KeyId(9);
        assert_eq!(c.run(ONE, (id, op.clone())), NO_SESSION, "it is another's");
        c.key = KeyId::OWNER;
    }
    c.silence([]);
    c.tick(c.all(), SECOND);
    c.settle();
    assert_eq!(c.run(ONE, (id, op)), NO_SESSION);
    assert_eq!(c.count([ONE], &keys::outcome(session, 0)), 0);
}

/// The shard is away for longer than shard 0 remembers, or while shard 0 restarts. It gets the
/// whole table.
#[test]
fn a_shard_that_was_away_for_very_long_hears_which_sessions_live() {
    for restarts in [false, true] {
        let mut c = Cluster::new(3, 1_000);
        c.settle();
        let (lives, dies) = (begin(&mut c), begin(&mut c));
        c.settle();
        c.silence([TWO]);
        end(&mut c, dies);
        let sessions = if restarts { 10 } else { 2_100 };
        for _ in 0..sessions {
            let session = begin_at_once(&mut c);
            end(&mut c, session);
        }
        let new = begin(&mut c);
        if restarts {
            c.restart([ZERO]);
        }
        assert!(knows(&c, TWO, dies) && !knows(&c, TWO, new));
        c.silence([]);
        c.take_sent();
        c.tick(c.all(), SECOND);
        c.settle();
        let is_whole = |peer: &Peer| {
            matches!(&peer.message, PeerMessage::Sessions { told: SessionsTold::All(_), .. })
        };
        assert!(c.take_sent().iter().any(|(_, to, peer)| *to == TWO && is_whole(peer)));
        let known = [lives, dies, new].map(|session| knows(&c, TWO, session));
        assert_eq!(known, [true, false, true]);
        assert!(c.shard(TWO).session_keys().eq(c.shard(ZERO).session_keys()));
        assert_eq!(c.count([TWO], &keys::session(dies)), 0, "all have heard it");
    }
}

/// Shard 0 has lost what it had told. Another shard has heard more than shard 0 knows.
#[test]
fn a_shard_that_has_heard_more_than_shard_0_knows_takes_its_table() {
    let mut c = Cluster::new(2, 1_000);
    let before = begin(&mut c);
    c.settle();
    let message = PeerMessage::SessionsHeard { position: 1_000, known: 0, freed: 0 };
    one_says(&mut c, message);
    let session = begin(&mut c);
    c.settle();
    assert!(knows(&c, ONE, session) && knows(&c, ONE, before));
    end(&mut c, before);
    c.settle();
    assert!(!knows(&c, ONE, before));
}

/// The position in a question may be lost with the power.
#[test]
fn a_question_does_not_say_that_anything_was_heard() {
    let mut c = Cluster::new(2, 1_000);
    let (_, dir) = dir_at(&mut c, ROOT, "dir", |home| home == ONE);
    c.settle();
    let dead = begin(&mut c);
    c.create(dir, "file").unwrap();
    c.settle();
    c.silence([ONE]);
    end(&mut c, dead);
    let position = 1_000;
    let message = PeerMessage::AskSessions { position, about: None };
    one_says(&mut c, message);
    c.tick(c.all(), SECOND);
    c.silence([]);
    assert!(knows(&c, ONE, dead));
    c.tick(c.all(), SECOND);
    c.settle();
    assert!(!knows(&c, ONE, dead), "it is told nevertheless");
    assert_eq!(
        c.count(c.all(), &keys::table(Table::Outcome)),
        c.count([ZERO], &keys::table(Table::Outcome))
    );
}

/// A session begins and ends without this shard hearing of it. Something of that session comes here
/// by another shard.
#[test]
fn what_a_session_that_was_never_heard_of_has_left_goes() {
    let mut c = Cluster::new(3, 1_000);
    let [(_, from), (_, to)] =
        [ONE, TWO].map(|at| dir_at(&mut c, ROOT, &format!("dir{at}"), |home| home == at));
    c.settle();
    let stays = c.session;
    c.silence([TWO]);
    let dead = begin(&mut c);
    // A file with its link shard at shard 2. It goes there when another session moves the open
    // file.
    let mut names = (0..100).map(|n| format!("file{n}"));
    let (name, ino) = loop {
        let name = names.next().expect("one in three");
        let ino = c.create(from, &name).unwrap().ino;
        if c.shard(ZERO).map().link(ino) == TWO {
            break (name, ino);
        }
    };
    let file = FileRef { ino, at: FileAt::Name(from, c.name(&name)) };
    c.done(&Op::Open { file, access: 4, truncate: false, kill: None }).unwrap();
    c.silence([]);
    // Transactions get through, and messages about sessions do not.
    c.session = stays;
    c.loses = |_, peer| {
        matches!(peer.message, PeerMessage::Sessions { .. } | PeerMessage::AskSessions { .. })
    };
    c.rename(from, &name, to, "moved").unwrap();
    while c.step() {}
    let opens = [ZERO, ONE, TWO].map(|shard| c.count([shard], &keys::table(Table::Open)));
    assert_eq!(opens, [0, 0, 1]);
    assert!(!knows(&c, TWO, dead));
    end(&mut c, dead);
    c.restart([ZERO]);
    c.loses = |_, _| false;
    c.wait(20 * SECOND);
    c.settle();
    assert_eq!(c.count(c.all(), &keys::table(Table::Open)), 0);
    assert_eq!(c.shard(ZERO).sessions_over().count(), 0);
}

/// An unreadable block holds up the clean-up of one session, and not that of others.
#[test]
fn what_cannot_be_read_holds_up_nothing_that_others_have_left() {
    use pando_core::keys::Kind;
    let mut c = Cluster::new(1, 1_000);
    let held = |c: &mut Cluster, name: &str| {
        let session = begin(c);
        let ino = c.create(ROOT, name).unwrap().ino;
        let file = FileRef { ino, at: FileAt::Name(ROOT, c.name(name)) };
        c.done(&Op::Open { file, access: 4, truncate: false, kill: None }).unwrap();
        c.unlink(ROOT, name).unwrap();
        (session, keys::link(ino, Kind::Entry))
    };
    let [first, second] = ["a", "b"].map(|name| held(&mut c, name));
    c.settle();
    c.spoil(ZERO, [first.1.clone()..keys::after(&first.1)]);
    end(&mut c, first.0);
    end(&mut c, second.0);
    c.wait(30 * SECOND);
    assert_eq!(c.shard(ZERO).sessions_over().count(), 1);
    c.spoil(ZERO, []);
    assert_eq!((c.count([ZERO], &first.1), c.count([ZERO], &second.1)), (1, 0));
    c.wait(30 * SECOND);
    assert_eq!((c.count([ZERO], &first.1), c.shard(ZERO).sessions_over().count()), (0, 0));
}

const LEASE: u64 = 8 * SECOND;

fn exclusive() -> Lock {
    let range = LockRange { first: 0, last: LockRange::END };
    let (space, owner, kind) = (LockSpace::Record, LockOwner(1), LockKind::Exclusive);
    Lock { space, owner, range, kind, pid: 7 }
}

/// A file in a directory of shard 2, with its locks at shard 1. A session that had a lock is over,
/// and shard 2 has not heard so. Another session has the lock now.
struct Inherited {
    c: Cluster,
    dir: DirRef,
    file: FileRef,
    dead: SessionId,
    next: SessionId,
    /// Position on which the lock rests.
    heard: u64,
}

impl Inherited {
    fn new() -> Self {
        let mut c = Cluster::with(3, |config| config.lease = LEASE);
        let (_, dir) = dir_at(&mut c, ROOT, "dir", |home| home == TWO);
        let mut names = (0..100).map(|n| format!("file{n}"));
        let file = loop {
            let name = names.next().expect("one in three");
            let ino = c.create(dir, &name).unwrap().ino;
            if c.shard(ZERO).map().link(ino) == ONE {
                break FileRef { ino, at: FileAt::Name(dir, c.name(&name)) };
            }
        };
        let (dead, next) = (begin(&mut c), begin(&mut c));
        c.wait(SECOND);
        c.loses = |to, peer| to == TWO && matches!(peer.message, PeerMessage::Sessions { .. });
        let lock = |c: &mut Cluster, session| {
            c.session = session;
            c.run(ONE, Op::Lock(file.ino, exclusive()))
        };
        assert!(matches!(lock(&mut c, dead), Ok(Body::Locked(_))));
        end(&mut c, dead);
        c.wait(SECOND / 2);
        assert!(matches!(lock(&mut c, next), Ok(Body::Lock(Some(_)))), "it may be heard yet");
        c.wait(LEASE / 2);
        let Ok(Body::Locked(heard)) = lock(&mut c, next) else { panic!("nobody has it") };
        assert!(knows(&c, TWO, dead));
        Self { c, dir, file, dead, next, heard }
    }

    fn request(&self, session: SessionId, heard: u64, op: Op) -> Request {
        let id = RequestId { session, slot: 5, sequence: 1 << 20 };
        let head = Head { id, heard, ..Head::default() };
        Request { head, credentials: Credentials::ROOT, op, trail: None }
    }
}

/// A shard that has not heard of a session's end may serve it. But the next holder of its locks is
/// not served there.
#[test]
fn the_next_holder_of_an_ended_sessions_lock_is_not_served_where_that_session_is() {
    let mut i = Inherited::new();
    let looks = i.request(i.next, i.heard, Op::GetAttr(i.file.clone()));
    let changes = i.request(i.dead, 0, i.c.create_op(i.dir, "late"));
    let looking = i.c.send(TWO, looks);
    let changing = i.c.send(TWO, changes);
    assert_eq!(i.c.answer(looking), None, "it waits until the end is heard");
    let looks = i.request(i.next, i.heard, Op::GetAttr(i.file.clone()));
    let head = Head { id: RequestId::default(), ..looks.head };
    assert_eq!(i.c.at_once(TWO, Request { head, ..looks }), None, "nor is it answered at once");
    assert!(matches!(i.c.answer(changing), Some(Ok(Body::Created(..)))), "before that look");
    i.c.loses = |_, _| false;
    i.c.wait(SECOND);
    assert!(matches!(i.c.answer(looking), Some(Ok(Body::Attr(_)))));
    let later = i.request(i.dead, 0, i.c.create_op(i.dir, "later"));
    let later = i.c.send(TWO, later);
    assert_eq!(i.c.answer(later), Some(NO_SESSION));
}

/// A transaction by another shard waits, too. And what the dead session does by a shard that has
/// not heard of its end is refused elsewhere.
#[test]
fn a_transaction_takes_along_what_its_client_relies_on() {
    let mut i = Inherited::new();
    let (_, here) = dir_at(&mut i.c, ROOT, "here", |home| home == ONE);
    i.c.session = i.next;
    i.c.create(here, "moves").unwrap();
    i.c.wait(SECOND / 8);
    let rename = |i: &Inherited, from, name: &str, to| {
        let (name, new_name) = (i.c.name(name), i.c.name("moved"));
        Op::Rename { from, name, to, new_name, flags: RenameFlags::default() }
    };
    // The next holder's transaction, by shard 1, which has heard the end. Shard 2 lets it wait.
    let request = i.request(i.next, i.heard, rename(&i, here, "moves", i.dir));
    let of_next = i.c.send(ONE, request);
    while i.c.step() {}
    assert_eq!(i.c.answer(of_next), None);
    // The dead session's transaction, by shard 2, which has not heard the end. Shard 1 refuses it.
    i.c.session = i.next;
    i.c.create(i.dir, "old").unwrap();
    let request = i.request(i.dead, 0, rename(&i, i.dir, "old", here));
    let of_dead = i.c.send(TWO, request);
    while i.c.step() {}
    i.c.wait(SECOND);
    assert_eq!(i.c.answer(of_dead), None);
    i.c.loses = |_, _| false;
    i.c.wait(SECOND);
    assert_eq!(i.c.answer(of_dead), Some(NO_SESSION));
    assert!(matches!(i.c.answer(of_next), Some(Ok(_))));
    assert!(i.c.lookup(i.dir, "old").is_ok() && i.c.lookup(i.dir, "moved").is_ok());
}

#[test]
fn of_a_session_that_is_over_nothing_is_said_before_that_is_on_disk() {
    let mut c = Cluster::new(2, 1_000);
    let (_, dir) = dir_at(&mut c, ROOT, "dir", |home| home == ONE);
    c.settle();
    let session = begin(&mut c);
    let op = c.create_op(dir, "late");
    c.settle();
    end(&mut c, session);
    let id = RequestId { session, slot: 7, sequence: 1 << 30 };
    assert_eq!(c.run(ONE, (id, op)), NO_SESSION);
    assert_eq!(c.last_need, Some(Need::Synced), "it might run yet, after a loss of power");
}
