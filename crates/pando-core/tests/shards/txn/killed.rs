//! One shard is killed, or loses its power, after each message of a change that spans shards. The
//! change is made as a whole or not at all. A client that asks again, as clients do, hears what
//! became of it. This holds, too, if a shard meets an unreadable block, or has no room for an
//! input's changes.

use std::fmt::Write;

use pando_types::op::{Op, RenameFlags};
use pando_types::reply::{Body, Found, Refusal};
use pando_types::{DirRef, Errno, SetAttr, ShardIndex, Trail};

use crate::support::{Cluster, Fault, dir_at};

const ROOT: DirRef = DirRef::ROOT;
const SHARDS: u16 = 4;

/// Prepares a change. Returns the shard to ask, and the request.
type Change = fn(&mut Cluster) -> (ShardIndex, Op);

/// Writes down all that can be seen of a tree: names, directories, their parents, and their
/// permissions by entry, by content and by partition.
fn picture(c: &mut Cluster, dir: DirRef, path: &str, to: &mut String) {
    let Ok(Body::Dir(attr)) = c.on_owner(&Op::DirGetAttr(dir)) else { panic!("{path} is there") };
    let Ok(Body::Parent(parent, name)) = c.on_owner(&Op::Parent(dir)) else { panic!("{path}") };
    let base = attr.base;
    writeln!(
        to,
        "{path}: {dir:?} {:o} {} {} in {parent:?} as {name:?}",
        base.mode, base.uid, base.gid
    )
    .expect("a string");
    for name in c.list(dir) {
        let owner = c.owner(dir, &name);
        let trail = Trail { version: 1 << 40, dirs: vec![] };
        let lookup = Op::Lookup(dir, c.name(&name));
        match c.ask(owner, (lookup, trail)).expect("nothing is locked") {
            Ok(Body::Entry(Found::Dir(access), search)) => {
                writeln!(to, "{path}/{name}: {access:?} through {search:?}").expect("a string");
                picture(c, access.dir, &format!("{path}/{name}"), to);
            }
            Ok(Body::Entry(Found::File(attr), _)) => {
                writeln!(to, "{path}/{name}: {:?}", attr.ino).expect("a string");
            }
            other => panic!("{path}/{name}: {other:?}"),
        }
    }
}

fn whole(c: &mut Cluster) -> String {
    let mut to = String::new();
    picture(c, ROOT, "", &mut to);
    to
}

fn new_cluster(change: Change) -> (Cluster, ShardIndex, Op) {
    let mut c = Cluster::new(SHARDS, 8);
    c.settle();
    let (shard, op) = change(&mut c);
    c.settle();
    (c, shard, op)
}

/// Two directories in different parents, each with something in it. Their homes are on different
/// shards, and not where the request goes.
fn two_dirs(c: &mut Cluster) -> [(String, DirRef, DirRef); 2] {
    [("one", 1, 2), ("other", 3, 0)].map(|(stem, parent_home, home)| {
        let (_, parent) = dir_at(c, ROOT, stem, |at| at.0 == parent_home);
        let (name, dir) = dir_at(c, parent, "dir", |at| at.0 == home);
        (name, parent, dir)
    })
}

fn rename(c: &Cluster, dirs: &[(String, DirRef, DirRef); 2]) -> Op {
    rename_by(c, dirs, RenameFlags::default())
}

fn rename_by(c: &Cluster, [one, other]: &[(String, DirRef, DirRef); 2], flags: RenameFlags) -> Op {
    let (name, new_name) = (c.name(&one.0), c.name(&other.0));
    Op::Rename { from: one.1, name, to: other.1, new_name, flags }
}

fn chmod(c: &mut Cluster) -> (ShardIndex, Op) {
    let [(_, _, dir), _] = two_dirs(c);
    c.mkdir(dir, "sub").unwrap();
    c.create(dir, "file").unwrap();
    let set = SetAttr { mode: Some(0o700), uid: Some(7), ..SetAttr::default() };
    (c.home(dir), Op::DirSetAttr(dir, set))
}

fn chmod_of_one_that_has_split(c: &mut Cluster) -> (ShardIndex, Op) {
    let (_, dir) = dir_at(c, ROOT, "split", |at| at.0 == 2);
    for n in 0..12 {
        c.create(dir, &format!("f{n}")).unwrap();
    }
    c.mkdir(dir, "sub").unwrap();
    c.settle();
    let set = SetAttr { mode: Some(0o700), uid: Some(7), ..SetAttr::default() };
    (c.home(dir), Op::DirSetAttr(dir, set))
}

fn replacing(c: &mut Cluster) -> (ShardIndex, Op) {
    let dirs = two_dirs(c);
    c.create(dirs[0].2, "file").unwrap();
    (c.home(dirs[0].1), rename(c, &dirs))
}

fn exchange(c: &mut Cluster) -> (ShardIndex, Op) {
    let dirs = two_dirs(c);
    c.create(dirs[0].2, "file").unwrap();
    c.mkdir(dirs[1].2, "sub").unwrap();
    let flags = RenameFlags { exchange: true, no_replace: false };
    (c.home(dirs[0].1), rename_by(c, &dirs, flags))
}

/// What all runs of a change have in common.
struct Expected {
    before: String,
    after: String,
    body: Body,
}

impl Expected {
    fn of(change: Change) -> Self {
        let (mut c, shard, op) = new_cluster(change);
        let before = whole(&mut c);
        let body = c.run(shard, op).expect("nothing is in its way");
        c.settle();
        let after = whole(&mut c);
        assert_ne!(before, after);
        Self { before, after, body }
    }

    /// Whether `body` is the expected answer. Times may differ, as the change may have run later.
    fn is_it(&self, body: &Body) -> bool {
        match (&self.body, body) {
            (Body::Dir(one), Body::Dir(other)) => {
                (one.base.mode, one.base.uid) == (other.base.mode, other.base.uid)
            }
            (one, other) => one == other,
        }
    }
}

/// Runs a change with each shard killed, or without power, after each number of messages.
fn kill_at_each_message(what: &str, change: Change) {
    let expected = Expected::of(change);
    let (mut done, mut undone, mut told_before) = (0, 0, 0);
    for shard in (0..SHARDS).map(ShardIndex) {
        for power in [false, true] {
            for messages in 0.. {
                let (mut c, coordinator, op) = new_cluster(change);
                if power {
                    c.keep_logs();
                }
                let tag = c.send(coordinator, op.clone());
                let id = c.last_id;
                let mut is_over = false;
                for _ in 0..messages {
                    is_over = !c.step();
                }
                let told = c.answer(tag);
                match power {
                    true => c.lose_power(shard),
                    false => c.restart([shard]),
                }
                c.settle();
                let case = format!("{what}: {shard:?} after {messages} messages, power {power}");
                let found = whole(&mut c);
                let is_done = found == expected.after;
                assert!(is_done || found == expected.before, "{case}: half of it:\n{found}");
                // What is told has reached the log: a process that dies does not take it back. A
                // loss of power may.
                assert!(is_done || told.is_none() || power, "{case}: was told {told:?}");
                *if is_done { &mut done } else { &mut undone } += 1;
                told_before += u64::from(told.is_some());
                // A decision is forgotten only at the next sync, which nothing asks for here.
                let [locks, _, prepared, _] = c.in_flight();
                assert_eq!((locks, prepared), (0, 0), "{case}");
                // The client asks again. A change that is done is not done twice, and the answer is
                // that of the change.
                let again = c.run(coordinator, (id, op));
                let body = again.unwrap_or_else(|refusal| panic!("{case}: {refusal:?}"));
                assert!(expected.is_it(&body), "{case}: {body:?}");
                if let (Some(told), true) = (told, is_done) {
                    assert_eq!(told, Ok(body), "{case}");
                }
                c.settle();
                assert_eq!(whole(&mut c), expected.after, "{case}: asked again");
                let [locks, _, prepared, _] = c.in_flight();
                assert_eq!((locks, prepared), (0, 0), "{case}");
                if is_over {
                    assert!(messages > 10, "{case}: there are some");
                    break;
                }
            }
        }
    }
    println!("{what}: {done} done, {undone} not, {told_before} told");
    assert!(done > 50 && undone > 10 && told_before > 20, "{what}: {done} {undone} {told_before}");
}

#[test]
fn a_chmod_of_a_directory_with_subdirectories_is_done_or_not_whichever_shard_is_killed() {
    kill_at_each_message("chmod", chmod);
}

#[test]
fn a_chmod_of_a_directory_that_has_split_is_done_or_not_whichever_shard_is_killed() {
    kill_at_each_message("chmod of a split one", chmod_of_one_that_has_split);
}

#[test]
fn a_rename_over_an_empty_directory_is_done_or_not_whichever_shard_is_killed() {
    kill_at_each_message("rename over an empty directory", replacing);
}

#[test]
fn an_exchange_of_two_directories_is_done_or_not_whichever_shard_is_killed() {
    kill_at_each_message("exchange", exchange);
}

/// One input fails, whichever it is. The change is made as a whole or not at all, and no request
/// waits for ever. `EIO` means that nothing was done.
fn fail_at_each(what: &str, change: Change, fault: Fault) {
    let expected = Expected::of(change);
    let (mut done, mut refused) = (0, 0);
    for local in [false, true] {
        for after in 0.. {
            let (mut c, coordinator, op) = new_cluster(change);
            if local {
                c.begin_session(Op::OpenLocalSession);
            }
            c.fail(fault, after);
            let tag = c.send(coordinator, op.clone());
            let id = c.last_id;
            c.settle();
            let is_over = !c.has_failed();
            let case = format!("{what}: local {local}, after {after}");
            let told = c.answer(tag).unwrap_or_else(|| panic!("{case}: no answer"));
            let found = whole(&mut c);
            let [locks, _, prepared, _] = c.in_flight();
            assert_eq!((locks, prepared), (0, 0), "{case}");
            match &told {
                Ok(body) => {
                    assert!(expected.is_it(body), "{case}: {body:?}");
                    assert!(found == expected.after, "{case}: half of it:\n{found}");
                    done += 1;
                }
                Err(refusal) => {
                    assert_eq!(*refusal, Refusal::Errno(Errno::EIO), "{case}");
                    assert!(found == expected.before, "{case}: some of it:\n{found}");
                    refused += 1;
                }
            }
            // A late copy of the request changes nothing, and the next request runs as usual.
            assert_eq!(c.run(coordinator, (id, op.clone())), told, "{case}: again");
            if told.is_err() {
                let again = c.run(coordinator, op);
                let body = again.unwrap_or_else(|refusal| panic!("{case}: anew: {refusal:?}"));
                assert!(expected.is_it(&body), "{case}: anew: {body:?}");
            }
            c.settle();
            assert!(whole(&mut c) == expected.after, "{case}: anew");
            if is_over {
                assert!(after > 3, "{case}: there are some");
                break;
            }
        }
    }
    println!("{what}: {done} done, {refused} refused");
    assert!(done > 1 && refused > 2, "{what}: {done} {refused}");
}

#[test]
fn a_chmod_of_a_directory_is_done_or_refused_whatever_cannot_be_read() {
    fail_at_each("chmod", chmod, Fault::Read);
    fail_at_each("chmod of a split one", chmod_of_one_that_has_split, Fault::Read);
}

#[test]
fn a_chmod_of_a_directory_is_done_or_refused_whatever_input_is_dropped() {
    fail_at_each("chmod", chmod, Fault::Input);
    fail_at_each("chmod of a split one", chmod_of_one_that_has_split, Fault::Input);
}

#[test]
fn a_rename_of_a_directory_is_done_or_refused_whatever_cannot_be_read() {
    fail_at_each("rename", replacing, Fault::Read);
    fail_at_each("exchange", exchange, Fault::Read);
}

#[test]
fn a_rename_of_a_directory_is_done_or_refused_whatever_input_is_dropped() {
    fail_at_each("rename", replacing, Fault::Input);
    fail_at_each("exchange", exchange, Fault::Input);
}

/// A directory's mode changes, and the shard of its entry loses its power. Before that shard hears
/// the decision again, the mode changes again, or the directory moves. In the end the entry agrees
/// with the directory.
#[test]
fn what_an_entry_says_of_a_directory_is_never_of_an_older_change() {
    let mode = |mode| SetAttr { mode: Some(mode), ..SetAttr::default() };
    for moves in [false, true] {
        for messages in 0.. {
            let mut c = Cluster::new(SHARDS, 8);
            c.keep_logs();
            let dirs = two_dirs(&mut c);
            let (name, parent, dir) = dirs[0].clone();
            c.settle();
            let (home, of_entry) = (c.home(dir), c.owner(parent, &name));
            assert_ne!(home, of_entry);
            // All earlier changes are durable.
            for shard in (0..SHARDS).map(ShardIndex) {
                c.run(shard, Op::Sync(shard)).expect("synced");
            }
            // Search permission does not change, so the change needs no version.
            c.send(home, Op::DirSetAttr(dir, mode(0o775)));
            let mut is_over = false;
            for _ in 0..messages {
                is_over = !c.step();
            }
            // Messages on their way to that shard are lost, too.
            c.take(|to, _| to == of_entry);
            c.lose_power(of_entry);
            let (to, next) = match moves {
                true => (c.home(parent), rename(&c, &dirs)),
                false => (home, Op::DirSetAttr(dir, mode(0o757))),
            };
            c.send(to, next);
            while c.step() {}
            c.settle();
            let (at, name) = if moves { (dirs[1].1, &dirs[1].0) } else { (parent, &name) };
            let lookup = Op::Lookup(at, c.name(name));
            let entry = c.on_owner(&lookup);
            let Ok(Body::Entry(Found::Dir(access), _) | Body::Found(Found::Dir(access))) = entry
            else {
                panic!("after {messages} messages, moves {moves}: {entry:?}");
            };
            assert_eq!(access.dir, dir);
            let Ok(Body::Dir(attr)) = c.on_owner(&Op::DirGetAttr(dir)) else { panic!("there") };
            assert_eq!(access.mode, attr.base.mode, "after {messages} messages, moves {moves}");
            if is_over {
                assert!(messages >= 4, "there are some");
                break;
            }
        }
    }
}
