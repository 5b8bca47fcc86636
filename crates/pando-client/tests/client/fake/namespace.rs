//! What the fake cluster holds, and what its shards answer. It has no permissions and no times.

use std::collections::{BTreeMap, HashMap};

use pando_placement::{ClusterMap, DirMap, Secrets, birth_radix, may_split, parent, range};
use pando_types::op::{FileAt, FileRef, NewNode, Op, RenameFlags, Request};
use pando_types::reply::{
    Access, Body, Delta, DirAttr, Found, Listed, Refusal, SplitHistory, Spread,
};
use pando_types::{
    Attr, DirId, DirRef, Errno, FileKind, Glimpse, Ino, Name, News, Order, PartitionIndex, Radix,
    Search, SessionId, ShardIndex, Timestamp, Trail,
};

/// Lease of every session, nanoseconds.
pub const LEASE: u64 = 60_000_000_000;

/// Versions begin above this one.
const FIRST_VERSION: u64 = 3;

type Answer = Result<Body, Refusal>;

pub struct Namespace {
    pub secrets: Secrets,
    pub cluster: ClusterMap,
    per_server: u16,
    dirs: HashMap<DirId, Dir>,
    links: HashMap<Ino, Inode>,
    inos: u64,
    sessions: u64,
    /// Whether a renamed file goes to its link shard, as if another client had it open.
    pub park_on_rename: bool,
    /// Directories that were renamed, with the version of each rename.
    pub changed: Vec<(u64, Ino)>,
}

struct Dir {
    this: DirRef,
    parent: DirRef,
    map: DirMap,
    entries: BTreeMap<Order, (Name, Value)>,
}

enum Value {
    File(Inode),
    Linked(Ino, FileKind),
    Dir(DirRef),
}

struct Inode {
    attr: Attr,
    target: Vec<u8>,
    opens: u32,
}

pub fn attr(ino: Ino, kind: FileKind, mode: u16) -> Attr {
    let time = Timestamp::default();
    Attr {
        ino,
        kind,
        mode,
        nlink: if kind == FileKind::Directory { 2 } else { 1 },
        uid: 0,
        gid: 0,
        rdev: 0,
        size: 0,
        atime: time,
        mtime: time,
        ctime: time,
        btime: time,
        data_version: 0,
        change: 0,
        project: 0,
    }
}

fn errno<T>(errno: Errno) -> Result<T, Refusal> {
    Err(Refusal::Errno(errno))
}

impl Namespace {
    pub fn new(secrets: Secrets, cluster: ClusterMap, per_server: u16) -> Self {
        let root = Dir::new(DirRef::ROOT, DirRef::ROOT);
        Self {
            secrets,
            cluster,
            per_server,
            dirs: HashMap::from([(DirId::ROOT, root)]),
            links: HashMap::new(),
            inos: 1,
            sessions: 0,
            park_on_rename: false,
            changed: Vec::new(),
        }
    }

    /// Splits partition `i` of `dir`.
    pub fn split(&mut self, dir: DirRef, i: u32) {
        let (base, servers) = (self.cluster.home(dir.id), self.cluster.shards);
        let spread = Spread { base, servers, per_server: self.per_server };
        let map = &mut self.dirs.get_mut(&dir.id).expect("the directory is there").map;
        map.spread.get_or_insert(spread);
        map.split(PartitionIndex(i));
    }

    /// Splits partition `i` of `dir`, unless its shards have as many as they may.
    pub fn split_if_it_may(&mut self, dir: DirRef, i: PartitionIndex) {
        let (base, servers) = (self.cluster.home(dir.id), self.cluster.shards);
        let spread = Spread { base, servers, per_server: self.per_server };
        let radix = self.dirs[&dir.id].map.radix(i).expect("it is there");
        if may_split(&spread, i, radix, servers) {
            self.split(dir, i.0);
        }
    }

    /// Whether partition `i` of `dir` and its parent are the two halves that a split made of the
    /// parent.
    pub fn may_merge(&self, dir: DirRef, i: PartitionIndex) -> bool {
        let map = &self.dirs[&dir.id].map;
        let born = map.radix(i).filter(|radix| *radix == birth_radix(i));
        parent(i).is_some_and(|parent| born.is_some() && map.radix(parent) == born)
    }

    /// Gives partition `i` of `dir` back to its parent.
    pub fn merge(&mut self, dir: DirRef, i: PartitionIndex) {
        assert!(self.may_merge(dir, i));
        self.dirs.get_mut(&dir.id).expect("the directory is there").map.forget(i);
    }

    /// Splits all partitions of `dir` that may be split.
    pub fn split_all(&mut self, dir: DirRef) {
        let (base, servers) = (self.cluster.home(dir.id), self.cluster.shards);
        let spread = Spread { base, servers, per_server: self.per_server };
        let may = |(i, r): &(PartitionIndex, Radix)| may_split(&spread, *i, *r, servers);
        loop {
            let leaves = self.dirs[&dir.id].map.leaves();
            let Some((i, _)) = leaves.into_iter().find(may) else { return };
            self.split(dir, i.0);
        }
    }

    /// Partitions of `dir`, with the number of entries in each.
    pub fn partitions(&self, dir: DirRef) -> Vec<(PartitionIndex, usize)> {
        let dir = &self.dirs[&dir.id];
        dir.map.leaves().into_iter().map(|(i, r)| (i, dir.within(i, r).count())).collect()
    }

    pub fn opens(&self, ino: Ino) -> u32 {
        let in_entries = self.dirs.values().flat_map(|dir| dir.entries.values());
        let inline = in_entries.filter_map(|(_, value)| match value {
            Value::File(inode) => Some(inode),
            _ => None,
        });
        inline.chain(self.links.values()).filter(|it| it.attr.ino == ino).map(|it| it.opens).sum()
    }

    /// Closes all files.
    pub fn close_all(&mut self) {
        let in_entries = self.dirs.values_mut().flat_map(|dir| dir.entries.values_mut());
        let inline = in_entries.filter_map(|(_, value)| match value {
            Value::File(inode) => Some(inode),
            _ => None,
        });
        inline.chain(self.links.values_mut()).for_each(|inode| inode.opens = 0);
        self.links.retain(|_, inode| inode.attr.nlink > 0);
    }

    fn ino(&mut self) -> Ino {
        self.inos += 1;
        Ino(self.inos)
    }

    /// The directory, if `shard` owns the partition of `order`.
    fn at(&mut self, shard: ShardIndex, dir: DirRef, order: Order) -> Result<&mut Dir, Refusal> {
        let home = self.cluster.home(dir.id);
        let not_owner =
            self.cluster.news(dir.id.hash_slot()).map_or(Refusal::AskHome, Refusal::HashSlot);
        let Some(found) = self.dirs.get_mut(&dir.id).filter(|found| found.this == dir) else {
            return if shard == home { errno(Errno::ESTALE) } else { Err(not_owner) };
        };
        let owner = |i| found.map.shard(home, i);
        if owner(found.map.locate(order).0) == shard {
            return Ok(found);
        }
        let leaves = found.map.leaves().into_iter().map(|(i, _)| i);
        let owned: Vec<_> = leaves.filter(|i| owner(*i) == shard).collect();
        if owned.is_empty() && shard != home {
            return Err(not_owner);
        }
        let history = SplitHistory { of: Some(shard), ..found.map.history_of(owned) };
        Err(Refusal::Redirect(history))
    }

    fn by_name(
        &mut self,
        shard: ShardIndex,
        dir: DirRef,
        name: &Name,
    ) -> Result<&mut Dir, Refusal> {
        self.at(shard, dir, self.secrets.order(name.as_bytes()))
    }

    fn file(&mut self, shard: ShardIndex, file: &FileRef) -> Result<&mut Inode, Refusal> {
        let found = match &file.at {
            FileAt::Link => {
                assert_eq!(shard, self.cluster.link(file.ino));
                self.links.get_mut(&file.ino)
            }
            FileAt::Name(dir, name) => {
                let order = self.secrets.order(name.as_bytes());
                match self.by_name(shard, *dir, name)?.entries.get_mut(&order) {
                    Some((_, Value::File(inode))) => Some(inode),
                    _ => None,
                }
            }
        };
        found.filter(|inode| inode.attr.ino == file.ino).ok_or(Refusal::NotUnderName)
    }

    /// The directories on a path, without the root.
    pub fn path(&self, names: &[&str]) -> Vec<DirRef> {
        let mut at = DirId::ROOT;
        let mut below = |name: &&str| {
            let order = self.secrets.order(name.as_bytes());
            let Some((_, Value::Dir(dir))) = self.dirs[&at].entries.get(&order) else {
                panic!("{names:?} are no directories");
            };
            at = dir.id;
            *dir
        };
        names.iter().map(&mut below).collect()
    }

    /// Number of directories on a path, without the last, with an id that does not follow from
    /// their names.
    pub fn wrong_guesses(&self, names: &[&str]) -> u64 {
        let mut at = DirId::ROOT;
        let mut wrong = 0;
        for (nth, (name, dir)) in names.iter().zip(self.path(names)).enumerate() {
            let name = Name::new(name.as_bytes()).expect("valid");
            let is_wrong = dir.id != self.secrets.dir_id(at, &name, 0);
            wrong += u64::from(is_wrong && nth + 1 < names.len());
            at = dir.id;
        }
        wrong
    }

    /// The newest version.
    pub fn version(&self) -> u64 {
        self.changed.last().map_or(FIRST_VERSION, |(version, _)| *version)
    }

    /// The news that a trail has missed.
    pub fn news(&self, trail: &Trail) -> Option<News> {
        let changed: Vec<_> =
            self.changed.iter().filter(|(version, _)| *version > trail.version).copied().collect();
        let (since, version) = (trail.version, self.version());
        (version > since).then_some(News { since, version, changed })
    }

    /// Runs a request if its trail is unchanged.
    pub fn run_by(&mut self, shard: ShardIndex, request: &Request) -> Answer {
        let Some(trail) = &request.trail else { return self.run(shard, &request.op) };
        let news = self.news(trail).map(|news| news.changed).unwrap_or_default();
        if news.iter().any(|(_, dir)| trail.dirs.contains(dir)) {
            return Err(Refusal::Stale);
        }
        match self.run(shard, &request.op)? {
            Body::Found(found) if matches!(request.op, Op::Lookup(..)) => {
                Ok(Body::Entry(found, Search::new(0o755, 0, 0)))
            }
            body => Ok(body),
        }
    }

    fn glimpse(&mut self, shard: ShardIndex, id: DirId, name: &Name) -> Glimpse {
        // If a shard has no part of the directory, its ino does not matter.
        let dir = self.dirs.get(&id).map_or(DirRef { id, ino: Ino(0) }, |dir| dir.this);
        match self.run(shard, &Op::Lookup(dir, name.clone())) {
            Ok(Body::Found(Found::Dir(access))) => {
                Glimpse::Dir { dir: dir.ino, search: Search::new(0o755, 0, 0), access }
            }
            Err(Refusal::Redirect(history)) => Glimpse::Elsewhere(dir.ino, history),
            Err(Refusal::AskHome) => Glimpse::AskHome,
            Err(Refusal::HashSlot(news)) => Glimpse::Moved(news),
            _ => Glimpse::Nothing,
        }
    }

    pub fn run(&mut self, shard: ShardIndex, op: &Op) -> Answer {
        match op {
            Op::Lookup(dir, name) => {
                let order = self.secrets.order(name.as_bytes());
                match self.by_name(shard, *dir, name)?.entries.get(&order) {
                    Some((_, value)) => Ok(Body::Found(value.found())),
                    None => errno(Errno::ENOENT),
                }
            }
            Op::Create { dir, name, node, exclusive, open } => {
                self.create(shard, *dir, name, node, *exclusive, *open)
            }
            Op::Mkdir(dir, name, mode) => self.mkdir(shard, *dir, name, *mode),
            Op::Unlink(dir, name) => {
                self.by_name(shard, *dir, name)?;
                self.unlink(*dir, name)
            }
            Op::Rmdir(dir, name) => {
                let order = self.secrets.order(name.as_bytes());
                let parent = self.by_name(shard, *dir, name)?;
                let Some((_, Value::Dir(gone))) = parent.entries.get(&order) else {
                    return errno(Errno::ENOTDIR);
                };
                let gone = gone.id;
                parent.entries.remove(&order);
                self.dirs.remove(&gone);
                Ok(Body::Done)
            }
            Op::Link(file, dir, name) => self.link(shard, file, *dir, name),
            Op::Rename { from, name, to, new_name, flags } => {
                self.by_name(shard, *from, name)?;
                let moved = self.rename((*from, name), (*to, new_name), *flags)?;
                if let Body::Moved(ino, FileKind::Directory, _) = moved {
                    self.changed.push((self.version() + 1, ino));
                }
                Ok(moved)
            }
            Op::OpenName { dir, name, access, truncate, kill } => {
                match self.run(shard, &Op::Lookup(*dir, name.clone()))? {
                    Body::Found(Found::File(attr)) if attr.kind != FileKind::Symlink => {
                        let at = FileAt::Name(*dir, name.clone());
                        let file = FileRef { ino: attr.ino, at };
                        let (access, truncate, kill) = (*access, *truncate, *kill);
                        self.run(shard, &Op::Open { file, access, truncate, kill })
                    }
                    other => Ok(other),
                }
            }
            Op::Glimpse(_, places) => {
                let seen = places.iter().map(|(id, name)| self.glimpse(shard, *id, name));
                Ok(Body::Glimpses(seen.collect()))
            }
            Op::GetAttr(file) | Op::SetAttr(file, _) => {
                Ok(Body::Attr(self.file(shard, file)?.attr.clone()))
            }
            Op::Readlink(file) => Ok(Body::Bytes(self.file(shard, file)?.target.clone())),
            Op::Open { file, .. } => {
                let inode = self.file(shard, file)?;
                inode.opens += 1;
                Ok(Body::Attr(inode.attr.clone()))
            }
            Op::Release(file) => {
                let inode = self.file(shard, file)?;
                inode.opens -= 1;
                if inode.opens == 0 && inode.attr.nlink == 0 {
                    self.links.remove(&file.ino);
                }
                Ok(Body::Done)
            }
            Op::ReleaseAll(_, files) => {
                let mut left = Vec::new();
                for (nth, file) in files.iter().enumerate() {
                    let is_first = files[..nth].iter().all(|other| other.ino != file.ino);
                    match self.file(shard, file) {
                        Ok(inode) if is_first => inode.opens -= 1,
                        _ => left.push(nth as u32),
                    }
                }
                Ok(Body::Left(left))
            }
            Op::DirAccess(dir, _) => self.at(shard, *dir, Order(0)).map(|_| Body::Done),
            Op::Parent(dir) => {
                self.at(shard, *dir, Order(0)).map(|dir| Body::Parent(dir.parent, None))
            }
            Op::DirGetAttr(dir) => {
                let home = self.cluster.home(dir.id);
                self.at(shard, *dir, Order(0)).map(|dir| Body::Dir(dir.attr(home)))
            }
            Op::PartitionStat(dir, i) => {
                let map = &self.dirs[&dir.id].map;
                if !map.contains(*i) {
                    return Err(Refusal::AskHome);
                }
                let r = map.radix(*i).expect("it is there");
                let dir = self.at(shard, *dir, Order(range(*i, r).start))?;
                Ok(Body::Delta(dir.delta(shard, *i, r)))
            }
            Op::ReadDir { dir, from, limit } => {
                let dir = self.at(shard, *dir, *from)?;
                let (i, r) = dir.map.locate(*from);
                let end = range(i, r).end;
                let page: Vec<_> = dir
                    .entries
                    .range(*from..Order(end))
                    .take(*limit as usize)
                    .map(|(order, (name, value))| Listed {
                        order: *order,
                        name: name.clone(),
                        found: value.found(),
                    })
                    .collect();
                let next = match page.last() {
                    Some(last) if page.len() == *limit as usize => Some(Order(last.order.0 + 1)),
                    _ => (end < Order::END).then_some(Order(end)),
                };
                Ok(Body::Page(page, next))
            }
            Op::StatFs(_) => Ok(Body::StatFs { inodes: 1, bytes: 10 }),
            Op::OpenSession => {
                self.sessions += 1;
                Ok(Body::Session(SessionId(self.sessions)))
            }
            Op::Renew(_) => Ok(Body::Lease(LEASE)),
            Op::Sync(_) | Op::SyncFile(_) | Op::EndSession(_) => Ok(Body::Done),
            _ => errno(Errno::ENOSYS),
        }
    }

    fn create(
        &mut self,
        shard: ShardIndex,
        dir: DirRef,
        name: &Name,
        node: &NewNode,
        exclusive: bool,
        open: bool,
    ) -> Answer {
        let ino = self.ino();
        let order = self.secrets.order(name.as_bytes());
        let dir = self.by_name(shard, dir, name)?;
        let radix = dir.map.locate(order).1;
        match dir.entries.get_mut(&order) {
            Some(_) if exclusive => errno(Errno::EEXIST),
            Some((_, Value::Dir(_))) => errno(Errno::EISDIR),
            Some((_, Value::Linked(ino, kind))) => Ok(Body::Linked(*ino, *kind)),
            Some((_, Value::File(inode))) => {
                inode.opens += u32::from(open);
                Ok(Body::Created(inode.attr.clone(), false, radix))
            }
            None => {
                let attr = attr(ino, node.kind, node.mode);
                let body = Body::Created(attr.clone(), true, radix);
                let inode = Inode { attr, target: node.symlink.clone(), opens: u32::from(open) };
                dir.entries.insert(order, (name.clone(), Value::File(inode)));
                Ok(body)
            }
        }
    }

    fn mkdir(&mut self, shard: ShardIndex, parent: DirRef, name: &Name, mode: u16) -> Answer {
        let births = self.secrets.births(parent.id, name).map(|(_, id)| id);
        let id =
            births.into_iter().find(|id| !self.dirs.contains_key(id)).expect("some id is free");
        let this = DirRef { id, ino: self.ino() };
        let order = self.secrets.order(name.as_bytes());
        let dir = self.by_name(shard, parent, name)?;
        if dir.entries.contains_key(&order) {
            return errno(Errno::EEXIST);
        }
        dir.entries.insert(order, (name.clone(), Value::Dir(this)));
        let made = Dir::new(this, parent);
        let mut body = made.attr(self.cluster.home(this.id));
        body.base.mode = mode;
        self.dirs.insert(this.id, made);
        Ok(Body::Made(this, body))
    }

    fn take(&mut self, dir: DirRef, name: &Name) -> Option<Value> {
        let order = self.secrets.order(name.as_bytes());
        Some(self.dirs.get_mut(&dir.id)?.entries.remove(&order)?.1)
    }

    fn put(&mut self, dir: DirRef, name: &Name, value: Value) {
        let order = self.secrets.order(name.as_bytes());
        let dir = self.dirs.get_mut(&dir.id).expect("the directory is there");
        dir.entries.insert(order, (name.clone(), value));
    }

    fn unlink(&mut self, dir: DirRef, name: &Name) -> Answer {
        match self.take(dir, name) {
            Some(Value::File(mut inode)) => {
                inode.attr.nlink = 0;
                if inode.opens > 0 {
                    self.links.insert(inode.attr.ino, inode);
                }
                Ok(Body::Done)
            }
            Some(Value::Linked(ino, _)) => {
                let inode = self.links.get_mut(&ino).expect("linked inodes are there");
                inode.attr.nlink -= 1;
                if inode.attr.nlink == 0 && inode.opens == 0 {
                    self.links.remove(&ino);
                }
                Ok(Body::Done)
            }
            Some(value) => {
                self.put(dir, name, value);
                errno(Errno::EISDIR)
            }
            None => errno(Errno::ENOENT),
        }
    }

    fn link(&mut self, shard: ShardIndex, file: &FileRef, dir: DirRef, name: &Name) -> Answer {
        self.by_name(shard, dir, name)?;
        if let FileAt::Name(from, old) = &file.at {
            let inode = match self.take(*from, old) {
                Some(Value::File(inode)) if inode.attr.ino == file.ino => inode,
                Some(other) => {
                    self.put(*from, old, other);
                    return Err(Refusal::NotUnderName);
                }
                None => return Err(Refusal::NotUnderName),
            };
            self.put(*from, old, Value::Linked(file.ino, inode.attr.kind));
            self.links.insert(file.ino, inode);
        }
        let inode = self.links.get_mut(&file.ino).ok_or(Refusal::NotUnderName)?;
        inode.attr.nlink += 1;
        let attr = inode.attr.clone();
        self.put(dir, name, Value::Linked(file.ino, attr.kind));
        Ok(Body::Attr(attr))
    }

    fn rename(
        &mut self,
        (from, name): (DirRef, &Name),
        (to, new_name): (DirRef, &Name),
        flags: RenameFlags,
    ) -> Answer {
        let Some(mut moved) = self.take(from, name) else { return errno(Errno::ENOENT) };
        let (ino, kind) = moved.what();
        if let Some(other) = self.take(to, new_name)
            && flags.exchange
        {
            self.put(from, name, other);
        }
        let mut is_linked = matches!(moved, Value::Linked(..));
        if self.park_on_rename
            && let Value::File(inode) = moved
        {
            self.links.insert(ino, inode);
            moved = Value::Linked(ino, kind);
            is_linked = true;
        }
        self.put(to, new_name, moved);
        Ok(Body::Moved(ino, kind, is_linked))
    }
}

impl Dir {
    fn new(this: DirRef, parent: DirRef) -> Self {
        Self { this, parent, map: DirMap::new(), entries: BTreeMap::new() }
    }

    fn within(&self, i: PartitionIndex, r: Radix) -> impl Iterator<Item = &(Name, Value)> {
        let range = range(i, r);
        self.entries.range(Order(range.start)..Order(range.end)).map(|(_, entry)| entry)
    }

    fn delta(&self, shard: ShardIndex, partition: PartitionIndex, radix: Radix) -> Delta {
        let is_dir = |(_, value): &&(Name, Value)| matches!(value, Value::Dir(_));
        let entries = self.within(partition, radix).count() as u64;
        let subdirs = self.within(partition, radix).filter(is_dir).count() as u64;
        let mtime = Timestamp::default();
        Delta { partition, radix, shard, entries, subdirs, change: entries, mtime, generation: 0 }
    }

    fn attr(&self, home: ShardIndex) -> DirAttr {
        let at_home = |(i, _): &(PartitionIndex, Radix)| self.map.shard(home, *i) == home;
        let leaves: Vec<_> = self.map.leaves().into_iter().filter(at_home).collect();
        let history = self.map.history_of(leaves.iter().map(|(i, _)| *i));
        DirAttr {
            base: attr(self.this.ino, FileKind::Directory, 0o755),
            generation: 0,
            deltas: leaves.iter().map(|(i, r)| self.delta(home, *i, *r)).collect(),
            history: SplitHistory { of: Some(home), ..history },
        }
    }
}

impl Value {
    fn what(&self) -> (Ino, FileKind) {
        match self {
            Self::File(inode) => (inode.attr.ino, inode.attr.kind),
            Self::Linked(ino, kind) => (*ino, *kind),
            Self::Dir(dir) => (dir.ino, FileKind::Directory),
        }
    }

    fn found(&self) -> Found {
        match self {
            Self::File(inode) => Found::File(inode.attr.clone()),
            Self::Linked(ino, kind) => Found::Linked(*ino, *kind),
            Self::Dir(dir) => Found::Dir(Access { dir: *dir, mode: 0o755, uid: 0, gid: 0 }),
        }
    }
}
