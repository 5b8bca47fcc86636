//! A change of a lent part, run alike by its holder and by its shard.

use pando_types::op::{Op, Request};
use pando_types::reply::Body;
use pando_types::{Ino, KeyId, SessionId};

use crate::contract::ClientTag;
use crate::grants::digest::digest;
use crate::state::ctx::Ctx;
use crate::state::lock_key::LockKey;
use crate::state::shard::Shard;
use crate::state::stop::{Ran, Stop};

/// What a run came to.
#[derive(Debug)]
pub struct Change {
    pub body: Body,
    /// The inode that it has made; 0: none.
    pub made: Ino,
    /// Digest of what it wrote.
    pub digest: u64,
}

impl Shard {
    /// Runs an operation over lent parts. [`Stop::Wait`]: it needs more than these, or a
    /// transaction. Until it ends it has only read and collected its changes, so discarding them
    /// undoes it.
    pub(crate) fn run_lent(
        &mut self,
        ctx: &mut Ctx<'_>,
        session: SessionId,
        request: &Request,
    ) -> Result<Change, Stop> {
        let given = ctx.lent.as_ref().and_then(|lent| lent.ino);
        // Nobody is told by this tag: what would answer later ends beyond.
        let tag = ClientTag(0, KeyId::OWNER);
        let ran = match &request.op {
            Op::Unlink(dir, name) => self.unlink(ctx, tag, request, *dir, name)?,
            Op::Rename { .. } => self.rename(ctx, tag, request)?,
            Op::DirSetAttr(..) => self.dir_setattr(ctx, tag, request)?,
            _ => self.answer_here(ctx, session, request).map(Ran::from)?,
        };
        let Ran::Answer(body, _) = ran else { return Err(Stop::Wait(LockKey::Beyond)) };
        // A removal in steps would lock a name.
        if ctx.has_shreds() {
            return Err(Stop::Wait(LockKey::Beyond));
        }
        let left = ctx.lent.as_ref().and_then(|lent| lent.ino);
        let made = if left == given { Ino(0) } else { given.unwrap_or(Ino(0)) };
        Ok(Change { body, made, digest: digest(ctx)? })
    }

    /// The number of a new inode: of a lent part, one that its holder was given.
    pub(crate) fn new_ino(&mut self, ctx: &mut Ctx<'_>) -> Result<Ino, Stop> {
        match &mut ctx.lent {
            None => Ok(self.numbers.ino(ctx)),
            Some(lent) => lent.ino.take().ok_or(Stop::Wait(LockKey::Beyond)),
        }
    }
}
