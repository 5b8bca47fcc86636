//! Paths that are closed by chmod, chown or chgrp of a directory on them, whatever happens
//! meanwhile. A caller that came by such a path does not come by it after the call has returned.

use pando_types::op::{Op, RenameFlags};
use pando_types::reply::{Body, Found, Refusal};
use pando_types::{Credentials, DirRef, Errno, Search, SetAttr, ShardIndex, Trail, TxnId};

use crate::support::{Cluster, dir_at};

const ROOT: DirRef = DirRef::ROOT;
const SHARDS: u16 = 3;

/// The caller that comes by the path.
fn caller() -> Credentials {
    Credentials::new(7, 70, vec![])
}

/// Name of the change, attributes of the directory before it, and attributes after it. The change
/// closes the directory to the caller.
type Loss = (&'static str, SetAttr, SetAttr);

fn losses() -> [Loss; 4] {
    let set = |mode, uid, gid| SetAttr { mode, uid, gid, ..SetAttr::default() };
    [
        ("chmod", set(Some(0o755), None, None), set(Some(0o700), None, None)),
        ("chown", set(Some(0o700), Some(7), None), set(None, Some(8), None)),
        ("chgrp", set(Some(0o710), Some(1), Some(70)), set(None, None, Some(80))),
        (
            "chown to a class that may not",
            set(Some(0o075), None, Some(70)),
            set(None, Some(7), None),
        ),
    ]
}

fn trail(version: u64, dirs: &[DirRef]) -> Trail {
    Trail { version, dirs: dirs.iter().map(|dir| dir.ino).collect() }
}

fn versions(c: &Cluster) -> u64 {
    c.counters().iter().map(|counters| counters.versions).sum()
}

/// For each shard, whether it refuses a path through these directories.
fn refused(c: &mut Cluster, version: u64, dirs: &[DirRef]) -> Vec<bool> {
    let all = c.all();
    let ask = |shard| {
        let answer = c.ask(shard, (Op::StatFs(shard), trail(version, dirs)));
        answer.expect("an answer") == Err(Refusal::Stale)
    };
    all.map(ask).collect()
}

#[test]
fn a_caller_that_may_not_search_a_directory_any_more_is_refused_everywhere_when_the_call_returns() {
    for (what, before, after) in losses() {
        let mut c = Cluster::new(SHARDS, 1000);
        c.settle();
        let a = c.mkdir(ROOT, "a").unwrap();
        let b = c.mkdir(a, "b").unwrap();
        c.done(&Op::DirSetAttr(b, SetAttr { mode: Some(0o777), ..SetAttr::default() })).unwrap();
        c.done(&Op::DirSetAttr(a, before)).unwrap();
        c.settle();
        let version = c.newest_version();
        c.by = caller();
        assert!(matches!(c.lookup(a, "b"), Ok(Found::Dir(_))), "{what}");
        let old_trail = [ROOT, a, b];
        assert_eq!(refused(&mut c, version, &old_trail), [false; SHARDS as usize]);
        c.by = Credentials::ROOT;
        let announced = versions(&c);
        // Not settled: what the change has to tell others afterwards is still on its way.
        let tag = c.send(c.home(a), Op::DirSetAttr(a, after));
        let mut answer = c.answer(tag);
        while answer.is_none() && c.step() {
            answer = c.answer(tag);
        }
        assert!(matches!(answer, Some(Ok(Body::Dir(_)))), "{what}: {answer:?}");
        assert_eq!(versions(&c), announced + 1, "{what}");
        c.by = caller();
        assert_eq!(refused(&mut c, version, &old_trail), [true; SHARDS as usize], "{what}");
        let op = c.create_op(b, "f");
        let made = c.ask(c.home(b), (op, trail(version, &old_trail)));
        assert_eq!(made, Some(Err(Refusal::Stale)), "{what}");
        assert_eq!(c.lookup(a, "b"), Err(Errno::EACCES), "{what}");
        c.by = Credentials::ROOT;
        assert_eq!(c.list(b), Vec::<String>::new());
    }
}

type Answer = Result<Body, Refusal>;

/// A chmod of a directory without subdirectories, and the first mkdir in it, at one time. The
/// caller looks the new name up all the time, and remembers the path.
struct Race {
    c: Cluster,
    dir: DirRef,
    /// The parent is in every trail.
    parent: DirRef,
    owner: ShardIndex,
    version: u64,
    set: Op,
    mkdir: Op,
    /// Tags of requests, once they are sent, and answers.
    changes: u64,
    changed: Option<Answer>,
    makes: u64,
    made: Option<Answer>,
    /// Versions and directories that the caller learnt while the old permissions were in force.
    learnt: Vec<(u64, DirRef)>,
    /// Tags of the lookups.
    asked: Vec<u64>,
}

/// What decided search permission while the caller had it.
fn open_search(set: &SetAttr) -> Search {
    Search::new(set.mode.unwrap_or(0), set.uid.unwrap_or(0), set.gid.unwrap_or(0))
}

impl Race {
    /// `is_split`: whether the directory has split.
    fn new((_, before, after): &Loss, is_split: bool) -> Self {
        let mut c = Cluster::with(SHARDS, |config| {
            (config.split_threshold, config.partitions_per_shard) = (3, 1);
        });
        c.settle();
        let (_, parent) = dir_at(&mut c, ROOT, "p", |home| home == ShardIndex(1));
        let (_, dir) = dir_at(&mut c, parent, "d", |home| home == ShardIndex(2));
        for n in 0..if is_split { 12 } else { 0 } {
            c.create(dir, &format!("f{n}")).unwrap();
        }
        c.done(&Op::DirSetAttr(dir, before.clone())).unwrap();
        c.settle();
        // The new directory has its home on shard 0. Its name is on shard 1 if the directory has
        // split, else on the directory's home.
        let at = ShardIndex(if is_split { 1 } else { 2 });
        let is_far = |c: &mut Cluster, name: &str| {
            let id = c.secrets.dir_id(dir.id, &c.name(name), 0);
            c.owner(dir, name) == at && c.home(DirRef { id, ..ROOT }) == ShardIndex(0)
        };
        let mut names = (0..1000).map(|n| format!("s{n}"));
        let name = names.find(|name| is_far(&mut c, name)).expect("one of a thousand");
        let version = c.newest_version();
        let set = Op::DirSetAttr(dir, after.clone());
        let mkdir = Op::Mkdir(dir, c.name(&name), 0o777);
        Self {
            c,
            dir,
            parent,
            owner: at,
            version,
            set,
            mkdir,
            changes: 0,
            changed: None,
            makes: 0,
            made: None,
            learnt: Vec::new(),
            asked: Vec::new(),
        }
    }

    /// The caller looks the name up, and remembers the answers. A late answer is remembered later.
    fn look(&mut self, before: Search) {
        let Op::Mkdir(dir, name, _) = &self.mkdir else { panic!("a mkdir") };
        let trail = trail(self.version, &[ROOT, self.parent, *dir]);
        self.c.by = caller();
        let lookup = Op::Lookup(*dir, name.clone());
        self.asked.push(self.c.send(self.owner, (lookup, trail)));
        self.c.by = Credentials::ROOT;
        for asked in &self.asked {
            let Some(reply) = self.c.reply(*asked) else { continue };
            if let Ok(Body::Entry(Found::Dir(access), search)) = reply.result {
                assert_eq!(search, before, "with others he may not look");
                self.learnt.push((reply.version, access.dir));
            }
        }
    }

    /// Runs both requests by a script of choices, wherever both can go on. Returns the choices
    /// made.
    fn run(&mut self, before: Search, script: &[bool]) -> Vec<bool> {
        let mut chosen = Vec::new();
        let mut made: Option<TxnId> = None;
        loop {
            let is_made = |peer: &pando_types::peer::Peer| Some(peer.txn) == made;
            let can_make = self.makes == 0 || self.c.messages().any(|(_, peer)| is_made(peer));
            let can_change = self.changes == 0 || self.c.messages().any(|(_, peer)| !is_made(peer));
            let makes = match (can_make, can_change) {
                (false, false) => break,
                // When both are answered, the rest is delivered in order.
                (true, true) if self.changed.is_some() && self.made.is_some() => false,
                (true, true) => {
                    chosen.push(script.get(chosen.len()).copied().unwrap_or(false));
                    chosen[chosen.len() - 1]
                }
                (can_make, _) => can_make,
            };
            if makes && self.makes == 0 {
                (self.makes, made) = self.c.send_txn(self.owner, self.mkdir.clone());
            } else if makes {
                self.c.step_of(|_, peer| is_made(peer));
            } else if self.changes == 0 {
                self.changes = self.c.send(self.c.home(self.dir), self.set.clone());
            } else {
                self.c.step_of(|_, peer| !is_made(peer));
            }
            self.changed = self.changed.take().or_else(|| self.c.answer(self.changes));
            self.made = self.made.take().or_else(|| self.c.answer(self.makes));
            self.look(before);
        }
        chosen
    }

    /// Checks, when both are over, that the caller does not come by the path that it learnt.
    fn judge(&mut self, before: Search, what: &str) {
        self.c.settle();
        self.look(before);
        let changed = self.changed.take().or_else(|| self.c.answer(self.changes));
        assert!(matches!(changed, Some(Ok(Body::Dir(_)))), "{what}: {changed:?}");
        let made = self.made.take().or_else(|| self.c.answer(self.makes));
        let Some(Ok(Body::Made(sub, _))) = made else { panic!("{what}: {made:?}") };
        for (version, found) in &self.learnt {
            assert_eq!(*found, sub);
            let trail = trail(*version, &[ROOT, self.parent, self.dir, sub]);
            self.c.by = caller();
            let op = self.c.create_op(sub, "through");
            let through = self.c.ask(self.c.home(sub), (op, trail));
            self.c.by = Credentials::ROOT;
            assert_eq!(through, Some(Err(Refusal::Stale)), "{what}: learnt at {version}");
        }
        assert_eq!(self.c.list(sub), Vec::<String>::new());
        assert_eq!(self.c.in_flight(), [0; 4]);
    }
}

/// Tries all orders of the messages of both requests, until both are answered.
fn every_order(loss: &Loss, is_split: bool) -> (usize, usize, usize) {
    let (mut orders, mut learnt, mut announced) = (0, 0, 0);
    let mut script = Vec::new();
    loop {
        let mut race = Race::new(loss, is_split);
        let versions_before = versions(&race.c);
        let before = open_search(&loss.1);
        let mut chosen = race.run(before, &script);
        let what = format!("{}, split {is_split}, {chosen:?}", loss.0);
        race.judge(before, &what);
        orders += 1;
        learnt += usize::from(!race.learnt.is_empty());
        announced += usize::from(versions(&race.c) > versions_before);
        while chosen.last() == Some(&true) {
            chosen.pop();
        }
        let Some(last) = chosen.last_mut() else { break };
        *last = true;
        script = chosen;
    }
    (orders, learnt, announced)
}

#[test]
fn a_first_mkdir_beside_a_lost_permission_opens_no_way_in_any_order_of_their_messages() {
    for (nth, loss) in losses().iter().enumerate() {
        // A directory that has split has many more messages. They do not depend on what is lost.
        for is_split in [false, true].into_iter().take(if nth == 0 { 2 } else { 1 }) {
            let (orders, learnt, announced) = every_order(loss, is_split);
            println!(
                "{}, split {is_split}: {orders} orders, {learnt} learnt, {announced} announced",
                loss.0
            );
            assert!(orders > 20 && learnt > 0, "{}: {orders} {learnt}", loss.0);
            assert!(announced > 0 && announced < orders, "{}: {announced}", loss.0);
        }
    }
}

/// A shard hears nothing while all others are told of a rename. It may have lost its list when it
/// is back. While the rename waits for it, it comes in time. It refuses the old path from the
/// answer on.
#[test]
fn a_shard_that_is_away_for_the_broadcast_refuses_the_old_trail_when_it_is_back() {
    for (is_restarted, late) in [(true, false), (true, true), (false, false), (false, true)] {
        let mut c = Cluster::new(4, 1000);
        c.settle();
        let (name, a) = dir_at(&mut c, ROOT, "a", |home| home == ShardIndex(1));
        // The old path leads to the shard that is away, which the rename does not concern
        // otherwise.
        let away = ShardIndex(2);
        assert!(c.home(ROOT) != away);
        let (_, b) = dir_at(&mut c, a, "b", |home| home == away);
        c.settle();
        let version = c.newest_version();
        let old_trail = trail(version, &[ROOT, a, b]);
        c.silence([away]);
        let (from, to) = (c.name(&name), c.name("z"));
        let flags = RenameFlags::default();
        let op = Op::Rename { from: ROOT, name: from, to: ROOT, new_name: to, flags };
        let tag = c.send(c.home(ROOT), op);
        // At the begin of the wait, or near its end.
        c.wait(if late { 9_000_000_000 } else { 100_000_000 });
        assert_eq!(c.answer(tag), None, "it is waited for");
        c.silence([]);
        if is_restarted {
            c.epoch = 2;
            c.restart([away]);
        }
        let mut answer = None;
        let mut looks = 0;
        for _ in 0..1_000 {
            if !c.step() {
                c.tick(c.all(), 10_000_000);
            }
            answer = answer.or_else(|| c.answer(tag));
            let stat = c.ask(away, (Op::StatFs(away), old_trail.clone()));
            if answer.is_some() {
                looks += 1;
                assert_eq!(stat, Some(Err(Refusal::Stale)), "the rename was answered");
            }
            if looks > 20 {
                break;
            }
        }
        assert!(matches!(answer, Some(Ok(Body::Moved(..)))), "{answer:?}");
        let op = c.create_op(b, "f");
        let made = c.ask(away, (op, old_trail.clone()));
        assert_eq!(made, Some(Err(Refusal::Stale)));
        c.settle();
        assert_eq!(c.list(b), Vec::<String>::new());
        assert_eq!(refused(&mut c, version, &[ROOT, a, b]), [true; 4]);
        assert_eq!(refused(&mut c, version, &[ROOT, b]), [false; 4]);
    }
}
