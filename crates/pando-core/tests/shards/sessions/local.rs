//! Local sessions, which end when the shards do. There are no records of their opens and outcomes.
//! Apart from the store, they behave like ordinary sessions.

use std::collections::BTreeMap;

use pando_core::admission::{Asks, asks};
use pando_core::keys::{self, Table};
use pando_types::op::{FileAt, FileRef, Op, RenameFlags};
use pando_types::reply::{Body, Refusal};
use pando_types::{DirRef, ShardIndex};

use crate::support::Cluster;

const SHARDS: u16 = 4;
const NAMES: usize = 9;

/// Two clusters with equal operations, one with an ordinary session and one with a local session.
struct Pair {
    both: [Cluster; 2],
    dirs: Vec<DirRef>,
    /// Files that were opened, as they were named then.
    open: Vec<FileRef>,
    repeated: u64,
}

impl Pair {
    fn new() -> Self {
        let mut both = [0, 1].map(|_| Cluster::with(SHARDS, |config| config.split_threshold = 4));
        both[0].begin_session(Op::OpenSession);
        both[1].begin_session(Op::OpenLocalSession);
        assert!(both[1].session.is_local() && !both[0].session.is_local());
        Self { both, dirs: vec![DirRef::ROOT], open: Vec::new(), repeated: 0 }
    }

    fn same<T: PartialEq + core::fmt::Debug>(&mut self, what: impl Fn(&mut Cluster) -> T) -> T {
        let [recorded, local] = self.both.each_mut().map(what);
        assert_eq!(recorded, local);
        local
    }

    /// Asks one shard after the other until an owner answers. Some requests are repeated.
    fn run(&mut self, random: &mut fastrand::Rng, op: &Op) -> Result<Body, Refusal> {
        let mut last = Err(Refusal::AskHome);
        for shard in (0..SHARDS).map(ShardIndex) {
            let answer = self.same(|c| c.run(shard, op.clone()));
            if asks(op) == Asks::Changes && random.u8(..4) == 0 {
                let again = ShardIndex(random.u16(..SHARDS));
                let _ = self.same(|c| c.run(again, (c.last_id, op.clone())));
                self.repeated += 1;
            }
            let is_elsewhere = matches!(
                answer,
                Err(Refusal::Redirect(_) | Refusal::AskHome | Refusal::HashSlot(_))
            );
            if !is_elsewhere {
                return answer;
            }
            last = answer;
        }
        last
    }

    fn step(&mut self, random: &mut fastrand::Rng) {
        let dir = self.dirs[random.usize(..self.dirs.len())];
        let word = format!("n{}", random.usize(..NAMES));
        let name = self.both[0].name(&word);
        let opens = random.usize(..2) == 0;
        match random.usize(..12) {
            0..=4 => {
                let op = match opens {
                    true => self.both[0].create_open_op(dir, &word),
                    false => self.both[0].create_op(dir, &word),
                };
                if let Ok(Body::Created(attr, ..)) = self.run(random, &op)
                    && opens
                {
                    self.open.push(FileRef { ino: attr.ino, at: FileAt::Name(dir, name) });
                }
            }
            5 | 6 => drop(self.run(random, &Op::Unlink(dir, name))),
            7 => {
                let to = self.dirs[random.usize(..self.dirs.len())];
                let new = self.both[0].name(&format!("n{}", random.usize(..NAMES)));
                let flags = RenameFlags::default();
                let op = Op::Rename { from: dir, name, to, new_name: new, flags };
                drop(self.run(random, &op));
            }
            8..=10 if !self.open.is_empty() => {
                let mut file = self.open[random.usize(..self.open.len())].clone();
                if random.usize(..3) == 0 {
                    file.at = FileAt::Link;
                }
                if self.run(random, &Op::Release(file.clone())).is_ok() {
                    let at = self.open.iter().position(|open| open.ino == file.ino);
                    self.open.swap_remove(at.expect("it was chosen from there"));
                }
            }
            _ if self.dirs.len() < 4 => {
                let name = format!("dir-{}", self.dirs.len());
                let made = self.same(|c| c.mkdir(DirRef::ROOT, &name));
                self.dirs.push(made.unwrap());
            }
            _ => self.same(Cluster::settle),
        }
    }

    /// All rows but those of sessions, outcomes and opens.
    fn rows(&mut self) -> BTreeMap<(u16, Vec<u8>), Vec<u8>> {
        let of_sessions = [Table::Session, Table::Outcome, Table::Open].map(keys::table);
        self.same(|c| {
            let mut rows = c.rows();
            rows.retain(|(_, key), _| !of_sessions.iter().any(|table| key.starts_with(table)));
            rows
        })
    }

    fn count(&self, cluster: usize, table: Table) -> usize {
        let shards = (0..SHARDS).map(ShardIndex);
        shards.map(|shard| self.both[cluster].count([shard], &keys::table(table))).sum()
    }
}

#[test]
fn no_reply_shows_whether_a_session_is_local() {
    let (mut repeated, mut orphans, mut splits) = (0, 0, 0);
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut pair = Pair::new();
        for _ in 0..150 {
            pair.step(&mut random);
        }
        pair.same(Cluster::settle);
        pair.rows();
        let session_rows = pair.count(1, Table::Outcome);
        assert_eq!(session_rows, 0, "seed {seed}: outcomes of a local session are in memory");
        assert!(pair.count(1, Table::Open) <= pair.count(0, Table::Open));
        orphans += pair.count(1, Table::Open);
        splits += pair.both[1].counters().iter().map(|c| c.splits_moved).sum::<u64>();
        // All shards restart. A client that restarts with them has nothing open. Files that it had
        // open without a name go with its session.
        let gone: Vec<_> = pair.both.iter().map(|c| c.session).collect();
        pair.same(|c| c.restart(c.all()));
        pair.same(Cluster::settle);
        pair.both[0].begin_session(Op::OpenSession);
        pair.both[1].begin_session(Op::OpenLocalSession);
        for (cluster, session) in pair.both.iter_mut().zip(gone) {
            assert_eq!(cluster.run(ShardIndex(0), Op::EndSession(session)), Ok(Body::Done));
        }
        pair.same(Cluster::settle);
        pair.rows();
        assert_eq!([pair.count(0, Table::Open), pair.count(1, Table::Open)], [0, 0]);
        pair.same(|c| c.in_flight());
        repeated += pair.repeated;
    }
    assert!(repeated > 1_000 && orphans > 20 && splits > 20, "{repeated} {orphans} {splits}");
}

/// A file that is made and closed takes one group: its entry, its directory's header, and the
/// shard's counts.
#[test]
fn a_local_session_writes_of_a_file_what_the_file_is() {
    let mut c = Cluster::new(1, 100);
    c.begin_session(Op::OpenLocalSession);
    let home = ShardIndex(0);
    let before = c.rows();
    let name = c.name("file");
    let Ok(Body::Created(attr, true, _)) = c.run(home, c.create_open_op(DirRef::ROOT, "file"))
    else {
        panic!("it is made");
    };
    let after = c.rows();
    let changed = after.iter().filter(|(key, value)| before.get(*key) != Some(value)).count();
    assert_eq!(changed, 3);
    let file = FileRef { ino: attr.ino, at: FileAt::Name(DirRef::ROOT, name.clone()) };
    c.done(&Op::Release(file.clone())).unwrap();
    assert_eq!(c.rows(), after);
    // For a file without a name, its opens are recorded.
    c.done(&Op::Open { file, access: 4, truncate: false, kill: None }).unwrap();
    assert_eq!(c.rows(), after);
    c.unlink(DirRef::ROOT, "file").unwrap();
    c.settle();
    assert_eq!(c.count([home], &keys::open(attr.ino, c.session)), 1);
    let orphan = FileRef { ino: attr.ino, at: FileAt::Link };
    c.done(&Op::Release(orphan)).unwrap();
    c.settle();
    assert_eq!(c.count([home], &keys::table(Table::Open)), 0);
    assert_eq!(c.count([home], b"l"), 0);
}
