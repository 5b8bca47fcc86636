//! What shards change in lent parts for their holder, while these are here
//! (docs/design/under-a-loan.md).

use core::num::NonZeroU64;
use pando_types::lend::{Amendment, LentRow, UnderLoan};
use pando_types::op::Op;
use pando_types::peer::EntryValue;
use pando_types::reply::Access;
use pando_types::{DirRef, Name, TxnId};

use crate::contract::{Halt, Now, Rows, Write};
use crate::lent::core::LentCore;
use crate::namespace::names::{self, is_dir};
use crate::records::keys::{self, Kind};
use crate::records::record::{Header, Record};
use crate::state::ctx::Ctx;

impl LentCore {
    /// The loan under which a request travels that changes a name in a part, or owner and mode of
    /// its directory. The part need not be given back. `None`: it has to be.
    #[must_use]
    pub fn under(&self, op: &Op) -> Option<UnderLoan> {
        let grant = match op {
            Op::Mkdir(dir, name, _) | Op::Rmdir(dir, name) => self.holds((*dir, name))?,
            Op::DirSetAttr(..) => self.part_of(op)?,
            _ => return None,
        };
        let part = &self.parts[&grant];
        // It is to split.
        let is_grown = matches!(op, Op::Mkdir(..)) && self.is_grown(part.generation);
        (!is_grown).then_some(UnderLoan {
            grant: part.generation,
            next: NonZeroU64::MIN.saturating_add(part.number),
            amendments: part.amended,
        })
    }

    /// Takes in what a request under a loan has changed. Its holder answers nothing from that part
    /// meanwhile.
    pub fn amend(&mut self, amendment: Amendment) -> Result<(), Halt> {
        let Some(part) = self.parts.get_mut(&amendment.grant) else { return Ok(()) };
        part.amended += 1;
        let dir = part.dir.id;
        for LentRow(key, value) in amendment.rows {
            if keys::kind_of(&key) == Some(Kind::Header as u8) {
                let mut header = Header::decode(&value)?;
                let held = Rows::get(&self.store, &key)?;
                let held = held.map(|bytes| Header::decode(&bytes)).transpose()?;
                // The shard may have taken its own time instead of a later one that was shown. A
                // time that was set begins a new generation.
                let held = held.filter(|held| held.generation == header.generation);
                header.mtime = held.map_or(header.mtime, |held| held.mtime.max(header.mtime));
                self.store.apply(Write::Put(key, header.encode()));
                self.shard.namespace.dirs.update(&[(dir, header)], &[]);
                continue;
            }
            let write = if value.is_empty() { Write::Delete(key) } else { Write::Put(key, value) };
            self.store.apply(write);
        }
        Ok(())
    }

    /// Whether a part has the entry of a directory.
    #[must_use]
    pub fn has_entry(&self, now: Now, grant: TxnId, name: &Name, dir: DirRef) -> bool {
        let order = self.shard.order(name);
        let part = self.parts.get(&grant).filter(|it| it.is_whole && it.orders.contains(&order.0));
        let Some(part) = part else { return false };
        let ctx = Ctx::new(now, &self.store);
        let found = names::find(&ctx, part.dir.id, order, name);
        found.is_ok_and(|found| found.is_some_and(|found| is_dir(&found.value, dir)))
    }

    /// Takes in the owner and mode of a directory whose entry is in a part. False: they are not
    /// taken in, and the part has to be given back.
    pub fn set_access(
        &mut self,
        now: Now,
        grant: TxnId,
        name: &Name,
        access: Access,
    ) -> Result<bool, Halt> {
        let order = self.shard.order(name);
        let part = self.parts.get(&grant).filter(|part| part.orders.contains(&order.0));
        let Some(dir) = part.map(|part| part.dir.id) else { return Ok(false) };
        let mut ctx = Ctx::new(now, &self.store);
        let found = names::find(&ctx, dir, order, name)?;
        let Some(found) = found.filter(|found| is_dir(&found.value, access.dir)) else {
            return Ok(false);
        };
        names::update(&mut ctx, dir, &found, name, EntryValue::Dir(access));
        let done = ctx.finish();
        for write in done.writes {
            self.store.apply(write);
        }
        Ok(true)
    }
}
