//! Histories of a real tree have an order, and false ones have none.

use pando_types::op::{NewNode, Op as Wire, RenameFlags, RequestId};
use pando_types::{Credentials, DirId, DirRef, Errno, FileKind, Ino, Name};

use super::{History, linearize};
use crate::base::random::Random;
use crate::model::{Call, Op, Outcome, Stat, Tree, Value};

const LANES: usize = 4;

fn name(random: &mut Random) -> Name {
    let names: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
    Name::new(names[random.below(4) as usize]).unwrap()
}

fn any_op(random: &mut Random, tree: &Tree) -> Op {
    let inos: Vec<Ino> = tree.nodes().map(|(ino, _)| ino).collect();
    let dirs: Vec<Ino> = tree.nodes().filter(|(_, n)| n.is_dir()).map(|(ino, _)| ino).collect();
    let dir = dirs[random.below(dirs.len() as u64) as usize];
    let to = dirs[random.below(dirs.len() as u64) as usize];
    let ino = inos[random.below(inos.len() as u64) as usize];
    match random.below(10) {
        0 | 1 => Op::Create {
            dir,
            name: name(random),
            kind: FileKind::Regular,
            mode: 0o644,
            symlink: Vec::new(),
            exclusive: random.chance(2, 3),
            open: random.chance(1, 3),
        },
        2 => Op::Mkdir(dir, name(random), 0o755),
        3 => Op::Unlink(dir, name(random)),
        4 => Op::Rmdir(dir, name(random)),
        5 => Op::Link(ino, dir, name(random)),
        6 => Op::Rename {
            from: dir,
            name: name(random),
            to,
            new_name: name(random),
            flags: RenameFlags::default(),
        },
        7 => Op::Lookup(dir, name(random)),
        8 => Op::ReadDir(dir),
        _ => Op::GetAttr(ino),
    }
}

/// A history of lanes that begin, run and return operations at random times, on one tree. One lane
/// may stop before its answer.
fn honest(seed: u64, operations: usize) -> History {
    let mut random = Random::new(seed);
    let mut history = History::default();
    let lanes: Vec<_> = (0..LANES).map(|_| (history.lane(), history.lane())).collect();
    let mut tree = Tree::new();
    let mut pending: Vec<Option<(usize, Call, Option<Outcome>)>> = vec![None; LANES];
    let mut new = 100;
    let mut begun = 0;
    while begun < operations || pending.iter().skip(1).any(Option::is_some) {
        let lane = random.below(LANES as u64) as usize;
        match &mut pending[lane] {
            None if begun < operations => {
                let op = any_op(&mut random, &tree);
                let call = Call { who: lane as u32, credentials: Credentials::ROOT, op };
                let event = history.invoke(lanes[lane].0, call.clone());
                history.asked(event, RequestId::default());
                pending[lane] = Some((event, call, None));
                begun += 1;
            }
            Some((_, call, outcome @ None)) => {
                new += 1;
                *outcome = Some(tree.apply(call, Ino(new)));
            }
            Some((event, _, Some(outcome))) if lane > 0 || begun < operations => {
                history.respond(*event, outcome.clone(), lanes[lane].1);
                pending[lane] = None;
            }
            _ => {}
        }
    }
    history
}

#[test]
fn a_true_history_has_an_order() {
    for seed in 0..40 {
        let history = honest(seed, 300);
        linearize(&history).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

#[test]
fn a_long_history_is_judged_quickly() {
    assert!(linearize(&honest(7, 6000)).is_ok());
}

#[test]
fn one_wrong_answer_is_found() {
    let mut found = 0;
    for seed in 0..30 {
        let history = honest(seed, 120);
        let mut random = Random::new(seed);
        let lies = history.events().iter().enumerate().filter_map(|(index, event)| {
            let lie = match (&event.call.op, &event.returned.as_ref()?.1) {
                (Op::Create { .. }, Err(Errno::EEXIST)) => Err(Errno::ENOENT),
                (Op::Unlink(..), Ok(Value::Done)) => Err(Errno::ENOENT),
                (Op::Lookup(..), Ok(_)) => Err(Errno::ENOENT),
                (Op::ReadDir(_), Ok(Value::Entries(listed))) if listed.len() > 1 => Ok(
                    Value::Entries(listed.iter().skip(1).map(|(n, e)| (n.clone(), *e)).collect()),
                ),
                (Op::Rename { .. }, Ok(_)) => Err(Errno::EEXIST),
                _ => return None,
            };
            Some((index, lie))
        });
        let lies: Vec<_> = lies.collect();
        let (index, lie) = lies[random.below(lies.len() as u64) as usize].clone();
        let mut told = History::default();
        (0..history.lanes()).for_each(|_| {
            told.lane();
        });
        told.replay(&history, index, lie);
        found += usize::from(linearize(&told).is_err());
    }
    assert!(found >= 20, "{found} of 30: the rest may be true by another order");
}

#[test]
fn a_create_whose_end_no_client_saw_may_show_up_or_not() {
    for seen in [true, false] {
        let mut history = History::default();
        let (a, b, aside) = (history.lane(), history.lane(), history.lane());
        let call = |op| Call { who: 0, credentials: Credentials::ROOT, op };
        let at = Name::new(b"x").unwrap();
        let made = history.invoke(a, call(Op::Mkdir(Ino::ROOT, at.clone(), 0o755)));
        history.asked(made, RequestId::default());
        let event = history.invoke(b, call(Op::Lookup(Ino::ROOT, at)));
        let stat = crate::model::Stat {
            ino: Ino(9),
            kind: FileKind::Directory,
            mode: 0o755,
            nlink: 2,
            uid: 0,
            gid: 0,
            size: 0,
        };
        let outcome = if seen { Ok(Value::Stat(stat)) } else { Err(Errno::ENOENT) };
        history.respond(event, outcome, aside);
        assert!(linearize(&history).is_ok());
    }
}

/// A write without an answer lies beneath a later one, and only the last look shows it. Meanwhile
/// many operations ran that may or may not have happened.
#[test]
fn what_shows_only_at_the_end_is_found_however_much_happened_in_between() {
    let mut history = History::default();
    let call = |op| Call { who: 0, credentials: Credentials::ROOT, op };
    let named = |name: String| Name::new(name.as_bytes()).unwrap();
    let (a, b, aside) = (history.lane(), history.lane(), history.lane());
    let (kind, ino) = (FileKind::Regular, Ino(9));
    let file = |size| crate::model::Stat { ino, kind, mode: 0o644, nlink: 1, uid: 0, gid: 0, size };
    let create = |name, exclusive| Op::Create {
        dir: Ino::ROOT,
        name,
        kind,
        mode: 0o644,
        symlink: Vec::new(),
        exclusive,
        open: false,
    };
    let made = history.invoke(a, call(create(named("file".into()), true)));
    history.respond(made, Ok(Value::Created(file(0), true)), aside);
    for nth in 0..20 {
        let lane = history.lane();
        let lost =
            history.invoke(lane, call(Op::Mkdir(Ino::ROOT, named(format!("lost {nth}")), 0o755)));
        history.asked(lost, RequestId::default());
    }
    let lane = history.lane();
    history.invoke(lane, call(Op::Write(ino, 0, vec![1; 3])));
    let write = history.invoke(a, call(Op::Write(ino, 1, vec![2; 3])));
    history.respond(write, Ok(Value::Stat(file(4))), aside);
    for nth in 0..100 {
        let [one, other] = [(a, "a"), (b, "b")].map(|(lane, prefix)| {
            let name = named(format!("{prefix} {nth}"));
            history.invoke(lane, call(create(name, true)))
        });
        for (at, event) in [one, other].into_iter().enumerate() {
            let new = crate::model::Stat { ino: Ino(100 + 2 * nth + at as u64), ..file(0) };
            history.respond(event, Ok(Value::Created(new, true)), aside);
        }
    }
    for bytes in [vec![1, 2, 2, 2], vec![1, 1, 1, 2]] {
        let mut history = history.clone();
        let look = history.invoke(a, call(Op::Read(ino, 0, 10)));
        history.respond(look, Ok(Value::Bytes(bytes.clone())), aside);
        linearize(&history).unwrap_or_else(|failure| panic!("{bytes:?}: {failure}"));
    }
}

/// A history with a mkdir that has no answer. `watched` notes what shards said of it. Then a client
/// looks, and finds nothing.
fn unheard(watched: impl FnOnce(&mut History, usize)) -> History {
    let mut history = History::default();
    let (a, b, aside) = (history.lane(), history.lane(), history.lane());
    let call = |op| Call { who: 0, credentials: Credentials::ROOT, op };
    let at = Name::new(b"x").unwrap();
    let made = history.invoke(a, call(Op::Mkdir(Ino::ROOT, at.clone(), 0o755)));
    history.asked(made, RequestId::default());
    watched(&mut history, made);
    let event = history.invoke(b, call(Op::Lookup(Ino::ROOT, at)));
    history.respond(event, Err(Errno::ENOENT), aside);
    history
}

#[test]
fn what_a_shard_said_of_an_operation_holds_though_its_caller_never_heard() {
    let id = RequestId { sequence: 1, ..RequestId::default() };
    let ran = |history: &mut History, made| history.told(made, id, Some(Some(Ino(9))));
    assert!(linearize(&unheard(ran)).is_err(), "it was there before anybody looked");
    let refused = |history: &mut History, made| history.told(made, id, None);
    assert!(linearize(&unheard(refused)).is_ok());
    // It was refused and then tried again. Whether that ran is unknown.
    let again = |history: &mut History, made| {
        history.told(made, id, None);
        history.asked(made, RequestId { sequence: 2, ..id });
    };
    let mut history = unheard(again);
    assert!(linearize(&history).is_ok());
    let call = |op| Call { who: 0, credentials: Credentials::ROOT, op };
    let (lane, aside) = (history.lane(), history.lane());
    let list = history.invoke(lane, call(Op::ReadDir(Ino::ROOT)));
    let entry = (Name::new(b"x").unwrap(), (Ino(9), FileKind::Directory));
    history.respond(list, Ok(Value::Entries([entry].into())), aside);
    assert!(linearize(&history).is_ok());
}

fn create_and_open(name: &Name) -> Op {
    Op::Create {
        dir: Ino::ROOT,
        name: name.clone(),
        kind: FileKind::Regular,
        mode: 0o644,
        symlink: Vec::new(),
        exclusive: true,
        open: true,
    }
}

/// A client closes a removed file in a new session. The file may exist until the old session is
/// over, and not after that.
#[test]
fn what_an_old_session_holds_may_go_later_than_it_is_closed() {
    let looks: [(bool, &[bool], bool); 4] = [
        (false, &[false], true),
        (false, &[true], false),
        (true, &[true, true, false], true),
        (true, &[false, true], false),
    ];
    for (is_begun_anew, there, is_right) in looks {
        let mut history = History::default();
        let (a, b, aside) = (history.lane(), history.lane(), history.lane());
        let call = |who, op| Call { who, credentials: Credentials::ROOT, op };
        let at = Name::new(b"x").unwrap();
        let create = create_and_open(&at);
        let (kind, ino) = (FileKind::Regular, Ino(9));
        let stat = Stat { ino, kind, mode: 0o644, nlink: 1, uid: 0, gid: 0, size: 0 };
        let event = history.invoke(a, call(0, create));
        history.respond(event, Ok(Value::Created(stat, true)), aside);
        let since = history.invoked(event);
        for op in [Op::Unlink(Ino::ROOT, at), Op::Release(ino)] {
            let event = history.invoke(a, call(0, op));
            history.respond(event, Ok(Value::Done), aside);
        }
        if is_begun_anew {
            history.begun_anew(0, since);
        }
        for is_there in there {
            let event = history.invoke(b, call(1, Op::GetAttr(ino)));
            let open = Ok(Value::Stat(Stat { nlink: 0, ..stat }));
            history.respond(event, if *is_there { open } else { Err(Errno::ESTALE) }, aside);
        }
        assert_eq!(linearize(&history).is_ok(), is_right, "{is_begun_anew} {there:?}");
    }
}

#[test]
fn what_was_let_go_with_a_session_went_between_two_moments() {
    for looks_late in [false, true] {
        let mut history = History::default();
        let (a, b) = (history.lane(), history.lane());
        let (c, aside) = (history.lane(), history.lane());
        let call = |who, op| Call { who, credentials: Credentials::ROOT, op };
        let at = Name::new(b"x").unwrap();
        let create = create_and_open(&at);
        let stat = crate::model::Stat {
            ino: Ino(9),
            kind: FileKind::Regular,
            mode: 0o644,
            nlink: 1,
            uid: 0,
            gid: 0,
            size: 0,
        };
        let event = history.invoke(a, call(0, create));
        history.respond(event, Ok(Value::Created(stat, true)), aside);
        let event = history.invoke(a, call(0, Op::Unlink(Ino::ROOT, at)));
        history.respond(event, Ok(Value::Done), aside);
        let since = history.invoked(event);
        let look = |history: &mut History, lane, outcome| {
            let event = history.invoke(lane, call(1, Op::GetAttr(Ino(9))));
            history.respond(event, outcome, aside);
        };
        look(&mut history, b, Err(Errno::ESTALE));
        history.let_go(0, Ino(9), since);
        let open = Ok(Value::Stat(crate::model::Stat { nlink: 0, ..stat }));
        let outcome = if looks_late { open } else { Err(Errno::ESTALE) };
        look(&mut history, c, outcome);
        assert_eq!(linearize(&history).is_err(), looks_late);
    }
}

/// A client finds `/a`. Then it is moved away, another directory gets the name, and a file is made
/// in one of them. The test checks whether that is accepted as `/a/f`, with and without eight
/// refusals.
#[test]
fn a_loose_call_by_path_was_at_each_component_at_some_moment() {
    let named = |text: &str| Name::new(text.as_bytes()).unwrap();
    let dir = |number, ino| DirRef { id: DirId([number; 16]), ino };
    let stat = |ino, kind, mode, nlink| Stat { ino, kind, mode, nlink, uid: 0, gid: 0, size: 0 };
    let history = |found: Ino, is_loose| {
        let mut history = History::default();
        let (a, b, aside) = (history.lane(), history.lane(), history.lane());
        let call = |op| Call { who: 0, credentials: Credentials::ROOT, op };
        let mkdir = |history: &mut History, ino| {
            let made = history.invoke(a, call(Op::Mkdir(Ino::ROOT, named("a"), 0o755)));
            let made_it = stat(ino, FileKind::Directory, 0o755, 2);
            history.respond(made, Ok(Value::Stat(made_it)), aside);
        };
        mkdir(&mut history, Ino(9));
        let op = Op::Create {
            dir: Ino(0),
            name: named("f"),
            kind: FileKind::Regular,
            mode: 0o644,
            symlink: Vec::new(),
            exclusive: true,
            open: false,
        };
        let (path, to_path) = (vec![named("a")], Vec::new());
        let by_path = Op::ByPath { path, to_path, op: Box::new(op) };
        let create = history.invoke(b, call(by_path));
        history.found_loosely(create, Ino::ROOT, named("a"), found);
        let node = NewNode { kind: FileKind::Regular, mode: 0o644, rdev: 0, symlink: Vec::new() };
        let (dir, name) = (dir(1, found), named("f"));
        let wire = Wire::Create { dir, name, node, exclusive: true, open: false };
        history.asked_loosely(create, 1, &wire);
        let (from, to, name, new_name) = (Ino::ROOT, Ino::ROOT, named("a"), named("z"));
        let flags = RenameFlags::default();
        let rename = Op::Rename { from, name, to, new_name, flags };
        let moved = history.invoke(a, call(rename));
        history.respond(moved, Ok(Value::Done), aside);
        mkdir(&mut history, Ino(10));
        let look = history.invoke(a, call(Op::Lookup(Ino(9), named("f"))));
        history.respond(look, Err(Errno::ENOENT), aside);
        let file = stat(Ino(11), FileKind::Regular, 0o644, 1);
        history.walked(create, is_loose);
        history.respond(create, Ok(Value::Created(file, true)), aside);
        let look = history.invoke(a, call(Op::Lookup(Ino(9), named("f"))));
        history.respond(look, Ok(Value::Stat(file)), aside);
        history
    };
    assert!(linearize(&history(Ino(9), true)).is_ok());
    assert!(linearize(&history(Ino(9), false)).is_err(), "its path was promised at one moment");
    assert!(linearize(&history(Ino(10), true)).is_err(), "it was made in the other");
    let says_otherwise = history(Ino(9), false);
    assert!(says_otherwise.events().iter().any(|event| event.walked.is_forbidden()));
}
