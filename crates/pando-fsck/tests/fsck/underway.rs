//! Unfinished transactions are no damage: whichever message everything stops at, and while
//! operations go on.

use std::cell::RefCell;

use pando_core::keys::{self, Kind, Table};
use pando_core::record::{Content, Decided, Header, OpenAt, Record, Shred, Stat};
use pando_fsck::{Code, Mode, Objects, Page, Report, Rows, Unwatched, Watch, check};
use pando_types::op::{FileAt, FileRef, NewNode, ObjectId, Op};
use pando_types::peer::Change;
use pando_types::reply::Slice;
use pando_types::{
    DirRef, FileKind, Ino, Order, PartitionIndex, SessionId, SetAttr, ShardIndex, TxnId,
};

use crate::support;
use crate::support::{Bucket, Cluster, name};

const ROOT: DirRef = DirRef::ROOT;

fn is_clean(report: &Report, when: &str) {
    assert!(report.is_clean(), "{when}: {:#?}", report.findings);
}

/// All operations that take several shards, wherever they run.
fn operations(c: &Cluster) -> Vec<(&'static str, Op)> {
    let [a, b, big, deep] = ["a", "b", "big", "deep"].map(|dir| c.dir(dir));
    let linked = FileRef { ino: c.ino("linked"), at: FileAt::Name(a, name("linked")) };
    let mode = SetAttr { mode: Some(0o700), ..SetAttr::default() };
    vec![
        ("mkdir", Op::Mkdir(b, name("new"), 0o755)),
        ("chmod of a directory that has split", Op::DirSetAttr(big, mode)),
        ("rename of a directory", Cluster::rename_op(deep, "deeper", ROOT, "moved")),
        ("rename of a file with data", Cluster::rename_op(a, "big-data", b, "moved-data")),
        ("rename over a file with data", Cluster::rename_op(a, "small-data", b, "moved-data")),
        ("rename of an open file by another", Cluster::rename_op(a, "open", b, "opened")),
        ("link of a file with one name", {
            let plain = FileRef { ino: c.ino("plain"), at: FileAt::Name(a, name("plain")) };
            Op::Link(plain, big, name("plain-too"))
        }),
        ("link", Op::Link(linked, big, name("linked-four"))),
        ("unlink of a linked file", Op::Unlink(b, name("linked-too"))),
        ("rename over a directory", Cluster::rename_op(ROOT, "moved", ROOT, "empty")),
        ("rmdir", Op::Rmdir(ROOT, name("c"))),
        ("unlink in c", Op::Unlink(c.dir("c"), name("linked-three"))),
        ("rmdir of what is empty now", Op::Rmdir(ROOT, name("c"))),
    ]
}

/// Number of partitions of a directory.
fn partitions(c: &Cluster, dir: DirRef) -> usize {
    let (from, _) = keys::dir_range(dir.id, Kind::Header, &(0..1));
    Cluster::all_shards().map(|shard| c.rows(shard, &from[..18]).len()).sum()
}

#[test]
fn at_whatever_message_everything_stops_nothing_is_wrong() {
    let mut c = Cluster::busy();
    let mut looks = 0;
    let mut decided = 0;
    let mut look = |c: &mut Cluster, what: &str| {
        let report = c.check();
        is_clean(&report, what);
        looks += 1;
        decided += u64::from(report.pending.decided > 0);
    };
    // This session is not the one that has a file open.
    let first = c.session;
    c.begin_session();
    for (what, op) in operations(&c) {
        for shard in Cluster::all_shards() {
            c.send(shard, op.clone());
            look(&mut c, what);
            while c.deliver() {
                look(&mut c, what);
            }
            c.tick();
            while c.deliver() {
                look(&mut c, what);
            }
        }
        c.settle();
    }
    let node = NewNode { kind: FileKind::Regular, mode: 0o644, rdev: 0, symlink: Vec::new() };
    for n in 0..40 {
        let (dir, node) = (c.dir("b"), node.clone());
        let op = Op::Create { dir, name: name(&n.to_string()), node, exclusive: true, open: true };
        for shard in Cluster::all_shards() {
            c.send(shard, op.clone());
            while c.deliver() {
                look(&mut c, "splits");
            }
        }
    }
    // Half of the partitions are given back, to other shards and to their own.
    c.settle();
    let split = partitions(&c, c.dir("b"));
    for n in 0..40 {
        let op = Op::Unlink(c.dir("b"), name(&n.to_string()));
        for shard in Cluster::all_shards() {
            c.send(shard, op.clone());
            while c.deliver() {
                look(&mut c, "removals");
            }
        }
    }
    for _ in 0..8 {
        c.tick();
        while c.deliver() {
            look(&mut c, "merges");
        }
    }
    let merged = partitions(&c, c.dir("b"));
    assert!(split >= 4 && merged <= split / 2, "{split} partitions, then {merged}");
    for op in [Op::OpenSession, Op::EndSession(first)] {
        c.send(ShardIndex(0), op);
        while c.deliver() {
            look(&mut c, "sessions");
        }
    }
    c.settle();
    assert!(looks > 150 && decided > 40, "{looks} looks, {decided} at something decided");
    assert_eq!(c.list(ROOT).keys().cloned().collect::<Vec<_>>(), ["a", "b", "big", "empty"]);
    c.end_session(c.session);
    c.settle();
    c.stop();
    c.serves();
    is_clean(&c.check(), "at rest");
}

#[test]
fn at_whatever_message_a_handover_stops_nothing_is_wrong() {
    let mut c = Cluster::busy();
    let (mut arriving, mut decided) = (0, 0);
    let mut look = |c: &mut Cluster| {
        let report = c.check();
        is_clean(&report, "a slot is handed over");
        arriving += u64::from(report.pending.arriving > 0);
        decided += u64::from(report.pending.decided > 0);
    };
    let dirs = ["a", "b", "big", "deep"].map(|dir| c.dir(dir).id.hash_slot());
    let hash_slots = dirs.into_iter().chain([c.ino("linked").hash_slot()]);
    for hash_slot in hash_slots {
        // From the owner to the next shard, and once around.
        for shard in Cluster::all_shards() {
            let to = ShardIndex((shard.0 + 1) % support::SHARDS);
            c.send(shard, Op::HandOver(shard, hash_slot, to));
            look(&mut c);
            while c.deliver() {
                look(&mut c);
            }
        }
        c.settle();
    }
    assert!(arriving > 20 && decided > 10, "{arriving} looks at copies, {decided} at decisions");
    c.end_session(c.session);
    c.settle();
    c.stop();
    is_clean(&c.check(), "at rest");
}

/// A cluster in which operations go on between any two pages.
struct Lively<'a>(&'a RefCell<Cluster>, &'a RefCell<u64>);

impl Lively<'_> {
    /// Delivers a message, or begins a new operation if there is none.
    fn step(&self) {
        let mut c = self.0.borrow_mut();
        if c.deliver() {
            return;
        }
        let mut n = self.1.borrow_mut();
        *n += 1;
        let dirs = [ROOT, c.dir("a"), c.dir("b"), c.dir("big")];
        let (dir, other) = (dirs[(*n % 4) as usize], dirs[(*n / 4 % 4) as usize]);
        let (one, two) = (format!("x{}", *n * 7 % 13), format!("x{}", *n * 5 % 13));
        let node = NewNode { kind: FileKind::Regular, mode: 0o644, rdev: 0, symlink: Vec::new() };
        // Phases in which more names are made alternate with phases in which more are removed. So
        // partitions split and merge.
        let shrinks = *n / 200 % 2 == 1;
        let op = match *n % 6 {
            1 | 2 if shrinks => Op::Unlink(dir, name(&one)),
            0 | 1 => Op::Create { dir, name: name(&one), node, exclusive: true, open: false },
            2 => Op::Mkdir(dir, name(&one), 0o755),
            3 => Cluster::rename_op(dir, &one, other, &two),
            4 => Op::Rmdir(dir, name(&one)),
            _ => Op::Unlink(dir, name(&one)),
        };
        for shard in Cluster::all_shards() {
            c.send(shard, op.clone());
        }
        if (*n).is_multiple_of(10) {
            c.tick();
        }
    }
}

impl Rows for Lively<'_> {
    fn page(&mut self, shard: ShardIndex, from: &[u8], bytes: usize) -> Result<Page, String> {
        for _ in 0..6 {
            self.step();
        }
        self.0.borrow_mut().stores.page(shard, from, bytes.min(500))
    }
}

impl Watch for Lively<'_> {
    fn pause(&mut self) {
        let mut c = self.0.borrow_mut();
        c.settle();
    }
}

fn while_running(cluster: Cluster) -> (Report, Cluster) {
    let volume = cluster.volume.clone();
    let (cluster, count) = (RefCell::new(cluster), RefCell::new(0));
    let (mut rows, mut watch) = (Lively(&cluster, &count), Lively(&cluster, &count));
    let mut objects = Bucket(cluster.borrow().bucket.0.clone());
    let objects: Option<&mut dyn Objects> = Some(&mut objects);
    let report = check(&mut rows, objects, &volume, Mode::Running, &mut watch).unwrap();
    (report, cluster.into_inner())
}

#[test]
fn a_running_volume_is_not_slandered() {
    let mut cluster = Cluster::busy();
    let mut unjudged = 0;
    for round in 0..16 {
        let report;
        (report, cluster) = while_running(cluster);
        is_clean(&report, &format!("round {round}"));
        unjudged += report.unjudged;
    }
    assert!(unjudged > 20, "only {unjudged} suspicions: nothing was proved");
}

/// A volume in which one thing happens, after the tables are read and before all other rows are.
struct Once<F>(Cluster, Option<F>);

impl<F: FnOnce(&mut Cluster)> Rows for Once<F> {
    fn page(&mut self, shard: ShardIndex, from: &[u8], bytes: usize) -> Result<Page, String> {
        if from.is_empty()
            && let Some(happens) = self.1.take()
        {
            happens(&mut self.0);
        }
        self.0.stores.page(shard, from, bytes)
    }
}

/// Whether a decision gives partition 1 of a directory to another shard, which has not heard of it.
fn is_unheard(c: &Cluster, dir: DirRef) -> bool {
    Cluster::all_shards().any(|shard| {
        let rows = c.rows(shard, &keys::table(Table::Txn));
        rows.into_iter().any(|(key, value)| {
            let number = u64::from_be_bytes(key[2..].try_into().unwrap());
            let steps = Decided::decode(&value).unwrap().steps;
            steps.iter().any(|(step, to, changes)| {
                let own = Change::Own { dir, partition: PartitionIndex(1) };
                let prepared = keys::prepared(TxnId { shard, number }, *step);
                *to != shard && changes.contains(&own) && c.get(*to, &prepared).is_some()
            })
        })
    })
}

/// Sends operations to all shards until a move of partition 1 is decided and not yet heard.
fn until_unheard(c: &mut Cluster, dir: DirRef, ops: impl Iterator<Item = Op>) {
    for op in ops {
        for shard in Cluster::all_shards() {
            c.send(shard, op.clone());
            while !is_unheard(c, dir) && c.deliver() {}
        }
    }
    for _ in 0..20 {
        if is_unheard(c, dir) {
            return;
        }
        c.tick();
        while !is_unheard(c, dir) && c.deliver() {}
    }
    panic!("partition 1 has not moved");
}

/// Number of names after which a directory splits once.
const FEW: usize = 10;

fn fill(dir: DirRef) -> Vec<Op> {
    let node = NewNode { kind: FileKind::Regular, mode: 0o644, rdev: 0, symlink: Vec::new() };
    let names = (0..FEW).map(|n| name(&n.to_string()));
    names
        .map(|name| Op::Create { dir, name, node: node.clone(), exclusive: true, open: false })
        .collect()
}

fn empty(dir: DirRef) -> Vec<Op> {
    (0..FEW).map(|n| Op::Unlink(dir, name(&n.to_string()))).collect()
}

fn run_all(c: &mut Cluster, ops: Vec<Op>) {
    for op in ops {
        for shard in Cluster::all_shards() {
            c.send(shard, op.clone());
        }
        while c.deliver() {}
    }
    c.settle();
}

/// The tables say that a partition belongs to a shard which has yet to hear so. Before the
/// partitions are read, the shard hears it, and the partition moves back. It must not be counted
/// twice.
#[test]
fn a_partition_that_went_and_came_back_while_it_was_looked_for_is_not_there_twice() {
    for gives_back in [false, true] {
        let mut c = Cluster::busy();
        let dir = c.dir("empty");
        let (go, back) = (fill(dir), empty(dir));
        let (go, back) = if gives_back { (back, go) } else { (go, back) };
        if gives_back {
            run_all(&mut c, back.clone());
            assert_eq!(partitions(&c, dir), 2);
        }
        until_unheard(&mut c, dir, go.into_iter());
        let volume = c.volume.clone();
        let happens = |c: &mut Cluster| {
            c.settle();
            run_all(c, back);
        };
        let mut rows = Once(c, Some(happens));
        let report = check(&mut rows, None, &volume, Mode::Running, &mut Unwatched).unwrap();
        is_clean(&report, if gives_back { "given back" } else { "split off" });
        assert!(rows.1.is_none());
        // If nothing is left of the directory, nothing is suspected.
        assert_eq!(report.unjudged, u64::from(gives_back), "its partitions");
        let mut c = rows.0;
        assert_eq!(partitions(&c, dir), if gives_back { 2 } else { 1 });
        c.stop();
        is_clean(&c.check(), "at rest");
    }
}

#[test]
fn damage_is_found_while_all_goes_on() {
    type Inflict = fn(&mut Cluster);
    let damages: [(Code, Inflict); 5] = [
        (Code::WrongPermissionCopy, |c| {
            let (shard, key) = c.header(c.dir("deep").id, 0);
            c.change::<Header>(shard, &key, |header| header.inherit.mode = 0);
        }),
        (Code::WrongParentPointer, |c| {
            let (shard, key) = c.content(c.dir("deeper"));
            let parent = c.dir("empty");
            c.change::<Content>(shard, &key, |content| content.parent = parent);
        }),
        (Code::StrayRow, |c| {
            let (shard, key) = c.beside(c.dir("deep"), "nobody", Kind::Inline);
            c.put(shard, &key, b"data");
        }),
        (Code::OutcomeOfUnknownSession, |c| {
            let outcome = pando_core::record::Outcome { sequence: 1, result: None, at: None };
            let bytes = pando_core::record::Record::encode(&outcome);
            c.put(ShardIndex(2), &keys::outcome(SessionId(0), 0), &bytes);
        }),
        (Code::ObjectMissing, |c| c.bucket.0.clear()),
    ];
    for (code, inflict) in damages {
        let mut cluster = Cluster::busy();
        inflict(&mut cluster);
        let (report, _) = while_running(cluster);
        let codes: Vec<_> = report.findings.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, [code], "{:#?}", report.findings);
    }
}

#[test]
fn what_only_an_unchanging_view_can_tell_is_not_said_of_a_running_volume() {
    let mut cluster = Cluster::busy();
    let key = keys::table(Table::Stat);
    cluster.change::<Stat>(ShardIndex(1), &key, |stat| stat.bytes += 1);
    cluster.bucket.0.insert(pando_types::op::ObjectId(77 << 64), 1);
    let (report, _) = while_running(cluster);
    is_clean(&report, "running");
}

#[test]
fn an_object_that_its_session_may_still_name_is_left_alone() {
    let mut c = Cluster::busy();
    let object = pando_types::op::ObjectId(u128::from(c.session.0) << 64 | 1_000);
    c.bucket.0.insert(object, 5);
    c.stop();
    is_clean(&c.check(), "with a session");
    c.start();
    let session = c.session;
    c.end_session(session);
    c.settle();
    c.stop();
    let codes: Vec<_> = c.check().findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [Code::ObjectUnnamed]);
}

#[test]
fn a_name_is_told_by_its_path() {
    let mut c = Cluster::healthy();
    c.count(c.dir("deep"), "deeper", 0, 1);
    let (shard, _) = c.header(c.dir("deep").id, Order::END - 1);
    let report = c.check();
    let found = &report.findings[0];
    assert_eq!((found.path.as_deref(), found.shard), (Some("/a/deep"), shard));
}

/// A removed file with very many slices loses them in steps. Without the record that says so, its
/// slices are damage.
#[test]
fn slices_that_are_to_go_are_no_damage() {
    let (ino, order) = (Ino::new(ShardIndex(1), 1 << 30), 48);
    for is_link in [false, true] {
        let mut c = Cluster::busy();
        let dir = c.dir("c").id;
        let (shard, slices, at) = match is_link {
            true => (c.volume.map.link(ino), keys::link(ino, Kind::Slice), OpenAt::Link),
            false => {
                let slices = keys::dir(dir, Kind::Slice, order);
                (c.volume.map.home(dir), slices, OpenAt::Name(dir, order))
            }
        };
        let object = ObjectId(5 << 64 | 5);
        c.bucket.0.insert(object, 20 + support::TRAILER);
        for offset in [0, 100_u64] {
            let key = [&*slices, &offset.to_be_bytes()].concat();
            let slice = Slice { offset, range: support::object_range(object, 20) };
            c.put(shard, &key, &slice.encode());
        }
        let record = keys::shred(&slices);
        c.put(shard, &record, &Shred { ino, at }.encode());
        is_clean(&c.check(), "before the first step");
        // Some slices of an object may be gone already, while others remain.
        c.put(shard, &keys::garbage(object), &[1]);
        is_clean(&c.check(), "between two steps");
        c.delete(shard, &record);
        let found: Vec<_> = c.check().findings.iter().map(|finding| finding.code).collect();
        assert_eq!(found, [Code::StrayRow; 2]);
    }
}
