//! Removal of files with very many slices. A removal must fit into the log space that a full disk
//! keeps for removals. So its insert group does all but delete the slices, and a record says that
//! these go. They are deleted in steps, one per tick, each of at most
//! [`Config::shred_slices`](crate::Config) slices.
//!
//! 1. The client is answered as soon as the record is written. After a restart the steps go on.
//! 2. Until the last step, the name's order or the inode stays locked. So no new file gets slices
//!    among those that go, and no partition or hash slot with them moves. A lookup does not wait
//!    for this lock: it hears at once that the file is gone.
//! 3. A block that cannot be read is tried again for a minute. Then the remaining slices are
//!    deleted unread, and their objects are left to fsck. A name that is locked for ever would be
//!    worse.
//! 4. The objects of a file are its own. An object that several slices name may become garbage
//!    before the last of these slices is gone: no request reads them any more.

use alloc::vec::Vec;
use pando_types::peer::Inode;
use pando_types::reply::Slice;
use pando_types::{Order, TxnId};

use crate::contract::Halt;
use crate::namespace::inode::{self, Loc};
use crate::records::keys::{self, Kind, Table};
use crate::records::record::{OpenAt, Record, Shred};
use crate::state::ctx::Ctx;
use crate::state::lock_key::{Hold, LockKey};
use crate::state::namespace::shreds::Under;
use crate::state::shard::Shard;

/// Slices that each of many removed files may lose at once. They take no more room than the record
/// of a removal in steps would.
const SLICES_OF_MANY: usize = 2;
/// Files of which the next step is tried in one tick, until one step succeeds.
const TRIES: usize = 8;

impl Shred {
    fn lock(self) -> LockKey {
        match self.at {
            OpenAt::Name(dir, order) => LockKey::Name(dir, Order(order).base().0),
            OpenAt::Link => LockKey::Link(self.ino),
        }
    }
}

impl Shard {
    /// Removes a file for good, with all rows beside its inode. Slices that are too many are
    /// deleted later, in steps.
    pub(crate) fn drop_file(
        &self,
        ctx: &mut Ctx<'_>,
        loc: &Loc,
        file: &Inode,
        under: Under,
    ) -> Result<(), Halt> {
        let shred = Shred { ino: file.attr.ino, at: loc.open_at() };
        let is_lockable = match under {
            Under::Nothing | Under::NothingOfMany => self.locks.free(shred.lock()).is_ok(),
            Under::Its => self.locks.is_last(shred.lock()),
        };
        let most = match under {
            Under::NothingOfMany => self.config.shred_slices.min(SLICES_OF_MANY),
            Under::Nothing | Under::Its => self.config.shred_slices,
        };
        if file.is_inline || !is_lockable || !self.has_more(ctx, loc, most)? {
            return inode::drop_rows(ctx, loc, file, inode::Objects::Garbage);
        }
        let slices = loc.key(Kind::Slice);
        ctx.put(keys::shred(&slices), shred.encode());
        ctx.change_shred(slices, Some(shred));
        inode::drop_others(ctx, loc, file);
        Ok(())
    }

    fn has_more(&self, ctx: &Ctx<'_>, loc: &Loc, most: usize) -> Result<bool, Halt> {
        let mut count = 0;
        inode::visit_slices(ctx, loc, 0, u64::MAX, &mut |_| {
            count += 1;
            count <= most
        })?;
        Ok(count > most)
    }

    /// The owner of the locks of removals in steps: no transaction has its number. Lookups need not
    /// wait for its locks.
    pub(crate) fn shredder(&self) -> TxnId {
        TxnId { shard: self.config.shard, number: 0 }
    }

    /// Takes over the removals in steps that an input began or finished.
    pub(crate) fn update_shreds(&mut self, changes: Vec<(Vec<u8>, Option<Shred>)>) {
        for (slices, change) in changes {
            if let Some(shred) = change {
                self.locks.take(shred.lock(), self.shredder(), Hold::Plain);
                self.namespace.shreds.begin(slices, shred);
            } else if let Some(shred) = self.namespace.shreds.end(&slices) {
                self.queue.resume(self.locks.release(shred.lock(), self.shredder()));
            }
        }
    }

    /// Loads the removals in steps from their records, at the start.
    pub(crate) fn load_shreds(&mut self, ctx: &Ctx<'_>) -> Result<(), Halt> {
        let prefix = keys::table(Table::Shred);
        let mut found = Vec::new();
        for (key, value) in ctx.rows(&prefix, &keys::after(&prefix))? {
            found.push((key[prefix.len()..].to_vec(), Some(Shred::decode(&value)?)));
        }
        self.update_shreds(found);
        Ok(())
    }

    /// Runs the next step, if one is due. A step that cannot be read does not hold up the next few.
    pub(crate) fn shred_on(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Halt> {
        let now = ctx.now.nanos;
        for slices in self.namespace.shreds.due(now, TRIES) {
            match self.shred_step(ctx, &slices) {
                Err(Halt::Unreadable(_)) => {}
                done => {
                    self.namespace.shreds.note_readable(&slices);
                    return done;
                }
            }
            if self.namespace.shreds.note_unreadable(&slices, now) {
                Self::drop_slices(ctx, slices, None);
                return Ok(());
            }
        }
        Ok(())
    }

    fn shred_step(&self, ctx: &mut Ctx<'_>, slices: &[u8]) -> Result<(), Halt> {
        let (mut objects, mut rest) = (Vec::new(), None);
        let most = self.config.shred_slices;
        let mut bad = None;
        ctx.scan(slices, &keys::after(slices), &mut |key, value| {
            if objects.len() == most {
                rest = Some(key.to_vec());
                return false;
            }
            match Slice::decode(value) {
                Ok(slice) => objects.push(slice.range.object),
                Err(halt) => bad = Some(halt),
            }
            bad.is_none()
        })?;
        if let Some(halt) = bad {
            return Err(halt);
        }
        objects.dedup();
        for object in objects {
            inode::put_garbage(ctx, object);
        }
        Self::drop_slices(ctx, slices.to_vec(), rest);
        Ok(())
    }

    /// Deletes the slices up to `rest`, or all of them and the record of the removal if `rest` is
    /// `None`.
    fn drop_slices(ctx: &mut Ctx<'_>, slices: Vec<u8>, rest: Option<Vec<u8>>) {
        if let Some(rest) = rest {
            return ctx.delete_range(slices, rest);
        }
        ctx.delete_range(slices.clone(), keys::after(&slices));
        ctx.delete(keys::shred(&slices));
        ctx.change_shred(slices, None);
    }
}
