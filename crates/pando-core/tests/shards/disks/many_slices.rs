//! Files with more slices than a frame holds. They stay in their entry, and no request waits for
//! ever.

use pando_core::keys::{self, Table};
use pando_types::op::{FileAt, FileRef, ObjectId, ObjectRange, Op, Payload, Piece};
use pando_types::reply::{Body, Found};
use pando_types::{Attr, DirRef, Errno, Order, ShardIndex};

use crate::support::Cluster;

const ROOT: DirRef = DirRef::ROOT;
const MOST: usize = 5;

/// A file with this number of slices, and holes between them.
pub fn sliced(c: &mut Cluster, dir: DirRef, name: &str, slices: usize) -> Attr {
    let attr = c.create(dir, name).unwrap();
    let piece = |n: u64| {
        let object = ObjectId(u128::from(c.session.0) << 64 | (u128::from(n) + 1));
        let (len, object_len) = (10, 10);
        let range = ObjectRange { object, offset: 0, len, object_len, store: 0, key: 0, codec: 0 };
        Piece { offset: n * 100, payload: Payload::Object(range) }
    };
    let pieces = (0..slices as u64).map(piece).collect();
    let file = FileRef { ino: attr.ino, at: FileAt::Name(dir, c.name(name)) };
    c.done(&Op::WriteData { file, base: Some(attr.data_version), pieces, mtime: None, kill: None })
        .unwrap();
    attr
}

fn at_name(c: &Cluster, name: &str, attr: &Attr) -> FileRef {
    FileRef { ino: attr.ino, at: FileAt::Name(ROOT, c.name(name)) }
}

/// A directory on the shard of the root's names, and one on another shard.
fn near_and_far(c: &mut Cluster) -> (DirRef, DirRef) {
    let owns =
        |c: &mut Cluster, dir| (0..3).map(ShardIndex).find(|s| !c.partitions([*s], dir).is_empty());
    let (mut near, mut far) = (None, None);
    for n in 0..40 {
        let dir = c.mkdir(ROOT, &format!("d{n}")).unwrap();
        c.settle();
        let is_near = owns(c, dir) == owns(c, ROOT);
        *(if is_near { &mut near } else { &mut far }) = Some(dir);
    }
    (near.expect("one in three"), far.expect("two in three"))
}

#[test]
fn a_file_of_too_many_slices_is_not_moved_to_another_shard() {
    let mut c = Cluster::with(3, |config| config.moved_slices = MOST);
    let (near, far) = near_and_far(&mut c);
    let attr = sliced(&mut c, ROOT, "large", MOST + 1);
    sliced(&mut c, ROOT, "small", MOST);
    assert_eq!(c.rename(ROOT, "large", far, "there"), Err(Errno::EXDEV));
    assert_eq!(c.link((ROOT, "large", attr.clone()), far, "again"), Err(Errno::EXDEV));
    c.settle();
    assert_eq!(c.in_flight(), [0; 4]);
    c.rename(ROOT, "large", ROOT, "renamed").unwrap();
    c.rename(ROOT, "renamed", near, "near").unwrap();
    c.rename(near, "near", ROOT, "large").unwrap();
    c.rename(ROOT, "small", far, "there").unwrap();
    assert!(matches!(c.lookup(ROOT, "large"), Ok(Found::File(found)) if found.ino == attr.ino));
}

#[test]
fn it_is_removed_when_no_session_has_it_open() {
    let mut c = Cluster::with(3, |config| config.moved_slices = MOST);
    let attr = sliced(&mut c, ROOT, "large", MOST + 1);
    let file = at_name(&c, "large", &attr);
    c.done(&Op::Open { file: file.clone(), access: 4, truncate: false, kill: None }).unwrap();
    assert_eq!(c.unlink(ROOT, "large"), Err(Errno::EFBIG));
    c.done(&Op::Release(file)).unwrap();
    c.unlink(ROOT, "large").unwrap();
    c.settle();
    assert_eq!(c.in_flight(), [0; 4]);
}

/// Number of slices of the removed file, number that go at once, and most bytes that an input may
/// write meanwhile. The bytes are fewer than all slices take.
const MANY: usize = 100;
const STEP: usize = 8;
const BYTES: usize = 2_000;

fn slices_left(c: &Cluster) -> usize {
    c.rows().keys().filter(|(_, key)| keys::is_slice(key)).count()
}

/// Checks that all of the file is gone, and that its objects are to be deleted.
fn is_gone(c: &mut Cluster, how: &str) {
    c.settle();
    assert_eq!(slices_left(c), 0, "{how}");
    assert_eq!(c.count(c.all(), &keys::table(Table::Shred)), 0, "{how}");
    assert_eq!(c.count(c.all(), &keys::table(Table::Garbage)), MANY, "{how}");
    assert_eq!(c.in_flight(), [0; 4], "{how}");
}

fn cluster_of_steps() -> (Cluster, Attr, FileRef) {
    let mut c = Cluster::with(3, |config| config.shred_slices = STEP);
    let attr = sliced(&mut c, ROOT, "large", MANY);
    c.settle();
    let file = at_name(&c, "large", &attr);
    (c, attr, file)
}

#[test]
fn very_many_slices_go_in_steps_however_their_file_goes() {
    let (mut c, ..) = cluster_of_steps();
    c.write_max = BYTES;
    c.unlink(ROOT, "large").unwrap();
    is_gone(&mut c, "a removal");

    let (mut c, _, file) = cluster_of_steps();
    c.done(&Op::Open { file: file.clone(), access: 4, truncate: false, kill: None }).unwrap();
    c.unlink(ROOT, "large").unwrap();
    c.settle();
    c.write_max = BYTES;
    c.done(&Op::Release(FileRef { at: FileAt::Link, ..file })).unwrap();
    is_gone(&mut c, "the last release");

    let (mut c, _, file) = cluster_of_steps();
    let first = c.session;
    c.done(&Op::Open { file, access: 4, truncate: false, kill: None }).unwrap();
    c.unlink(ROOT, "large").unwrap();
    c.settle();
    c.begin_session(Op::OpenSession);
    c.write_max = BYTES;
    c.run(ShardIndex(0), Op::EndSession(first)).unwrap();
    is_gone(&mut c, "the end of a session");

    let (mut c, attr, _) = cluster_of_steps();
    c.link((ROOT, "large", attr), ROOT, "again").unwrap();
    c.unlink(ROOT, "large").unwrap();
    c.settle();
    c.write_max = BYTES;
    c.unlink(ROOT, "again").unwrap();
    is_gone(&mut c, "the removal of the last of two names");
}

#[test]
fn between_the_steps_a_shard_may_restart_and_a_new_file_of_the_name_waits() {
    let (mut c, ..) = cluster_of_steps();
    let owner = c.owner(ROOT, "large");
    c.hurries = false;
    c.write_max = BYTES;
    assert!(matches!(c.run(owner, Op::Unlink(ROOT, c.name("large"))), Ok(Body::Done)));
    assert_eq!((slices_left(&c), c.count(c.all(), &keys::table(Table::Shred))), (MANY, 1));
    assert_eq!(c.lookup(ROOT, "large"), Err(Errno::ENOENT));
    let create = c.create_op(ROOT, "large");
    let waiting = c.send(owner, create);
    for _ in 0..3 {
        c.tick([owner], 0);
    }
    assert_eq!(c.answer(waiting), None);
    assert_eq!(slices_left(&c), MANY - 3 * STEP);
    c.restart([owner]);
    let create = c.create_op(ROOT, "large");
    let waiting = c.send(owner, create);
    c.tick([owner], 0);
    assert_eq!(c.answer(waiting), None, "it is locked after a restart, too");
    let (left, before) = (slices_left(&c), MANY - 3 * STEP);
    assert!(left < before, "it goes on after a restart");
    for _ in 0..left.div_ceil(STEP) + 1 {
        c.tick([owner], 0);
    }
    assert!(matches!(c.answer(waiting), Some(Ok(Body::Created(..)))));
    c.hurries = true;
    c.unlink(ROOT, "large").unwrap();
    is_gone(&mut c, "with a restart");
}

#[test]
fn a_file_that_takes_its_place_at_once_keeps_its_own_slices() {
    let (mut c, ..) = cluster_of_steps();
    sliced(&mut c, ROOT, "small", 3);
    c.rename(ROOT, "small", ROOT, "large").unwrap();
    c.settle();
    assert_eq!(slices_left(&c), 3);
}

/// Spoils a slice of each file beyond those that the removal of the file reads. One shard has all
/// the names.
fn spoil_slices(c: &mut Cluster, dir: DirRef, names: &[&str]) {
    let owner = c.owner(dir, names[0]);
    let key = |name: &str, n: u64| {
        let order = c.secrets.order(name.as_bytes()).0;
        let offset = (n * 100).to_be_bytes();
        [keys::dir(dir.id, keys::Kind::Slice, order), offset.to_vec()].concat()
    };
    let keys: Vec<_> = names.iter().map(|name| key(name, 50)..key(name, 51)).collect();
    c.spoil(owner, keys);
}

#[test]
fn slices_that_cannot_be_read_hold_up_no_others_and_go_when_they_can() {
    let (mut c, ..) = cluster_of_steps();
    let owner = c.owner(ROOT, "large");
    spoil_slices(&mut c, ROOT, &["large"]);
    sliced(&mut c, ROOT, "other", MANY);
    c.unlink(ROOT, "large").unwrap();
    c.unlink(ROOT, "other").unwrap();
    c.wait(1_000_000_000);
    let left = slices_left(&c);
    assert!(left <= MANY, "the other's have gone: {left}");
    assert_eq!(c.count(c.all(), &keys::table(Table::Shred)), 1);
    assert_eq!(c.counters().iter().map(|counters| counters.begun_anew).sum::<u64>(), 0);
    c.spoil(owner, []);
    c.wait(20_000_000_000);
    assert_eq!((slices_left(&c), c.count(c.all(), &keys::table(Table::Shred))), (0, 0));
}

#[test]
fn slices_that_stay_unreadable_are_given_up_and_their_name_is_free() {
    for is_removed in [false, true] {
        let mut c = Cluster::with(1, |config| config.shred_slices = STEP);
        let dir = c.mkdir(ROOT, "dir").unwrap();
        sliced(&mut c, dir, "bad", MANY);
        spoil_slices(&mut c, dir, &["bad"]);
        c.unlink(dir, "bad").unwrap();
        let op = match is_removed {
            true => Op::Rmdir(ROOT, c.name("dir")),
            false => c.create_op(dir, "bad"),
        };
        let restarts = c.counters()[0].restarts;
        let tag = c.send(ShardIndex(0), op);
        assert_eq!(c.answer(tag), None, "it waits");
        // A listing need not wait: the name leads nowhere.
        let listed = c.ask(ShardIndex(0), Op::ReadDir { dir, from: Order(0), limit: 10 });
        assert!(
            matches!(&listed, Some(Ok(Body::Page(page, None))) if page.is_empty()),
            "{listed:?}"
        );
        c.wait(100_000_000_000);
        assert!(c.answer(tag).is_some_and(|answer| answer.is_ok()));
        assert!(
            c.counters()[0].restarts <= restarts + 1,
            "it waits, and does not try again and again"
        );
        assert_eq!((slices_left(&c), c.count(c.all(), &keys::table(Table::Shred))), (0, 0));
        c.settle();
        assert_eq!(c.in_flight(), [0; 4]);
        assert_eq!(c.counters()[0].begun_anew, 0);
    }
}

#[test]
fn however_many_files_cannot_be_read_those_that_can_be_go() {
    let mut c = Cluster::with(1, |config| config.shred_slices = STEP);
    let mut names: Vec<_> = (0..20).map(|n| format!("f{n}")).collect();
    // The last file in the order of keys is readable.
    names.sort_by_key(|name| c.secrets.order(name.as_bytes()).0);
    for name in &names {
        sliced(&mut c, ROOT, name, MANY);
    }
    let unreadable: Vec<_> = names[..19].iter().map(String::as_str).collect();
    spoil_slices(&mut c, ROOT, &unreadable);
    for name in &names {
        c.unlink(ROOT, name).unwrap();
    }
    c.wait(5_000_000_000);
    assert_eq!(c.count(c.all(), &keys::table(Table::Shred)), 19);
}

/// What the end of a session writes does not grow with the slices of what the session leaves.
#[test]
fn a_session_that_leaves_many_files_ends_in_steps() {
    const ORPHANS: usize = 50;
    let mut c = Cluster::new(2, 1_000);
    let first = c.session;
    for name in (0..ORPHANS).map(|n| format!("f{n}")) {
        let attr = sliced(&mut c, ROOT, &name, MANY);
        let file = at_name(&c, &name, &attr);
        c.done(&Op::Open { file, access: 4, truncate: false, kill: None }).unwrap();
        c.unlink(ROOT, &name).unwrap();
    }
    c.settle();
    assert_eq!(slices_left(&c), ORPHANS * MANY);
    c.begin_session(Op::OpenSession);
    c.write_max = ORPHANS * 250;
    c.run(ShardIndex(0), Op::EndSession(first)).unwrap();
    c.wait(10_000_000_000);
    assert_eq!((slices_left(&c), c.count(c.all(), &keys::table(Table::Shred))), (0, 0));
    c.settle();
    assert_eq!(c.in_flight(), [0; 4]);
}
