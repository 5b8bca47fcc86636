//! Three directories are renamed at once, by path. All clients know the tree as it was before. In
//! any order of the parts of their transactions, the result is that of the renames one after the
//! other.
//!
//! ```text
//!   one rename:  walks up │ has its claim, locks its names │ is announced to all shards │ is decided, and ends
//! ```
//!
//! All orders of these twelve parts are tried, for all threes of some renames that conflict, among
//! them loops of two (InfiniFS, Figure 8). A client that is refused as overtaken walks anew and
//! tries again. A rename within its parent needs no claim: its first part is empty.

use std::collections::BTreeMap;

use pando_types::op::{Op, RenameFlags};
use pando_types::peer::{PeerMessage, Prepare, Seen, Vote};
use pando_types::reply::{Body, Found, Refusal};
use pando_types::{DirRef, Errno, Ino, Trail, TxnId};

use crate::support::{Cluster, Versions};

/// Old and new paths, on a tree of `/a/b/c` and `/d`.
const RENAMES: [(&str, &str); 7] = [
    ("/a", "/d/a"),
    ("/d", "/a/b/d"),
    ("/a/b", "/b"),
    ("/a/b/c", "/d/c"),
    ("/a", "/z"),
    ("/d", "/z"),
    ("/b", "/a/b/c/b"),
];

const PARTS: usize = 4;

/// One of this many orders is tried, others for each three. With `PANDO_LONG` all are tried, which
/// takes long.
const EVERY: usize = if cfg!(debug_assertions) { 227 } else { 23 };

/// Paths, each with the first name of the directory there.
type Tree = BTreeMap<String, char>;

fn before() -> Tree {
    [("/a", 'a'), ("/a/b", 'b'), ("/a/b/c", 'c'), ("/d", 'd')]
        .into_iter()
        .map(|(path, which)| (path.to_string(), which))
        .collect()
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').expect("a path begins with a slash")
}

/// Applies a rename to a tree.
fn apply(tree: &mut Tree, from: &str, to: &str) -> Result<(), Errno> {
    let exists = |path: &str| path.is_empty() || tree.contains_key(path);
    if !exists(from) || !exists(split(to).0) {
        return Err(Errno::ENOENT);
    }
    if to.starts_with(&format!("{from}/")) {
        return Err(Errno::EINVAL);
    }
    if tree.keys().any(|path| path.starts_with(&format!("{to}/"))) {
        return Err(Errno::ENOTEMPTY);
    }
    tree.remove(to);
    let moved: Vec<_> = tree
        .keys()
        .filter(|path| *path == from || path.starts_with(&format!("{from}/")))
        .cloned()
        .collect();
    for path in moved {
        if let Some(which) = tree.remove(&path) {
            tree.insert(format!("{to}{}", &path[from.len()..]), which);
        }
    }
    Ok(())
}

struct Run {
    c: Cluster,
    names: BTreeMap<Ino, char>,
}

impl Run {
    fn new() -> Self {
        let mut c = Cluster::new(3, 1000);
        c.settle();
        let a = c.mkdir(DirRef::ROOT, "a").unwrap();
        let b = c.mkdir(a, "b").unwrap();
        let deep = c.mkdir(b, "c").unwrap();
        let d = c.mkdir(DirRef::ROOT, "d").unwrap();
        let names = [(a, 'a'), (b, 'b'), (deep, 'c'), (d, 'd')];
        Self { c, names: names.into_iter().map(|(dir, which)| (dir.ino, which)).collect() }
    }

    /// Walks to a directory, in the present tree.
    fn walk(&mut self, path: &str, dirs: &mut Vec<Ino>) -> Result<DirRef, Errno> {
        let mut at = DirRef::ROOT;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let Found::Dir(access) = self.c.lookup(at, name)? else { panic!("only directories") };
            at = access.dir;
            dirs.push(at.ino);
        }
        Ok(at)
    }

    /// The request of a client that has just walked there.
    fn request(&mut self, from: &str, to: &str) -> Result<(Op, Trail), Errno> {
        let mut dirs = vec![Ino::ROOT];
        let version = self.c.newest_version();
        let (parent, name) = split(from);
        let (new_parent, new_name) = split(to);
        let (from, to) = (self.walk(parent, &mut dirs)?, self.walk(new_parent, &mut dirs)?);
        let (name, new_name) = (self.c.name(name), self.c.name(new_name));
        let op = Op::Rename { from, name, to, new_name, flags: RenameFlags::default() };
        Ok((op, Trail { version, dirs }))
    }

    fn tree(&mut self, dir: DirRef, path: &str, tree: &mut Tree) {
        for name in self.c.list(dir) {
            let Ok(Found::Dir(access)) = self.c.lookup(dir, &name) else { panic!("listed") };
            let path = format!("{path}/{name}");
            tree.insert(path.clone(), self.names[&access.dir.ino]);
            self.tree(access.dir, &path, tree);
        }
    }
}

/// One rename in progress.
struct Rename {
    from: &'static str,
    to: &'static str,
    asked: Result<(Op, Trail), Errno>,
    tag: Option<u64>,
    txn: Option<TxnId>,
    outcome: Option<Result<(), Errno>>,
}

/// Delivers one part of a rename.
fn advance(run: &mut Run, rename: &mut Rename, part: usize) {
    if part == 0 {
        match &rename.asked {
            Ok((op, trail)) => {
                let Op::Rename { from, .. } = op else { panic!("a rename") };
                let home = run.c.home(*from);
                let (tag, txn) = run.c.send_txn(home, (op.clone(), trail.clone()));
                (rename.tag, rename.txn) = (Some(tag), txn);
            }
            Err(errno) => rename.outcome = Some(Err(*errno)),
        }
    }
    let Some(txn) = rename.txn else { return };
    let is_end = |message: &PeerMessage| match part {
        0 => matches!(message, PeerMessage::Prepare(_, Prepare::Graph(_) | Prepare::Name { .. })),
        1 => matches!(message, PeerMessage::Prepare(_, Prepare::Invalidate { .. })),
        2 => matches!(message, PeerMessage::Voted(Vote::Yes(Seen::Version(_)))),
        _ => false,
    };
    let versions = if part == 2 { Versions::Delivered } else { Versions::Held };
    run.c.step_txn(txn, versions, is_end);
}

fn try_order(renames: [(&'static str, &'static str); 3], order: &[usize]) {
    let mut run = Run::new();
    let mut under_way: Vec<Rename> = renames
        .into_iter()
        .map(|(from, to)| {
            let asked = run.request(from, to);
            Rename { from, to, asked, tag: None, txn: None, outcome: None }
        })
        .collect();
    let mut parts = [0; 3];
    for &which in order {
        advance(&mut run, &mut under_way[which], parts[which]);
        parts[which] += 1;
    }
    run.c.settle();
    for rename in &mut under_way {
        for tries in 0.. {
            if rename.outcome.is_some() {
                break;
            }
            assert!(tries < 9, "{order:?}: {renames:?} never ends");
            rename.outcome = match rename.tag.take().and_then(|tag| run.c.answer(tag)) {
                Some(Ok(Body::Moved(..))) => Some(Ok(())),
                Some(Err(Refusal::Errno(Errno::ESTALE) | Refusal::Stale)) => {
                    match run.request(rename.from, rename.to) {
                        Ok((op, trail)) => {
                            let Op::Rename { from, .. } = &op else { panic!("a rename") };
                            let home = run.c.home(*from);
                            rename.tag = Some(run.c.send(home, (op, trail)));
                            run.c.settle();
                            None
                        }
                        Err(errno) => Some(Err(errno)),
                    }
                }
                Some(Err(Refusal::Errno(errno))) => Some(Err(errno)),
                other => panic!("{order:?}: {renames:?}: {other:?}"),
            };
        }
    }
    let mut after = Tree::new();
    run.tree(DirRef::ROOT, "", &mut after);
    let outcomes: Vec<_> = under_way.iter().map(|rename| rename.outcome).collect();
    let permutations = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let is_sequential = permutations.iter().any(|sequence| {
        let mut tree = before();
        let agree = |&which: &usize| {
            let (from, to) = renames[which];
            Some(apply(&mut tree, from, to)) == outcomes[which]
        };
        sequence.iter().all(agree) && tree == after
    });
    assert!(is_sequential, "{renames:?} in {order:?}: {outcomes:?}, {after:?}");
    assert_eq!(run.c.in_flight()[..3], [0; 3], "nothing is left under way");
}

/// Calls `each` with all orders of three times `PARTS` parts.
fn orders(left: [usize; 3], order: &mut Vec<usize>, each: &mut impl FnMut(&[usize])) {
    if left == [0; 3] {
        return each(order);
    }
    for which in 0..3 {
        if left[which] > 0 {
            let mut left = left;
            left[which] -= 1;
            order.push(which);
            orders(left, order, each);
            order.pop();
        }
    }
}

#[test]
fn three_renames_in_any_order_of_their_parts_are_as_if_one_after_the_other() {
    let every = if std::env::var_os("PANDO_LONG").is_some() { 1 } else { EVERY };
    let mut tried = 0;
    for (first, a) in RENAMES.iter().enumerate() {
        for (second, b) in RENAMES.iter().enumerate().skip(first + 1) {
            for c in &RENAMES[second + 1..] {
                let three = [*a, *b, *c];
                orders([PARTS; 3], &mut Vec::new(), &mut |order| {
                    tried += 1;
                    if tried % every == 0 {
                        try_order(three, order);
                    }
                });
            }
        }
    }
    assert_eq!(tried, 35 * 34_650);
}
