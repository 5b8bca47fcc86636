//! One input on its way: what it reads, and everything that it changes, collected until it is known
//! to succeed.

use alloc::vec::Vec;
use core::cell::RefCell;
use pando_types::reply::Reply;
use pando_types::{CLOCK_SLACK_NANOS, DirId, Ino, Name, Order, SessionId, Timestamp, TxnId};

use crate::contract::{GroupMeta, Halt, Need, Now, Out, Row, Rows, Write};
use crate::records::record::{Header, OpenAt, Record, Shred};
use crate::state::lookup_cache::{Entry, LookupCache};

/// A change of the table of opens in memory.
#[derive(Debug)]
pub enum OpenChange {
    /// A session has an inode open this often, and the inode is at this place.
    Set(Ino, SessionId, u32, OpenAt),
    /// A session no longer has the inode open.
    Clear(Ino, SessionId),
}

/// A change of the index of program locks: whether a session has locks of a file from now on.
#[derive(Clone, Copy, Debug)]
pub struct LockChange {
    /// The session that has, or had, the locks.
    pub session: SessionId,
    /// The locked file.
    pub ino: Ino,
    /// Whether any lock is left.
    pub is_there: bool,
}

/// Capacity for writes that most inputs do not exceed, reserved at once.
const WRITES: usize = 6;

/// The context of one input: its view of the store, and its changes so far.
pub struct Ctx<'a> {
    /// The moment at which the input is handled.
    pub now: Now,
    /// Timestamp for records that the input writes.
    pub time: Timestamp,
    rows: &'a dyn Rows,
    /// The lookup cache.
    lookup_cache: RefCell<LookupCache>,
    /// Writes that a failed operation discards.
    writes: Vec<Write>,
    /// Writes that stand even if the operation fails.
    always: Vec<Write>,
    out: Vec<(Need, Out)>,
    /// Headers as this input has changed them.
    headers: Vec<(DirId, Header)>,
    /// Headers that this input has dropped, by the start of their ranges.
    dropped: Vec<(DirId, u64)>,
    opens: Vec<OpenChange>,
    locks: Vec<LockChange>,
    /// Removals in steps that this input has begun (`Some`) or finished, by the slices' prefix.
    shreds: Vec<(Vec<u8>, Option<Shred>)>,
    /// Change in the number of inodes and of bytes on this shard.
    pub stat: (i64, i64),
    /// Goes into the header of the log group.
    pub meta: GroupMeta,
    /// Trace of the request or peer message that is handled; 0: none.
    pub trace: u64,
    /// Set while a change of a lent part runs, at its holder or at its shard.
    pub lent: Option<Lent>,
    /// The grant of the part in which its holder has a name changed by this input.
    pub under: Option<TxnId>,
    /// For which session this input changes something that others may remember. `None`: it only
    /// reads.
    pub changes_for: Option<SessionId>,
}

/// The run of a change of lent parts. It waits for nothing, and begins no transaction.
#[derive(Clone, Debug)]
pub struct Lent {
    /// The grant of which the lock does not hinder this run. At a holder no lock is held.
    pub grant: TxnId,
    /// The number for an inode that it makes.
    pub ino: Option<Ino>,
    /// Whether opens count: at the holder. At the shard, which runs an element, they are told with
    /// the return.
    pub counts_opens: bool,
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
    pub lookup_cache: LookupCache,
}

impl<'a> Ctx<'a> {
    pub fn new(now: Now, rows: &'a dyn Rows) -> Self {
        Self {
            now,
            time: Timestamp::from_nanos(now.wall),
            rows,
            lookup_cache: RefCell::default(),
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
            lent: None,
            under: None,
            changes_for: None,
        }
    }

    /// Timestamp of a change that follows one stamped `other`, maybe by another clock: not before
    /// `other`. An `other` more than [`CLOCK_SLACK_NANOS`] ahead came from a wrong clock, and does
    /// not count.
    pub fn time_after(&self, other: Timestamp) -> Timestamp {
        let slack = Timestamp::from_nanos(CLOCK_SLACK_NANOS).seconds;
        let is_wrong = other > Timestamp { seconds: self.time.seconds + slack, ..self.time };
        if is_wrong { self.time } else { self.time.max(other) }
    }

    /// Adds the lookup cache that earlier inputs left.
    pub fn with_lookup_cache(self, lookup_cache: LookupCache) -> Self {
        Self { lookup_cache: RefCell::new(lookup_cache), ..self }
    }

    /// The lookup cache, as this input leaves it.
    pub fn into_lookup_cache(self) -> LookupCache {
        self.lookup_cache.into_inner()
    }

    /// The lookup cache's entry for a name. `None`: not cached, or this input has written
    /// something.
    pub fn sighted(&self, dir: DirId, base: Order, name: &Name) -> Option<Entry> {
        if !self.writes.is_empty() {
            return None;
        }
        self.lookup_cache.borrow().get(dir, base, name).cloned()
    }

    /// Notes in the lookup cache what was read at the order of a name. Does nothing once this input
    /// has written something.
    pub fn sight(&self, dir: DirId, base: Order, name: &Name, entry: &Entry) {
        if self.writes.is_empty() {
            self.lookup_cache.borrow_mut().note(dir, base, name, entry.clone());
        }
    }

    /// The value of `key` as this input sees it, with its own writes.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Halt> {
        match self.written(key) {
            Some(value) => Ok(value.cloned()),
            None => self.rows.get(key),
        }
    }

    /// The record at `key` as this input sees it, with its own writes.
    pub fn load<R: Record>(&self, key: &[u8]) -> Result<Option<R>, Halt> {
        self.load_by(key, R::decode)
    }

    /// The record at `key`, decoded by `decode`.
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

    /// What this input has written at `key`: a value, or `Some(None)` for a deletion. `None`:
    /// nothing.
    fn written(&self, key: &[u8]) -> Option<Option<&Vec<u8>>> {
        self.writes.iter().rev().find_map(|write| match write {
            Write::Put(k, value) if k == key => Some(Some(value)),
            Write::Delete(k) if k == key => Some(None),
            Write::DeleteRange(from, to) if &**from <= key && key < &**to => Some(None),
            _ => None,
        })
    }

    /// Whether a lock of this grant does not hinder this input.
    pub fn is_of_grant(&self, grant: TxnId) -> bool {
        self.under == Some(grant) || self.lent.as_ref().is_some_and(|lent| lent.grant == grant)
    }

    /// Whether this input begins or ends a removal in steps.
    pub fn has_shreds(&self) -> bool {
        !self.shreds.is_empty()
    }

    /// Whether an element runs: a change that the holder of a lent part has answered.
    pub fn runs_element(&self) -> bool {
        self.lent.as_ref().is_some_and(|lent| !lent.counts_opens)
    }

    /// The headers that this input has changed.
    pub fn headers(&self) -> &[(DirId, Header)] {
        &self.headers
    }

    /// The value of `key` before this input.
    pub fn stored(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Halt> {
        self.rows.get(key)
    }

    /// All writes of this input so far, except headers.
    pub fn writes(&self) -> impl Iterator<Item = &Write> {
        self.writes.iter().chain(&self.always)
    }

    /// Visits the store's rows of a range, without this input's own writes, until `visit` returns
    /// false.
    pub fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Halt> {
        self.rows.scan(from, to, visit)
    }

    /// All rows of a range in the store, without this input's own writes.
    pub fn rows(&self, from: &[u8], to: &[u8]) -> Result<Vec<Row>, Halt> {
        let mut rows = Vec::new();
        self.rows.scan(from, to, &mut |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
            true
        })?;
        Ok(rows)
    }

    /// Reserves room for this many writes and changes of opens.
    pub fn expect(&mut self, changes: usize) {
        // One more write for the outcome.
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

    /// Adds to the bytes of files on this shard. It wraps, because clients choose sizes, and their
    /// sum may exceed a number's range.
    pub fn add_bytes(&mut self, bytes: i64) {
        self.stat.1 = self.stat.1.wrapping_add(bytes);
    }

    /// A write that stands even if the operation fails.
    pub fn put_always(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.always.push(Write::Put(key, value));
    }

    /// The reply that was sent last, if nothing was sent since.
    pub fn last_reply(&mut self) -> Option<&mut Reply> {
        match self.out.last_mut() {
            Some((_, Out::Reply(_, reply))) => Some(reply),
            _ => None,
        }
    }

    pub fn send(&mut self, need: Need, out: Out) {
        one_at_first(&mut self.out);
        self.out.push((need, out));
    }

    /// The header as this input has changed it; `None` if it has not.
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

    /// Whether this input has dropped a header and has not written it since.
    pub fn is_dropped(&self, dir: DirId, start: u64) -> bool {
        !self.dropped.is_empty()
            && self.dropped.contains(&(dir, start))
            && self.header(dir, start).is_none()
    }

    /// Where this input has placed an open inode; `None` if it has not.
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

    /// Records that the slices with keys that begin with `slices` are to be deleted, or, with
    /// `None`, are gone.
    pub fn change_shred(&mut self, slices: Vec<u8>, shred: Option<Shred>) {
        self.shreds.push((slices, shred));
    }

    /// Forgets all changes, because the operation failed.
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
        let mut lookup_cache = self.lookup_cache.into_inner();
        lookup_cache.forget(&self.writes);
        Done {
            lookup_cache,
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

/// Reserves room for one element. Most lists get one. A new vector starts with room for four, and
/// of elements this large four are more than an allocator caches.
fn one_at_first<T>(list: &mut Vec<T>) {
    if list.capacity() == 0 {
        list.reserve_exact(1);
    }
}
