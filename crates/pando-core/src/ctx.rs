//! One input on its way: what it reads, and everything it changes, collected until it is known to
//! succeed.

use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use pando_types::reply::Refusal;
use pando_types::{CLOCK_SLACK_NANOS, DirId, Errno, Ino, Name, Order, SessionId, Timestamp};

use crate::contract::{GroupMeta, Halt, Need, Now, Out, Row, Rows, Write};
use crate::locks::LockKey;
use crate::record::{Header, OpenAt, Record, Shred};
use crate::sightings::{Entry, Sightings};

/// Why an operation did not come to its end.
#[derive(Debug)]
pub enum Stop {
    /// It is answered with this.
    Refuse(Refusal),
    /// It runs again when this lock is free.
    Wait(LockKey),
    /// It cannot run.
    Halt(Halt),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Refuse(Refusal::Errno(errno))
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refuse(refusal)
    }
}

impl From<Halt> for Stop {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

/// The store holds what it must not hold.
pub fn broken(what: &str) -> Halt {
    Halt::Broken(String::from(what))
}

/// A change of the soft table of opens.
#[derive(Debug)]
pub enum OpenChange {
    /// This session has it open so often, there.
    Set(Ino, SessionId, u32, OpenAt),
    /// This session has it open no more.
    Clear(Ino, SessionId),
}

/// A session's locks of a file are there from now on, or are not.
#[derive(Clone, Copy, Debug)]
pub struct LockChange {
    pub session: SessionId,
    pub ino: Ino,
    pub is_there: bool,
}

/// Writes of the inputs that there are most of: room for them at once.
const WRITES: usize = 6;

/// See the module.
pub struct Ctx<'a> {
    /// When.
    pub now: Now,
    /// Time for records.
    pub time: Timestamp,
    rows: &'a dyn Rows,
    sightings: RefCell<Sightings>,
    writes: Vec<Write>,
    always: Vec<Write>,
    out: Vec<(Need, Out)>,
    headers: Vec<(DirId, Header)>,
    dropped: Vec<(DirId, u64)>,
    opens: Vec<OpenChange>,
    locks: Vec<LockChange>,
    shreds: Vec<(Vec<u8>, Option<Shred>)>,
    /// Inodes and bytes more (or less) on this shard.
    pub stat: (i64, i64),
    /// For the log group's header.
    pub meta: GroupMeta,
    /// Trace of the request or message that is handled; 0: of none.
    pub trace: u64,
}

/// What a finished [`Ctx`] leaves to the shard.
pub struct Done {
    pub writes: Vec<Write>,
    pub out: Vec<(Need, Out)>,
    pub headers: Vec<(DirId, Header)>,
    pub dropped: Vec<(DirId, u64)>,
    pub opens: Vec<OpenChange>,
    pub locks: Vec<LockChange>,
    pub shreds: Vec<(Vec<u8>, Option<Shred>)>,
    pub meta: GroupMeta,
    pub sightings: Sightings,
}

impl<'a> Ctx<'a> {
    pub fn new(now: Now, rows: &'a dyn Rows) -> Self {
        Self {
            now,
            time: Timestamp::from_nanos(now.wall),
            rows,
            sightings: RefCell::default(),
            writes: Vec::new(),
            always: Vec::new(),
            out: Vec::new(),
            headers: Vec::new(),
            dropped: Vec::new(),
            opens: Vec::new(),
            locks: Vec::new(),
            shreds: Vec::new(),
            stat: (0, 0),
            meta: GroupMeta { now: now.wall, ..GroupMeta::default() },
            trace: 0,
        }
    }

    /// The time of what comes after something of another time, which may be of another clock: not
    /// before it. A clock that was ahead by more than [`CLOCK_SLACK_NANOS`] was wrong, and nobody
    /// waits for it.
    pub fn time_after(&self, other: Timestamp) -> Timestamp {
        let slack = Timestamp::from_nanos(CLOCK_SLACK_NANOS).seconds;
        let is_wrong = other > Timestamp { seconds: self.time.seconds + slack, ..self.time };
        if is_wrong { self.time } else { self.time.max(other) }
    }

    /// The same, with what earlier inputs have seen of names.
    pub fn with_sightings(self, sightings: Sightings) -> Self {
        Self { sightings: RefCell::new(sightings), ..self }
    }

    /// What has been seen of names until now.
    pub fn into_sightings(self) -> Sightings {
        self.sightings.into_inner()
    }

    /// What is known to stand at the order of a name, as this input sees it.
    pub fn sighted(&self, dir: DirId, base: Order, name: &Name) -> Option<Entry> {
        if !self.writes.is_empty() {
            return None;
        }
        self.sightings.borrow().get(dir, base, name).cloned()
    }

    /// This was read at the order of a name.
    pub fn sight(&self, dir: DirId, base: Order, name: &Name, entry: &Entry) {
        if self.writes.is_empty() {
            self.sightings.borrow_mut().note(dir, base, name, entry.clone());
        }
    }

    /// The value of `key` as this input sees it: its own writes first.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Halt> {
        match self.written(key) {
            Some(value) => Ok(value.cloned()),
            None => self.rows.get(key),
        }
    }

    /// The record at `key`.
    pub fn load<R: Record>(&self, key: &[u8]) -> Result<Option<R>, Halt> {
        self.load_by(key, R::decode)
    }

    /// The record at `key`, read in a way of its own.
    pub fn load_by<R>(
        &self,
        key: &[u8],
        decode: impl Fn(&[u8]) -> Result<R, Halt>,
    ) -> Result<Option<R>, Halt> {
        let mut found = None;
        match self.written(key) {
            Some(value) => found = value.map(|bytes| decode(bytes)),
            None => self.rows.view(key, &mut |bytes| found = Some(decode(bytes)))?,
        }
        found.transpose()
    }

    /// What this input has made of `key`, if anything.
    fn written(&self, key: &[u8]) -> Option<Option<&Vec<u8>>> {
        self.writes.iter().rev().find_map(|write| match write {
            Write::Put(k, value) if k == key => Some(Some(value)),
            Write::Delete(k) if k == key => Some(None),
            Write::DeleteRange(from, to) if &**from <= key && key < &**to => Some(None),
            _ => None,
        })
    }

    /// The value of `key` before this input.
    pub fn stored(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Halt> {
        self.rows.get(key)
    }

    /// All that this input writes, so far, but for headers.
    pub fn writes(&self) -> impl Iterator<Item = &Write> {
        self.writes.iter().chain(&self.always)
    }

    /// Visits the store's rows of a range, without this input's own writes, until `visit` answers
    /// false.
    pub fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Halt> {
        self.rows.scan(from, to, visit)
    }

    /// All rows of a range, without this input's own writes.
    pub fn rows(&self, from: &[u8], to: &[u8]) -> Result<Vec<Row>, Halt> {
        let mut rows = Vec::new();
        self.rows.scan(from, to, &mut |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
            true
        })?;
        Ok(rows)
    }

    /// So many writes and changes of opens are to come.
    pub fn expect(&mut self, changes: usize) {
        // And an outcome.
        self.writes.reserve_exact(changes + 1);
        self.opens.reserve_exact(changes);
    }

    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        if self.writes.capacity() == 0 {
            self.writes.reserve_exact(WRITES);
        }
        self.writes.push(Write::Put(key, value));
    }

    pub fn delete(&mut self, key: Vec<u8>) {
        self.writes.push(Write::Delete(key));
    }

    pub fn delete_range(&mut self, from: Vec<u8>, to: Vec<u8>) {
        self.writes.push(Write::DeleteRange(from, to));
    }

    /// So many bytes of files more on this shard, or less. Sizes are what clients say, and all
    /// together may be more than there are numbers.
    pub fn add_bytes(&mut self, bytes: i64) {
        self.stat.1 = self.stat.1.wrapping_add(bytes);
    }

    /// A write that stands even if the operation fails.
    pub fn put_always(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.always.push(Write::Put(key, value));
    }

    pub fn send(&mut self, need: Need, out: Out) {
        one_at_first(&mut self.out);
        self.out.push((need, out));
    }

    /// This input's own version of a header, if it changed it.
    pub fn header(&self, dir: DirId, start: u64) -> Option<&Header> {
        self.headers.iter().find(|(d, h)| *d == dir && h.range().start == start).map(|(_, h)| h)
    }

    pub fn set_header(&mut self, dir: DirId, header: Header) {
        let start = header.range().start;
        match self.headers.iter_mut().find(|(d, h)| *d == dir && h.range().start == start) {
            Some((_, old)) => *old = header,
            None => {
                one_at_first(&mut self.headers);
                self.headers.push((dir, header));
            }
        }
    }

    pub fn drop_header(&mut self, dir: DirId, start: u64) {
        self.headers.retain(|(d, h)| *d != dir || h.range().start != start);
        self.dropped.push((dir, start));
    }

    /// Whether this input has dropped a header, and not written it since.
    pub fn is_dropped(&self, dir: DirId, start: u64) -> bool {
        !self.dropped.is_empty()
            && self.dropped.contains(&(dir, start))
            && self.header(dir, start).is_none()
    }

    /// Where this input has put an open inode.
    pub fn open_place(&self, ino: Ino) -> Option<OpenAt> {
        self.opens.iter().rev().find_map(|change| match change {
            OpenChange::Set(i, _, _, at) if *i == ino => Some(*at),
            _ => None,
        })
    }

    pub fn change_open(&mut self, change: OpenChange) {
        one_at_first(&mut self.opens);
        self.opens.push(change);
    }

    pub fn change_lock(&mut self, change: LockChange) {
        self.locks.push(change);
    }

    /// The slices whose keys begin so are to go, or have gone.
    pub fn change_shred(&mut self, slices: Vec<u8>, shred: Option<Shred>) {
        self.shreds.push((slices, shred));
    }

    /// Forgets all changes: the operation failed.
    pub fn discard(&mut self) {
        self.writes.clear();
        self.out.clear();
        self.headers.clear();
        self.dropped.clear();
        self.opens.clear();
        self.locks.clear();
        self.shreds.clear();
        self.stat = (0, 0);
    }

    pub fn finish(mut self) -> Done {
        self.writes.append(&mut self.always);
        let mut sightings = self.sightings.into_inner();
        sightings.forget(&self.writes);
        Done {
            sightings,
            writes: self.writes,
            out: self.out,
            headers: self.headers,
            dropped: self.dropped,
            opens: self.opens,
            locks: self.locks,
            shreds: self.shreds,
            meta: self.meta,
        }
    }
}

/// Most lists get one thing. A vector by itself begins with room for four, which of things this
/// large is more than an allocator keeps at hand.
fn one_at_first<T>(list: &mut Vec<T>) {
    if list.capacity() == 0 {
        list.reserve_exact(1);
    }
}
