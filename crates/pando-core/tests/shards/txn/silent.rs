//! A shard that is away. Work that does not concern it goes on, and a wait for its vote ends.

use pando_core::{Write, keys};
use pando_types::op::{Op, RenameFlags};
use pando_types::reply::{Body, Refusal};
use pando_types::{DirRef, Errno, Order, SetAttr, ShardIndex, TimeSet, Timestamp};

use crate::support::{Cluster, dir_at};

const SECOND: u64 = 1_000_000_000;
const WAIT: u64 = 4 * SECOND;
const AWAY: ShardIndex = ShardIndex(2);
const BUSY: Result<Body, Refusal> = Err(Refusal::Errno(Errno::EBUSY));

fn cluster() -> Cluster {
    Cluster::with(3, |config| config.votes_wait = WAIT)
}

/// Delivers all messages that can be delivered.
fn deliver(c: &mut Cluster) {
    while c.step() {}
}

fn list(dir: DirRef) -> Op {
    Op::ReadDir { dir, from: Order(0), limit: 100 }
}

fn names(answer: Option<Result<Body, Refusal>>) -> Vec<String> {
    match answer {
        Some(Ok(Body::Page(page, None))) => page.iter().map(|it| it.name.to_string()).collect(),
        other => panic!("{other:?}"),
    }
}

/// Makes directories until one has its home on the shard that is away, and waits. Returns its name,
/// and the request's tag.
fn stuck_mkdir(c: &mut Cluster, parent: DirRef) -> (String, u64) {
    for n in 0..100 {
        let name = format!("dir-{n}");
        let op = Op::Mkdir(parent, c.name(&name), 0o755);
        let tag = c.send(c.home(parent), op);
        deliver(c);
        if c.answer(tag).is_none() {
            return (name, tag);
        }
    }
    panic!("no home there");
}

#[test]
fn a_listing_waits_for_a_vote_no_longer_than_its_name() {
    let mut c = cluster();
    let (root, home) = (DirRef::ROOT, c.home(DirRef::ROOT));
    c.create(root, "file").unwrap();
    c.silence([AWAY]);
    let (name, _) = stuck_mkdir(&mut c, root);
    // The name is in doubt: a page ends before it, and the next page waits.
    let mut from = Order(0);
    let page = |from| Op::ReadDir { dir: root, from, limit: 100 };
    while let Some(answer) = c.ask(home, page(from)) {
        let Ok(Body::Page(_, Some(next))) = answer else { panic!("{answer:?}") };
        from = next;
    }
    c.wait(WAIT + SECOND);
    let shown = names(c.ask(home, list(root)));
    assert!(shown.contains(&"file".to_owned()) && !shown.contains(&name), "{shown:?}");
}

#[test]
fn a_transaction_whose_vote_does_not_come_is_undone() {
    let mut c = cluster();
    let (root, home) = (DirRef::ROOT, c.home(DirRef::ROOT));
    c.silence([AWAY]);
    let (name, tag) = stuck_mkdir(&mut c, root);
    c.wait(WAIT - SECOND);
    assert_eq!(c.answer(tag), None);
    c.wait(2 * SECOND);
    assert_eq!(c.answer(tag), Some(BUSY));
    assert_eq!(c.in_flight()[..3], [0, 0, 0]);
    assert_eq!(c.counters()[usize::from(home.0)].votes_given_up, 1);
    // The name is free, and nothing is left of it at the shard that was away.
    c.create(root, &name).unwrap();
    c.silence([]);
    c.wait(5 * SECOND);
    assert_eq!(c.in_flight()[..3], [0, 0, 0]);
    c.unlink(root, &name).unwrap();
    c.mkdir(root, &name).unwrap();
}

#[test]
fn no_transaction_waits_for_a_silent_shard() {
    let mut c = cluster();
    let root = DirRef::ROOT;
    c.silence([AWAY]);
    stuck_mkdir(&mut c, root);
    c.wait(WAIT + SECOND);
    let mut busy = 0;
    for n in 0..30 {
        let op = Op::Mkdir(root, c.name(&format!("later-{n}")), 0o755);
        let tag = c.send(c.home(root), op);
        deliver(&mut c);
        let answer = c.answer(tag).expect("it is answered at once");
        busy += u32::from(answer == BUSY);
    }
    assert!(busy > 0);
    assert_eq!(c.in_flight()[..3], [0, 0, 0]);
    // The shard is probed each second.
    c.silence([]);
    c.wait(2 * SECOND);
    for n in 0..30 {
        c.mkdir(root, &format!("back-{n}")).unwrap();
    }
}

/// Here shard 0 waits for a shard that is away. The other shards need not know why.
#[test]
fn no_transaction_waits_twice_for_a_shard_that_does_not_hear_of_a_change() {
    let mut c =
        Cluster::with(3, |config| (config.votes_wait, config.versions_wait) = (WAIT, 3 * WAIT));
    let root = DirRef::ROOT;
    let mut dirs = Vec::new();
    for n in 0..20 {
        let dir = c.mkdir(root, &format!("dir-{n}")).unwrap();
        if c.home(dir) == ShardIndex(1) {
            c.mkdir(dir, "below").unwrap();
            dirs.push(dir);
        }
    }
    c.settle();
    // Search permission changes, so all shards must know.
    let hide = |dir| Op::DirSetAttr(dir, SetAttr { mode: Some(0o700), ..SetAttr::default() });
    c.silence([AWAY]);
    let first = c.send(ShardIndex(1), hide(dirs[0]));
    deliver(&mut c);
    assert_eq!(c.answer(first), None);
    c.wait(WAIT + SECOND);
    assert_eq!(c.answer(first), Some(BUSY));
    for dir in &dirs {
        let tag = c.send(ShardIndex(1), hide(*dir));
        deliver(&mut c);
        assert_eq!(c.answer(tag), Some(BUSY), "it is answered at once");
        assert_eq!(c.in_flight()[..3], [0, 0, 0]);
    }
    c.silence([]);
    c.wait(5 * SECOND);
    for dir in dirs {
        c.run(ShardIndex(1), hide(dir)).unwrap();
    }
}

/// The vote was given, and did not arrive.
#[test]
fn a_vote_that_comes_too_late_is_told_so() {
    let mut c = cluster();
    let (root, home) = (DirRef::ROOT, c.home(DirRef::ROOT));
    let mut late = Vec::new();
    let mut tag = 0;
    for n in 0..100 {
        let op = Op::Mkdir(root, c.name(&format!("dir-{n}")), 0o755);
        tag = c.send(home, op);
        while c.step() {
            while c.step_of(|to, _| to == AWAY) {}
            late = c.take(|to, _| to == home);
            if !late.is_empty() {
                break;
            }
        }
        if !late.is_empty() {
            break;
        }
    }
    assert_eq!((late.len(), c.answer(tag)), (1, None));
    c.silence([AWAY, home]);
    c.wait(WAIT + SECOND);
    assert_eq!(c.answer(tag), Some(BUSY));
    c.silence([]);
    c.deliver(late);
    c.wait(3 * SECOND);
    assert_eq!(c.in_flight()[..3], [0, 0, 0]);
}

#[test]
fn a_directory_that_is_touched_where_a_shard_is_away_goes_on_elsewhere() {
    let mut c = Cluster::with(3, |config| {
        (config.split_threshold, config.votes_wait) = (6, WAIT);
    });
    let root = DirRef::ROOT;
    let mut dir = c.mkdir(root, "dir").unwrap();
    for n in 0.. {
        if c.home(dir) != AWAY {
            break;
        }
        dir = c.mkdir(root, &format!("other-{n}")).unwrap();
    }
    for n in 0..60 {
        c.create(dir, &format!("file-{n}")).unwrap();
        c.settle();
    }
    assert!(!c.partitions([AWAY], dir).is_empty(), "it has not split that far");
    c.silence([AWAY]);
    let touch = |c: &mut Cluster| {
        let at = TimeSet::To(Timestamp::default());
        let set = SetAttr { mtime: Some(at), ..SetAttr::default() };
        let tag = c.send(c.home(dir), Op::DirSetAttr(dir, set));
        deliver(c);
        tag
    };
    let first = touch(&mut c);
    assert_eq!(c.answer(first), None);
    c.wait(WAIT + SECOND);
    assert_eq!(c.answer(first), Some(BUSY));
    // The next request is refused before it holds anything for long.
    let second = touch(&mut c);
    assert_eq!(c.answer(second), Some(BUSY));
    let mut made = 0;
    for n in 0..60 {
        let name = format!("new-{n}");
        let owner = c.owner(dir, &name);
        if owner == AWAY {
            continue;
        }
        let op = c.create_op(dir, &name);
        assert!(matches!(c.ask(owner, op), Some(Ok(_))), "{name}");
        made += 1;
    }
    assert!(made > 0);
}

const ROOT: DirRef = DirRef::ROOT;

/// The home names another shard for a partition, and that shard names the home. This happens after
/// a loss of power, until a decision is heard again.
#[test]
fn a_step_that_two_shards_send_to_each_other_does_not_go_to_and_fro_for_ever() {
    let mut c = Cluster::new(3, 20);
    let (_, dir) = dir_at(&mut c, ROOT, "dir", |home| home.0 == 1);
    let (_, from) = dir_at(&mut c, ROOT, "from", |home| home.0 == 0);
    for n in 0..100 {
        c.create(dir, &format!("f{n}")).unwrap();
    }
    c.settle();
    let there = ShardIndex(2);
    let name = (0..100).map(|n| format!("new{n}")).find(|name| c.owner(dir, name) == there);
    let name = name.expect("it has split");
    c.create(from, "file").unwrap();
    c.settle();
    let [first, last] = [0, u64::MAX].map(|order| keys::dir(dir.id, keys::Kind::Header, order));
    c.write(there, vec![Write::DeleteRange(first, keys::after(&last))]);
    c.restart([there]);
    let (file, new_name, flags) = (c.name("file"), c.name(&name), RenameFlags::default());
    c.send(ShardIndex(0), Op::Rename { from, name: file, to: dir, new_name, flags });
    let mut steps = 0;
    while c.step() {
        steps += 1;
        assert!(steps < 100, "it goes to and fro");
    }
    assert!(steps > 4);
}
