//! A small model of the shards, and stores that fail on demand.

pub mod model;

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pando_data::{LocalStore, Metadata, ObjectStore, Space, StoreError, WriteError};
use pando_types::op::{INLINE_MAX, ObjectId, ObjectRange, Payload, Piece, SLICE_MAX};
use pando_types::reply::{Layout, Slice};
use pando_types::{
    Attr, Credentials, DirRef, Errno, FileKind, Ino, Kill, Name, SetAttr, ShardIndex, TimeSet,
    Timestamp,
};

/// A folder that is removed with the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("pando-data-{name}-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A local store that can be full.
pub struct Store {
    pub inner: LocalStore,
    pub folder: Folder,
    pub full: AtomicBool,
    /// Deletions fail.
    pub stuck: AtomicBool,
    pub puts: AtomicU64,
    /// Called before anything is stored or synced.
    pub before: Mutex<Option<Hook>>,
    pub deletes: AtomicU64,
}

impl Store {
    pub fn new(name: &str) -> Arc<Self> {
        let folder = Folder::new(name);
        let inner = LocalStore::open(&folder.0.join("objects")).unwrap();
        let (full, stuck, puts, deletes, before) = Default::default();
        Arc::new(Self { inner, folder, full, stuck, puts, deletes, before })
    }

    fn waits(&self) {
        if let Some(hook) = &*self.before.lock().unwrap() {
            hook();
        }
    }
}

impl ObjectStore for Store {
    fn put(&self, id: ObjectId, parts: &[&[u8]]) -> Result<(), StoreError> {
        self.waits();
        if self.full.load(Ordering::Relaxed) {
            return Err(StoreError::Full);
        }
        self.puts.fetch_add(1, Ordering::Relaxed);
        self.inner.put(id, parts)
    }

    fn get_range(&self, id: ObjectId, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        self.inner.get_range(id, range)
    }

    fn delete(&self, id: ObjectId) -> Result<(), StoreError> {
        self.deletes.fetch_add(1, Ordering::Relaxed);
        if self.stuck.load(Ordering::Relaxed) {
            return Err(StoreError::Io(io::Error::other("stuck")));
        }
        self.inner.delete(id)
    }

    fn sync(&self) -> io::Result<()> {
        self.waits();
        self.inner.sync()
    }

    fn space(&self) -> Option<Space> {
        self.inner.space()
    }
}

struct File {
    attr: Attr,
    is_inline: bool,
    inline: Vec<u8>,
    slices: Vec<Slice>,
}

/// Files by ino, in memory.
pub struct Shards {
    store: Arc<Store>,
    files: Mutex<HashMap<Ino, File>>,
    garbage: Mutex<Vec<ObjectId>>,
    next: AtomicU64,
    /// After so many writes each time, another client changes the data; 0: never.
    pub interfere_every: AtomicU64,
    writes: AtomicU64,
    /// Changes of attributes that were asked for.
    pub changes: Mutex<Vec<SetAttr>>,
    /// The file is gone.
    pub stale: AtomicBool,
    /// The last write is in doubt, and no further one runs.
    pub in_doubt: AtomicBool,
    /// Objects of writes in doubt.
    doubtful: Mutex<Vec<ObjectId>>,
    /// Every write fails with this error.
    pub broken: Mutex<Option<Errno>>,
    /// The pieces of the last write that failed.
    last: Mutex<Vec<Piece>>,
    /// Called when pieces arrive, before they are used.
    pub before_write: Mutex<Option<Hook>>,
    /// No user that has the file open may write it.
    pub refused: AtomicBool,
}

/// Called by a store or a shard in the middle of a call.
pub type Hook = Box<dyn Fn() + Send>;

pub const FILE: Ino = Ino(100);

impl Shards {
    pub fn new(store: &Arc<Store>) -> Arc<Self> {
        let shards = Self {
            store: Arc::clone(store),
            files: Mutex::default(),
            garbage: Mutex::default(),
            next: AtomicU64::new(1),
            interfere_every: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            changes: Mutex::default(),
            stale: AtomicBool::new(false),
            in_doubt: AtomicBool::new(false),
            doubtful: Mutex::default(),
            broken: Mutex::default(),
            last: Mutex::default(),
            before_write: Mutex::default(),
            refused: AtomicBool::new(false),
        };
        Arc::new(shards)
    }

    pub fn create(&self, ino: Ino) -> Attr {
        let time = Timestamp::from_nanos(1);
        let attr = Attr {
            ino,
            kind: FileKind::Regular,
            mode: 0o644,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 0,
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
            data_version: 1,
            change: 1,
            project: 0,
        };
        let file =
            File { attr: attr.clone(), is_inline: true, inline: Vec::new(), slices: Vec::new() };
        self.files.lock().unwrap().insert(ino, file);
        attr
    }

    pub fn is_inline(&self, ino: Ino) -> bool {
        self.files.lock().unwrap()[&ino].is_inline
    }

    pub fn object_count(&self, ino: Ino) -> usize {
        let files = self.files.lock().unwrap();
        files[&ino].slices.iter().map(|slice| slice.range.object).collect::<HashSet<_>>().len()
    }

    /// Runs the last write that failed.
    pub fn make_last(&self, ino: Ino) {
        let pieces = std::mem::take(&mut *self.last.lock().unwrap());
        self.write_data(ino, None, pieces, None, None).unwrap();
    }

    /// Has another client write this.
    pub fn overwrite(&self, ino: Ino, offset: u64, content: &[u8]) {
        let id = self.new_object();
        let trailer = pando_data::object::trailer(id, content);
        self.store.inner.put(id, &[content, &trailer]).unwrap();
        let len = content.len() as u64;
        let (object, object_len) = (id, len);
        let range = ObjectRange { object, offset: 0, len, object_len, store: 0, key: 0, codec: 0 };
        let pieces = vec![Piece { offset, payload: Payload::Object(range) }];
        self.write_data(ino, None, pieces, None, None).unwrap();
    }

    /// Sometimes has another client rewrite the file: the bytes are equal, the version is another,
    /// and perhaps the form.
    fn interfere(&self, file: &mut File) {
        let every = self.interfere_every.load(Ordering::Relaxed);
        let count = self.writes.fetch_add(1, Ordering::Relaxed);
        if every == 0 || !count.is_multiple_of(every) {
            return;
        }
        file.attr.data_version += 1;
        if file.is_inline && !file.inline.is_empty() && count.is_multiple_of(2 * every) {
            let id = self.new_object();
            let content = std::mem::take(&mut file.inline);
            let trailer = pando_data::object::trailer(id, &content);
            self.store.inner.put(id, &[&content, &trailer]).unwrap();
            let len = content.len() as u64;
            let range = ObjectRange {
                object: id,
                offset: 0,
                len,
                object_len: len,
                store: 0,
                key: 0,
                codec: 0,
            };
            file.slices.push(Slice { offset: 0, range });
            file.is_inline = false;
        }
    }

    fn with<T>(
        &self,
        ino: Ino,
        f: impl FnOnce(&mut File) -> Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        if self.stale.load(Ordering::Relaxed) {
            return Err(Errno::ESTALE.into());
        }
        let mut files = self.files.lock().unwrap();
        let file = files.get_mut(&ino).ok_or(Errno::ESTALE)?;
        let used = |file: &File| -> HashSet<ObjectId> {
            file.slices.iter().map(|slice| slice.range.object).collect()
        };
        let before = used(file);
        let result = f(file);
        let after = used(file);
        self.garbage.lock().unwrap().extend(before.difference(&after));
        result
    }
}

impl File {
    fn take_off(&mut self, kill: Option<Kill>) {
        let attr = &mut self.attr;
        attr.mode = kill.map_or(attr.mode, |kill| kill.left(attr.mode, attr.gid));
    }

    fn cut(&mut self, start: u64, end: u64) {
        let mut kept = Vec::new();
        for slice in self.slices.drain(..) {
            let slice_end = slice.offset + slice.range.len;
            if slice.offset < start {
                let len = slice_end.min(start) - slice.offset;
                kept.push(Slice {
                    offset: slice.offset,
                    range: ObjectRange { len, ..slice.range },
                });
            }
            if slice_end > end {
                let from = slice.offset.max(end);
                let (offset, len) = (slice.range.offset + from - slice.offset, slice_end - from);
                kept.push(Slice {
                    offset: from,
                    range: ObjectRange { offset, len, ..slice.range },
                });
            }
        }
        kept.sort_by_key(|slice| slice.offset);
        self.slices = kept;
    }

    fn apply(&mut self, piece: &Piece) {
        let offset = piece.offset;
        match &piece.payload {
            Payload::Inline(bytes) => {
                let end = offset as usize + bytes.len();
                if self.inline.len() < end {
                    self.inline.resize(end, 0);
                }
                self.inline[offset as usize..end].copy_from_slice(bytes);
                self.attr.size = self.attr.size.max(end as u64);
            }
            Payload::Object(range) => {
                self.cut(offset, offset + range.len);
                self.slices.push(Slice { offset, range: *range });
                self.slices.sort_by_key(|slice| slice.offset);
                self.attr.size = self.attr.size.max(offset + range.len);
            }
            Payload::Hole(len) => {
                self.cut(offset, offset + len);
                let end = (self.inline.len() as u64).min(offset + len);
                if offset < end {
                    self.inline[offset as usize..end as usize].fill(0);
                }
            }
        }
    }
}

/// Shards look for other pieces of an object only so far from an overwritten one.
fn check_nearness(pieces: &[Piece]) {
    let mut spans: HashMap<ObjectId, (u64, u64)> = HashMap::new();
    for piece in pieces {
        if let Payload::Object(range) = piece.payload {
            let end = piece.offset + range.len;
            let span = spans.entry(range.object).or_insert((piece.offset, end));
            *span = (span.0.min(piece.offset), span.1.max(end));
        }
    }
    assert!(spans.values().all(|(from, to)| to - from <= SLICE_MAX), "{spans:?}");
}

fn errno(error: WriteError) -> Errno {
    match error {
        WriteError::Errno(errno) | WriteError::Unsure(errno) => errno,
        WriteError::DataChanged => unreachable!("only writes"),
    }
}

/// The time by the shards' clock, which is not this machine's.
pub const SHARDS_TIME: Timestamp = Timestamp { seconds: 7_000_000_000, nanos: 11 };

impl Metadata for Shards {
    fn time_at(&self, _: ShardIndex) -> Timestamp {
        SHARDS_TIME
    }

    fn getattr(&self, ino: Ino) -> Result<Attr, Errno> {
        self.with(ino, |file| Ok(file.attr.clone())).map_err(errno)
    }

    fn setattr(&self, _: &Credentials, ino: Ino, set: SetAttr) -> Result<Attr, Errno> {
        self.changes.lock().unwrap().push(set.clone());
        self.with(ino, |file| {
            file.take_off(set.kill);
            if let Some(size) = set.size {
                file.cut(size, u64::MAX);
                file.inline.truncate(size as usize);
                file.attr.size = size;
                file.attr.data_version += 1;
            }
            file.attr.mode = set.mode.unwrap_or(file.attr.mode);
            file.attr.uid = set.uid.unwrap_or(file.attr.uid);
            if let Some(TimeSet::To(time)) = set.mtime {
                file.attr.mtime = time;
            }
            Ok(file.attr.clone())
        })
        .map_err(errno)
    }

    fn read_data(&self, ino: Ino, offset: u64, len: u64) -> Result<Layout, Errno> {
        self.with(ino, |file| {
            let end = offset.saturating_add(len);
            let overlaps =
                |slice: &&Slice| slice.offset < end && slice.offset + slice.range.len > offset;
            Ok(Layout {
                attr: file.attr.clone(),
                is_inline: file.is_inline,
                inline: file.inline.clone(),
                slices: file.slices.iter().filter(overlaps).copied().collect(),
                until: u64::MAX,
            })
        })
        .map_err(errno)
    }

    fn write_data(
        &self,
        ino: Ino,
        base: Option<u64>,
        pieces: Vec<Piece>,
        mtime: Option<Timestamp>,
        kill: Option<Kill>,
    ) -> Result<Attr, WriteError> {
        if let Some(hook) = &*self.before_write.lock().unwrap() {
            hook();
        }
        if self.in_doubt.load(Ordering::Relaxed) {
            let object = |piece: &Piece| match piece.payload {
                Payload::Object(range) => Some(range.object),
                _ => None,
            };
            self.doubtful.lock().unwrap().extend(pieces.iter().filter_map(object));
            return Err(WriteError::Unsure(Errno::ETIMEDOUT));
        }
        if let Some(errno) = *self.broken.lock().unwrap() {
            *self.last.lock().unwrap() = pieces;
            return Err(errno.into());
        }
        if self.refused.load(Ordering::Relaxed) {
            return Err(Errno::EACCES.into());
        }
        self.with(ino, |file| {
            self.interfere(file);
            if base.is_some_and(|base| base != file.attr.data_version) {
                return Err(WriteError::DataChanged);
            }
            for piece in &pieces {
                match &piece.payload {
                    Payload::Inline(_) if !file.is_inline => return Err(WriteError::DataChanged),
                    Payload::Inline(bytes) if piece.offset + bytes.len() as u64 > INLINE_MAX => {
                        return Err(Errno::EINVAL.into());
                    }
                    Payload::Object(_) if base.is_none() && !file.inline.is_empty() => {
                        return Err(WriteError::DataChanged);
                    }
                    Payload::Object(range) => {
                        let whole =
                            range.object_len + pando_data::object::trailer_len(range.object_len);
                        self.store
                            .inner
                            .get_range(range.object, 0..whole)
                            .expect("stored before named");
                        assert!(range.len > 0 && range.offset + range.len <= range.object_len);
                    }
                    _ => {}
                }
            }
            check_nearness(&pieces);
            if pieces.iter().any(|piece| matches!(piece.payload, Payload::Object(_))) {
                file.is_inline = false;
                file.inline.clear();
            }
            for piece in &pieces {
                file.apply(piece);
            }
            file.take_off(kill);
            file.attr.data_version += 1;
            file.attr.mtime = mtime.unwrap_or(file.attr.mtime);
            Ok(file.attr.clone())
        })
    }

    fn settled(&self, _: Ino) -> Result<(), Errno> {
        let is_any = !self.doubtful.lock().unwrap().is_empty();
        match is_any && self.in_doubt.load(Ordering::Relaxed) {
            true => Err(Errno::ETIMEDOUT),
            false => Ok(()),
        }
    }

    /// No write in doubt has run.
    fn unneeded(&self) -> Vec<ObjectId> {
        if self.in_doubt.load(Ordering::Relaxed) {
            return Vec::new();
        }
        std::mem::take(&mut *self.doubtful.lock().unwrap())
    }

    fn sync_file(&self, _: Ino) -> Result<(), Errno> {
        Ok(())
    }

    fn new_object(&self) -> ObjectId {
        ObjectId((7 << 64) | u128::from(self.next.fetch_add(1, Ordering::Relaxed)))
    }

    fn garbage(&self) -> Result<Vec<(ShardIndex, ObjectId)>, Errno> {
        Ok(self.garbage.lock().unwrap().iter().take(10).map(|&id| (ShardIndex(0), id)).collect())
    }

    fn place(&self, ino: Ino) -> Option<(DirRef, Name)> {
        Some((DirRef::ROOT, Name::new(format!("file{}", ino.0).as_bytes()).unwrap()))
    }

    fn path_to(&self, _: DirRef) -> Result<Vec<Name>, Errno> {
        Ok(vec![Name::new(b"folder").unwrap()])
    }

    fn garbage_done(&self, deleted: Vec<(ShardIndex, ObjectId)>) -> Result<(), Errno> {
        let deleted: HashSet<_> = deleted.into_iter().map(|(_, id)| id).collect();
        self.garbage.lock().unwrap().retain(|id| !deleted.contains(id));
        Ok(())
    }
}
