//! Costs of each operation in messages between shards. An operation on one shard needs none. Any
//! other needs a fixed number.

use pando_core::Need;
use pando_types::op::{
    FileAt, FileRef, NewNode, Op, Payload, Piece, RenameFlags, Target, XattrMode,
};
use pando_types::peer::{Peer, PeerMessage, Prepare, Vote};
use pando_types::reply::{Body, Found, Refusal};
use pando_types::{DirRef, Errno, FileKind, SetAttr, ShardIndex, TimeSet};

use crate::support::{Cluster, Cost, dir_at};

const ROOT: DirRef = DirRef::ROOT;
const SHARDS: u16 = 4;

/// Messages of one exchange.
const PAIR: usize = 2;
/// Messages when shard 0 tells the other shards a version, and each answers.
const TOLD: usize = PAIR * (SHARDS as usize - 1);

fn node(kind: FileKind) -> NewNode {
    let symlink = if kind == FileKind::Symlink { b"target".to_vec() } else { Vec::new() };
    NewNode { kind, mode: 0o644, rdev: 0, symlink }
}

fn chmod(mode: u16) -> SetAttr {
    SetAttr { mode: Some(mode), ..SetAttr::default() }
}

fn rename(c: &Cluster, from: (DirRef, &str), to: (DirRef, &str)) -> Op {
    let flags = RenameFlags::default();
    Op::Rename { from: from.0, name: c.name(from.1), to: to.0, new_name: c.name(to.1), flags }
}

/// A cluster in which nothing is undecided.
fn cluster() -> Cluster {
    cluster_splitting_at(1000)
}

fn cluster_splitting_at(names: u64) -> Cluster {
    let mut c = Cluster::new(SHARDS, names);
    c.settle();
    c
}

/// A directory of 200 files over all shards, and its cluster. Its partitions split no more.
fn split_dir() -> (Cluster, DirRef) {
    let mut c = cluster_splitting_at(16);
    let (_, dir) = dir_at(&mut c, ROOT, "split", |home| home == ShardIndex(2));
    for n in 0..200 {
        c.create(dir, &format!("f{n}")).unwrap();
    }
    c.settle();
    let owners = (0..SHARDS).filter(|shard| !c.partitions([ShardIndex(*shard)], dir).is_empty());
    assert_eq!(owners.count(), usize::from(SHARDS));
    (c, dir)
}

fn txns_begun(c: &Cluster) -> u64 {
    c.counters().iter().flat_map(|counters| counters.txns_begun).sum()
}

fn versions(c: &Cluster) -> u64 {
    c.counters().iter().map(|counters| counters.versions).sum()
}

/// Runs an operation on the shard that owns what it concerns. Asserts that no other shard is asked,
/// and that no transaction begins.
fn alone(c: &mut Cluster, shard: ShardIndex, op: Op) -> Body {
    let txns = txns_begun(c);
    let Cost { answer, need, before, after } = c.cost(shard, op.clone());
    assert_eq!((before, after), (vec![], vec![]), "{op:?}");
    assert_eq!((need, txns_begun(c)), (Need::Committed, txns), "{op:?}");
    answer.unwrap_or_else(|refusal| panic!("{op:?}: {refusal:?}"))
}

/// Runs all operations on one name, or on a file by its name.
fn all_on_one_name(c: &mut Cluster, dir: DirRef, name: &str) {
    let owner = c.owner(dir, name);
    let name = c.name(name);
    let at = FileAt::Name(dir, name.clone());
    let create = |kind, open| Op::Create {
        dir,
        name: name.clone(),
        node: node(kind),
        exclusive: true,
        open,
    };
    let Body::Created(attr, true, _) = alone(c, owner, create(FileKind::Regular, true)) else {
        panic!("it is new")
    };
    let file = FileRef { ino: attr.ino, at: at.clone() };
    let target = Target::File(file.clone());
    let xattr = || b"user.x".to_vec();
    let inline = Piece { offset: 0, payload: Payload::Inline(b"text".to_vec()) };
    let set = [
        chmod(0o600),
        SetAttr { uid: Some(7), gid: Some(8), ..SetAttr::default() },
        SetAttr { size: Some(2), ..SetAttr::default() },
        SetAttr { mtime: Some(TimeSet::Now), atime: Some(TimeSet::Now), ..SetAttr::default() },
    ];
    let ops = [
        Op::Release(file.clone()),
        Op::Lookup(dir, name.clone()),
        Op::GetAttr(file.clone()),
        Op::Access(file.clone(), 4),
        Op::Open { file: file.clone(), access: 6, truncate: true, kill: None },
        Op::WriteData {
            file: file.clone(),
            base: None,
            pieces: vec![inline],
            mtime: None,
            kill: None,
        },
        Op::ReadData { file: file.clone(), offset: 0, len: 4 },
        Op::Release(file.clone()),
        Op::SetXattr {
            target: target.clone(),
            name: xattr(),
            value: b"y".to_vec(),
            mode: XattrMode::Any,
        },
        Op::GetXattr(target.clone(), xattr()),
        Op::ListXattr(target.clone()),
        Op::RemoveXattr(target, xattr()),
    ];
    for op in set.into_iter().map(|set| Op::SetAttr(file.clone(), set)).chain(ops) {
        alone(c, owner, op);
    }
    alone(c, owner, Op::Unlink(dir, name.clone()));
    let Body::Created(attr, true, _) = alone(c, owner, create(FileKind::Symlink, false)) else {
        panic!("it is new")
    };
    alone(c, owner, Op::Readlink(FileRef { ino: attr.ino, at }));
    alone(c, owner, Op::Unlink(dir, name.clone()));
    let missing = c.cost(owner, Op::Lookup(dir, name));
    assert_eq!(missing.counts(), (0, 0), "{missing:?}");
    assert_eq!(missing.answer, Err(Refusal::Errno(Errno::ENOENT)));
}

#[test]
fn what_concerns_one_name_is_answered_by_its_owner_without_a_message() {
    let mut c = cluster();
    let (_, plain) = dir_at(&mut c, ROOT, "plain", |home| home == ShardIndex(1));
    c.settle();
    all_on_one_name(&mut c, plain, "file");
    let (mut c, split) = split_dir();
    let mut owners = std::collections::BTreeSet::new();
    for n in 0..12 {
        let name = format!("new{n}");
        owners.insert(c.owner(split, &name));
        all_on_one_name(&mut c, split, &name);
    }
    assert_eq!(owners.len(), usize::from(SHARDS), "on every shard");
}

#[test]
fn what_concerns_one_directory_is_answered_by_its_home_without_a_message() {
    let (mut c, split) = split_dir();
    let (_, plain) = dir_at(&mut c, ROOT, "plain", |home| home == ShardIndex(1));
    c.create(plain, "f").unwrap();
    c.settle();
    for dir in [plain, split] {
        let home = c.home(dir);
        let target = || Target::Dir(dir);
        let xattr = || b"user.x".to_vec();
        let (value, mode) = (b"y".to_vec(), XattrMode::Any);
        let ops = [
            Op::DirGetAttr(dir),
            Op::DirAccess(dir, 7),
            Op::Parent(dir),
            Op::SetXattr { target: target(), name: xattr(), value, mode },
            Op::GetXattr(target(), xattr()),
            Op::ListXattr(target()),
            Op::RemoveXattr(target(), xattr()),
        ];
        for op in ops {
            alone(&mut c, home, op);
        }
    }
    // A listing asks each owner for its own names.
    for dir in [plain, split] {
        let (mut from, mut names) = (Some(pando_types::Order(0)), 0);
        while let Some(order) = from {
            let op = Op::ReadDir { dir, from: order, limit: 1000 };
            let owns = |c: &mut Cluster, shard| {
                let deltas = c.partitions([shard], dir).into_iter().map(|it| it.delta);
                let ranges = deltas.map(|it| pando_placement::range(it.partition, it.radix));
                ranges.into_iter().any(|range| range.contains(&order.0))
            };
            let mut shards = (0..SHARDS).map(ShardIndex);
            let owner = shards.find(|shard| owns(&mut c, *shard)).unwrap();
            let Body::Page(page, next) = alone(&mut c, owner, op) else { panic!("a page") };
            (from, names) = (next, names + page.len());
        }
        assert_eq!(names, if dir == plain { 1 } else { 200 });
    }
    // Times of a directory that has not split concern its home alone.
    let times = SetAttr { mtime: Some(TimeSet::Now), ..SetAttr::default() };
    let home = c.home(plain);
    alone(&mut c, home, Op::DirSetAttr(plain, times));
}

#[test]
fn a_file_renamed_on_its_shard_needs_no_message_and_between_two_shards_one_exchange() {
    let mut c = cluster();
    let (_, here) = dir_at(&mut c, ROOT, "here", |home| home == ShardIndex(1));
    let (_, also_here) = dir_at(&mut c, ROOT, "also", |home| home == ShardIndex(1));
    let (_, there) = dir_at(&mut c, ROOT, "there", |home| home == ShardIndex(3));
    for name in ["f", "old"] {
        c.create(here, name).unwrap();
        c.create(there, name).unwrap();
    }
    c.settle();
    let op = rename(&c, (here, "f"), (also_here, "g"));
    assert!(matches!(alone(&mut c, ShardIndex(1), op), Body::Moved(_, FileKind::Regular, false)));
    let op = rename(&c, (also_here, "g"), (here, "old"));
    assert!(matches!(alone(&mut c, ShardIndex(1), op), Body::Moved(..)), "it replaces a file");
    for (name, new_name) in [("old", "moved"), ("moved", "f")] {
        let (from, to) = if name == "old" { (here, there) } else { (there, here) };
        let op = rename(&c, (from, name), (to, new_name));
        let home = c.home(from);
        let cost = c.cost(home, op);
        assert!(matches!(cost.answer, Ok(Body::Moved(_, _, false))), "{cost:?}");
        assert_eq!(cost.counts(), (PAIR, PAIR), "asked and voted; decided and finished");
        assert_eq!((cost.need, cost.about_versions()), (Need::Committed, 0));
    }
    let op = rename(&c, (here, "f"), (there, "f"));
    let cost = c.cost(ShardIndex(1), op);
    assert_eq!(cost.counts(), (PAIR, PAIR), "one that replaces costs no more");
}

/// The intent of InfiniFS §4.2, without a synced vote: a client waits for one exchange between two
/// shards.
#[test]
fn mkdir_is_answered_after_one_exchange_and_no_sync() {
    let mut c = cluster();
    let (_, parent) = dir_at(&mut c, ROOT, "parent", |home| home == ShardIndex(1));
    c.settle();
    let (mut local, mut remote) = (0, 0);
    for n in 0..40 {
        let name = c.name(&format!("d{n}"));
        let home = c.home(DirRef { id: c.secrets.dir_id(parent.id, &name, 0), ..ROOT });
        let cost = c.cost(ShardIndex(1), Op::Mkdir(parent, name.clone(), 0o755));
        let Ok(Body::Made(made, _)) = cost.answer else { panic!("{cost:?}") };
        assert_eq!((c.home(made), cost.need), (home, Need::Committed));
        if home == ShardIndex(1) {
            assert_eq!(cost.counts(), (0, 0));
            local += 1;
            continue;
        }
        remote += 1;
        // There and back, without a sync.
        let [(ask, to, asked), (vote, from, voted)] = &cost.before[..] else { panic!("{cost:?}") };
        assert_eq!((ask, to), (&Need::Committed, &home));
        assert_eq!((vote, from), (&Need::Committed, &ShardIndex(1)));
        assert!(
            matches!(asked.message, PeerMessage::Prepare(_, Prepare::NewHome(id)) if id == made.id)
        );
        assert!(matches!(voted.message, PeerMessage::Voted(Vote::Yes(_))));
        // The decision leaves when it is synced. The participant answers when its change is
        // durable, without asking for a sync.
        let [(decide, to, decided), (end, from, ended)] = &cost.after[..] else {
            panic!("{cost:?}")
        };
        assert_eq!((decide, to), (&Need::Synced, &home));
        assert_eq!((end, from), (&Need::Durable, &ShardIndex(1)));
        assert!(
            matches!(&decided.message, PeerMessage::Finish(Some(changes)) if changes.len() == 1)
        );
        assert_eq!(ended.message, PeerMessage::Finished);
    }
    assert!(local > 0 && remote > 20, "{local} {remote}");
}

#[test]
fn each_name_version_that_is_taken_costs_a_mkdir_one_exchange_at_most() {
    let mut c = cluster();
    let (_, parent) = dir_at(&mut c, ROOT, "parent", |home| home == ShardIndex(1));
    for n in 0..3 {
        c.mkdir(parent, "d").unwrap();
        c.rename(parent, "d", ROOT, &format!("away{n}")).unwrap();
    }
    c.settle();
    let name = c.name("d");
    let homes = (0..4).map(|version| c.secrets.dir_id(parent.id, &name, version));
    let homes = homes.map(|id| c.home(DirRef { id, ..ROOT })).filter(|home| home.0 != 1);
    let remote = homes.count();
    let cost = c.cost(ShardIndex(1), Op::Mkdir(parent, name, 0o755));
    assert!(matches!(cost.answer, Ok(Body::Made(..))));
    assert_eq!(cost.before.len(), PAIR * remote);
}

#[test]
fn rmdir_asks_the_directorys_home_for_its_content_and_its_partitions() {
    let mut c = cluster();
    let (_, parent) = dir_at(&mut c, ROOT, "parent", |home| home == ShardIndex(1));
    let rmdir = |c: &mut Cluster, name: &str| {
        c.settle();
        c.cost(ShardIndex(1), Op::Rmdir(parent, c.name(name)))
    };
    let (name, _) = dir_at(&mut c, parent, "near", |home| home == ShardIndex(1));
    let cost = rmdir(&mut c, &name);
    assert_eq!((cost.answer.clone(), cost.counts()), (Ok(Body::Done), (0, 0)));
    let (name, dir) = dir_at(&mut c, parent, "far", |home| home == ShardIndex(3));
    let cost = rmdir(&mut c, &name);
    assert_eq!((cost.answer.clone(), cost.about_versions()), (Ok(Body::Done), 0));
    assert_eq!(cost.counts(), (PAIR, PAIR), "content with its only partition");
    assert!(cost.before.iter().chain(&cost.after).all(|(_, to, _)| [1, 3].contains(&to.0)));
    let (name, same) = dir_at(&mut c, parent, "far", |home| home == ShardIndex(3));
    assert_eq!(same.id, dir.id);
    c.create(same, "f").unwrap();
    let cost = rmdir(&mut c, &name);
    assert_eq!(cost.answer, Err(Refusal::Errno(Errno::ENOTEMPTY)));
}

/// Costs of a rename of a directory before and after its answer, by the places of what it concerns.
#[test]
fn a_directory_renamed_costs_its_names_its_content_and_one_word_to_each_shard() {
    // Homes of the old parent, of the new one, of the directory.
    let cases = [
        ([1, 1, 1], "nothing but the version"),
        ([1, 1, 2], "its content"),
        ([1, 3, 2], "its content, and the new name"),
        ([0, 0, 0], "all is at shard 0"),
        ([0, 1, 2], "the new name, the walk there, its content"),
    ];
    for ([from, to, of], what) in cases {
        let mut c = cluster();
        let (_, old) = dir_at(&mut c, ROOT, "old", |home| home.0 == from);
        let (_, new) = match from == to {
            true => (String::new(), old),
            false => dir_at(&mut c, ROOT, "new", |home| home.0 == to),
        };
        let (name, dir) = dir_at(&mut c, old, "d", |home| home.0 == of);
        c.settle();
        let op = rename(&c, (old, &name), (new, "moved"));
        let cost = c.cost(ShardIndex(from), op);
        assert!(matches!(cost.answer, Ok(Body::Moved(..))), "{what}: {cost:?}");
        let remote = |shard: u16| PAIR * usize::from(shard != from);
        // The walk up to the root looks at the new parent. The claim is asked of shard 0.
        let walk = if old == new { 0 } else { remote(to) + remote(0) };
        let locks = remote(of) + if old == new { 0 } else { remote(to) };
        let version = remote(0) + TOLD;
        // The claim ends with the decision, like all locks.
        let claim = if old == new { 0 } else { remote(0) };
        assert_eq!(cost.counts(), (walk + locks + version, locks + claim), "{what}");
        assert_eq!(cost.about_versions(), usize::from(from != 0) + TOLD, "{what}");
        assert_eq!(versions(&c), 1, "{what}");
        assert!(matches!(c.lookup(new, "moved"), Ok(Found::Dir(found)) if found.dir == dir));
    }
}

#[test]
fn chmod_of_a_leaf_directory_asks_for_its_entry_and_of_a_parent_of_others_tells_all_shards() {
    for (parent_home, home) in [(1, 1), (1, 2), (2, 1), (0, 1), (1, 0)] {
        let mut c = cluster();
        let (_, parent) = dir_at(&mut c, ROOT, "parent", |at| at.0 == parent_home);
        let (_, dir) = dir_at(&mut c, parent, "d", |at| at.0 == home);
        c.create(dir, "file").unwrap();
        c.settle();
        let entry = PAIR * usize::from(parent_home != home);
        let cost = c.cost(ShardIndex(home), Op::DirSetAttr(dir, chmod(0o700)));
        assert!(matches!(cost.answer, Ok(Body::Dir(_))), "{cost:?}");
        assert_eq!((cost.counts(), cost.need), ((entry, entry), Need::Committed), "a leaf");
        c.mkdir(dir, "sub").unwrap();
        c.settle();
        let cost = c.cost(ShardIndex(home), Op::DirSetAttr(dir, chmod(0o500)));
        assert_eq!(cost.counts(), (entry, entry), "the same may search it as before");
        assert_eq!(versions(&c), 0);
        let cost = c.cost(ShardIndex(home), Op::DirSetAttr(dir, chmod(0o755)));
        let ask = PAIR * usize::from(home != 0);
        assert_eq!(cost.counts(), (entry + ask + TOLD, entry), "others may search it now");
        assert_eq!((versions(&c), cost.about_versions()), (1, ask / 2 + TOLD));
    }
}

#[test]
fn chmod_of_a_directory_that_has_split_asks_each_owner_once_for_each_partition() {
    let (mut c, split) = split_dir();
    let home = c.home(split);
    let partitions = |c: &mut Cluster, shard: u16| c.partitions([ShardIndex(shard)], split).len();
    let remote: usize =
        (0..SHARDS).filter(|shard| *shard != home.0).map(|shard| partitions(&mut c, shard)).sum();
    let entry = usize::from(home != c.home(ROOT));
    let each = PAIR * (remote + entry);
    // At first the home does not know all owners, and is redirected.
    let cost = c.cost(home, Op::DirSetAttr(split, chmod(0o711)));
    assert!(matches!(cost.answer, Ok(Body::Dir(_))), "{cost:?}");
    let redirected = |(_, _, peer): &&(Need, ShardIndex, Peer)| {
        matches!(peer.message, PeerMessage::Voted(Vote::Redirect(_)))
    };
    let redirects = cost.before.iter().filter(redirected).count();
    assert_eq!((cost.counts(), cost.about_versions()), ((each + PAIR * redirects, each), 0));
    let cost = c.cost(home, Op::DirSetAttr(split, chmod(0o700)));
    assert_eq!((cost.counts(), cost.about_versions()), ((each, each), 0), "no subdirectories");
    c.mkdir(split, "sub").unwrap();
    c.settle();
    let cost = c.cost(home, Op::DirSetAttr(split, chmod(0o755)));
    assert_eq!(cost.counts(), (each + PAIR + TOLD, each));
}

/// Changes that change nothing cost nothing.
#[test]
fn attributes_set_to_what_they_are_need_no_message_and_no_transaction() {
    let owned = SetAttr { uid: Some(7), gid: Some(8), mode: Some(0o750), ..SetAttr::default() };
    let same = [
        chmod(0o750),
        SetAttr { uid: Some(7), ..SetAttr::default() },
        SetAttr { gid: Some(8), ..SetAttr::default() },
        SetAttr { uid: Some(7), gid: Some(8), ..SetAttr::default() },
        owned.clone(),
        SetAttr::default(),
    ];
    let (mut c, split) = split_dir();
    let (_, plain) = dir_at(&mut c, ROOT, "plain", |home| home == ShardIndex(3));
    let (_, parent) = dir_at(&mut c, ROOT, "parent", |home| home == ShardIndex(3));
    c.mkdir(parent, "sub").unwrap();
    for dir in [plain, parent, split, ROOT] {
        let home = c.home(dir);
        c.done(&Op::DirSetAttr(dir, owned.clone())).unwrap();
        c.settle();
        let versions_before = versions(&c);
        for set in &same {
            let Body::Dir(attr) = alone(&mut c, home, Op::DirSetAttr(dir, set.clone())) else {
                panic!("attributes")
            };
            let base = attr.base;
            assert_eq!((base.mode, base.uid, base.gid), (0o750, 7, 8), "{set:?}");
        }
        // Set by the directory's owner, which is not root.
        c.by = pando_types::Credentials::new(7, 8, vec![]);
        for set in &same {
            alone(&mut c, home, Op::DirSetAttr(dir, set.clone()));
        }
        c.by = pando_types::Credentials::ROOT;
        assert_eq!(versions(&c), versions_before);
    }
    // Names that are renamed to themselves.
    c.create(plain, "f").unwrap();
    c.settle();
    for (dir, name) in [(plain, "f"), (parent, "sub")] {
        let op = rename(&c, (dir, name), (dir, name));
        assert!(matches!(alone(&mut c, ShardIndex(3), op), Body::Moved(..)));
    }
}
