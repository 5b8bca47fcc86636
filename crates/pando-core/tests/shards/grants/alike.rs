//! What a holder answers, and the rows that it has, are those of its shard.

use std::collections::BTreeMap;

use pando_core::Said;
use pando_core::keys::{self, Kind};
use pando_core::record::{Content, Entry, Header, Record};
use pando_types::op::{
    FileAt, FileRef, INLINE_MAX, Op, Payload, Piece, RenameFlags, Target, XattrMode,
};
use pando_types::peer::EntryValue;
use pando_types::reply::{Body, Found, Refusal};
use pando_types::{DirRef, Errno, Ino, Order, SetAttr, TimeSet, Timestamp};

use super::{Holder, cluster, first};
use crate::support::Cluster;

const NAMES: usize = 12;

/// Rows of a directory, without times and numbers of inodes, which differ from one run to another.
fn rows_of(c: &Cluster, dir: DirRef) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let its = c.rows().into_iter().filter(|((_, key), _)| keys::dir_of(key) == Some(dir.id));
    its.map(|((_, key), value)| {
        let value = match keys::kind_of(&key) {
            Some(kind) if kind == Kind::Entry as u8 => {
                let mut entry = Entry::decode(&value).unwrap();
                if let Some((_, EntryValue::File(inode))) = &mut entry.is {
                    let attr = &mut inode.attr;
                    attr.ino = Ino(0);
                    for time in [&mut attr.atime, &mut attr.mtime, &mut attr.ctime, &mut attr.btime]
                    {
                        *time = Timestamp::default();
                    }
                }
                entry.encode()
            }
            Some(kind) if kind == Kind::Content as u8 => {
                let mut content = Content::decode(&value).unwrap();
                let base = &mut content.base;
                for time in [&mut base.atime, &mut base.mtime, &mut base.ctime, &mut base.btime] {
                    *time = Timestamp::default();
                }
                content.encode()
            }
            Some(kind) if kind == Kind::Header as u8 => {
                let header = Header::decode(&value).unwrap();
                Header { mtime: Timestamp::default(), ..header }.encode()
            }
            _ => value,
        };
        (key, value)
    })
    .collect()
}

/// Two clusters with the same directory. In one a session holds it, in the other its requests
/// travel.
struct Pair {
    lent: Cluster,
    plain: Cluster,
    holder: Holder,
    dir: DirRef,
    grant: pando_types::TxnId,
    /// Files by name: their numbers in either cluster.
    inos: BTreeMap<String, [Ino; 2]>,
    /// How often a file is open in both.
    opens: BTreeMap<String, u32>,
    travelled: u64,
}

impl Pair {
    fn new() -> Self {
        let [mut lent, mut plain] = [cluster(2), cluster(2)];
        let mut dir = DirRef::ROOT;
        let mut inos = BTreeMap::new();
        for c in [&mut lent, &mut plain] {
            dir = c.mkdir(DirRef::ROOT, "dir").unwrap();
            for n in 0..NAMES / 2 {
                let name = format!("n{n}");
                let ino = c.create(dir, &name).unwrap().ino;
                inos.entry(name).or_insert([ino; 2])[1] = ino;
            }
            c.settle();
        }
        let mut holder = Holder::new(&lent, lent.home(dir));
        let grant = holder.borrow(&mut lent, first(dir)).unwrap();
        Self { lent, plain, holder, dir, grant, inos, opens: BTreeMap::new(), travelled: 0 }
    }

    fn file(&self, name: &str, which: usize) -> FileRef {
        let ino = self.inos.get(name).map_or(Ino(77), |inos| inos[which]);
        FileRef { ino, at: FileAt::Name(self.dir, self.lent.name(name)) }
    }

    /// Runs an operation in both, and compares what is answered.
    fn both(&mut self, op: impl Fn(&Self, usize) -> Op) -> Result<[Body; 2], Refusal> {
        let ops = [op(self, 0), op(self, 1)];
        let [here, there] = ops;
        let there = self.plain.on_owner(&there);
        let here = match self.holder.say(&mut self.lent, here.clone()) {
            Said::Answer(result, _) => result,
            Said::Travel(parts) => {
                assert_eq!(parts, [self.grant], "{here:?}");
                self.travelled += 1;
                self.holder.give_back(&mut self.lent, self.grant);
                let answer = self.lent.on_owner(&here);
                self.lent.settle();
                self.grant = self.holder.borrow(&mut self.lent, first(self.dir)).unwrap();
                answer
            }
            other => panic!("{other:?}"),
        };
        match (here, there) {
            (Ok(here), Ok(there)) => Ok([here, there]),
            (Err(here), Err(there)) => {
                assert_eq!(here, there);
                Err(here)
            }
            other => panic!("they differ: {other:?}"),
        }
    }

    fn step(&mut self, random: &mut fastrand::Rng) {
        let dir = self.dir;
        let (word, other) = (random.usize(..NAMES), random.usize(..NAMES));
        let (word, other) = (format!("n{word}"), format!("n{other}"));
        let name = self.lent.name(&word);
        match random.usize(..16) {
            0..=3 => {
                let opens = random.bool();
                let made = self.both(|pair, _| match opens {
                    true => pair.lent.create_open_op(dir, &word),
                    false => pair.lent.create_op(dir, &word),
                });
                if let Ok([Body::Created(a, true, _), Body::Created(b, true, _)]) = made {
                    self.inos.insert(word.clone(), [a.ino, b.ino]);
                    self.opens.remove(&word);
                    if opens {
                        self.opens.insert(word, 1);
                    }
                }
            }
            4 if random.u8(..4) == 0 => {
                let sub = self.lent.name("sub");
                self.both(|_, _| Op::Mkdir(dir, sub.clone(), 0o755)).unwrap();
                self.both(|_, _| Op::Rmdir(dir, sub.clone())).unwrap();
            }
            4 | 5 => {
                // Removing an open file would leave it without a name, and without an end here.
                if !self.opens.contains_key(&word) {
                    let _ = self.both(|_, _| Op::Unlink(dir, name.clone()));
                    self.inos.remove(&word);
                }
            }
            6 | 7 => self.rename(&word, &other),
            8 if random.u8(..4) == 0 => {
                // One that changes who may do what travels.
                let set = SetAttr {
                    mode: Some([0o755, 0o711][usize::from(random.u8(..8) == 0)]),
                    mtime: random.bool().then(|| TimeSet::To(Timestamp::from_nanos(7))),
                    ..SetAttr::default()
                };
                let Ok([Body::Dir(a), Body::Dir(b)]) =
                    self.both(|_, _| Op::DirSetAttr(dir, set.clone()))
                else {
                    panic!("the directory is there");
                };
                assert_eq!((a.base.mode, a.generation), (b.base.mode, b.generation));
                assert_eq!(a.base.change, b.base.change);
            }
            8 => {
                let set = SetAttr {
                    mode: Some(random.u16(..0o1000)),
                    mtime: Some(TimeSet::To(Timestamp::from_nanos(5))),
                    ..SetAttr::default()
                };
                let _ = self.both(|pair, which| Op::SetAttr(pair.file(&word, which), set.clone()));
            }
            9 | 10 => {
                let bytes = vec![random.u8(..); random.usize(1..20)];
                let offset = random.u64(..INLINE_MAX / 2);
                self.write(&word, offset, &bytes);
            }
            11 => {
                let value = vec![random.u8(..); 9];
                let _ = self.both(|pair, which| Op::SetXattr {
                    target: Target::File(pair.file(&word, which)),
                    name: b"user.x".to_vec(),
                    value: value.clone(),
                    mode: XattrMode::Any,
                });
            }
            12 => {
                let read = self.both(|pair, which| Op::ReadData {
                    file: pair.file(&word, which),
                    offset: 0,
                    len: 9_999,
                });
                if let Ok([Body::Layout(a), Body::Layout(b)]) = read {
                    assert_eq!((a.inline, a.slices), (b.inline, b.slices));
                }
            }
            13 => self.list(),
            14 => {
                let opened = self.both(|pair, which| Op::Open {
                    file: pair.file(&word, which),
                    access: 4,
                    truncate: which < 2 && word.ends_with('3'),
                    kill: None,
                });
                if opened.is_ok() {
                    *self.opens.entry(word).or_default() += 1;
                }
            }
            _ => {
                if self.opens.contains_key(&word) {
                    self.both(|pair, which| Op::Release(pair.file(&word, which))).unwrap();
                    let count = self.opens.get_mut(&word).unwrap();
                    *count -= 1;
                    if *count == 0 {
                        self.opens.remove(&word);
                    }
                }
            }
        }
    }

    fn rename(&mut self, from: &str, to: &str) {
        let dir = self.dir;
        if self.opens.contains_key(to) {
            return;
        }
        let names = (self.lent.name(from), self.lent.name(to));
        let renamed = self.both(|_, _| Op::Rename {
            from: dir,
            name: names.0.clone(),
            to: dir,
            new_name: names.1.clone(),
            flags: RenameFlags::default(),
        });
        if renamed.is_ok() && from != to {
            let inos = self.inos.remove(from).unwrap();
            self.inos.insert(to.to_owned(), inos);
            if let Some(count) = self.opens.remove(from) {
                self.opens.insert(to.to_owned(), count);
            }
        }
    }

    fn write(&mut self, word: &str, offset: u64, bytes: &[u8]) {
        let reads = |pair: &Self, which| Op::GetAttr(pair.file(word, which));
        let Ok([Body::Attr(a), Body::Attr(b)]) = self.both(reads) else { return };
        assert_eq!(a.data_version, b.data_version);
        let base = a.data_version;
        let piece = Piece { offset, payload: Payload::Inline(bytes.to_vec()) };
        let written = self.both(|pair, which| Op::WriteData {
            file: pair.file(word, which),
            base: Some(base),
            pieces: vec![piece.clone()],
            mtime: Some(Timestamp::from_nanos(9)),
            kill: None,
        });
        assert!(!matches!(written, Err(Refusal::DataChanged)));
    }

    fn list(&mut self) {
        let dir = self.dir;
        let listed = self.both(|_, _| Op::ReadDir { dir, from: Order(0), limit: 100 });
        let Ok([Body::Page(a, next_a), Body::Page(b, next_b)]) = listed else {
            panic!("{listed:?}")
        };
        let names = |page: Vec<pando_types::reply::Listed>| {
            page.into_iter().map(|it| it.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!((names(a), next_a), (names(b), next_b));
        let stat = self.both(|_, _| Op::DirGetAttr(dir));
        let Ok([Body::Dir(a), Body::Dir(b)]) = stat else { panic!("{stat:?}") };
        assert_eq!(a.deltas[0].entries, b.deltas[0].entries);
        assert_eq!(a.deltas[0].change, b.deltas[0].change);
    }
}

#[test]
fn a_holder_answers_what_its_shard_would_and_leaves_the_same_rows() {
    let mut travelled = 0;
    for seed in 0..30 {
        let random = &mut fastrand::Rng::with_seed(seed);
        let mut pair = Pair::new();
        for _ in 0..400 {
            pair.step(random);
            if random.u8(..8) == 0 {
                pair.holder.stream(&mut pair.lent);
            }
        }
        pair.list();
        let bytes = pair.holder.core.bytes();
        assert!(bytes > 0);
        pair.holder.give_back(&mut pair.lent, pair.grant);
        assert_eq!(pair.holder.core.bytes(), 0, "seed {seed}: rows are left at the holder");
        assert_eq!(rows_of(&pair.lent, pair.dir), rows_of(&pair.plain, pair.dir), "seed {seed}");
        let open = |c: &Cluster| c.shard(c.home(pair.dir)).in_flight()[3];
        assert_eq!(open(&pair.lent), open(&pair.plain), "seed {seed}: opens differ");
        let refused: u64 = pair.lent.counters().iter().map(|it| it.elements_refused).sum();
        assert_eq!(refused, 0, "seed {seed}");
        travelled += pair.travelled;
    }
    assert!(travelled > 0, "nothing travelled");
}

#[test]
fn what_needs_more_than_the_part_travels_before_anything_has_changed() {
    let mut c = cluster(2);
    let (dir, mut holder, grant) = super::lent(&mut c);
    let name = |c: &Cluster, name: &str| c.name(name);
    let root = DirRef::ROOT;
    let ino = ino_of_lent(&mut holder, &mut c, dir);
    let file = FileRef { ino, at: FileAt::Name(dir, name(&c, "old0")) };
    let flags = RenameFlags::default();
    let travels = [
        Op::Mkdir(dir, name(&c, "sub"), 0o755),
        Op::Rmdir(dir, name(&c, "sub")),
        Op::Link(file.clone(), dir, name(&c, "second")),
        Op::Rename { from: dir, name: name(&c, "old0"), to: root, new_name: name(&c, "x"), flags },
        Op::Rename { from: root, name: name(&c, "y"), to: dir, new_name: name(&c, "old1"), flags },
        Op::DirSetAttr(dir, SetAttr { mode: Some(0o700), ..SetAttr::default() }),
        Op::SetXattr {
            target: Target::Dir(dir),
            name: b"user.x".to_vec(),
            value: vec![1],
            mode: XattrMode::Any,
        },
        Op::SetXattr {
            target: Target::File(file.clone()),
            name: b"user.x".to_vec(),
            value: vec![1; 20_000],
            mode: XattrMode::Any,
        },
    ];
    for op in travels {
        match holder.say(&mut c, op.clone()) {
            Said::Travel(parts) => assert_eq!(parts, [grant], "{op:?}"),
            other => panic!("{op:?}: {other:?}"),
        }
    }
    // An open file is removed by its shard, which keeps it until it is closed.
    let open = Op::Open { file, access: 4, truncate: false, kill: None };
    holder.here(&mut c, open).unwrap();
    let unlink = Op::Unlink(dir, name(&c, "old0"));
    assert!(matches!(holder.say(&mut c, unlink), Said::Travel(_)));
    assert!(holder.unsent.is_empty(), "something has changed");
    // What is elsewhere concerns no part.
    let elsewhere = c.create_op(root, "z");
    match holder.say(&mut c, elsewhere) {
        Said::Travel(parts) => assert_eq!(parts, []),
        other => panic!("{other:?}"),
    }
}

fn ino_of_lent(holder: &mut Holder, c: &mut Cluster, dir: DirRef) -> Ino {
    let name = c.name("old0");
    match holder.here(c, Op::Lookup(dir, name)) {
        Ok(Body::Found(Found::File(attr))) => attr.ino,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_part_that_grows_to_its_threshold_travels_and_numbers_go_on() {
    let mut c = cluster(1);
    let (dir, mut holder, grant) = super::lent(&mut c);
    let mut inos = std::collections::BTreeSet::new();
    let mut made = 0;
    loop {
        let op = c.create_op(dir, &format!("f{made}"));
        match holder.say(&mut c, op) {
            Said::Answer(Ok(Body::Created(attr, true, _)), _) => {
                assert!(inos.insert(attr.ino), "{} is used twice", attr.ino.0);
            }
            Said::Travel(parts) => {
                assert_eq!(parts, [grant]);
                break;
            }
            other => panic!("{other:?}"),
        }
        made += 1;
        if made % 50 == 0 {
            holder.stream(&mut c);
        }
    }
    assert!(made > 800, "{made}");
    holder.give_back(&mut c, grant);
    // Numbers that the shard gives itself are others.
    for n in 0..100 {
        assert!(inos.insert(c.create(dir, &format!("g{n}")).unwrap().ino));
    }
    assert_eq!(c.unlink(dir, "none"), Err(Errno::ENOENT));
}
