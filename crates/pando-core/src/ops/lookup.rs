//! Lookup: what a name leads to. Glimpse: lookups of many guessed components of a path.

use alloc::vec::Vec;
use pando_types::op::{GLIMPSE_LEAVES_MAX, Request};
use pando_types::peer::EntryValue;
use pando_types::reply::{Body, Found, Refusal};
use pando_types::{Credentials, DirId, DirRef, Errno, Glimpse, Ino, Name, Order};

use crate::namespace::{names, perm};
use crate::state::ctx::Ctx;
use crate::state::lock_key::LockKey;
use crate::state::shard::Shard;
use crate::state::stop::Stop;

/// What a lookup answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// What the name leads to.
    Plain,
    /// Also who may search the directory, for a caller that remembers paths.
    ForPath,
}

impl Answer {
    pub(crate) const fn to(request: &Request) -> Self {
        if request.trail.is_some() { Self::ForPath } else { Self::Plain }
    }
}

impl Shard {
    pub(crate) fn lookup(
        &mut self,
        ctx: &Ctx<'_>,
        dir: DirRef,
        name: &Name,
        credentials: &Credentials,
        answer: Answer,
    ) -> Result<Body, Stop> {
        let order = self.order(name);
        let header = self.own(ctx, dir, order)?;
        perm::check_dir(&header.inherit, credentials, perm::X)?;
        self.locks.free_for(LockKey::Name(dir.id, order.0), self.shredder())?;
        match names::find(ctx, dir.id, order, name)? {
            Some(entry) if answer == Answer::ForPath => {
                Ok(Body::Entry(found(entry.value), perm::search(&header.inherit)))
            }
            Some(entry) => Ok(Body::Found(found(entry.value))),
            None => Err(Errno::ENOENT.into()),
        }
    }
}

impl Shard {
    /// Looks up components of a path by guessed ids of directories. A component that would have to
    /// wait, or is refused, gives `Nothing`. One that is on another shard gives what is known of
    /// the place.
    pub(crate) fn glimpse(
        &mut self,
        ctx: &Ctx<'_>,
        places: &[(DirId, Name)],
        credentials: &Credentials,
    ) -> Result<Body, Stop> {
        let mut seen = Vec::with_capacity(places.len());
        let mut leaves = 0;
        for (id, name) in places {
            seen.push(match self.glimpse_one(ctx, *id, name, credentials) {
                Ok(Glimpse::Elsewhere(_, history))
                    if leaves + history.leaves.len() > GLIMPSE_LEAVES_MAX =>
                {
                    Glimpse::Nothing
                }
                Ok(glimpse) => {
                    if let Glimpse::Elsewhere(_, history) = &glimpse {
                        leaves += history.leaves.len();
                    }
                    glimpse
                }
                Err(Stop::Halt(halt)) => return Err(halt.into()),
                Err(Stop::Refuse(Refusal::AskHome)) => Glimpse::AskHome,
                Err(Stop::Refuse(Refusal::HashSlot(news))) => Glimpse::Moved(news),
                Err(_) => Glimpse::Nothing,
            });
        }
        Ok(Body::Glimpses(seen))
    }

    fn glimpse_one(
        &mut self,
        ctx: &Ctx<'_>,
        id: DirId,
        name: &Name,
        credentials: &Credentials,
    ) -> Result<Glimpse, Stop> {
        let first = self.headers(ctx, id)?.into_iter().next();
        // Without a header here, there is no ino to compare.
        let dir = DirRef { id, ino: first.as_ref().map_or(Ino(0), |header| header.ino) };
        match (self.lookup(ctx, dir, name, credentials, Answer::ForPath), first) {
            (Ok(Body::Entry(Found::Dir(access), search)), _) => {
                Ok(Glimpse::Dir { dir: dir.ino, search, access })
            }
            (Ok(_), _) => Ok(Glimpse::Nothing),
            // A caller without search permission must not learn the partitions: the name's owner
            // would refuse it. The permissions in the partition that is here decide.
            (Err(Stop::Refuse(Refusal::Redirect(history))), Some(first)) => {
                let header = self.own(ctx, dir, Order(first.range().start))?;
                perm::check_dir(&header.inherit, credentials, perm::X)?;
                Ok(Glimpse::Elsewhere(dir.ino, history))
            }
            (Err(stop), _) => Err(stop),
        }
    }
}

/// An entry, as replies to clients show it.
pub fn found(value: EntryValue) -> Found {
    match value {
        EntryValue::File(inode) => Found::File(inode.attr),
        EntryValue::Linked(ino, kind) => Found::Linked(ino, kind),
        EntryValue::Dir(access) => Found::Dir(access),
    }
}
