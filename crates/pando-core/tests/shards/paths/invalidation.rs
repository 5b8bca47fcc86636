//! Versions of paths: when shards learn of a changed directory, and which requests are refused
//! (InfiniFS §3.4, docs/design/path-versions.md).

use std::collections::BTreeSet;

use pando_types::op::{Op, RenameFlags};
use pando_types::peer::{Peer, PeerMessage};
use pando_types::reply::{Body, Found, Refusal};
use pando_types::{DirRef, Errno, Ino, Search, SetAttr, ShardIndex, Trail};

use crate::support::{Cluster, Versions};

const SHARDS: u16 = 4;

fn rename(c: &Cluster, from: DirRef, name: &str, to: DirRef, new_name: &str) -> Op {
    let (name, new_name) = (c.name(name), c.name(new_name));
    Op::Rename { from, name, to, new_name, flags: RenameFlags::default() }
}

fn chmod(dir: DirRef, mode: u16) -> Op {
    Op::DirSetAttr(dir, SetAttr { mode: Some(mode), ..SetAttr::default() })
}

fn versions(c: &Cluster) -> u64 {
    c.counters().iter().map(|counters| counters.versions).sum()
}

/// For every shard, whether it refuses a trail through these directories at `version`.
fn refused(c: &mut Cluster, version: u64, dirs: &[DirRef]) -> Vec<bool> {
    let dirs: Vec<Ino> = dirs.iter().map(|dir| dir.ino).collect();
    (0..SHARDS)
        .map(|shard| {
            let trail = Trail { version, dirs: dirs.clone() };
            let op = Op::StatFs(ShardIndex(shard));
            match c.ask(ShardIndex(shard), (op, trail)).expect("an answer") {
                Ok(_) => false,
                Err(Refusal::Stale) => true,
                other => panic!("{other:?}"),
            }
        })
        .collect()
}

fn version_at(c: &mut Cluster, shard: u16) -> u64 {
    let tag = c.send(ShardIndex(shard), Op::StatFs(ShardIndex(shard)));
    c.reply(tag).expect("an answer").version
}

/// A cluster in which all shards know all versions.
fn cluster() -> Cluster {
    let mut c = Cluster::new(SHARDS, 1000);
    c.settle();
    c
}

#[test]
fn a_renamed_directory_is_known_to_all_shards_when_its_rename_is_answered() {
    let mut c = cluster();
    let a = c.mkdir(DirRef::ROOT, "a").unwrap();
    let b = c.mkdir(a, "b").unwrap();
    let before = version_at(&mut c, 0);
    assert_eq!(refused(&mut c, before, &[DirRef::ROOT, a, b]), [false; 4]);
    c.rename(DirRef::ROOT, "a", DirRef::ROOT, "z").unwrap();
    assert_eq!(versions(&c), 1);
    assert_eq!(refused(&mut c, before, &[DirRef::ROOT, a, b]), [true; 4]);
    assert_eq!(refused(&mut c, before, &[DirRef::ROOT, b]), [false; 4], "not by its name");
    let after = version_at(&mut c, 3);
    assert!(after > before);
    assert_eq!(refused(&mut c, after, &[DirRef::ROOT, a, b]), [false; 4]);
}

#[test]
fn news_come_with_every_answer() {
    let mut c = cluster();
    let a = c.mkdir(DirRef::ROOT, "a").unwrap();
    let version = version_at(&mut c, 1);
    c.rename(DirRef::ROOT, "a", DirRef::ROOT, "z").unwrap();
    for (dirs, is_refused) in [(vec![a.ino], true), (vec![Ino::ROOT], false)] {
        let trail = Trail { version, dirs };
        let tag = c.send(ShardIndex(2), (Op::StatFs(ShardIndex(2)), trail));
        let reply = c.reply(tag).unwrap();
        assert_eq!(reply.result == Err(Refusal::Stale), is_refused);
        let news = reply.news.expect("something is new");
        assert_eq!((news.since, news.version), (version, reply.version));
        assert_eq!(news.changed, [(reply.version, a.ino)]);
    }
}

#[test]
fn nothing_is_announced_that_changes_nothing_for_callers_that_come_through() {
    let mut c = cluster();
    let a = c.mkdir(DirRef::ROOT, "a").unwrap();
    c.done(&chmod(a, 0o700)).unwrap();
    c.create(a, "f").unwrap();
    c.done(&chmod(a, 0o750)).unwrap();
    assert_eq!(versions(&c), 0, "it has no subdirectories");
    let b = c.mkdir(a, "b").unwrap();
    c.done(&chmod(a, 0o750)).unwrap();
    c.done(&chmod(a, 0o770)).unwrap();
    assert_eq!(versions(&c), 0, "nobody may search it who might not before");
    let attr = c.create(DirRef::ROOT, "file").unwrap();
    c.rename(DirRef::ROOT, "file", a, "file").unwrap();
    assert!(attr.ino != a.ino);
    c.rmdir(a, "b").unwrap();
    assert_eq!(versions(&c), 0, "a removed directory refuses by itself");
    let before = version_at(&mut c, 0);
    c.mkdir(a, "b").unwrap();
    c.done(&chmod(a, 0o700)).unwrap();
    assert_eq!(versions(&c), 1);
    assert_eq!(refused(&mut c, before, &[DirRef::ROOT, a, b]), [true; 4]);
    c.done(&chmod(DirRef::ROOT, 0o700)).unwrap();
    assert_eq!(versions(&c), 2, "the root is a directory, too");
}

#[test]
fn an_exchange_names_both_directories() {
    let mut c = cluster();
    let a = c.mkdir(DirRef::ROOT, "a").unwrap();
    let b = c.mkdir(DirRef::ROOT, "b").unwrap();
    let before = version_at(&mut c, 0);
    let flags = RenameFlags { exchange: true, no_replace: false };
    let (name, new_name) = (c.name("a"), c.name("b"));
    c.done(&Op::Rename { from: DirRef::ROOT, name, to: DirRef::ROOT, new_name, flags }).unwrap();
    assert_eq!(versions(&c), 1);
    assert_eq!(refused(&mut c, before, &[a]), [true; 4]);
    assert_eq!(refused(&mut c, before, &[b]), [true; 4]);
}

#[test]
fn what_is_announced_is_not_seen_before_it_is_decided() {
    let mut c = cluster();
    let a = c.mkdir(DirRef::ROOT, "a").unwrap();
    let home = c.home(DirRef::ROOT);
    let op = rename(&c, DirRef::ROOT, "a", DirRef::ROOT, "z");
    let moves = c.send(home, op);
    assert_eq!(c.answer(moves), None, "it is on its way");
    let lookup = Op::Lookup(DirRef::ROOT, c.name("a"));
    let mut seen = 0;
    loop {
        let trail = Trail { version: 1 << 40, dirs: vec![] };
        let tag = c.send(home, (lookup.clone(), trail));
        if let Some(reply) = c.reply(tag)
            && let Ok(Body::Entry(Found::Dir(found), _)) = reply.result
        {
            assert_eq!(found.dir, a);
            let known: Vec<u64> = (0..SHARDS).map(|shard| version_at(&mut c, shard)).collect();
            assert!(known.iter().all(|version| *version <= reply.version), "{known:?}");
            seen += 1;
        }
        if !c.step() {
            break;
        }
    }
    c.settle();
    assert_eq!((c.lookup(DirRef::ROOT, "a"), versions(&c)), (Err(Errno::ENOENT), 1));
    assert!(seen <= 1, "only before the lock, if at all");
}

#[test]
fn a_silent_shard_makes_a_rename_fail_after_a_while_and_nothing_moves() {
    let mut c = cluster();
    let a = c.mkdir(DirRef::ROOT, "a").unwrap();
    let home = c.home(DirRef::ROOT);
    // A shard that the rename does not concern otherwise.
    let concerned = [ShardIndex(0), home, c.home(a)];
    let silent = (0..SHARDS).map(ShardIndex).find(|shard| !concerned.contains(shard)).unwrap();
    c.silence([silent]);
    let op = rename(&c, DirRef::ROOT, "a", DirRef::ROOT, "z");
    let tag = c.send(home, op);
    assert_eq!(c.answer(tag), None);
    c.wait(3_000_000_000);
    let trail = Trail { version: 1 << 40, dirs: vec![] };
    let lookup = Op::Lookup(DirRef::ROOT, c.name("a"));
    assert_eq!(c.ask(home, (lookup, trail)), None, "the name is locked meanwhile");
    c.wait(12_000_000_000);
    assert_eq!(c.answer(tag), Some(Err(Refusal::Errno(Errno::EBUSY))));
    assert!(matches!(c.lookup(DirRef::ROOT, "a"), Ok(Found::Dir(found)) if found.dir == a));
    c.silence([]);
    c.rename(DirRef::ROOT, "a", DirRef::ROOT, "z").unwrap();
    assert_eq!(c.counters()[0].versions_given_up, 1);
    assert_eq!(c.in_flight()[0], 0, "nothing is locked");
}

/// The version that each shard knows. A shard may know less than others. A walk through it is
/// refused by the others, if a version between names a directory of its trail.
fn known(c: &mut Cluster) -> Vec<u64> {
    (0..SHARDS).map(|shard| version_at(c, shard)).collect()
}

#[test]
fn a_version_that_was_given_up_is_told_to_the_shard_that_was_silent() {
    let mut c = cluster();
    let a = c.mkdir(DirRef::ROOT, "a").unwrap();
    let home = c.home(DirRef::ROOT);
    let concerned = [ShardIndex(0), home, c.home(a)];
    let silent = (0..SHARDS).map(ShardIndex).find(|shard| !concerned.contains(shard)).unwrap();
    c.silence([silent]);
    let op = rename(&c, DirRef::ROOT, "a", DirRef::ROOT, "z");
    let tag = c.send(home, op);
    assert_eq!(c.answer(tag), None);
    c.wait(12_000_000_000);
    assert_eq!(c.answer(tag), Some(Err(Refusal::Errno(Errno::EBUSY))));
    let newest = version_at(&mut c, 0);
    assert!(version_at(&mut c, silent.0) < newest);
    c.silence([]);
    c.wait(1_000_000_000);
    assert_eq!(known(&mut c), [newest; 4], "nobody waits for it any more");
}

#[test]
fn where_shard_0_begins_when_it_starts_is_told_to_all() {
    let mut c = cluster();
    c.mkdir(DirRef::ROOT, "a").unwrap();
    c.rename(DirRef::ROOT, "a", DirRef::ROOT, "y").unwrap();
    let before = version_at(&mut c, 0);
    c.restart([ShardIndex(0)]);
    c.wait(1_000_000_000);
    let start = version_at(&mut c, 0);
    assert!(start > before);
    assert_eq!(known(&mut c), [start; 4], "though no directory was renamed since");
}

#[test]
fn shard_0_is_silent_when_all_know_all_versions() {
    let mut c = cluster();
    c.mkdir(DirRef::ROOT, "a").unwrap();
    c.rename(DirRef::ROOT, "a", DirRef::ROOT, "y").unwrap();
    c.settle();
    c.tick(c.all(), 1_000_000_000);
    assert_eq!(c.messages().count(), 0);
}

#[test]
fn a_shard_that_has_started_judges_no_trail_before_it_has_caught_up() {
    let mut c = cluster();
    let a = c.mkdir(DirRef::ROOT, "a").unwrap();
    let before = version_at(&mut c, 2);
    c.rename(DirRef::ROOT, "a", DirRef::ROOT, "z").unwrap();
    let after = version_at(&mut c, 2);
    c.restart([ShardIndex(2)]);
    assert_eq!(version_at(&mut c, 2), 0, "what it tells is of no version");
    let trail = Trail { version: before, dirs: vec![a.ino] };
    let op = Op::StatFs(ShardIndex(2));
    assert_eq!(c.ask(ShardIndex(2), (op.clone(), trail.clone())), None, "it waits");
    c.wait(1_000_000_000);
    assert_eq!(version_at(&mut c, 2), after);
    assert_eq!(refused(&mut c, before, &[a]), [true; 4]);
    // While shard 0 is away, no shard can tell. The client then walks anew.
    c.silence([ShardIndex(0)]);
    c.restart([ShardIndex(2)]);
    c.wait(1_000_000_000);
    assert_eq!(c.ask(ShardIndex(2), (op.clone(), trail.clone())), None);
    c.wait(12_000_000_000);
    let trail = Trail { version: after, ..trail };
    let tag = c.send(ShardIndex(2), (op, trail));
    let reply = c.reply(tag).expect("an answer");
    assert_eq!((reply.result, reply.news), (Err(Refusal::Stale), None));
}

#[test]
fn an_answer_to_an_earlier_start_is_not_taken() {
    let mut c = cluster();
    let a = c.mkdir(DirRef::ROOT, "a").unwrap();
    let before = version_at(&mut c, 2);
    c.restart([ShardIndex(2)]);
    c.tick(c.all(), 1_000_000);
    // The shard has asked, and shard 0 answers. The answer is late.
    while c.step_of(|to, _| to == ShardIndex(0)) {}
    let late = c.take(|to, _| to == ShardIndex(2));
    assert!(!late.is_empty());
    c.settle();
    c.rename(DirRef::ROOT, "a", DirRef::ROOT, "z").unwrap();
    c.epoch = 2;
    c.restart([ShardIndex(2)]);
    c.deliver(late);
    assert_eq!(version_at(&mut c, 2), 0, "it had known more since");
    c.settle();
    assert_eq!(refused(&mut c, before, &[a]), [true; 4]);
}

#[test]
fn after_shard_0_has_started_all_of_before_may_have_changed_there() {
    let mut c = cluster();
    let a = c.mkdir(DirRef::ROOT, "a").unwrap();
    let b = c.mkdir(a, "b").unwrap();
    c.rename(DirRef::ROOT, "a", DirRef::ROOT, "y").unwrap();
    let before = version_at(&mut c, 1);
    c.restart([ShardIndex(0)]);
    c.settle();
    assert_eq!(refused(&mut c, before, &[b]), [true; 4], "its list is gone, and all were told");
    let start = version_at(&mut c, 0);
    assert!(start > before);
    c.rename(DirRef::ROOT, "y", DirRef::ROOT, "z").unwrap();
    assert!(version_at(&mut c, 1) > start);
    assert_eq!(refused(&mut c, before, &[a]), [true; 4]);
    assert_eq!(refused(&mut c, start, &[a]), [true; 4]);
    assert_eq!(refused(&mut c, start, &[b]), [false; 4]);
}

#[test]
fn a_request_that_was_overtaken_while_it_waited_is_refused() {
    let mut c = cluster();
    let a = c.mkdir(DirRef::ROOT, "a").unwrap();
    let b = c.mkdir(a, "b").unwrap();
    let version = version_at(&mut c, 0);
    // A mkdir in b, by /a/b. Its transaction is undecided when /a is renamed.
    let home = c.home(b);
    let trail = Trail { version, dirs: vec![Ino::ROOT, a.ino, b.ino] };
    let names: Vec<_> = (0..50).map(|n| format!("n{n}")).collect();
    let remote = names.iter().find(|name| {
        let id = c.secrets.dir_id(b.id, &c.name(name), 0);
        c.home(DirRef { id, ino: Ino(0) }) != home
    });
    let op = Op::Mkdir(b, c.name(remote.expect("one of fifty")), 0o755);
    let tag = c.send(home, (op.clone(), trail));
    assert_eq!(c.answer(tag), None, "it spans two shards");
    let mine = c.take(|_, _| true);
    c.rename(DirRef::ROOT, "a", DirRef::ROOT, "z").unwrap();
    c.put_back(mine);
    c.settle();
    assert_eq!(c.answer(tag), Some(Err(Refusal::Stale)));
    assert_eq!(c.list(b), Vec::<String>::new());
    c.done(&op).unwrap();
}

#[test]
fn trails_of_any_length_are_judged_or_refused() {
    let mut c = cluster();
    let version = version_at(&mut c, 1);
    for (count, is_refused) in [(Trail::DIRS_MAX, false), (Trail::DIRS_MAX + 1, true)] {
        let trail = Trail { version, dirs: vec![Ino(99); count] };
        let answer = c.ask(ShardIndex(1), (Op::StatFs(ShardIndex(1)), trail)).unwrap();
        assert_eq!(answer == Err(Refusal::Stale), is_refused);
    }
}

#[test]
fn versions_that_are_given_out_meanwhile_are_told_together() {
    let mut c = cluster();
    let home = c.home(DirRef::ROOT);
    for n in 0..6 {
        c.mkdir(DirRef::ROOT, &format!("a{n}")).unwrap();
    }
    c.settle();
    let mut tags = Vec::new();
    for n in 0..6 {
        let op = rename(&c, DirRef::ROOT, &format!("a{n}"), DirRef::ROOT, &format!("z{n}"));
        let (tag, txn) = c.send_txn(home, op);
        tags.push(tag);
        if let Some(txn) = txn {
            c.step_txn(txn, Versions::Held, |_| false);
        }
    }
    let on_their_way = c.take(|_, _| true);
    let tells =
        |(_, peer): &&(ShardIndex, Box<Peer>)| matches!(peer.message, PeerMessage::Versions { .. });
    let told = on_their_way.iter().filter(tells).count();
    assert_eq!(
        (told, versions(&c)),
        (usize::from(SHARDS) - 1, 6),
        "each of the others is yet to answer"
    );
    c.put_back(on_their_way);
    while c.step() {}
    for tag in tags {
        assert!(matches!(c.answer(tag), Some(Ok(Body::Moved(..)))), "though no time has passed");
    }
}

#[test]
fn a_shard_that_was_silent_for_longer_than_shard_0_remembers_takes_all_for_changed() {
    const DIRS: usize = 450;
    let mut c = cluster();
    let home = c.home(DirRef::ROOT);
    let a = c.mkdir(DirRef::ROOT, "a0").unwrap();
    for n in 1..DIRS {
        c.mkdir(DirRef::ROOT, &format!("a{n}")).unwrap();
    }
    let silent = (1..SHARDS).map(ShardIndex).find(|shard| *shard != home).unwrap();
    let before = version_at(&mut c, silent.0);
    c.silence([silent]);
    let round = |c: &mut Cluster, from: usize| {
        for n in from..DIRS {
            let name = format!("a{n}");
            let op = rename(c, DirRef::ROOT, &name, DirRef::ROOT, &format!("z{n}"));
            c.send(home, op);
        }
        c.wait(11_000_000_000);
    };
    round(&mut c, 0);
    while versions(&c) < 5_000 {
        let before = versions(&c);
        round(&mut c, 1);
        assert!(versions(&c) > before);
    }
    c.silence([]);
    c.settle();
    c.done(&rename(&c, DirRef::ROOT, "a1", DirRef::ROOT, "z")).unwrap();
    assert_eq!(refused(&mut c, before, &[a]), [true; 4]);
}

/// A directory with partitions on all shards.
fn split(c: &mut Cluster, parent: DirRef, name: &str) -> DirRef {
    let dir = c.mkdir(parent, name).unwrap();
    crate::growth::splits::fill(c, dir, &format!("{name} file"), 60);
    c.settle();
    for shard in 0..SHARDS {
        assert!(
            !c.partitions([ShardIndex(shard)], dir).is_empty(),
            "shard {shard} has none of {name}"
        );
    }
    dir
}

/// What decides search permission on `dir`, by shard, as lookups of these names with a trail tell
/// it. The names are in several partitions.
fn told(c: &mut Cluster, dir: DirRef, names: &[String]) -> BTreeSet<(ShardIndex, Search)> {
    let version = c.newest_version();
    let mut told = BTreeSet::new();
    for name in names {
        for shard in (0..SHARDS).map(ShardIndex) {
            let trail = Trail { version, dirs: vec![dir.ino] };
            let answer = c.ask(shard, (Op::Lookup(dir, c.name(name)), trail));
            if let Ok(Body::Entry(_, search)) = answer.expect("an answer") {
                told.insert((shard, search));
            }
        }
    }
    told
}

#[test]
fn all_this_holds_when_parents_and_what_moves_are_split() {
    let mut c = Cluster::new(SHARDS, 6);
    c.settle();
    let (from, to) = (split(&mut c, DirRef::ROOT, "from"), split(&mut c, DirRef::ROOT, "to"));
    let moved = split(&mut c, from, "moved");
    let files: Vec<String> = (0..60).map(|n| format!("moved file{n}")).collect();
    let of = |mode| Search::new(mode, 0, 0);
    let on_all = |mode| (0..SHARDS).map(|shard| (ShardIndex(shard), of(mode))).collect();

    // No path leads through it yet.
    let before = version_at(&mut c, 0);
    c.done(&chmod(moved, 0o711)).unwrap();
    assert_eq!(versions(&c), 0, "it has no subdirectories");
    assert_eq!(told(&mut c, moved, &files), on_all(0o711), "all partitions tell");

    // Its first subdirectories are made while its permissions change, in partitions of several
    // shards.
    let mut homes = BTreeSet::new();
    for n in 0..8 {
        let (name, dir_home) = (format!("sub{n}"), c.home(moved));
        let owner = (0..SHARDS).map(ShardIndex).find(|shard| {
            let lookup = Op::Lookup(moved, c.name(&name));
            c.ask(*shard, lookup) == Some(Err(Refusal::Errno(Errno::ENOENT)))
        });
        homes.insert(owner.expect("somebody answers for it"));
        c.done(&chmod(moved, 0o755)).unwrap();
        let given_out = versions(&c);
        let changed = c.send(dir_home, chmod(moved, 0o700));
        assert_eq!(c.answer(changed), None, "it spans shards");
        let made = c.send(owner.unwrap(), Op::Mkdir(moved, c.name(&name), 0o755));
        c.settle();
        assert!(matches!(c.answer(changed), Some(Ok(_))));
        assert!(matches!(c.answer(made), Some(Ok(Body::Made(..)))));
        assert_eq!(told(&mut c, moved, &files), on_all(0o700), "none with the old permissions");
        // Either the permissions changed before it had a subdirectory, or all shards were told.
        let is_told = versions(&c) > given_out;
        assert_eq!(refused(&mut c, before, &[moved]), [is_told; 4], "sub{n}");
        c.rmdir(moved, &name).unwrap();
        c.settle();
        if is_told {
            break;
        }
    }
    assert!(homes.len() > 1 || versions(&c) > 0, "{homes:?}");

    let sub = c.mkdir(moved, "sub").unwrap();
    c.done(&chmod(moved, 0o755)).unwrap();
    let (before, given_out) = (version_at(&mut c, 0), versions(&c));
    c.done(&chmod(moved, 0o700)).unwrap();
    assert_eq!(versions(&c), given_out + 1, "it has a subdirectory");
    assert_eq!(refused(&mut c, before, &[DirRef::ROOT, from, moved, sub]), [true; 4]);
    assert_eq!(refused(&mut c, before, &[DirRef::ROOT, from, sub]), [false; 4]);
    assert_eq!(told(&mut c, moved, &files), on_all(0o700));

    let before = version_at(&mut c, 0);
    c.rename(from, "moved", to, "moved").unwrap();
    assert_eq!(versions(&c), given_out + 2);
    assert_eq!(refused(&mut c, before, &[DirRef::ROOT, from, moved, sub]), [true; 4]);
    assert_eq!(refused(&mut c, before, &[DirRef::ROOT, from, to, sub]), [false; 4]);
    let after = version_at(&mut c, 3);
    assert_eq!(known(&mut c), [after; 4]);
    assert_eq!(refused(&mut c, after, &[DirRef::ROOT, to, moved, sub]), [false; 4]);
    assert_eq!(c.lookup(from, "moved"), Err(Errno::ENOENT));
    assert!(matches!(c.lookup(to, "moved"), Ok(Found::Dir(found)) if found.dir == moved));
    assert_eq!(c.list(moved).len(), 61, "its partitions came along");
    c.settle();
    assert_eq!(c.in_flight()[0], 0, "nothing is locked");
}
