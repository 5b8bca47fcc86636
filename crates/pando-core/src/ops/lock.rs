//! Locks of programs: `flock` and `fcntl`. They are on the shard that owns the hash slot of the
//! file's ino, wherever the inode is. No rename and no link changes that hash slot
//! (docs/design/file-locks.md).
//!
//! 1. A lock is a row, in the insert group of the request that got it. So it lasts as long as its
//!    session, across restarts and handovers.
//! 2. No two rows of a file exclude each other. Rows of sessions with a freed end do not count, and
//!    are deleted.
//! 3. No request waits here. A client that is refused a lock asks again
//!    ([`Op::TestLock`](pando_types::op::Op::TestLock)).

use alloc::vec::Vec;
use pando_types::op::{FileAt, FileRef, Request, Target};
use pando_types::reply::{Body, Refusal};
use pando_types::{
    Errno, Ino, Lock, LockHolder, LockOwner, LockRange, LockSet, LockSpace, SessionId,
};

use crate::contract::{ClientTag, Halt};
use crate::namespace::perm;
use crate::namespace::program_locks::FILES_MAX;
use crate::records::keys::{self, Table};
use crate::records::record::Record;
use crate::state::ctx::{Ctx, LockChange};
use crate::state::shard::Shard;
use crate::state::stop::{Ran, Stop, bad_key};
use crate::state::txn::plan::{LockOf, Plan};

impl Shard {
    /// Runs [`pando_types::op::Op::Lock`]: takes a lock, or tells the holder of a lock that is in
    /// the way.
    pub(crate) fn lock_file(
        &mut self,
        ctx: &mut Ctx<'_>,
        ino: Ino,
        wanted: &Lock,
        session: SessionId,
    ) -> Result<Body, Stop> {
        check(wanted.range)?;
        if !self.session_lives(session) {
            return Err(Refusal::NoSession.into());
        }
        let sets = self.lock_sets(ctx, ino)?;
        let mine = sets.iter().find(|(of, _)| *of == session);
        let mut set = mine.map(|(_, set)| set.clone()).unwrap_or_default();
        let is_new = set.0.is_empty();
        let in_the_way = in_the_way(&sets, wanted, session);
        if let Some(holder) = in_the_way {
            // As on Linux, a `flock` of the other kind is released before the new one is requested.
            let is_other = |held: &Lock| held.kind != wanted.kind;
            if wanted.space == LockSpace::Flock && set.of(wanted.space, wanted.owner).any(is_other)
            {
                set.clear(wanted.space, wanted.owner, LockRange::ALL);
                put(ctx, ino, session, &set);
            }
            return Ok(Body::Lock(Some(holder)));
        }
        set.put(*wanted);
        let is_full =
            is_new && self.namespace.program_locks.of_session(session).nth(FILES_MAX - 1).is_some();
        if set.0.len() > LockSet::MAX || is_full {
            return Err(Errno::ENOLCK.into());
        }
        put(ctx, ino, session, &set);
        // The position goes with the holder's next requests. No shard that they reach runs anything
        // of the lock's earlier holder any more, if its session ended.
        Ok(Body::Locked(self.sessions_heard()))
    }

    /// Runs [`pando_types::op::Op::LockOf`]: takes a lock for a caller that the shard alone judges.
    pub(crate) fn lock_of(
        &mut self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: &Request,
        (target, wanted): (&Target, &Lock),
        session: SessionId,
    ) -> Result<Ran, Stop> {
        if let Target::File(file @ FileRef { at: FileAt::Link, .. }) = target {
            let (_, inode) = self.find_inode(ctx, file)?;
            perm::check_lock(&inode.attr, &request.credentials, wanted)?;
            return self.lock_file(ctx, file.ino, wanted, session).map(Ran::from);
        }
        let plan = LockOf::new(target.clone(), *wanted, session);
        self.begin(ctx, tag, request, Plan::LockOf(plan))
    }

    /// Runs [`pando_types::op::Op::Unlock`]: releases locks in a range.
    pub(crate) fn unlock_file(
        &mut self,
        ctx: &mut Ctx<'_>,
        ino: Ino,
        (space, owner): (LockSpace, LockOwner),
        range: LockRange,
        session: SessionId,
    ) -> Result<Body, Stop> {
        check(range)?;
        let key = keys::lock(ino, session);
        let Some(mut set) = ctx.load::<LockSet>(&key)? else { return Ok(Body::Done) };
        let before = set.0.len();
        set.clear(space, owner, range);
        // A lock that is cut in the middle becomes two.
        if set.0.len() > LockSet::MAX.max(before) {
            return Err(Errno::ENOLCK.into());
        }
        put(ctx, ino, session, &set);
        Ok(Body::Done)
    }

    /// Runs [`pando_types::op::Op::TestLock`]: tells the holder of a lock that is in the way, if
    /// any.
    pub(crate) fn test_lock(
        &mut self,
        ctx: &Ctx<'_>,
        ino: Ino,
        wanted: &Lock,
        session: SessionId,
    ) -> Result<Body, Stop> {
        check(wanted.range)?;
        let sets = self.lock_sets(ctx, ino)?;
        Ok(Body::Lock(in_the_way(&sets, wanted, session)))
    }

    /// The locks of a file that count, by session.
    fn lock_sets(&self, ctx: &Ctx<'_>, ino: Ino) -> Result<Vec<(SessionId, LockSet)>, Halt> {
        let from = keys::locks_of(ino);
        let mut sets = Vec::new();
        for (key, value) in ctx.rows(&from, &keys::after(&from))? {
            let (_, session) = keys::lock_of(&key).ok_or_else(|| bad_key(Table::Lock))?;
            if self.session_locks(session) {
                sets.push((session, LockSet::decode(&value)?));
            }
        }
        Ok(sets)
    }
}

fn check(range: LockRange) -> Result<(), Stop> {
    if range.is_valid() { Ok(()) } else { Err(Errno::EINVAL.into()) }
}

fn in_the_way(
    sets: &[(SessionId, LockSet)],
    wanted: &Lock,
    session: SessionId,
) -> Option<LockHolder> {
    sets.iter().find_map(|(of, set)| {
        let lock = *set.in_the_way(wanted, *of == session)?;
        Some(LockHolder { session: *of, lock })
    })
}

fn put(ctx: &mut Ctx<'_>, ino: Ino, session: SessionId, set: &LockSet) {
    let is_there = !set.0.is_empty();
    if is_there {
        ctx.put(keys::lock(ino, session), set.encode());
    } else {
        ctx.delete(keys::lock(ino, session));
    }
    ctx.change_lock(LockChange { session, ino, is_there });
}
