//! Which sessions have which inodes open. Opens are durable records
//! (docs/decisions/opens-are-records.md). Each open costs a write. But after a restart no client
//! claims its opens again, and there is no grace period.
//!
//! A client in this process ([`SessionId::is_local`]) ends with its shard, and has nothing open
//! after a restart. So its opens have records only at a link shard. There the inode may have no
//! name, and the record keeps it from being forgotten.

use pando_types::lend::PartOpen;
use pando_types::{DirId, Ino, SessionId};

use crate::records::keys;
use crate::records::record::{Holders, Open, OpenAt, Record};
use crate::state::ctx::{Ctx, OpenChange};
use crate::state::shard::Shard;

impl Shard {
    fn set_open(&self, ctx: &mut Ctx<'_>, ino: Ino, session: SessionId, count: u32, at: OpenAt) {
        let is_noted = !session.is_local() || at == OpenAt::Link;
        if count == 0 {
            if is_noted {
                ctx.delete(keys::open(ino, session));
            }
            ctx.change_open(OpenChange::Clear(ino, session));
        } else {
            if is_noted {
                ctx.put(keys::open(ino, session), Open { count, at }.encode());
            }
            ctx.change_open(OpenChange::Set(ino, session, count, at));
        }
    }

    /// Adds an open of an inode that is on this shard.
    pub(crate) fn add_open(&self, ctx: &mut Ctx<'_>, ino: Ino, session: SessionId, at: OpenAt) {
        if ctx.runs_element() {
            return;
        }
        let count = self.namespace.opens.count_of(ino, session).saturating_add(1);
        self.set_open(ctx, ino, session, count, at);
    }

    /// Whether a file is open, for who removes or replaces it. The holder of a lent part has
    /// answered only for a file that it does not have open, whatever is recorded here.
    pub(crate) fn is_open(&self, ctx: &Ctx<'_>, ino: Ino, session: SessionId) -> bool {
        match ctx.runs_element() {
            true => self.namespace.opens.by_others(ino, session),
            false => self.namespace.opens.any(ino),
        }
    }

    /// Forgets what is recorded of a file that the holder of a lent part has removed.
    pub(crate) fn forget_opens(&self, ctx: &mut Ctx<'_>, ino: Ino) {
        if ctx.runs_element()
            && let Some(at) = self.namespace.opens.place(ino)
        {
            self.clear_opens(ctx, ino, at);
        }
    }

    /// Forgets that a session has an inode open.
    pub(crate) fn clear_open(&self, ctx: &mut Ctx<'_>, session: SessionId, ino: Ino) {
        if let Some(at) = self.namespace.opens.place(ino) {
            self.set_open(ctx, ino, session, 0, at);
        }
    }

    /// Sets what a session has open at an order of a part that comes back.
    pub(crate) fn put_open(
        &self,
        ctx: &mut Ctx<'_>,
        session: SessionId,
        open: PartOpen,
        dir: DirId,
    ) {
        self.set_open(ctx, open.ino, session, open.count, OpenAt::Name(dir, open.order.0));
    }

    /// Removes one open of an inode that has a name.
    pub(crate) fn close_one(&self, ctx: &mut Ctx<'_>, ino: Ino, session: SessionId, at: OpenAt) {
        if let Some(count) = self.namespace.opens.count_of(ino, session).checked_sub(1) {
            self.set_open(ctx, ino, session, count, at);
        }
    }

    /// Removes one open. Returns the sessions that still have the inode open.
    pub(crate) fn drop_open(
        &self,
        ctx: &mut Ctx<'_>,
        ino: Ino,
        session: SessionId,
        at: OpenAt,
    ) -> Holders {
        let mut holders = self.namespace.opens.holders(ino);
        if let Some((_, count)) = holders.iter_mut().find(|(s, _)| *s == session) {
            *count -= 1;
            let count = *count;
            self.set_open(ctx, ino, session, count, at);
        }
        holders.retain(|(_, count)| *count > 0);
        holders
    }

    /// Records that all opens of an inode are at this place now. Sessions that are over are left
    /// out.
    pub(crate) fn place_opens(&self, ctx: &mut Ctx<'_>, ino: Ino, holders: &Holders, at: OpenAt) {
        for (session, count) in holders {
            if self.session_lives(*session) {
                self.set_open(ctx, ino, *session, *count, at);
            }
        }
    }

    /// Removes the opens of an inode that has left this place. They stay if they are recorded at
    /// another place by now: the new place may have heard of the move first.
    pub(crate) fn clear_opens(&self, ctx: &mut Ctx<'_>, ino: Ino, from: OpenAt) {
        if ctx.open_place(ino).or_else(|| self.namespace.opens.place(ino)) != Some(from) {
            return;
        }
        for (session, _) in self.namespace.opens.holders(ino) {
            self.set_open(ctx, ino, session, 0, from);
        }
    }
}
