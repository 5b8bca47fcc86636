//! Index of the files of which each session has program locks on this shard, for the end of a
//! session. The locks themselves are rows ([`keys::lock`]), and are read when they are needed.

use pando_types::HashSlot;

use crate::contract::Halt;
use crate::records::keys::{self, Table};
use crate::state::ctx::{Ctx, LockChange};
use crate::state::shard::Shard;
use crate::state::stop::bad_key;

/// Most files of which one session may have locks on one shard.
pub const FILES_MAX: usize = 1 << 16;

impl Shard {
    /// Loads the index from the rows of locks, at the start. Locks of a hash slot that is on its
    /// way here are left out until this shard owns the hash slot.
    pub(crate) fn load_locked(&mut self, ctx: &Ctx<'_>) -> Result<(), Halt> {
        let prefix = keys::table(Table::Lock);
        let mut bad = false;
        let (map, own) = (&self.config.map, self.config.shard);
        let locked = &mut self.namespace.program_locks;
        ctx.scan(&prefix, &keys::after(&prefix), &mut |key, _| {
            match keys::lock_of(key) {
                Some((ino, session)) if map.hash_slot_owner(ino.hash_slot()) == own => {
                    locked.load(session, ino);
                }
                Some(_) => {}
                None => bad = true,
            }
            !bad
        })?;
        if bad { Err(bad_key(Table::Lock)) } else { Ok(()) }
    }

    /// Deletes the locks of all files of a hash slot that another shard owns from now on.
    pub(crate) fn forget_locks(&self, ctx: &mut Ctx<'_>, hash_slot: HashSlot) {
        let (from, to) = keys::hash_slot_locks(hash_slot);
        ctx.delete_range(from, to);
        for (session, ino) in self.namespace.program_locks.of_hash_slot(hash_slot) {
            ctx.change_lock(LockChange { session, ino, is_there: false });
        }
    }

    /// Takes over the locks of all files of a hash slot that this shard owns from now on. Locks of
    /// ended sessions are kept until nothing of these sessions runs anywhere.
    pub(crate) fn own_locks(&mut self, ctx: &mut Ctx<'_>, hash_slot: HashSlot) -> Result<(), Halt> {
        let (from, to) = keys::hash_slot_locks(hash_slot);
        for (key, _) in ctx.rows(&from, &to)? {
            let (ino, session) = keys::lock_of(&key).ok_or_else(|| bad_key(Table::Lock))?;
            #[cfg(feature = "planted")]
            if self.is_planted(crate::Planted::LocksNotHandedOver) {
                ctx.delete(key);
                continue;
            }
            self.keep_what_is_left(ctx, session);
            ctx.change_lock(LockChange { session, ino, is_there: true });
        }
        Ok(())
    }
}
