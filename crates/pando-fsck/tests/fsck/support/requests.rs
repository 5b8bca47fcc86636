//! Requests of clients, and a volume with all kinds of records.

use std::collections::BTreeMap;

use pando_core::keys::{self, Kind};
use pando_core::record::{Content, Entry, Header, Record};
use pando_core::{ClientTag, Input};
use pando_types::op::{
    FileAt, FileRef, Head, NewNode, ObjectId, ObjectRange, Op, Payload, Piece, RenameFlags,
    Request, RequestId, Target, XattrMode,
};
use pando_types::reply::{Body, Found, Refusal};
use pando_types::{
    Attr, Credentials, DirId, DirRef, Errno, FileKind, Ino, KeyId, Lock, LockKind, LockOwner,
    LockRange, LockSpace, Name, Order, SessionId, ShardIndex,
};

use super::{Cluster, SHARDS, TRAILER};

/// Number of files in the directory that has split.
pub const NAMES_OF_BIG: usize = 60;
const ROOT: DirRef = DirRef::ROOT;

/// What a volume was filled with.
#[derive(Default)]
pub struct Made {
    pub dirs: BTreeMap<&'static str, DirRef>,
    pub inos: BTreeMap<&'static str, Ino>,
    /// The object of `big-data`.
    pub object: ObjectId,
}

pub fn name(name: &str) -> Name {
    Name::new(name.as_bytes()).unwrap()
}

impl Cluster {
    /// A stopped volume with all kinds of records and no pending transaction.
    pub fn healthy() -> Self {
        let mut cluster = Self::busy();
        cluster.end_session(cluster.session);
        cluster.settle();
        cluster.stop();
        cluster
    }

    /// A running volume at rest, with all kinds of records. Its session has a file open.
    pub fn busy() -> Self {
        let mut c = Self::new();
        for dir in ["a", "b", "c", "big", "empty"] {
            let made = c.mkdir(ROOT, dir);
            c.made.dirs.insert(dir, made);
        }
        let a = c.dir("a");
        let deep = c.mkdir(a, "deep");
        c.made.dirs.insert("deep", deep);
        let deeper = c.mkdir(deep, "deeper");
        c.made.dirs.insert("deeper", deeper);
        for file in ["plain", "small-data", "big-data", "attributed", "open"] {
            let ino = c.create(a, file, FileKind::Regular, "").ino;
            c.made.inos.insert(file, ino);
        }
        let symlink = c.create(a, "symlink", FileKind::Symlink, "target").ino;
        let pipe = c.create(a, "pipe", FileKind::Fifo, "").ino;
        c.made.inos.extend([("symlink", symlink), ("pipe", pipe)]);
        c.write(a, "small-data", None, Payload::Inline(b"contents".to_vec()));
        c.made.object = c.store_object("big-data", 10_000);
        c.set_xattr(a, "attributed");
        let linked = c.create(a, "linked", FileKind::Regular, "").ino;
        c.made.inos.insert("linked", linked);
        let (b, other) = (c.dir("b"), c.dir("c"));
        c.link(linked, (a, "linked"), b, "linked-too");
        c.link(linked, (a, "linked"), other, "linked-three");
        let big = c.dir("big");
        for n in 0..NAMES_OF_BIG {
            c.create(big, &format!("file-{n}"), FileKind::Regular, "");
        }
        c.mkdir(big, "within");
        let file = c.file(a, "open");
        let ino = file.ino;
        c.done(Op::Open { file, access: 4, truncate: false, kill: None });
        let (space, kind, range) = (LockSpace::Flock, LockKind::Exclusive, LockRange::ALL);
        c.done(Op::Lock(ino, Lock { space, owner: LockOwner(1), range, kind, pid: 1 }));
        c.settle();
        c
    }

    pub fn dir(&self, name: &str) -> DirRef {
        if name == "/" { ROOT } else { self.made.dirs[name] }
    }

    pub fn ino(&self, name: &str) -> Ino {
        self.made.inos[name]
    }

    pub fn file(&self, dir: DirRef, file: &'static str) -> FileRef {
        FileRef { ino: self.ino(file), at: FileAt::Name(dir, name(file)) }
    }

    pub fn begin_session(&mut self) {
        self.session = SessionId(0);
        match self.run(ShardIndex(0), Op::OpenSession) {
            Ok(Body::Session(session)) => self.session = session,
            other => panic!("no session: {other:?}"),
        }
    }

    pub fn end_session(&mut self, session: SessionId) {
        self.session = SessionId(0);
        self.run(ShardIndex(0), Op::EndSession(session)).unwrap();
    }

    /// Sends a request without waiting for the answer.
    pub fn send(&mut self, shard: ShardIndex, op: Op) {
        self.sequence += 1;
        let sequence = if self.session.0 == 0 { 0 } else { self.sequence };
        let id = RequestId { session: self.session, slot: 0, sequence };
        let head = Head { id, ..Head::default() };
        let request = Request { head, credentials: Credentials::ROOT, op, trail: None };
        drop(self.answer(ClientTag(1, KeyId::OWNER)));
        self.input(shard, Input::Client(ClientTag(1, KeyId::OWNER), Box::new(request)));
    }

    pub fn run(&mut self, shard: ShardIndex, op: Op) -> Result<Body, Refusal> {
        self.send(shard, op);
        for _ in 0..20 {
            while self.deliver() {}
            if let Some(answer) = self.answer(ClientTag(1, KeyId::OWNER)) {
                return answer;
            }
            self.tick();
        }
        panic!("no answer");
    }

    /// Asks all shards in turn until one gives a final answer.
    pub fn on_owner(&mut self, op: &Op) -> Result<Body, Refusal> {
        let mut last = Err(Refusal::AskHome);
        for shard in 0..SHARDS {
            last = self.run(ShardIndex(shard), op.clone());
            let elsewhere = matches!(
                last,
                Err(Refusal::Redirect(_)
                    | Refusal::AskHome
                    | Refusal::HashSlot(_)
                    | Refusal::NotUnderName
                    | Refusal::Errno(Errno::ESTALE))
            );
            if !elsewhere {
                return last;
            }
        }
        last
    }

    pub fn done(&mut self, op: Op) -> Body {
        self.on_owner(&op).unwrap_or_else(|refusal| panic!("{op:?}: {refusal:?}"))
    }

    pub fn mkdir(&mut self, dir: DirRef, child: &str) -> DirRef {
        match self.done(Op::Mkdir(dir, name(child), 0o755)) {
            Body::Made(dir, _) => dir,
            other => panic!("{other:?}"),
        }
    }

    pub fn create(&mut self, dir: DirRef, file: &str, kind: FileKind, target: &str) -> Attr {
        let node = NewNode { kind, mode: 0o644, rdev: 0, symlink: target.into() };
        let op = Op::Create { dir, name: name(file), node, exclusive: true, open: false };
        match self.done(op) {
            Body::Created(attr, true, _) => attr,
            other => panic!("{other:?}"),
        }
    }

    pub fn link(&mut self, ino: Ino, old: (DirRef, &str), dir: DirRef, new: &str) {
        let file = FileRef { ino, at: FileAt::Name(old.0, name(old.1)) };
        self.done(Op::Link(file, dir, name(new)));
    }

    pub fn rename_op(from: DirRef, old: &str, to: DirRef, new: &str) -> Op {
        let (name, new_name) = (name(old), name(new));
        Op::Rename { from, name, to, new_name, flags: RenameFlags::default() }
    }

    fn write(&mut self, dir: DirRef, file: &'static str, base: Option<u64>, payload: Payload) {
        let pieces = vec![Piece { offset: 0, payload }];
        let file = self.file(dir, file);
        self.done(Op::WriteData { file, base, pieces, mtime: None, kill: None });
    }

    /// Stores data in an object for a file of directory `a`.
    pub fn store_object(&mut self, file: &'static str, len: u64) -> ObjectId {
        self.objects += 1;
        let object = ObjectId(u128::from(self.session.0) << 64 | u128::from(self.objects));
        self.bucket.0.insert(object, len + TRAILER);
        self.write(self.dir("a"), file, None, Payload::Object(object_range(object, len)));
        object
    }

    fn set_xattr(&mut self, dir: DirRef, file: &'static str) {
        let target = Target::File(self.file(dir, file));
        let (name, value) = (b"user.colour".to_vec(), b"green".to_vec());
        self.done(Op::SetXattr { target, name, value, mode: XattrMode::Any });
    }

    /// All names in a directory, from all shards.
    pub fn list(&mut self, dir: DirRef) -> BTreeMap<String, Found> {
        let mut names = BTreeMap::new();
        let mut from = Some(Order(0));
        while let Some(order) = from {
            match self.done(Op::ReadDir { dir, from: order, limit: 7 }) {
                Body::Page(page, next) => {
                    for entry in page {
                        let twice = names.insert(entry.name.to_string(), entry.found);
                        assert!(twice.is_none(), "{} twice", entry.name);
                    }
                    from = next;
                }
                other => panic!("{other:?}"),
            }
        }
        names
    }

    /// Starts the volume, makes all kinds of changes in every directory, and stops it.
    pub fn serves(&mut self) {
        self.start();
        self.begin_session();
        let mut dirs = vec![ROOT];
        let mut linked = BTreeMap::new();
        while let Some(dir) = dirs.pop() {
            for (child, found) in self.list(dir) {
                assert!(matches!(self.done(Op::Lookup(dir, name(&child))), Body::Found(_)));
                match found {
                    Found::Dir(access) => dirs.push(access.dir),
                    Found::Linked(ino, _) => {
                        let file = FileRef { ino, at: FileAt::Link };
                        let Body::Attr(attr) = self.done(Op::GetAttr(file)) else { panic!() };
                        *linked.entry(ino).or_insert(attr.nlink) -= 1;
                    }
                    Found::File(attr) => {
                        let file = FileRef { ino: attr.ino, at: FileAt::Name(dir, name(&child)) };
                        self.done(Op::GetAttr(file));
                    }
                }
            }
            let made = self.mkdir(dir, "new directory");
            self.create(dir, "new file", FileKind::Regular, "");
            self.done(Self::rename_op(dir, "new file", made, "moved"));
            self.done(Op::Unlink(made, name("moved")));
            self.done(Op::Rmdir(dir, name("new directory")));
        }
        assert!(linked.values().all(|left| *left == 0), "{linked:?}");
        self.end_session(self.session);
        self.settle();
        self.stop();
    }

    // Places of rows.

    /// Shard and key of a name's entry.
    pub fn entry(&self, dir: DirRef, child: &str) -> (ShardIndex, Vec<u8>) {
        let order = self.volume.secrets.order(child.as_bytes());
        let key = keys::dir(dir.id, Kind::Entry, order.0);
        (self.header(dir.id, order.0).0, key)
    }

    /// Shard and key of the header of the partition that holds an order.
    pub fn header(&self, dir: DirId, order: u64) -> (ShardIndex, Vec<u8>) {
        for shard in Self::all_shards() {
            let prefix = &keys::dir(dir, Kind::Header, 0)[..18];
            for (key, value) in self.rows(shard, prefix) {
                if Header::decode(&value).unwrap().range().contains(&order) {
                    return (shard, key);
                }
            }
        }
        panic!("no partition of {dir} holds {order:#x}");
    }

    /// Shard and key of a directory's content.
    pub fn content(&self, dir: DirRef) -> (ShardIndex, Vec<u8>) {
        (self.volume.map.home(dir.id), keys::dir(dir.id, Kind::Content, 0))
    }

    /// Shard and key of a row beside the entry of a name.
    pub fn beside(&self, dir: DirRef, child: &str, kind: Kind) -> (ShardIndex, Vec<u8>) {
        let (shard, entry) = self.entry(dir, child);
        (shard, keys::dir(dir.id, kind, keys::order_of(&entry).unwrap().0))
    }

    /// Shard and key of a link inode's row.
    pub fn link_row(&self, ino: Ino, kind: Kind) -> (ShardIndex, Vec<u8>) {
        (self.volume.map.link(ino), keys::link(ino, kind))
    }

    /// Lets a directory's content name another parent.
    pub fn put_parent(&mut self, shard: ShardIndex, key: &[u8], parent: DirRef) {
        self.change::<Content>(shard, key, |content| content.parent = parent);
    }

    /// A coordinator of which some shard has a floor, and that shard.
    pub fn floor(&self) -> (ShardIndex, ShardIndex) {
        for of in Self::all_shards() {
            for at in Self::all_shards() {
                if self.get(at, &keys::floor(of)).is_some() {
                    return (of, at);
                }
            }
        }
        panic!("no shard has a floor");
    }

    /// Changes the counts of the partition that holds a name.
    pub fn count(&mut self, dir: DirRef, child: &str, entries: i64, subdirs: i64) {
        let order = self.volume.secrets.order(child.as_bytes());
        let (shard, key) = self.header(dir.id, order.0);
        self.change::<Header>(shard, &key, |header| {
            header.entries = header.entries.checked_add_signed(entries).unwrap();
            header.subdirs = header.subdirs.checked_add_signed(subdirs).unwrap();
        });
    }

    /// Removes a name from its directory. Returns its entry.
    pub fn take(&mut self, dir: DirRef, child: &str) -> Entry {
        let (shard, key) = self.entry(dir, child);
        let entry = self.record::<Entry>(shard, &key);
        self.delete(shard, &key);
        entry
    }

    /// Adds a name to a directory, without changing the counts.
    pub fn put_name(&mut self, dir: DirRef, child: &str, is: pando_types::peer::EntryValue) {
        let (shard, key) = self.entry(dir, child);
        assert!(self.get(shard, &key).is_none());
        let entry = Entry { crowded: false, is: Some((name(child), is)) };
        self.put(shard, &key, &entry.encode());
    }
}

pub fn object_range(object: ObjectId, len: u64) -> ObjectRange {
    ObjectRange { object, offset: 0, len, object_len: len, store: 0, key: 0, codec: 0 }
}
