//! From dirty extents to objects and metadata.
//!
//! The bytes of small files go inline, in the request itself. An inline file that grows too large
//! is rewritten: its inline bytes become part of an object. That takes effect only at the data
//! version they were read at. All other files get pieces laid over their contents.

use std::sync::atomic::Ordering;

use pando_client::about_to_wait;
use pando_types::op::{INLINE_MAX, ObjectId, ObjectRange, Payload, Piece, SLICE_MAX};
use pando_types::{Attr, Errno, Ino};

use crate::fs::files::DataFs;
use crate::fs::guards::{lock, read};
use crate::fs::limits::SyncObjects;
use crate::fs::losses::Told;
use crate::inode::plan::{Form, Plan};
use crate::inode::state::{Inode, State};
use crate::metadata::WriteError;

/// Largest object, bytes of content.
pub(super) const OBJECT_MAX: u64 = 4 << 20;
const _: () = assert!(OBJECT_MAX <= SLICE_MAX);
/// How often data may change under a flush before it gives up. Each time another client has made
/// progress.
const ATTEMPTS: u32 = 64;

impl DataFs {
    /// Stores unflushed writes of the file, for `close`. `EIO`, once, if bytes of the file were
    /// lost and no program was told. A file without unflushed writes costs nothing.
    pub fn flush(&self, ino: Ino) -> Result<(), Errno> {
        let inode = self.open_file(ino)?;
        if read(&inode.state).dirty.is_empty() && !self.losses.is_untold(ino) {
            return Ok(());
        }
        let mut state = self.write_state(&inode);
        let flushed = self.flush_state(&inode, &mut state);
        state.is_told = flushed.is_err();
        drop(state);
        // One error tells of both.
        let is_untold = self.losses.tell(ino);
        flushed.and(if is_untold { Err(Errno::EIO) } else { Ok(()) })
    }

    /// Stores unflushed writes, for a caller that no program waits for. An error that costs data
    /// goes to the next program that closes or syncs the file.
    pub fn hand_on(&self, ino: Ino) {
        let Some(inode) = self.file(ino) else { return };
        if !read(&inode.state).dirty.is_empty() {
            let mut state = self.write_state(&inode);
            self.flush_aside(&inode, &mut state);
        }
    }

    /// Whether all writes to the file are stored, or lost for good.
    pub fn is_stored(&self, ino: Ino) -> bool {
        self.file(ino).is_none_or(|inode| read(&inode.state).dirty.is_empty())
    }

    /// A count that goes up when writes are stored. Attributes that were read before may be older.
    pub fn stored(&self) -> u64 {
        self.stored.load(Ordering::SeqCst)
    }

    /// Whether a flush of this file stores objects, or waits for another user of the file. A thread
    /// on which others depend must not run such a flush.
    pub fn flush_waits(&self, ino: Ino) -> bool {
        let Some(inode) = self.file(ino) else { return false };
        match inode.state.try_read() {
            Ok(state) => state.dirty.end() > INLINE_MAX || state.overwrites_objects(),
            Err(_) => true,
        }
    }

    /// Whether a write of `len` bytes must flush first, or wait for another user of the file.
    pub fn write_waits(&self, ino: Ino, len: u64) -> bool {
        let Some(inode) = self.file(ino) else { return false };
        match inode.state.try_read() {
            Ok(state) => {
                state.dirty.bytes() + len > self.limits.file_dirty_bytes
                    || self.dirty_bytes() + len > self.limits.dirty_bytes
            }
            Err(_) => true,
        }
    }

    /// Makes all writes to the file durable, for `fsync`.
    pub fn fsync(&self, ino: Ino) -> Result<(), Errno> {
        // If the file is not open (a directory), there is nothing to flush.
        if self.file(ino).is_some() {
            self.flush(ino)?;
        }
        self.sync_store()?;
        self.metadata.sync_file(ino)?;
        // Also of what was lost meanwhile, and of a directory.
        if self.losses.tell(ino) { Err(Errno::EIO) } else { Ok(()) }
    }

    /// Flushes every file. Returns the first error, after trying all.
    pub fn flush_all(&self) -> Result<(), Errno> {
        let inos: Vec<Ino> = lock(&self.files).keys().copied().collect();
        let mut result = Ok(());
        for ino in inos {
            match self.flush(ino) {
                Ok(()) | Err(Errno::EBADF) => {}
                Err(errno) => result = result.and(Err(errno)),
            }
        }
        result
    }

    /// Flushes under the lock. On an error that may pass, the data stays dirty. On another it is
    /// dropped, and the caller must tell or note that.
    pub(super) fn flush_state(&self, inode: &Inode, state: &mut State) -> Result<(), Errno> {
        if state.dirty.is_empty() {
            return Ok(());
        }
        let result = self.try_flush(inode, state);
        if let Err(errno) = result
            && !may_pass(errno)
        {
            self.lose(inode, state, errno, Told::NotYet);
        }
        result
    }

    fn try_flush(&self, inode: &Inode, state: &mut State) -> Result<(), Errno> {
        for _ in 0..ATTEMPTS {
            let mut plan = match state.kept.take() {
                Some(kept) => *kept,
                None => self.plan(inode, state)?,
            };
            let is_whole = plan.of == state.dirty.changes();
            let mtime = Some(state.dirty_mtime);
            let kill = state.dirty_kill;
            // Inline bytes are many and small, so no copy of them is kept.
            let pieces = match plan.objects.is_empty() {
                true => std::mem::take(&mut plan.pieces),
                false => plan.pieces.clone(),
            };
            match self.metadata.write_data(inode.ino, plan.base, pieces, mtime, kill) {
                Ok(attr) => {
                    self.flushed(inode, state, &attr, plan.form, is_whole);
                    if is_whole {
                        return Ok(());
                    }
                }
                Err(WriteError::DataChanged) => {
                    self.discard(&plan.objects);
                    let attr = self.metadata.read_data(inode.ino, 0, 1)?;
                    state.hear(&attr.attr);
                    state.form = if attr.is_inline { Form::Inline } else { Form::Objects };
                }
                Err(WriteError::Errno(Errno::EIO)) => {
                    self.keep(state, plan);
                    return Err(Errno::EIO);
                }
                Err(WriteError::Errno(errno)) => {
                    self.discard(&plan.objects);
                    return Err(errno);
                }
                // The objects may be in use. `settled` waits until that is known, and `unneeded`
                // tells the objects that are not.
                Err(WriteError::Unsure(errno)) => return Err(errno),
            }
        }
        Err(Errno::EAGAIN)
    }

    /// Keeps a plan that the shard's log may have. Its objects are not deleted, and the next try
    /// begins with this plan, also if more bytes were written since. So a shard that fails for long
    /// does not get new objects each time. A plan runs only at the data version that it was made
    /// for. Else its objects may have been overwritten, and be gone.
    fn keep(&self, state: &mut State, mut plan: Plan) {
        if plan.objects.is_empty() {
            return;
        }
        lock(&self.perhaps_named).extend(&plan.objects);
        plan.base.get_or_insert(state.version);
        state.kept = Some(Box::new(plan));
    }

    fn plan(&self, inode: &Inode, state: &mut State) -> Result<Plan, Errno> {
        if state.form != Form::Objects && state.dirty.end() <= INLINE_MAX {
            let payload = |bytes: &[u8]| Payload::Inline(bytes.to_vec());
            let pieces =
                state.dirty.iter().map(|(offset, bytes)| Piece { offset, payload: payload(bytes) });
            return Ok(Plan {
                base: None,
                pieces: pieces.collect(),
                objects: Vec::new(),
                form: Form::Inline,
                of: state.dirty.changes(),
            });
        }
        // While an earlier flush is in doubt, nothing can be written, and objects stored now would
        // be left over.
        self.metadata.settled(inode.ino)?;
        let mut inline = Vec::new();
        let mut base = None;
        // A new file is known to be empty without asking.
        if state.form == Form::Inline && state.size == 0 {
            base = Some(state.version);
        } else if state.form != Form::Objects {
            let layout = self.metadata.read_data(inode.ino, 0, INLINE_MAX)?;
            state.hear(&layout.attr);
            if layout.is_inline {
                base = Some(layout.attr.data_version);
                inline = layout.inline;
            }
        }
        let mut chunks: Vec<(u64, &[u8])> = state.dirty.iter().collect();
        for (from, to) in state.dirty.gaps(inline.len() as u64) {
            if is_planted!(InlineForgotten) {
                break;
            }
            chunks.push((from, &inline[from as usize..to as usize]));
        }
        chunks.sort_unstable_by_key(|&(offset, _)| offset);
        let (pieces, objects) = self.store_chunks(&chunks)?;
        Ok(Plan { base, pieces, objects, form: Form::Objects, of: state.dirty.changes() })
    }

    /// Stores chunks of a file in as few objects as they fit in.
    fn store_chunks(&self, chunks: &[(u64, &[u8])]) -> Result<(Vec<Piece>, Vec<ObjectId>), Errno> {
        let mut packer = Packer { fs: self, open: None, pieces: Vec::new(), objects: Vec::new() };
        let mut result = Ok(());
        'all: for &(offset, bytes) in chunks {
            for (index, part) in bytes.chunks(OBJECT_MAX as usize).enumerate() {
                result = packer.add(offset + index as u64 * OBJECT_MAX, part);
                if result.is_err() {
                    break 'all;
                }
            }
        }
        result = result.and_then(|()| packer.close());
        if result.is_ok() && self.limits.sync_objects == SyncObjects::BeforeCommit {
            result = self.sync_store();
        }
        match result {
            Ok(()) => Ok((packer.pieces, packer.objects)),
            Err(errno) => {
                self.discard(&packer.objects);
                Err(errno)
            }
        }
    }

    /// Deletes objects that no metadata names, now or ever. If the store fails to delete one,
    /// maintenance tries again. An object that a shard's log may name stays: it is collected when
    /// the session is over.
    fn discard(&self, objects: &[ObjectId]) {
        for &id in objects.iter().filter(|_| !is_planted!(ReplacedKept)) {
            if !lock(&self.perhaps_named).contains(&id) && self.objects.delete(id).is_err() {
                lock(&self.undeleted).push(id);
            }
        }
    }

    /// Deletes objects that are not needed: those of writes that turned out not to have run, and
    /// those that could not be deleted before.
    pub fn discard_again(&self) {
        let mut objects = std::mem::take(&mut *lock(&self.undeleted));
        objects.extend(self.metadata.unneeded());
        self.discard(&objects);
    }

    /// Notes that a plan has run. `is_whole`: no byte was written since it was made.
    fn flushed(&self, inode: &Inode, state: &mut State, attr: &Attr, form: Form, is_whole: bool) {
        let before = state.version;
        self.stored.fetch_add(1, Ordering::SeqCst);
        if is_whole {
            self.forget_dirty(state, 0, u64::MAX);
            state.retry = None;
        }
        state.hear(attr);
        if attr.data_version == state.version {
            state.form = form;
        }
        *lock(&inode.layout) = None;
        self.pages_follow(inode.ino, before, attr.data_version);
    }
}

/// The object being filled, and the pieces and ids of those already stored.
///
/// All pieces of one object lie within `SLICE_MAX` bytes of the file. Where a piece is overwritten,
/// the shards look that far for other pieces of its object, and no farther.
struct Packer<'a> {
    fs: &'a DataFs,
    open: Option<Open>,
    pieces: Vec<Piece>,
    objects: Vec<ObjectId>,
}

struct Open {
    id: ObjectId,
    content: Vec<u8>,
    /// File offset of its first piece.
    file_offset: u64,
    /// Pieces from this index on are in this object. Its length is yet to be filled in.
    first_piece: usize,
}

impl Packer<'_> {
    fn add(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let end = offset + bytes.len() as u64;
        if let Some(open) = &self.open
            && ((open.content.len() + bytes.len()) as u64 > OBJECT_MAX
                || end - open.file_offset > SLICE_MAX)
        {
            self.close()?;
        }
        let first_piece = self.pieces.len();
        let open = self.open.get_or_insert_with(|| Open {
            id: self.fs.metadata.new_object(),
            content: Vec::new(),
            file_offset: offset,
            first_piece,
        });
        let range = ObjectRange {
            object: open.id,
            offset: open.content.len() as u64,
            len: bytes.len() as u64,
            object_len: 0,
            store: 0,
            key: 0,
            codec: 0,
        };
        open.content.extend_from_slice(bytes);
        self.pieces.push(Piece { offset, payload: Payload::Object(range) });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Errno> {
        let Some(open) = self.open.take() else { return Ok(()) };
        about_to_wait();
        // The object is noted before the put. If that fails, a remote store may still have it.
        self.objects.push(open.id);
        self.fs.objects.put(open.id, &open.content).map_err(|error| error.errno())?;
        for piece in &mut self.pieces[open.first_piece..] {
            if let Payload::Object(range) = &mut piece.payload {
                range.object_len = open.content.len() as u64;
            }
        }
        Ok(())
    }
}

/// Whether the flush may succeed later. That holds also for `EACCES` and `EPERM`: a user that may
/// write can open the file, or its owner can permit it again.
fn may_pass(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ENOSPC
            | Errno::EIO
            | Errno::EAGAIN
            | Errno::EINTR
            | Errno::EBUSY
            | Errno::ETIMEDOUT
            | Errno::ENODEV
            | Errno::EACCES
            | Errno::EPERM
    )
}
