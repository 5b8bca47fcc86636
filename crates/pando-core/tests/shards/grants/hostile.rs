//! What a review found: each test shows one fault.

use pando_core::Need;
use pando_core::Said;
use pando_core::keys::{self, Table};
use pando_types::lend::{Act, Element, HOLD, Loan, Part, PartOpen, Standing};
use pando_types::op::{
    ATTEND_FOR, CHANGE_MAX, FileAt, FileRef, ObjectId, ObjectRange, Op, Payload, Piece,
};
use pando_types::reply::{Body, Found, Refusal};
use pando_types::requests::asked::Asked;
use pando_types::{Credentials, DirRef, Ino, Judge, Order, PartitionIndex, ShardIndex, Trail};

use super::{Holder, NOT_NOW, cluster, first, lent};
use crate::support::Cluster;

const FENCED_AFTER: u64 = HOLD + 1_000_000_000;

fn another(c: &mut Cluster) {
    c.begin_session(Op::OpenSession);
    while c.step() {}
}

fn ino_of(holder: &mut Holder, c: &mut Cluster, dir: DirRef, name: &str) -> Ino {
    let name = c.name(name);
    match holder.here(c, Op::Lookup(dir, name)) {
        Ok(Body::Found(Found::File(attr))) => attr.ino,
        other => panic!("{other:?}"),
    }
}

/// `file_page` ends at 256 KiB, and nothing asks for the rest: slices beyond are taken for holes.
#[test]
pub fn a_file_of_many_slices_is_lent_whole() {
    const SLICES: u64 = 10_000;
    let mut c = cluster(1);
    let dir = c.mkdir(DirRef::ROOT, "dir").unwrap();
    let attr = c.create(dir, "large").unwrap();
    let piece = |n: u64| {
        let object = ObjectId(u128::from(c.session.0) << 64 | (u128::from(n) + 1));
        let (len, object_len) = (10, 10);
        let range = ObjectRange { object, offset: 0, len, object_len, store: 0, key: 0, codec: 0 };
        Piece { offset: n * 100, payload: Payload::Object(range) }
    };
    let pieces = (0..SLICES).map(piece).collect();
    let file = FileRef { ino: attr.ino, at: FileAt::Name(dir, c.name("large")) };
    let write = Op::WriteData {
        file: file.clone(),
        base: Some(attr.data_version),
        pieces,
        mtime: None,
        kill: None,
    };
    c.done(&write).unwrap();
    let read = Op::ReadData { file, offset: (SLICES - 1) * 100, len: 10 };
    let Ok(Body::Layout(there)) = c.on_owner(&read) else { panic!() };
    assert_eq!(there.slices.len(), 1);
    let mut holder = Holder::new(&c, c.home(dir));
    holder.borrow(&mut c, first(dir)).unwrap();
    let Ok(Body::Layout(here)) = holder.here(&mut c, read) else { panic!() };
    assert_eq!(here.slices, there.slices, "the holder reads a hole");
}

/// `LentCore::take_inos` takes a range again of which all numbers are used.
#[test]
fn numbers_that_are_used_up_are_not_taken_again_from_a_late_answer() {
    let mut c = cluster(1);
    let (dir, mut holder, _) = lent(&mut c);
    let mut inos = std::collections::BTreeSet::new();
    loop {
        let op = c.create_op(dir, "f");
        match holder.say(&mut c, op) {
            Said::Answer(Ok(Body::Created(attr, true, _)), _) => {
                assert!(inos.insert(attr.ino), "{} is used twice", attr.ino.0);
            }
            Said::Travel(_) => break,
            other => panic!("{other:?}"),
        }
        let name = c.name("f");
        holder.here(&mut c, Op::Unlink(dir, name)).unwrap();
    }
    assert!(inos.len() > 1_000, "{}", inos.len());
    holder.stream(&mut c);
    let Ok(Body::Created(attr, ..)) = holder.create(&mut c, dir, "f") else { panic!() };
    assert!(inos.insert(attr.ino), "{} is used twice", attr.ino.0);
    holder.stream(&mut c);
}

/// `dirs.known` of the lent core keeps the headers that it has read before the second part came.
#[test]
fn a_second_part_of_a_directory_is_answered_from() {
    let change = |config: &mut pando_core::Config| {
        (config.lends, config.split_threshold) = (true, 20);
    };
    let mut c = Cluster::with(1, change);
    let dir = c.mkdir(DirRef::ROOT, "dir").unwrap();
    let names: Vec<_> = (0..24).map(|n| format!("n{n}")).collect();
    for name in &names {
        c.create(dir, name).unwrap();
    }
    c.settle();
    assert_eq!(c.partitions(c.all(), dir).len(), 2);
    let mut holder = Holder::new(&c, c.home(dir));
    holder.borrow(&mut c, first(dir)).unwrap();
    let here = |holder: &mut Holder, c: &mut Cluster| {
        let mut count = 0;
        for name in &names {
            let lookup = Op::Lookup(dir, c.name(name));
            count += u32::from(matches!(holder.say(c, lookup), Said::Answer(Ok(_), _)));
        }
        count
    };
    let of_first = here(&mut holder, &mut c);
    assert!(of_first > 0 && of_first < 24);
    holder.borrow(&mut c, Part { dir, partition: PartitionIndex(1) }).unwrap();
    assert_eq!(here(&mut holder, &mut c), 24, "the second part is lent, and travels");
}

/// What `Attend` forgets in memory stayed on disk if it then waited: `Stop::Wait` discards its
/// writes.
#[test]
fn what_is_acknowledged_is_forgotten_also_if_the_question_waits() {
    let mut c = cluster(1);
    let (_, mut holder, grant) = lent(&mut c);
    let other = c.mkdir(DirRef::ROOT, "other").unwrap();
    holder.borrow(&mut c, first(other)).unwrap();
    holder.give_back(&mut c, grant);
    assert_eq!(c.count(c.all(), &keys::table(Table::Grant)), 2);
    let op = holder.attend_op(vec![], vec![grant]);
    let tag = c.send(holder.shard, op);
    c.tick(c.all(), 2 * ATTEND_FOR);
    assert!(c.answer(tag).is_some());
    assert_eq!(c.count(c.all(), &keys::table(Table::Grant)), 1, "a row is left behind");
}

/// An answer that names 1,024 recalls prolongs the hold of all, also of those it does not name.
/// These are fenced by what the shard knew before.
#[test]
fn a_recall_that_did_not_fit_into_an_answer_does_not_end_the_hold_early() {
    let change = |config: &mut pando_core::Config| {
        (config.lends, config.split_threshold) = (true, 100_000);
    };
    let mut c = Cluster::with(1, change);
    let dirs: Vec<_> =
        (0..1_100).map(|n| c.mkdir(DirRef::ROOT, &format!("d{n}")).unwrap()).collect();
    let mut holder = Holder::new(&c, ShardIndex(0));
    let grants: Vec<_> =
        dirs.iter().map(|dir| holder.borrow(&mut c, first(*dir)).unwrap()).collect();
    c.tick(c.all(), 1_000_000_000);
    assert!(holder.attend(&mut c).prolongs);
    c.tick(c.all(), 5_000_000_000);
    another(&mut c);
    let tags: Vec<_> = dirs.iter().map(|dir| c.send(ShardIndex(0), Op::DirGetAttr(*dir))).collect();
    let sent_at = c.nanos;
    let news = holder.attend(&mut c);
    let untold = grants.iter().position(|grant| !news.recalled.contains(grant)).unwrap();
    assert!(!news.prolongs, "a part may be used beyond its fence");
    // The next answer tells of all that are left.
    let rest = holder.attend_knowing(&mut c, news.recalled, vec![]);
    assert!(rest.prolongs && rest.recalled.contains(&grants[untold]));
    c.tick(c.all(), sent_at + FENCED_AFTER - c.nanos);
    assert!(c.counters()[0].parts_fenced > 0 && tags.len() == grants.len());
}

/// A return that was sent before its holder knew of the refusal opens the gate at once.
#[test]
fn a_return_behind_a_refused_element_waits_until_the_holder_knows() {
    let mut c = cluster(1);
    let (dir, mut holder, grant) = lent(&mut c);
    holder.create(&mut c, dir, "a").unwrap();
    holder.create(&mut c, dir, "b").unwrap();
    let mut all = holder.unsent.clone();
    all.extend(holder.core.end(grant));
    let Act::Change(change) = &mut all[0].act else { panic!() };
    change.digest ^= 1;
    let tag = c.send(holder.shard, Op::Lookup(dir, c.name("old0")));
    let states = holder.send(&mut c, all);
    assert_eq!(states[0].1.standing, Standing::Refused);
    assert_eq!(c.answer(tag), None, "another saw the part before its holder heard of the loss");
}

/// What a holder hears of a difference must be durable: it sets changes aside.
#[test]
fn a_refusal_is_durable_before_it_is_told() {
    let mut c = cluster(1);
    let (dir, mut holder, _) = lent(&mut c);
    holder.create(&mut c, dir, "a").unwrap();
    let mut all = holder.unsent.clone();
    let Act::Change(change) = &mut all[0].act else { panic!() };
    change.digest ^= 1;
    let states = holder.send(&mut c, all);
    assert_eq!(states[0].1.standing, Standing::Refused);
    assert_ne!(c.last_need, Some(Need::Committed));
}

/// An older copy of a question, answered with news, takes the timer of the newer one away.
#[test]
fn every_question_is_answered_in_time() {
    let mut c = cluster(1);
    let (dir, holder, grant) = lent(&mut c);
    another(&mut c);
    c.send(holder.shard, Op::Lookup(dir, c.name("old0")));
    let newer = c.send(holder.shard, holder.attend_op(vec![grant], vec![]));
    assert_eq!(c.answer(newer), None);
    let older = c.send(holder.shard, holder.attend_op(vec![], vec![]));
    assert!(c.answer(older).is_some());
    for _ in 0..20 {
        c.tick(c.all(), ATTEND_FOR / 5);
    }
    assert!(c.answer(newer).is_some(), "it waits for ever");
}

/// A question that is refused when it wakes leaves its timer behind: the shard ticks without end.
#[test]
fn a_question_that_is_refused_leaves_no_timer() {
    let mut c = cluster(1);
    let (_, holder, _) = lent(&mut c);
    let dir = c.mkdir(DirRef::ROOT, "way").unwrap();
    c.settle();
    let trail = Trail { version: c.newest_version(), dirs: vec![DirRef::ROOT.ino, dir.ino] };
    let tag = c.send(holder.shard, (holder.attend_op(vec![], vec![]), trail));
    assert_eq!(c.answer(tag), None);
    c.rename(DirRef::ROOT, "way", DirRef::ROOT, "off").unwrap();
    assert_eq!(c.answer(tag), None);
    c.hurries = false;
    c.tick(c.all(), 2 * ATTEND_FOR);
    c.tick(c.all(), 1_000);
    assert_eq!(c.answer(tag), Some(Err(Refusal::Stale)));
    c.tick(c.all(), ATTEND_FOR);
    assert!(c.last_wake.is_none_or(|at| at > c.nanos), "the next tick was due long ago");
}

/// Grants that are over are kept without bound while the holder does not acknowledge them.
#[test]
fn a_liar_that_acknowledges_nothing_leaves_a_bounded_number_of_rows() {
    let mut c = cluster(1);
    let dir = c.mkdir(DirRef::ROOT, "dir").unwrap();
    let shard = c.home(dir);
    let holder = Holder::new(&c, shard);
    for nth in 1..5_000 {
        let borrow = Op::Borrow(holder.session, super::number(&c, nth), dir, Order(0));
        let Ok(Body::Lent(Loan { grant, .. }, _)) = c.run(shard, borrow) else {
            return;
        };
        holder.send(&mut c, vec![Element { grant, number: 1, act: Act::Return(Some(vec![])) }]);
    }
    let rows = c.count(c.all(), &keys::table(Table::Grant));
    assert!(rows <= 4_096, "{rows} rows for a session that has no part");
}

/// Nothing ends the grants of a session that is over, or forgets them.
#[test]
fn grants_of_a_session_that_is_over_end_by_themselves() {
    let mut c = cluster(1);
    let (_, mut holder, _) = lent(&mut c);
    let other = c.mkdir(DirRef::ROOT, "other").unwrap();
    let second = holder.borrow(&mut c, first(other)).unwrap();
    holder.give_back(&mut c, second);
    c.run(holder.shard, Op::EndSession(holder.session)).unwrap();
    c.settle();
    for _ in 0..30 {
        c.tick(c.all(), 3_600_000_000_000);
    }
    assert_eq!(c.counters()[0].parts_fenced, 1, "still lent after a day");
    assert_eq!(c.count(c.all(), &keys::table(Table::Grant)), 0);
}

/// A holder that is fenced may borrow again at once, and keeps others waiting for 9 s each time.
#[test]
fn a_key_that_was_fenced_borrows_nothing_for_a_while() {
    let mut c = cluster(1);
    let (dir, mut holder, _) = lent(&mut c);
    let tag = c.send(holder.shard, Op::Lookup(dir, c.name("old0")));
    c.tick(c.all(), FENCED_AFTER + 1_000_000);
    assert!(c.answer(tag).is_some());
    c.tick(c.all(), 1_000_000_000);
    assert_eq!(holder.borrow(&mut c, first(dir)), Err(NOT_NOW));
}

/// A number of opens that a liar tells overflows at the next open.
#[test]
fn a_count_of_opens_that_a_liar_tells_does_not_overflow() {
    let mut c = cluster(1);
    let (dir, mut holder, grant) = lent(&mut c);
    let ino = ino_of(&mut holder, &mut c, dir, "old0");
    let lie = PartOpen { ino, order: c.secrets.order(b"old0"), count: u32::MAX };
    holder.send(&mut c, vec![Element { grant, number: 1, act: Act::Return(Some(vec![lie])) }]);
    let file = FileRef { ino, at: FileAt::Name(dir, c.name("old0")) };
    let _ = c.done(&Op::Open { file, access: 4, truncate: false, kill: None });
}

/// A return that names one open many times writes it as often, in one group, in quadratic time.
#[test]
fn a_return_that_names_one_file_many_times_writes_little() {
    let mut c = cluster(1);
    let (dir, mut holder, grant) = lent(&mut c);
    let ino = ino_of(&mut holder, &mut c, dir, "old0");
    let lie = PartOpen { ino, order: c.secrets.order(b"old0"), count: 1 };
    c.write_max = 64 << 10;
    let lies = vec![lie; 10_000];
    holder.send(&mut c, vec![Element { grant, number: 1, act: Act::Return(Some(lies)) }]);
}

/// A full disk: each question that acknowledges something lets the shard begin anew.
#[test]
fn a_question_on_a_spent_disk_does_not_let_the_shard_begin_anew() {
    let mut c = cluster(1);
    let (_, mut holder, grant) = lent(&mut c);
    holder.give_back(&mut c, grant);
    c.is_spent = true;
    for _ in 0..3 {
        let tag = c.send(holder.shard, holder.attend_op(vec![], vec![grant]));
        let _ = c.answer(tag);
    }
    assert_eq!(c.counters()[0].begun_anew, 0);
}

/// The shell keeps 8 KiB of log for a tick. What one tick fences may take any amount: on a disk
/// that is nearly full it never fits, and the shard begins anew with every tick.
#[test]
fn what_one_tick_fences_fits_into_what_is_kept_for_a_tick() {
    let change = |config: &mut pando_core::Config| {
        (config.lends, config.split_threshold) = (true, 100_000);
    };
    let mut c = Cluster::with(1, change);
    let dirs: Vec<_> = (0..500).map(|n| c.mkdir(DirRef::ROOT, &format!("d{n}")).unwrap()).collect();
    let mut holder = Holder::new(&c, ShardIndex(0));
    dirs.iter().for_each(|dir| assert!(holder.borrow(&mut c, first(*dir)).is_ok()));
    another(&mut c);
    dirs.iter().for_each(|dir| assert!(c.send(ShardIndex(0), Op::DirGetAttr(*dir)) > 0));
    c.write_max = 8 << 10;
    c.tick(c.all(), FENCED_AFTER + 1_000_000_000);
}

/// What a request may not have, an element may: more groups, and more bytes than `CHANGE_MAX`.
#[test]
fn an_element_is_bounded_as_a_request_is() {
    let mut c = cluster(1);
    let (dir, mut holder, _) = lent(&mut c);
    let groups = (0..100_000).collect();
    let by = Credentials { uid: 0, gid: 0, judge: Judge::Shard(groups) };
    let op = c.create_op(dir, "a");
    holder.here(&mut c, op.clone()).unwrap();
    let mut element = holder.unsent[0].clone();
    let Act::Change(change) = &mut element.act else { panic!() };
    change.asked = Asked { credentials: by, op }.encode();
    assert!(change.asked.len() > CHANGE_MAX);
    let states = holder.send(&mut c, vec![element]);
    assert_eq!((states[0].1.standing, states[0].1.applied), (Standing::Refused, 0));
}

/// Whoever waits for a part with a transaction begins it again every 2 ms, for 9 s.
#[test]
fn a_transaction_that_meets_a_part_of_a_dead_holder_does_not_begin_thousands_of_times() {
    let mut c = cluster(2);
    let (dir, _, _) = lent(&mut c);
    c.create(DirRef::ROOT, "file").unwrap();
    another(&mut c);
    let rename = Op::Rename {
        from: DirRef::ROOT,
        name: c.name("file"),
        to: dir,
        new_name: c.name("moved"),
        flags: pando_types::op::RenameFlags::default(),
    };
    let shard = c.home(DirRef::ROOT);
    let tag = c.send(shard, rename);
    let mut begun = 0;
    for _ in 0..4_500 {
        begun += u64::from(c.messages().count() > 0);
        while c.step() {}
        c.tick(c.all(), 2_000_000);
    }
    let restarts: u64 = c.counters().iter().map(|it| it.restarts).sum();
    let _ = (tag, begun);
    assert!(restarts < 200, "{restarts} times in 9 s");
}
