//! What participants remember of finished steps: nothing of transactions that are over, even if an
//! earlier transaction waits for long.

use pando_core::keys::{self, Table};
use pando_types::op::{Op, RenameFlags};
use pando_types::peer::{Floor, PeerMessage};
use pando_types::{DirRef, ShardIndex};

use crate::support::{Cluster, dir_at};

const ROOT: DirRef = DirRef::ROOT;
const SECOND: u64 = 1_000_000_000;

/// Renames files from one directory to another. Time passes meanwhile.
fn rename_files(c: &mut Cluster, (from, to): (DirRef, DirRef), numbers: std::ops::Range<u32>) {
    for n in numbers {
        let name = format!("f{n}");
        c.create(from, &name).unwrap();
        let (old, new) = (c.name(&name), c.name(&name));
        let flags = RenameFlags { exchange: false, no_replace: false };
        let op = Op::Rename { from, name: old, to, new_name: new, flags };
        c.run(c.home(from), op).unwrap();
        if n % 20 == 0 {
            c.tick(c.all(), SECOND);
        }
    }
}

#[test]
fn one_transaction_that_waits_does_not_keep_all_later_ones_in_mind() {
    let mut c = Cluster::new(3, 100_000);
    let coordinator = c.home(ROOT);
    let mut others = (0..3).map(ShardIndex).filter(|shard| *shard != coordinator);
    let (participant, away) = (others.next().unwrap(), others.next().unwrap());
    let (_, from) = dir_at(&mut c, ROOT, "from", |home| home == coordinator);
    let (_, to) = dir_at(&mut c, ROOT, "to", |home| home == participant);
    // It is decided, and the shard that is away never hears so.
    let is_told = |c: &Cluster| {
        c.messages().any(|(_, peer)| {
            matches!(peer.message, PeerMessage::Finish(Some(_))) && peer.from == coordinator
        })
    };
    let mut stuck = 0;
    while !is_told(&c) {
        assert!(stuck < 100, "no home there");
        let (op, before) = (Op::Mkdir(ROOT, c.name(&format!("dir-{stuck}")), 0o755), c.in_flight());
        c.send(coordinator, op);
        while !(is_told(&c) && c.count([away], &keys::table(Table::Prepared)) > 0) && c.step() {}
        assert_eq!(before[..3], [0, 0, 0]);
        stuck += 1;
    }
    c.silence([away]);
    c.take_sent();
    rename_files(&mut c, (from, to), 0..1_000);
    let rows = c.count(c.all(), &keys::table(Table::Finished));
    assert!(rows <= 100, "{rows}");
    // Late messages about any of them change nothing.
    let mut late: Vec<_> = c.take_sent().into_iter().map(|(_, to, peer)| (to, peer)).collect();
    late.retain(|(to, peer)| {
        *to == participant
            && matches!(peer.message, PeerMessage::Finish(_) | PeerMessage::Prepare(..))
    });
    assert!(late.len() >= 2_000, "{}", late.len());
    let before = c.rows();
    c.deliver(late.clone());
    assert_eq!(c.rows(), before);
    c.restart(c.all());
    rename_files(&mut c, (from, to), 1_000..2_000);
    let rows = c.count(c.all(), &keys::table(Table::Finished));
    assert!(rows <= 100, "{rows}");
    let before = c.rows();
    c.deliver(late);
    assert_eq!(c.rows(), before);
    // The shard is back, hears the decision, and remembers nothing.
    c.silence([]);
    c.settle();
    rename_files(&mut c, (from, to), 2_000..2_002);
    c.settle();
    let rows = c.count(c.all(), &keys::table(Table::Finished));
    assert!(rows <= 4, "{rows}");
    assert_eq!(c.in_flight()[..3], [0, 0, 0]);
}

#[test]
fn what_is_void_stays_so_whatever_comes_in_which_order() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut floor = || {
        let below = random.u64(..20);
        let but: Vec<u64> = (0..below).filter(|_| random.usize(..3) == 0).collect();
        Floor { below, but }
    };
    for _ in 0..2_000 {
        let (mut first, second) = (floor(), floor());
        let is_void = |n: u64| first.is_void(n) || second.is_void(n);
        let expected: Vec<bool> = (0..30).map(is_void).collect();
        let is_news = (0..30).any(|n| second.is_void(n) && !first.is_void(n));
        assert!(first.raise(&second) || !is_news);
        assert_eq!((0..30).map(|n| first.is_void(n)).collect::<Vec<_>>(), expected);
        assert!(!first.raise(&second), "it is known by now");
    }
}
