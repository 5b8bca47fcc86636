//! Applies the changes of a decision at one participant. Nothing here can fail, as all was checked
//! under the lock.

use pando_types::peer::{Change, EntryRows, EntryValue, Inode, InodeRows};
use pando_types::reply::Access;
use pando_types::{DirRef, Ino, Name, Timestamp};

use crate::contract::Halt;
use crate::namespace::inode::{self, Loc};
use crate::namespace::names::{self, FoundEntry, is_dir};
use crate::records::keys::{self, Kind};
use crate::records::record::{Content, Header, LinkedName, OpenAt, Record};
use crate::state::ctx::Ctx;
use crate::state::namespace::shreds::Under;
use crate::state::shard::Shard;
use crate::state::stop::{Stop, broken};

/// Turns a refusal or a wait into a fault: under a lock neither can happen.
fn settled<T>(result: Result<T, Stop>) -> Result<T, Halt> {
    result.map_err(|stop| match stop {
        Stop::Halt(halt) => halt,
        Stop::Refuse(refusal) => {
            Halt::Broken(alloc::format!("a decision was refused: {refusal:?}"))
        }
        Stop::Wait(key) => Halt::Broken(alloc::format!("a decision had to wait for {key:?}")),
    })
}

/// What becomes of the entry that was at a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gone {
    /// The entry is removed, with its inode.
    ForGood,
    /// The entry is removed, and another one takes its place at once. The new rows must not lie
    /// among those that are removed.
    ForAnother,
    /// The entry has moved elsewhere.
    Elsewhere,
}

impl Shard {
    pub(crate) fn apply(&mut self, ctx: &mut Ctx<'_>, change: &Change) -> Result<(), Halt> {
        self.note_change(ctx, change);
        match change {
            Change::RemoveEntry { dir, name, destroy, at } => {
                ctx.time = ctx.time_after(*at);
                self.remove_entry(ctx, *dir, name, *destroy)
            }
            Change::PutEntry { dir, name, entry, destroy, at } => {
                ctx.time = ctx.time_after(*at);
                self.put_entry(ctx, *dir, name, entry, *destroy)
            }
            Change::SetAccess { dir, name, access } => self.set_access(ctx, *dir, name, *access),
            Change::NewHome { dir, base, parent, name } => {
                if self.content(ctx, *dir).is_err() {
                    self.put_new_home(ctx, *dir, base.clone(), *parent, name);
                }
                Ok(())
            }
            Change::NewLentHome { dir, base, parent, name, birth } => {
                if self.content(ctx, *dir).is_err() {
                    self.put_new_home(ctx, *dir, base.clone(), *parent, name);
                    if birth.home == self.config.shard {
                        self.lend_at_birth(ctx, *dir, *birth);
                    }
                }
                Ok(())
            }
            Change::SetParent { dir, parent, name, at } => {
                let mut content = settled(self.content(ctx, *dir))?;
                (content.parent, content.name) = (*parent, Some(name.clone()));
                content.base.ctime = ctx.time_after(content.base.ctime).max(ctx.time_after(*at));
                content.base.change += 1;
                self.put_content(ctx, dir.id, &content);
                Ok(())
            }
            Change::SetBase { dir, base, generation } => {
                let mut content = settled(self.content(ctx, *dir))?;
                (content.base, content.generation) = (base.clone(), *generation);
                self.put_content(ctx, dir.id, &content);
                Ok(())
            }
            Change::SetHeader { dir, partition, inherit, generation } => {
                let mut header = self.held_header(ctx, *dir, *partition)?;
                header.inherit = *inherit;
                if *generation > header.generation {
                    (header.generation, header.mtime) = (*generation, Timestamp::default());
                }
                ctx.set_header(dir.id, header);
                Ok(())
            }
            Change::DropHome { dir, tombstone } => self.drop_home(ctx, *dir, *tombstone),
            Change::DropPartition { dir, partition } => {
                let header = self.held_header(ctx, *dir, *partition)?;
                ctx.drop_header(dir.id, header.range().start);
                Ok(())
            }
            Change::Bury(dir) => self.bury(ctx, *dir),
            Change::PutLink { inode, rows, names } => self.put_link(ctx, inode, rows, names),
            Change::AddName { ino, dir, name, at } => self.add_name(ctx, *ino, *dir, name, *at),
            Change::DropName { ino, dir, name, at } => self.drop_name(ctx, *ino, *dir, name, *at),
            Change::Own { dir, partition } => self.own_arrived(ctx, *dir, *partition),
            Change::OwnHashSlot(news) => self.own_hash_slot(ctx, *news),
            Change::Join(sessions) => self.join(ctx, sessions),
        }
    }

    fn remove_entry(
        &mut self,
        ctx: &mut Ctx<'_>,
        dir: DirRef,
        name: &Name,
        destroy: bool,
    ) -> Result<(), Halt> {
        let (header, found) = self.locked_entry(ctx, dir, name)?;
        let found =
            found.ok_or_else(|| broken("an entry that a transaction had locked is gone"))?;
        let gone = if destroy { Gone::ForGood } else { Gone::Elsewhere };
        self.take_out(ctx, dir, name, (&header, &found), gone)
    }

    fn set_access(
        &mut self,
        ctx: &mut Ctx<'_>,
        dir: DirRef,
        name: &Name,
        access: Access,
    ) -> Result<(), Halt> {
        match self.locked_entry(ctx, dir, name)?.1 {
            Some(found) if is_dir(&found.value, access.dir) => {
                names::update(ctx, dir.id, &found, name, EntryValue::Dir(access));
                Ok(())
            }
            _ => Err(broken("an entry that a transaction had locked is gone")),
        }
    }

    /// Frees the id of a removed directory.
    fn bury(&self, ctx: &mut Ctx<'_>, dir: DirRef) -> Result<(), Halt> {
        let key = keys::dir(dir.id, Kind::Content, 0);
        // After a loss of power, this change and the next life of the id may be decided again, in
        // any order.
        let content: Option<Content> = ctx.load(&key)?;
        let is_its_own = content.is_some_and(|content| content.base.ino == dir.ino);
        #[cfg(feature = "planted")]
        let is_its_own = is_its_own || self.is_planted(crate::Planted::BuriesAnother);
        if is_its_own {
            ctx.delete(key);
        }
        Ok(())
    }

    fn locked_entry(
        &mut self,
        ctx: &Ctx<'_>,
        dir: DirRef,
        name: &Name,
    ) -> Result<(Header, Option<FoundEntry>), Halt> {
        let order = self.order(name);
        let header = settled(self.find_header(ctx, dir, order))?;
        Ok((header, names::find(ctx, dir.id, order, name)?))
    }

    fn take_out(
        &mut self,
        ctx: &mut Ctx<'_>,
        dir: DirRef,
        name: &Name,
        (header, found): (&Header, &FoundEntry),
        gone: Gone,
    ) -> Result<(), Halt> {
        if let EntryValue::File(inode) = &found.value {
            let loc = Loc::of_entry(dir.id, found, name);
            match gone {
                Gone::ForGood => self.drop_file(ctx, &loc, inode, Under::Its)?,
                Gone::Elsewhere => inode::drop_rows(ctx, &loc, inode, inode::Objects::Moved)?,
                Gone::ForAnother => inode::drop_rows(ctx, &loc, inode, inode::Objects::Garbage)?,
            }
            self.clear_opens(ctx, inode.attr.ino, loc.open_at());
        }
        let subdirs = i64::from(matches!(found.value, EntryValue::Dir(_)));
        names::remove(ctx, dir.id, found)?;
        names::count(ctx, dir.id, header, -1, -subdirs);
        Ok(())
    }

    fn put_entry(
        &mut self,
        ctx: &mut Ctx<'_>,
        dir: DirRef,
        name: &Name,
        entry: &EntryRows,
        destroy: bool,
    ) -> Result<(), Halt> {
        let (header, found) = self.locked_entry(ctx, dir, name)?;
        if let Some(found) = found {
            if let (EntryValue::File(inode), EntryValue::Linked(ino, _)) =
                (&found.value, &entry.value)
                && inode.attr.ino == *ino
            {
                // The inode moves to its link shard. The name stays, and the directory does not
                // change.
                let loc = Loc::of_entry(dir.id, &found, name);
                inode::drop_rows(ctx, &loc, inode, inode::Objects::Moved)?;
                self.clear_opens(ctx, *ino, loc.open_at());
                names::update(ctx, dir.id, &found, name, entry.value.clone());
                return Ok(());
            }
            let gone = if destroy { Gone::ForAnother } else { Gone::Elsewhere };
            self.take_out(ctx, dir, name, (&header, &found), gone)?;
        }
        match &entry.value {
            EntryValue::File(inode) => {
                let rows = &entry.inode;
                let ino = inode.attr.ino;
                let put = self.put_file_entry(ctx, dir, name, &header, inode.clone(), rows);
                let loc = settled(put)?;
                self.place_opens(ctx, ino, &rows.opens, loc.open_at());
            }
            value => {
                let subdirs = i64::from(matches!(value, EntryValue::Dir(_)));
                settled(names::insert(ctx, dir.id, self.order(name), name, value.clone()))?;
                names::count(ctx, dir.id, &header, 1, subdirs);
            }
        }
        Ok(())
    }

    fn drop_home(&mut self, ctx: &mut Ctx<'_>, dir: DirRef, tombstone: bool) -> Result<(), Halt> {
        #[cfg(feature = "planted")]
        let tombstone = tombstone && !self.is_planted(crate::Planted::TombstoneLost);
        ctx.delete(keys::dir(dir.id, Kind::DirXattr, 0));
        ctx.stat.0 -= 1;
        if tombstone {
            let mut content = settled(self.content(ctx, dir))?;
            content.tombstone = true;
            self.put_content(ctx, dir.id, &content);
        } else {
            ctx.delete(keys::dir(dir.id, Kind::Content, 0));
        }
        Ok(())
    }

    fn put_link(
        &mut self,
        ctx: &mut Ctx<'_>,
        inode: &Inode,
        rows: &InodeRows,
        names: &[(DirRef, Name)],
    ) -> Result<(), Halt> {
        let ino = inode.attr.ino;
        let loc = Loc::Link(ino);
        let alive = rows.opens.iter().any(|(session, _)| self.session_lives(*session));
        if inode.attr.nlink == 0 && !alive {
            for slice in &rows.slices {
                inode::put_garbage(ctx, slice.range.object);
            }
            return Ok(());
        }
        ctx.stat.0 += 1;
        ctx.add_bytes(inode.attr.size.cast_signed());
        inode::put(ctx, &loc, inode);
        inode::put_rows(ctx, &loc, rows);
        for (dir, name) in names {
            put_name(ctx, ino, *dir, name);
        }
        self.place_opens(ctx, ino, &rows.opens, OpenAt::Link);
        Ok(())
    }

    fn locked_link(&self, ctx: &Ctx<'_>, ino: Ino) -> Result<Inode, Halt> {
        self.link_inode(ctx, ino)?
            .ok_or_else(|| broken("an inode that a transaction had locked is gone"))
    }

    fn add_name(
        &mut self,
        ctx: &mut Ctx<'_>,
        ino: Ino,
        dir: DirRef,
        name: &Name,
        at: Timestamp,
    ) -> Result<(), Halt> {
        let mut inode = self.locked_link(ctx, ino)?;
        inode.attr.nlink += 1;
        #[cfg(feature = "planted")]
        if self.is_planted(crate::Planted::LinkNotCounted) {
            inode.attr.nlink -= 1;
        }
        inode.attr.ctime = at;
        inode.attr.change += 1;
        inode::put(ctx, &Loc::Link(ino), &inode);
        put_name(ctx, ino, dir, name);
        Ok(())
    }

    fn drop_name(
        &mut self,
        ctx: &mut Ctx<'_>,
        ino: Ino,
        dir: DirRef,
        name: &Name,
        at: Timestamp,
    ) -> Result<(), Halt> {
        let mut inode = self.locked_link(ctx, ino)?;
        ctx.delete(keys::link_name(ino, dir.id, name.as_bytes()));
        inode.attr.nlink -= 1;
        inode.attr.ctime = at;
        inode.attr.change += 1;
        if inode.attr.nlink == 0 && !self.namespace.opens.any(ino) {
            return self.destroy_link(ctx, &inode, Under::Its);
        }
        inode::put(ctx, &Loc::Link(ino), &inode);
        Ok(())
    }
}

fn put_name(ctx: &mut Ctx<'_>, ino: Ino, dir: DirRef, name: &Name) {
    let record = LinkedName { dir, name: name.clone() };
    ctx.put(keys::link_name(ino, dir.id, name.as_bytes()), record.encode());
}
