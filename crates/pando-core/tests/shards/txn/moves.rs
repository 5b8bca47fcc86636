//! Directories that change their parent at one time (InfiniFS §4.1, Figure 8). No loop comes of it,
//! and no move waits for an unrelated one.

use pando_types::op::{Op, RenameFlags};
use pando_types::peer::{Claim, PeerMessage, Prepare, Seen, Vote};
use pando_types::reply::{Body, Found, Refusal};
use pando_types::{DirRef, Errno, ShardIndex, TxnId};

use crate::support::{Cluster, Versions, dir_at};

const ROOT: DirRef = DirRef::ROOT;
const SHARDS: u16 = 4;

/// A move that has begun.
struct Move {
    tag: u64,
    txn: TxnId,
}

fn begin(c: &mut Cluster, from: (DirRef, &str), to: (DirRef, &str)) -> Move {
    begin_by(c, from, to, RenameFlags::default())
}

fn begin_exchange(c: &mut Cluster, from: (DirRef, &str), to: (DirRef, &str)) -> Move {
    begin_by(c, from, to, RenameFlags { exchange: true, no_replace: false })
}

fn begin_by(c: &mut Cluster, from: (DirRef, &str), to: (DirRef, &str), flags: RenameFlags) -> Move {
    let op =
        Op::Rename { from: from.0, name: c.name(from.1), to: to.0, new_name: c.name(to.1), flags };
    let (tag, txn) = c.send_txn(c.home(from.0), op);
    Move { tag, txn: txn.expect("a message of it is on its way") }
}

fn is_claim(message: &PeerMessage) -> bool {
    matches!(message, PeerMessage::Prepare(_, Prepare::Graph(_)))
}

fn is_claim_on_all(message: &PeerMessage) -> bool {
    matches!(message, PeerMessage::Prepare(_, Prepare::Graph(Claim::Alone)))
}

fn is_announced(message: &PeerMessage) -> bool {
    matches!(message, PeerMessage::Prepare(_, Prepare::Invalidate { .. }))
}

fn is_overtaken(message: &PeerMessage) -> bool {
    matches!(message, PeerMessage::Voted(Vote::Overtaken(_)))
}

/// Delivers all messages of a move, and of versions, that can be delivered now. Returns its answer.
fn finish(c: &mut Cluster, it: &Move) -> Option<Result<Body, Refusal>> {
    c.step_txn(it.txn, Versions::Delivered, |_| false);
    c.answer(it.tag)
}

fn is_moved(answer: Option<Result<Body, Refusal>>) -> bool {
    matches!(answer, Some(Ok(Body::Moved(..))))
}

const LOOP: Option<Result<Body, Refusal>> = Some(Err(Refusal::Errno(Errno::EINVAL)));

/// A directory away from shard 0. Its moves then begin elsewhere, and each message to shard 0 is
/// seen.
fn far(c: &mut Cluster, parent: DirRef, stem: &str) -> (String, DirRef) {
    dir_at(c, parent, stem, |home| home != ShardIndex(0))
}

/// Directories that can be reached from the root.
fn reachable(c: &mut Cluster) -> Vec<DirRef> {
    let (mut all, mut next) = (vec![ROOT], 0);
    while next < all.len() {
        let dir = all[next];
        for name in c.list(dir) {
            if let Ok(Found::Dir(access)) = c.lookup(dir, &name) {
                assert!(!all.contains(&access.dir), "{name} is in two places");
                all.push(access.dir);
            }
        }
        next += 1;
    }
    all
}

/// `/a/x` and `/b`: `x` will go to `b`, and `b` to `x`. One of these moves must fail.
struct Figure8 {
    c: Cluster,
    a: DirRef,
    x: DirRef,
    holder: DirRef,
    b: (String, DirRef),
}

impl Figure8 {
    fn new() -> Self {
        let mut c = Cluster::new(SHARDS, 1000);
        c.settle();
        // No shard both coordinates a move and has a directory of its walk. So each move sends
        // messages.
        let (_, a) = dir_at(&mut c, ROOT, "a", |home| home.0 == 1);
        let (name, x) = dir_at(&mut c, a, "x", |home| home.0 == 2);
        c.rename(a, &name, a, "x").unwrap();
        let (_, holder) = dir_at(&mut c, ROOT, "holder", |home| home.0 == 3);
        let b = dir_at(&mut c, holder, "b", |home| home.0 == 2);
        // All transactions so far are over everywhere.
        c.settle();
        Self { c, a, x, holder, b }
    }

    fn x_to_b(&mut self) -> Move {
        begin(&mut self.c, (self.a, "x"), (self.b.1, "x"))
    }

    fn b_to_x(&mut self) -> Move {
        let b = self.b.0.clone();
        begin(&mut self.c, (self.holder, &b), (self.x, "b"))
    }

    /// Checks that all is over, and that all five directories are in one tree.
    fn is_whole(&mut self) {
        self.c.settle();
        assert_eq!(reachable(&mut self.c).len(), 5, "the root, and all that were made");
        let [locks, _, prepared, _] = self.c.in_flight();
        assert_eq!((locks, prepared), (0, 0), "nothing is left under way");
    }
}

#[test]
fn moves_that_have_nothing_to_do_with_each_other_are_under_way_at_once() {
    let mut c = Cluster::new(SHARDS, 1000);
    c.settle();
    let parents: Vec<_> = ["a", "b", "c", "d"].map(|stem| far(&mut c, ROOT, stem).1).into();
    let (x, _) = far(&mut c, parents[0], "x");
    let (y, _) = far(&mut c, parents[2], "y");
    c.settle();
    let one = begin(&mut c, (parents[0], &x), (parents[1], "x"));
    c.step_txn(one.txn, Versions::Held, is_announced);
    assert_eq!(c.answer(one.tag), None);
    let other = begin(&mut c, (parents[2], &y), (parents[3], "y"));
    assert!(is_moved(finish(&mut c, &other)), "while the first has all its locks");
    assert!(is_moved(finish(&mut c, &one)));
}

#[test]
fn a_loop_of_two_moves_is_refused_however_they_overlap() {
    // Progress of the first move when the second begins, and of the second.
    let stages: [fn(&PeerMessage) -> bool; 3] = [is_claim, is_announced, |_| false];
    for (first_stage, second_stage) in
        stages.iter().flat_map(|a| stages.iter().map(move |b| (a, b)))
    {
        let mut figure = Figure8::new();
        let first = figure.x_to_b();
        figure.c.step_txn(first.txn, Versions::Delivered, *first_stage);
        let second = figure.b_to_x();
        figure.c.step_txn(second.txn, Versions::Delivered, *second_stage);
        figure.c.step_txn(first.txn, Versions::Delivered, |_| false);
        figure.c.step_txn(second.txn, Versions::Delivered, |_| false);
        figure.c.settle();
        let outcomes = [first.tag, second.tag].map(|tag| figure.c.answer(tag));
        assert_eq!(outcomes.iter().filter(|it| is_moved((*it).clone())).count(), 1, "{outcomes:?}");
        assert!(outcomes.contains(&LOOP), "{outcomes:?}");
        figure.is_whole();
    }
}

#[test]
fn a_walk_that_was_overtaken_is_done_anew() {
    let mut figure = Figure8::new();
    let overtaken = |c: &Cluster| c.counters()[0].walks_overtaken;
    let late = figure.x_to_b();
    figure.c.step_txn(late.txn, Versions::Held, is_claim);
    let quick = figure.b_to_x();
    assert!(is_moved(finish(&mut figure.c, &quick)));
    assert_eq!(overtaken(&figure.c), 0);
    assert_eq!(finish(&mut figure.c, &late), LOOP, "it was told of the root when it walked");
    assert_eq!(overtaken(&figure.c), 1);
    // A move that overtakes a walk need not make a loop.
    let to = figure.c.mkdir(figure.x, "to").unwrap();
    figure.c.settle();
    let late = begin(&mut figure.c, (figure.x, "b"), (to, "b"));
    figure.c.step_txn(late.txn, Versions::Held, is_claim);
    let holder = figure.holder;
    let quick = begin(&mut figure.c, (figure.x, "to"), (holder, "to"));
    assert!(is_moved(finish(&mut figure.c, &quick)));
    assert!(is_moved(finish(&mut figure.c, &late)));
    assert_eq!(overtaken(&figure.c), 2);
    figure.c.settle();
    assert_eq!(reachable(&mut figure.c).len(), 6);
}

#[test]
fn a_move_below_what_moves_waits_until_it_has_moved() {
    // The walk of the second move waits where content is locked. If it is over, the claim waits.
    for has_walked in [false, true] {
        let mut figure = Figure8::new();
        let second = has_walked.then(|| figure.x_to_b());
        if let Some(second) = &second {
            figure.c.step_txn(second.txn, Versions::Held, is_claim);
        }
        let first = figure.b_to_x();
        figure.c.step_txn(first.txn, Versions::Held, is_announced);
        let second = second.unwrap_or_else(|| figure.x_to_b());
        assert_eq!(finish_but_versions(&mut figure.c, &second), None);
        assert!(is_moved(finish(&mut figure.c, &first)));
        assert_eq!(finish(&mut figure.c, &second), LOOP);
        assert_eq!(figure.c.counters()[0].walks_overtaken, 1);
        figure.is_whole();
    }
}

/// Delivers all messages of a move, but none about versions. Returns its answer.
fn finish_but_versions(c: &mut Cluster, it: &Move) -> Option<Result<Body, Refusal>> {
    c.step_txn(it.txn, Versions::Held, |_| false);
    c.answer(it.tag)
}

#[test]
fn a_move_that_is_overtaken_again_and_again_moves_alone() {
    let mut figure = Figure8::new();
    let (b, holder) = (figure.b.clone(), figure.holder);
    let (_, other) = far(&mut figure.c, ROOT, "other");
    let (still, _) = far(&mut figure.c, other, "still");
    let holder_name = name_of_root(&mut figure.c, holder);
    figure.c.settle();
    let c = &mut figure.c;
    let late = begin(c, (figure.a, "x"), (b.1, "x"));
    let places = [(holder, b.0.as_str()), (other, "b")];
    for n in 0..3 {
        c.step_txn(late.txn, Versions::Held, is_claim);
        let quick = begin(c, places[n % 2], places[1 - n % 2]);
        assert!(is_moved(finish(c, &quick)));
        c.step_txn(late.txn, Versions::Held, is_overtaken);
    }
    assert_eq!(c.counters()[0].walks_overtaken, 3);
    // The claim alone waits for a standing claim. No later claim is given before it.
    let slow = begin(c, (other, &still), (ROOT, "still"));
    c.step_txn(slow.txn, Versions::Held, is_announced);
    c.step_txn(late.txn, Versions::Held, is_claim_on_all);
    assert_eq!(finish(c, &late), None, "it is not alone");
    let later = begin(c, (ROOT, &holder_name), (figure.a, "holder"));
    assert_eq!(finish_but_versions(c, &later), None, "who wants to be alone came first");
    assert!(is_moved(finish(c, &slow)));
    assert!(is_moved(finish(c, &late)));
    assert!(is_moved(finish(c, &later)));
    assert_eq!(c.counters()[0].walks_overtaken, 4, "who moves alone may have moved anything");
    c.settle();
    assert_eq!((reachable(c).len(), c.in_flight()[0]), (7, 0));
}

/// The name of a directory in the root.
fn name_of_root(c: &mut Cluster, dir: DirRef) -> String {
    let is_it = |c: &mut Cluster, name: &str| matches!(c.lookup(ROOT, name), Ok(Found::Dir(found)) if found.dir == dir);
    c.list(ROOT).into_iter().find(|name| is_it(c, name)).expect("it is in the root")
}

#[test]
fn an_exchange_moves_alone() {
    let mut figure = Figure8::new();
    let (b, holder) = (figure.b.clone(), figure.holder);
    let first = figure.b_to_x();
    figure.c.step_txn(first.txn, Versions::Held, is_announced);
    let exchange = begin_exchange(&mut figure.c, (figure.a, "x"), (holder, &b.0));
    assert_eq!(finish_but_versions(&mut figure.c, &exchange), None);
    assert!(is_moved(finish(&mut figure.c, &first)));
    let answer = finish(&mut figure.c, &exchange);
    assert_eq!(answer, Some(Err(Refusal::Errno(Errno::ENOENT))), "it has gone into x");
    // An exchange may change what was walked before.
    let inner = figure.c.mkdir(holder, "inner").unwrap();
    figure.c.mkdir(inner, "deep").unwrap();
    figure.c.settle();
    let late = begin(&mut figure.c, (holder, "inner"), (b.1, "h"));
    figure.c.step_txn(late.txn, Versions::Held, is_claim);
    let exchange = begin_exchange(&mut figure.c, (figure.a, "x"), (inner, "deep"));
    assert!(is_moved(finish(&mut figure.c, &exchange)));
    assert_eq!(finish(&mut figure.c, &late), LOOP, "b is beneath it by now");
    figure.c.settle();
    assert_eq!(reachable(&mut figure.c).len(), 7);
}

#[test]
fn a_directory_deeper_than_a_claim_tells_moves_alone() {
    const DEPTH: usize = 1030;
    let mut c = Cluster::new(2, 1000);
    c.settle();
    let top = c.mkdir(ROOT, "top").unwrap();
    let mut dirs = vec![top];
    for _ in 1..DEPTH {
        let parent = dirs[dirs.len() - 1];
        dirs.push(c.mkdir(parent, "d").unwrap());
    }
    let moved = c.mkdir(ROOT, "moved").unwrap();
    let (deep, deeper) = (dirs[DEPTH - 1], dirs[1]);
    c.rename(ROOT, "moved", deep, "moved").unwrap();
    assert!(matches!(c.lookup(deep, "moved"), Ok(Found::Dir(found)) if found.dir == moved));
    assert_eq!(c.rename(top, "d", deep, "loop"), Err(Errno::EINVAL));
    assert!(matches!(c.lookup(top, "d"), Ok(Found::Dir(found)) if found.dir == deeper));
    c.settle();
    assert_eq!(c.in_flight()[..3], [0; 3]);
}

/// Both moves, with one shard killed after each number of messages. The first is ahead of the
/// second.
#[test]
fn whichever_shard_is_killed_at_whatever_message_no_loop_comes_of_two_moves() {
    for shard in (0..SHARDS).map(ShardIndex) {
        for power in [false, true] {
            for messages in 0.. {
                let mut figure = Figure8::new();
                if power {
                    figure.c.keep_logs();
                }
                let first = figure.x_to_b();
                figure.c.step_txn(first.txn, Versions::Held, is_claim);
                figure.b_to_x();
                let mut is_over = false;
                for _ in 0..messages {
                    is_over = !figure.c.step();
                }
                match power {
                    true => figure.c.lose_power(shard),
                    false => figure.c.restart([shard]),
                }
                figure.is_whole();
                if is_over {
                    assert!(messages > 20, "there are some: {messages}");
                    break;
                }
            }
        }
    }
}

#[test]
fn a_claim_lost_with_the_power_is_no_ground_to_announce_a_move() {
    let mut figure = Figure8::new();
    figure.c.keep_logs();
    let first = figure.x_to_b();
    let is_given =
        |message: &PeerMessage| matches!(message, PeerMessage::Voted(Vote::Yes(Seen::Nothing)));
    figure.c.step_txn(first.txn, Versions::Held, is_claim);
    figure.c.step_txn(first.txn, Versions::Held, is_given);
    let given = figure.c.take(|_, _| true);
    assert_eq!(given.len(), 1, "it has no other lock yet");
    figure.c.lose_power(ShardIndex(0));
    let second = figure.b_to_x();
    assert!(is_moved(finish(&mut figure.c, &second)));
    figure.c.put_back(given);
    figure.c.settle();
    assert_eq!(figure.c.answer(first.tag), LOOP, "it has begun anew");
    figure.is_whole();
}

/// Shard 0 need not sync what it decides alone. A move that has found it on its walk depends on it.
#[test]
fn a_claim_waits_until_what_it_rests_on_is_durable() {
    let zero = |home: ShardIndex| home == ShardIndex(0);
    let other = |home: ShardIndex| home != ShardIndex(0);
    let mut c = Cluster::new(SHARDS, 1000);
    c.settle();
    // `x` moves from `d/e` into `p` by shard 0 alone. Then `d` goes beneath `x`, without shard 0.
    let (_, top) = dir_at(&mut c, ROOT, "top", other);
    let (d_name, d) = dir_at(&mut c, top, "d", other);
    let (_, e) = dir_at(&mut c, d, "e", zero);
    let (_, p) = dir_at(&mut c, ROOT, "p", zero);
    let (x_name, x) = dir_at(&mut c, e, "x", zero);
    let (_, y) = dir_at(&mut c, x, "y", other);
    let count = reachable(&mut c).len();
    c.settle();
    c.keep_logs();
    c.rename(e, &x_name, p, "x").unwrap();
    while c.step() {}
    c.rename(top, &d_name, y, "d").unwrap();
    while c.step() {}
    c.lose_power(ShardIndex(0));
    c.settle();
    assert_eq!(reachable(&mut c).len(), count);
}

/// A move is answered before the owner of the new parent hears of it. Requests to that owner wait.
#[test]
fn a_directory_tells_at_once_of_what_was_moved_into_it() {
    let mut c = Cluster::new(SHARDS, 100);
    let made: Vec<_> = (0..20).map(|n| c.mkdir(ROOT, &format!("to{n}")).unwrap()).collect();
    let to = *made.iter().find(|dir| c.home(**dir) != c.home(ROOT)).unwrap();
    c.mkdir(ROOT, "moved").unwrap();
    c.settle();
    let moved = begin(&mut c, (ROOT, "moved"), (to, "here"));
    while c.answer(moved.tag).is_none() {
        assert!(c.step());
    }
    let home = c.home(to);
    assert_eq!(c.at_once(home, Op::DirGetAttr(to)), None, "it has not heard of it yet");
    let asked = c.send(home, Op::DirGetAttr(to));
    let told = loop {
        if let Some(told) = c.answer(asked) {
            break told;
        }
        assert!(c.step());
    };
    let Ok(Body::Dir(attr)) = told else { panic!("{told:?}") };
    assert_eq!(attr.deltas.iter().map(|delta| delta.subdirs).sum::<u64>(), 1);
}
