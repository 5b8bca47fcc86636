//! Read grants (docs/design/read-grants.md).

use pando_core::Need;
use pando_core::keys::{self, Table};
use pando_types::lend::{GrantNews, HOLD};
use pando_types::op::{FileAt, FileRef, Op, RenameFlags};
use pando_types::reply::{Body, Found};
use pando_types::{DirRef, Errno, Order, PartitionIndex, SessionId, SetAttr, ShardIndex, TxnId};

use super::others::another;
use super::{Holder, NOT_NOW, cluster, first, number};
use crate::support::Cluster;

/// The shard counts a second more than the reader.
const OVER_AFTER: u64 = HOLD + 1_000_000_000;

/// A session that reads parts of one shard.
struct Reader {
    shard: ShardIndex,
    session: SessionId,
    asked: u64,
}

impl Reader {
    fn new(c: &Cluster, shard: ShardIndex) -> Self {
        Self { shard, session: c.session, asked: 0 }
    }

    fn read(&mut self, c: &mut Cluster, dir: DirRef) -> Result<TxnId, Errno> {
        self.asked += 1;
        let op = Op::BorrowToRead(self.session, number(c, self.asked), first(dir));
        match c.run(self.shard, op) {
            Ok(Body::ReadGranted(grant)) => Ok(grant),
            Err(NOT_NOW) => Err(Errno::EAGAIN),
            other => panic!("{other:?}"),
        }
    }

    fn attend_op(&self, back: &[TxnId]) -> Op {
        let (shard, session) = (self.shard, self.session);
        Op::Attend { shard, session, recalled: Vec::new(), over: back.to_vec() }
    }

    /// Gives read grants back, and asks for news.
    fn attend(&self, c: &mut Cluster, back: &[TxnId]) -> GrantNews {
        match c.run(self.shard, self.attend_op(back)) {
            Ok(Body::Attended(news)) => news,
            other => panic!("{other:?}"),
        }
    }
}

/// A directory with some files, and a session that reads it, which is the present one.
fn read(c: &mut Cluster) -> (DirRef, Reader, TxnId) {
    let dir = c.mkdir(DirRef::ROOT, "dir").unwrap();
    for n in 0..5 {
        c.create(dir, &format!("old{n}")).unwrap();
    }
    c.settle();
    let mut reader = Reader::new(c, c.home(dir));
    let grant = reader.read(c, dir).unwrap();
    (dir, reader, grant)
}

fn file(c: &mut Cluster, dir: DirRef, name: &str) -> FileRef {
    match c.lookup(dir, name) {
        Ok(Found::File(attr)) => FileRef { ino: attr.ino, at: FileAt::Name(dir, c.name(name)) },
        other => panic!("{other:?}"),
    }
}

/// Changes of the directory, of a file in it, and of names in it, each with the shard to ask.
fn changes(c: &mut Cluster, dir: DirRef) -> Vec<(ShardIndex, Op)> {
    let (here, root) = (c.home(dir), c.home(DirRef::ROOT));
    let old = file(c, dir, "old1");
    let mode = SetAttr { mode: Some(0o700), ..SetAttr::default() };
    let times = SetAttr { mtime: Some(pando_types::TimeSet::Now), ..SetAttr::default() };
    let rename = |from, name: &str, to, new: &str| Op::Rename {
        from,
        name: c.name(name),
        to,
        new_name: c.name(new),
        flags: RenameFlags::default(),
    };
    let xattr = |target| Op::SetXattr {
        target,
        name: b"user.a".to_vec(),
        value: b"b".to_vec(),
        mode: pando_types::op::XattrMode::Any,
    };
    vec![
        (here, c.create_op(dir, "theirs")),
        (here, Op::Mkdir(dir, c.name("sub"), 0o755)),
        (here, Op::Unlink(dir, c.name("old0"))),
        (here, Op::SetAttr(old.clone(), mode.clone())),
        (here, xattr(pando_types::op::Target::File(old.clone()))),
        (here, xattr(pando_types::op::Target::Dir(dir))),
        (here, Op::DirSetAttr(dir, mode)),
        (here, Op::DirSetAttr(dir, times)),
        (here, rename(dir, "old2", dir, "new2")),
        (here, rename(dir, "old3", DirRef::ROOT, "moved")),
        (root, rename(DirRef::ROOT, "dir", DirRef::ROOT, "other")),
        (here, Op::Link(old, dir, c.name("linked"))),
    ]
}

#[test]
pub fn every_change_of_another_session_waits_until_the_reader_has_given_the_part_back() {
    let count = changes_count();
    for nth in 0..count {
        let mut c = cluster(2);
        let (dir, reader, grant) = read(&mut c);
        another(&mut c);
        let (shard, op) = changes(&mut c, dir).swap_remove(nth);
        let tag = c.send(shard, op.clone());
        c.wait(300_000_000);
        assert_eq!(c.reply(tag).map(|it| it.result), None, "{op:?} does not wait");
        assert_eq!(reader.attend(&mut c, &[]).reads, [grant], "{op:?} does not recall");
        assert_eq!(reader.attend(&mut c, &[grant]).reads, []);
        c.wait(3_000_000_000);
        let answer = c.answer(tag).unwrap_or_else(|| panic!("{op:?} is not answered"));
        assert!(answer.is_ok(), "{op:?}: {answer:?}");
        c.settle();
        assert_eq!(c.in_flight()[..3], [0, 0, 0]);
        assert_eq!(c.count(c.all(), &keys::table(Table::Reader)), 0, "it reads no more");
    }
}

fn changes_count() -> usize {
    let mut c = cluster(2);
    let (dir, ..) = read(&mut c);
    changes(&mut c, dir).len()
}

#[test]
fn the_removal_of_a_directory_waits_for_its_readers() {
    let mut c = cluster(2);
    let dir = c.mkdir(DirRef::ROOT, "empty").unwrap();
    c.settle();
    let mut reader = Reader::new(&c, c.home(dir));
    let grant = reader.read(&mut c, dir).unwrap();
    let rmdir = Op::Rmdir(DirRef::ROOT, c.name("empty"));
    // Also if it is the reader's own.
    let tag = c.send(c.home(DirRef::ROOT), rmdir);
    c.wait(100_000_000);
    assert_eq!(c.answer(tag), None);
    assert_eq!(reader.attend(&mut c, &[]).reads, [grant]);
    reader.attend(&mut c, &[grant]);
    c.wait(3_000_000_000);
    assert_eq!(c.answer(tag), Some(Ok(Body::Done)));
}

#[test]
fn who_only_reads_and_the_only_reader_itself_wait_for_nobody() {
    let mut c = cluster(2);
    let (dir, reader, grant) = read(&mut c);
    another(&mut c);
    let old = file(&mut c, dir, "old1");
    let looks = [
        Op::Lookup(dir, c.name("old0")),
        Op::GetAttr(old.clone()),
        Op::DirGetAttr(dir),
        Op::DirAccess(dir, 5),
        Op::Parent(dir),
        Op::ReadDir { dir, from: Order(0), limit: 9 },
        Op::Open { file: old.clone(), access: 4, truncate: false, kill: None },
        Op::Release(old),
    ];
    for op in looks {
        assert!(c.run(reader.shard, op.clone()).is_ok(), "{op:?}");
    }
    c.session = reader.session;
    for (shard, op) in changes(&mut c, dir).into_iter().take(5) {
        assert!(c.run(shard, op.clone()).is_ok(), "{op:?}");
    }
    assert_eq!(c.counters()[usize::from(reader.shard.0)].reads_recalled, 0);
    assert_eq!(reader.attend(&mut c, &[grant]).reads, []);
}

#[test]
fn all_readers_are_asked_and_the_last_one_counts() {
    let mut c = cluster(1);
    let (dir, mut one, of_one) = read(&mut c);
    another(&mut c);
    let mut two = Reader::new(&c, one.shard);
    let of_two = two.read(&mut c, dir).unwrap();
    // The change of a reader, beside another.
    let create = c.create_op(dir, "new");
    let tag = c.send(one.shard, create);
    assert_eq!(c.answer(tag), None);
    assert_eq!(two.attend(&mut c, &[of_two]).reads, []);
    assert_eq!(c.answer(tag), None, "the other one still reads");
    assert_eq!(one.attend(&mut c, &[of_one]).reads, []);
    assert!(matches!(c.answer(tag), Some(Ok(_))));
    // What came back for a change is not given at once.
    assert_eq!(one.read(&mut c, dir), Err(Errno::EAGAIN));
    c.tick(c.all(), 150_000_000);
    assert!(one.read(&mut c, dir).is_ok());
}

#[test]
fn while_a_change_waits_nobody_begins_to_read() {
    let mut c = cluster(1);
    let (dir, mut reader, grant) = read(&mut c);
    another(&mut c);
    let create = c.create_op(dir, "new");
    let tag = c.send(reader.shard, create);
    let mut late = Reader::new(&c, reader.shard);
    assert_eq!(late.read(&mut c, dir), Err(Errno::EAGAIN));
    // Not even the one that has a grant: it would take the recalled one's place.
    assert_eq!(reader.read(&mut c, dir), Err(Errno::EAGAIN));
    reader.attend(&mut c, &[grant]);
    assert!(matches!(c.answer(tag), Some(Ok(_))));
}

#[test]
fn a_reader_is_told_as_soon_as_it_is_recalled() {
    let mut c = cluster(1);
    let (dir, reader, grant) = read(&mut c);
    let attending = c.send(reader.shard, reader.attend_op(&[]));
    assert_eq!(c.answer(attending), None, "there are no news");
    another(&mut c);
    let create = c.create_op(dir, "new");
    c.send(reader.shard, create);
    match c.answer(attending) {
        Some(Ok(Body::Attended(news))) => assert_eq!(news.reads, [grant]),
        other => panic!("{other:?}"),
    }
}

/// Copies of a question that nobody waits for any more do not keep the others back.
#[test]
fn questions_that_wait_are_answered_at_the_same_time() {
    let mut c = cluster(1);
    let (_, reader, _) = read(&mut c);
    let waiting = [(); 3].map(|()| c.send(reader.shard, reader.attend_op(&[])));
    assert!(waiting.iter().all(|question| c.answer(*question).is_none()));
    c.tick(c.all(), pando_types::op::ATTEND_FOR + 1);
    assert!(waiting.iter().all(|question| c.answer(*question).is_some()));
    let later = c.send(reader.shard, reader.attend_op(&[]));
    assert!(c.answer(later).is_none(), "none is answered for those");
}

#[test]
pub fn a_dead_reader_keeps_others_waiting_for_its_hold_and_no_longer() {
    let mut c = cluster(1);
    let (dir, reader, _) = read(&mut c);
    c.tick(c.all(), HOLD);
    assert!(reader.attend(&mut c, &[]).prolongs);
    let heard = c.nanos;
    another(&mut c);
    c.tick(c.all(), HOLD / 2);
    let create = c.create_op(dir, "new");
    let tag = c.send(reader.shard, create);
    c.tick(c.all(), heard + OVER_AFTER - c.nanos - 1_000_000);
    assert_eq!(c.answer(tag), None, "the reader may still answer");
    c.tick(c.all(), 2_000_000);
    assert!(matches!(c.answer(tag), Some(Ok(_))));
}

#[test]
fn a_reader_that_attends_and_gives_nothing_back_loses_all() {
    let mut c = cluster(1);
    let (dir, reader, _) = read(&mut c);
    another(&mut c);
    let create = c.create_op(dir, "new");
    let tag = c.send(reader.shard, create);
    let mut prolonged = true;
    for _ in 0..12 {
        prolonged &= reader.attend(&mut c, &[]).prolongs;
        c.tick(c.all(), 1_000_000_000);
    }
    assert!(!prolonged && c.answer(tag).is_some());
}

#[test]
pub fn a_shard_that_starts_changes_nothing_before_its_readers_have_heard_of_it() {
    let mut c = cluster(1);
    let (dir, reader, old) = read(&mut c);
    another(&mut c);
    c.restart(c.all());
    let create = c.create_op(dir, "new");
    let tag = c.send(reader.shard, create);
    assert!(c.lookup(dir, "old0").is_ok());
    assert_eq!(c.answer(tag), None, "a reader may not have heard");
    let news = reader.attend(&mut c, &[]);
    let [whole] = news.reads[..] else { panic!("{news:?}") };
    assert_ne!(whole, old);
    // What the reader had before does not count.
    reader.attend(&mut c, &[old]);
    assert_eq!(c.answer(tag), None, "a reader may not have heard");
    reader.attend(&mut c, &[whole]);
    assert!(matches!(c.answer(tag), Some(Ok(_))));
    assert_eq!(c.count(c.all(), &keys::table(Table::Reader)), 0);
}

#[test]
fn a_shard_that_starts_waits_for_a_hold_for_readers_that_are_gone() {
    let mut c = cluster(2);
    let (dir, reader, _) = read(&mut c);
    another(&mut c);
    c.restart(c.all());
    let create = c.create_op(dir, "new");
    // Transactions wait as well.
    let mkdir = Op::Mkdir(dir, c.name("sub"), 0o755);
    let tags = [create, mkdir].map(|op| c.send(reader.shard, op));
    c.wait(OVER_AFTER - 1_000_000_000);
    assert!(tags.iter().all(|tag| c.reply(*tag).is_none()), "a reader may not have heard");
    c.wait(4_000_000_000);
    for tag in tags {
        assert!(matches!(c.answer(tag), Some(Ok(_))));
    }
}

#[test]
pub fn that_a_session_reads_is_durable_before_it_does() {
    let mut c = cluster(1);
    let (_, reader, _) = read(&mut c);
    assert_eq!(c.last_need, Some(Need::Synced), "a loss of power may forget the reader");
    assert_eq!(c.count(c.all(), &keys::table(Table::Reader)), 1);
    assert_eq!(reader.asked, 1);
}

#[test]
fn what_is_read_is_lent_to_nobody_else() {
    let mut c = cluster(1);
    let (dir, reader, grant) = read(&mut c);
    another(&mut c);
    let mut holder = Holder::new(&c, reader.shard);
    assert_eq!(holder.borrow(&mut c, first(dir)), Err(NOT_NOW));
    assert_eq!(reader.attend(&mut c, &[]).reads, [grant]);
    reader.attend(&mut c, &[grant]);
    c.session = holder.session;
    assert!(holder.borrow(&mut c, first(dir)).is_ok());
    // Nor is what is lent read.
    c.session = reader.session;
    let mut again = Reader::new(&c, reader.shard);
    again.asked = 9;
    assert_eq!(again.read(&mut c, dir), Err(Errno::EAGAIN));
}

#[test]
fn a_loan_ends_what_its_session_reads() {
    let mut c = cluster(1);
    let (dir, reader, grant) = read(&mut c);
    let mut holder = Holder::new(&c, reader.shard);
    holder.borrowed = 5;
    let lent = holder.borrow(&mut c, first(dir)).unwrap();
    assert_eq!(reader.attend(&mut c, &[grant]).reads, []);
    assert_eq!(c.count(c.all(), &keys::table(Table::Reader)), 0);
    holder.give_back(&mut c, lent);
}

/// A second question gives back the last read grant. The first one must not wait for ever: what the
/// session borrows next is prolonged by it.
#[test]
fn a_question_that_waits_is_answered_when_the_last_read_grant_ends() {
    let mut c = cluster(1);
    let (_, reader, grant) = read(&mut c);
    let waiting = c.send(reader.shard, reader.attend_op(&[]));
    assert_eq!(c.answer(waiting), None);
    reader.attend(&mut c, &[grant]);
    assert!(c.answer(waiting).is_some(), "nobody answers it any more");
}

#[test]
fn after_a_start_nothing_is_lent_before_readers_have_heard_of_it() {
    let mut c = cluster(1);
    let (dir, reader, _) = read(&mut c);
    another(&mut c);
    let mut holder = Holder::new(&c, reader.shard);
    c.restart(c.all());
    assert_eq!(holder.borrow(&mut c, first(dir)), Err(NOT_NOW), "a reader may not have heard");
    let [whole] = reader.attend(&mut c, &[]).reads[..] else { panic!("no whole") };
    reader.attend(&mut c, &[whole]);
    c.session = holder.session;
    assert!(holder.borrow(&mut c, first(dir)).is_ok());
}

#[test]
fn a_read_grant_that_takes_anothers_place_leaves_all_else_as_it_is() {
    let mut c = cluster(1);
    let (dir, mut reader, old) = read(&mut c);
    let waiting = c.send(reader.shard, reader.attend_op(&[]));
    let new = reader.read(&mut c, dir).unwrap();
    assert_eq!(c.last_need, Some(Need::Synced), "its record may not be durable");
    // The old one is given back late.
    c.send(reader.shard, reader.attend_op(&[old]));
    another(&mut c);
    let create = c.create_op(dir, "new");
    let tag = c.send(reader.shard, create);
    assert_eq!(c.answer(tag), None);
    assert!(matches!(c.answer(waiting), Some(Ok(Body::Attended(news))) if news.reads == [new]));
    reader.attend(&mut c, &[new]);
    assert!(matches!(c.answer(tag), Some(Ok(_))));
}

#[test]
fn late_copies_and_local_sessions_get_nothing() {
    let mut c = cluster(1);
    let (dir, mut reader, grant) = read(&mut c);
    reader.asked = 0;
    assert_eq!(reader.read(&mut c, dir), Err(Errno::EAGAIN), "a copy takes the grant's place");
    let epoch_before = number(&c, 7);
    c.epoch += 1;
    c.restart(c.all());
    let late = Op::BorrowToRead(reader.session, epoch_before, first(dir));
    assert_eq!(c.run(reader.shard, late), Err(NOT_NOW));
    reader.attend(&mut c, &[grant]);
    let local = c.begin_session(Op::OpenLocalSession);
    let op = Op::BorrowToRead(local, number(&c, 1), first(dir));
    let refused = pando_types::reply::Refusal::Errno(Errno::EOPNOTSUPP);
    assert_eq!(c.run(reader.shard, op), Err(refused));
}

#[test]
fn a_partition_that_grows_is_wanted_back_and_splits() {
    let mut c = Cluster::with(1, |config| config.split_threshold = 50);
    let (dir, reader, grant) = read(&mut c);
    // The only reader may go on.
    for n in 0..60 {
        c.create(dir, &format!("new{n}")).unwrap();
    }
    while c.step() {}
    let partitions = |c: &Cluster| c.counters()[0].splits_local;
    assert_eq!(partitions(&c), 0, "it split under its reader");
    assert_eq!(reader.attend(&mut c, &[]).reads, [grant]);
    reader.attend(&mut c, &[grant]);
    c.create(dir, "last").unwrap();
    c.settle();
    assert!(partitions(&c) > 0);
    let mut again = Reader::new(&c, reader.shard);
    again.asked = 9;
    assert_eq!(again.read(&mut c, dir), Err(Errno::EAGAIN), "it has several partitions");
}

#[test]
fn a_hash_slot_moves_when_its_readers_have_given_it_back() {
    let mut c = cluster(2);
    let (dir, mut reader, grant) = read(&mut c);
    let to = ShardIndex(1 - reader.shard.0);
    let tag = c.send(reader.shard, Op::HandOver(reader.shard, dir.id.hash_slot(), to));
    c.wait(200_000_000);
    assert!(matches!(c.reply(tag).map(|it| it.result), None | Some(Ok(_))));
    let done = |c: &Cluster| c.counters().iter().map(|it| it.handovers).sum::<u64>();
    assert_eq!(done(&c), 0, "it moved under its reader");
    assert_eq!(reader.attend(&mut c, &[]).reads, [grant]);
    assert_eq!(reader.read(&mut c, dir), Err(Errno::EAGAIN));
    reader.attend(&mut c, &[grant]);
    c.settle();
    assert_eq!(done(&c), 1);
    assert_eq!(c.list(dir).len(), 5);
}

#[test]
fn a_split_directory_and_a_wrong_partition_are_not_read() {
    let mut c = cluster(1);
    let (dir, mut reader, _) = read(&mut c);
    let mut wrong = first(dir);
    wrong.partition = PartitionIndex(1);
    reader.asked += 1;
    let op = Op::BorrowToRead(reader.session, number(&c, reader.asked), wrong);
    assert_eq!(c.run(reader.shard, op), Err(NOT_NOW));
}
