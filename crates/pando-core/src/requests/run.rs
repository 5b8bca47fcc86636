//! From a request to the code of its operation.

use alloc::vec::Vec;
use pando_types::op::{FileRef, GARBAGE_MAX, Op, Request, XattrMode};
use pando_types::reply::Body;
use pando_types::{Credentials, Errno, SessionId};

use crate::contract::{ClientTag, Need};
use crate::namespace::perm;
use crate::ops::data::Change;
use crate::ops::lookup::Answer;
use crate::records::keys;
use crate::records::record::Stat;
use crate::state::ctx::Ctx;
use crate::state::shard::Shard;
use crate::state::stop::{Ran, Stop};

impl Shard {
    /// Runs the operation of a request.
    pub(super) fn run(
        &mut self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: &Request,
    ) -> Result<Ran, Stop> {
        // A request without a sequence has not had its session checked.
        let session = match request.head.id {
            id if id.sequence > 0 || self.is_its(tag.1, id.session) == Some(true) => id.session,
            _ => SessionId(0),
        };
        self.open_place(&request.op)?;
        ctx.under = self.admitted_under(ctx, tag.1, request)?;
        match &request.op {
            Op::Mkdir(..) => self.mkdir(ctx, tag, request),
            Op::Unlink(dir, name) => self.unlink(ctx, tag, request, *dir, name),
            Op::Rmdir(..) => self.rmdir(ctx, tag, request),
            Op::Link(..) => self.link(ctx, tag, request),
            Op::Rename { .. } => self.rename(ctx, tag, request),
            Op::DirSetAttr(..) => self.dir_setattr(ctx, tag, request),
            Op::LockOf(target, lock) => self.lock_of(ctx, tag, request, (target, lock), session),
            Op::AddShard(shard) => self.add_shard(ctx, tag, request, *shard),
            Op::OpenSession | Op::OpenLocalSession | Op::EndSession(_) => {
                self.session_request(ctx, tag, request)
            }
            Op::Sync(_) => Ok(Ran::Answer(Body::Done, Need::Synced)),
            Op::SyncFile(file) => self.sync_file(ctx, file),
            Op::Garbage(_, limit) => self.list_garbage(ctx, *limit),
            Op::Hold(session, says) => self.hold(ctx, tag.1, *session, *says).map(Ran::from),
            Op::Borrow(session, nth, dir, order) => {
                self.borrow_part(ctx, tag.1, (*session, *nth), (*dir, *order))
            }
            Op::BorrowToRead(session, nth, part) => {
                self.borrow_to_read(ctx, tag.1, (*session, *nth), *part)
            }
            Op::Attend { session, recalled, over, .. } => {
                self.attend(ctx, tag.1, *session, (recalled, over))
            }
            Op::Stream { .. } => self.stream(ctx, tag, request),
            Op::LentRows(_, grant, which) => {
                self.lent_rows(ctx, tag.1, *grant, which).map(Ran::from)
            }
            _ => self.answer_here(ctx, session, request).map(Ran::from),
        }
    }

    /// Runs an operation that begins no transaction, and whose answer awaits no sync.
    pub(crate) fn answer_here(
        &mut self,
        ctx: &mut Ctx<'_>,
        session: SessionId,
        request: &Request,
    ) -> Result<Body, Stop> {
        let by = &request.credentials;
        match &request.op {
            Op::Lookup(dir, name) => self.lookup(ctx, *dir, name, by, Answer::to(request)),
            Op::Create { dir, name, node, exclusive, open } => {
                self.create(ctx, (*dir, name), node, *exclusive, open.then_some(session), by)
            }
            Op::OpenName { dir, name, access, truncate, kill } => {
                self.open_name(ctx, (*dir, name), *access, (*truncate, *kill), session, by)
            }
            Op::Open { file, access, truncate, kill } => {
                self.open(ctx, file, *access, (*truncate, *kill), session, by)
            }
            Op::Release(file) => self.release(ctx, file, session),
            Op::ReleaseAll(_, files) => self.release_all(ctx, files, session),
            Op::GetAttr(file) => self.getattr(ctx, file),
            Op::SetAttr(file, set) => self.setattr(ctx, file, set, by),
            Op::Readlink(file) => self.readlink(ctx, file),
            Op::Access(file, mask) => self.access(ctx, file, *mask, by),
            Op::Glimpse(_, places) => self.glimpse(ctx, places, by),
            Op::ReadData { file, offset, len } => self.read_data(ctx, file, (*offset, *len), by),
            Op::WriteData { file, base, pieces, mtime, kill } => {
                let change = Change { base: *base, pieces, mtime: *mtime, kill: *kill };
                self.write_data(ctx, file, &change, session, by)
            }
            Op::GetXattr(target, name) => self.get_xattr(ctx, target, name, by),
            Op::ListXattr(target) => self.list_xattr(ctx, target, by),
            Op::SetXattr { target, name, value, mode } => {
                self.set_xattr(ctx, target, (name, Some(value)), *mode, by)
            }
            Op::RemoveXattr(target, name) => {
                self.set_xattr(ctx, target, (name, None), XattrMode::Replace, by)
            }
            Op::DirGetAttr(dir) => self.dir_getattr(ctx, *dir),
            Op::PartitionStat(dir, index) => self.partition_stat(ctx, *dir, *index),
            Op::DirAccess(dir, mask) => self.dir_access(ctx, *dir, *mask, by),
            Op::ReadDir { dir, from, limit } => {
                self.read_dir(ctx, *dir, (*from, *limit), by, request.trail.is_some())
            }
            Op::ReadFiles { dir, from, bytes } => self.read_files(ctx, *dir, (*from, *bytes), by),
            Op::Parent(dir) => self.parent(ctx, *dir),
            Op::InspectDir(_, id) => self.inspect(ctx, *id),
            op => self.answer_without_names(ctx, session, by, op),
        }
    }

    /// Runs an operation on locks of programs, sessions, or the shard itself.
    fn answer_without_names(
        &mut self,
        ctx: &mut Ctx<'_>,
        session: SessionId,
        by: &Credentials,
        op: &Op,
    ) -> Result<Body, Stop> {
        match op {
            // The inode, which decides on permission, may be on another shard: such callers use
            // `LockOf`.
            Op::Lock(..) if perm::judges_alone(by) => Err(Errno::EACCES.into()),
            Op::Lock(ino, lock) => self.lock_file(ctx, *ino, lock, session),
            Op::Unlock(ino, space, owner, range) => {
                self.unlock_file(ctx, *ino, (*space, *owner), *range, session)
            }
            Op::TestLock(ino, lock) => self.test_lock(ctx, *ino, lock, session),
            Op::Renew(session) => self.renew(ctx, *session),
            Op::StatFs(_) => {
                let Stat { inodes, bytes } = self.stat();
                Ok(Body::StatFs { inodes, bytes })
            }
            Op::GarbageDone(_, objects) => {
                objects.iter().for_each(|object| ctx.delete(keys::garbage(*object)));
                Ok(Body::Done)
            }
            Op::HandOver(_, hash_slot, to) => {
                self.hand_over(ctx, *hash_slot, *to).map(|()| Body::Done)
            }
            // The callers run these. Each is named, so that none is forgotten.
            Op::Lookup(..)
            | Op::Create { .. }
            | Op::Mkdir(..)
            | Op::Unlink(..)
            | Op::Rmdir(..)
            | Op::Link(..)
            | Op::Rename { .. }
            | Op::GetAttr(..)
            | Op::SetAttr(..)
            | Op::Readlink(..)
            | Op::Open { .. }
            | Op::Release(..)
            | Op::ReleaseAll(..)
            | Op::Access(..)
            | Op::ReadData { .. }
            | Op::WriteData { .. }
            | Op::GetXattr(..)
            | Op::ListXattr(..)
            | Op::SetXattr { .. }
            | Op::RemoveXattr(..)
            | Op::DirGetAttr(..)
            | Op::PartitionStat(..)
            | Op::DirSetAttr(..)
            | Op::DirAccess(..)
            | Op::ReadDir { .. }
            | Op::ReadFiles { .. }
            | Op::Parent(..)
            | Op::Sync(..)
            | Op::OpenSession
            | Op::EndSession(..)
            | Op::Garbage(..)
            | Op::InspectDir(..)
            | Op::AddShard(..)
            | Op::OpenName { .. }
            | Op::Glimpse(..)
            | Op::OpenLocalSession
            | Op::LockOf(..)
            | Op::Hold(..)
            | Op::Borrow(..)
            | Op::BorrowToRead(..)
            | Op::LentRows(..)
            | Op::Attend { .. }
            | Op::Stream { .. }
            | Op::SyncFile(..) => Err(Errno::EINVAL.into()),
        }
    }

    /// Runs [`Op::SyncFile`]: waits for the locks on the file, and for a sync.
    fn sync_file(&mut self, ctx: &Ctx<'_>, file: &FileRef) -> Result<Ran, Stop> {
        #[cfg(feature = "planted")]
        if self.is_planted(crate::Planted::SyncFileAwaitsNothing) {
            return Ok(Ran::Answer(Body::Done, Need::Synced));
        }
        self.find_inode(ctx, file)?;
        #[cfg(feature = "planted")]
        if self.is_planted(crate::Planted::SyncFileUnsynced) {
            return Ok(Ran::Answer(Body::Done, Need::Committed));
        }
        Ok(Ran::Answer(Body::Done, Need::Synced))
    }

    /// Checks that this shard owns the hash slot by which an operation finds its object. An
    /// operation that finds its object by name passes.
    pub(crate) fn open_place(&self, op: &Op) -> Result<(), Stop> {
        use pando_types::op::{FileAt, Target};
        let link = |file: &FileRef| match file.at {
            FileAt::Link => self.open_link(file.ino),
            FileAt::Name(..) => Ok(()),
        };
        match op {
            Op::DirGetAttr(dir)
            | Op::DirAccess(dir, _)
            | Op::Parent(dir)
            | Op::DirSetAttr(dir, _)
            | Op::GetXattr(Target::Dir(dir), _)
            | Op::ListXattr(Target::Dir(dir))
            | Op::SetXattr { target: Target::Dir(dir), .. }
            | Op::RemoveXattr(Target::Dir(dir), _) => self.open_hash_slot(dir.id.hash_slot()),
            Op::GetAttr(file)
            | Op::SetAttr(file, _)
            | Op::Readlink(file)
            | Op::Open { file, .. }
            | Op::Release(file)
            | Op::Access(file, _)
            | Op::SyncFile(file)
            | Op::ReadData { file, .. }
            | Op::WriteData { file, .. }
            | Op::GetXattr(Target::File(file), _)
            | Op::ListXattr(Target::File(file))
            | Op::SetXattr { target: Target::File(file), .. }
            | Op::RemoveXattr(Target::File(file), _) => link(file),
            Op::Lock(ino, _) | Op::Unlock(ino, ..) | Op::TestLock(ino, _) => self.open_link(*ino),
            Op::LockOf(target, _) => self.open_link(target.ino()),
            _ => Ok(()),
        }
    }

    fn list_garbage(&self, ctx: &Ctx<'_>, limit: u32) -> Result<Ran, Stop> {
        let prefix = keys::table(keys::Table::Garbage);
        let limit = (limit as usize).min(GARBAGE_MAX);
        let mut objects = Vec::new();
        if limit == 0 {
            return Ok(Body::Objects(objects).into());
        }
        ctx.scan(&prefix, &keys::after(&prefix), &mut |key, _| {
            if let Some(Ok(id)) = key.get(2..).map(<[u8; 16]>::try_from) {
                objects.push(pando_types::op::ObjectId(u128::from_be_bytes(id)));
            }
            objects.len() < limit
        })?;
        // An object is deleted only after the change that dropped it is durable.
        let need = if objects.is_empty() { Need::Committed } else { Need::Durable };
        #[cfg(feature = "planted")]
        let need =
            if self.is_planted(crate::Planted::GarbageEarly) { Need::Committed } else { need };
        Ok(Ran::Answer(Body::Objects(objects), need))
    }
}
