//! Operations that may span several places. If one shard owns all of them and no lock is in the
//! way, they run at once, in one insert group. Otherwise a transaction runs them.

use pando_types::lend::Birth;
use pando_types::op::{Op, Request};
use pando_types::peer::{EntryValue, Inode, InodeRows};
use pando_types::reply::{Access, Body};
use pando_types::{Attr, Credentials, DirRef, Errno, FileKind, Name, Search, SessionId};

use crate::contract::ClientTag;
use crate::namespace::attrs::{Left, apply, moved, new_dir_attr};
use crate::namespace::inode::{self, Loc};
use crate::namespace::names::{self, FoundEntry};
use crate::namespace::perm::{self, Inherited};
use crate::records::format::{first_content, first_header, new_dir};
use crate::records::keys::{self, Kind};
use crate::records::record::{Header, Record};
use crate::state::ctx::Ctx;
use crate::state::lock_key::LockKey;
use crate::state::namespace::shreds::Under;
use crate::state::shard::Shard;
use crate::state::stop::{Ran, Stop, not_here};
use crate::state::txn::plan::{DirSetAttr, Exchange, Link, Mkdir, Plan, Rename, Rmdir, Unlink};

impl Shard {
    pub(crate) fn mkdir(
        &mut self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: &Request,
    ) -> Result<Ran, Stop> {
        let Op::Mkdir(dir, name, mode) = &request.op else { return Err(not_here()) };
        let credentials = &request.credentials;
        let (header, entry) = self.writable(ctx, *dir, name, credentials)?;
        if entry.is_some() {
            return Err(Errno::EEXIST.into());
        }
        let id = self.config.secrets.dir_id(dir.id, name, 0);
        let here = self.open_hash_slot(id.hash_slot()).is_ok()
            && self.locks.free(LockKey::Home(id)).is_ok();
        if !here || self.id_taken(ctx, id)? {
            let borrower = request.head.borrows.then_some(request.head.id.session);
            let plan = Mkdir::new(*dir, name.clone(), *mode, borrower);
            return self.begin(ctx, tag, request, Plan::Mkdir(plan));
        }
        let Inherited { mode, gid } =
            perm::inherit(&header.inherit, FileKind::Directory, *mode, credentials)?;
        let ino = self.numbers.ino(ctx);
        let base = new_dir(ino, mode, credentials.uid, gid, header.inherit.project, ctx.time);
        let made = DirRef { id, ino };
        self.put_new_home(ctx, made, base.clone(), *dir, name);
        let access = Access { dir: made, mode, uid: base.uid, gid };
        names::insert(ctx, dir.id, self.order(name), name, EntryValue::Dir(access))?;
        names::count(ctx, dir.id, &header, 1, 1);
        let (session, home) = (request.head.id.session, self.config.shard);
        let key = request.head.borrows.then(|| self.bears_for(ctx, session)).flatten();
        let inos = key.and_then(|_| self.inos_for_birth(ctx, session, id));
        let Some((key, inos)) = key.zip(inos) else {
            return Ok(Body::Made(made, new_dir_attr(base, home)).into());
        };
        let birth = Birth { grant: self.numbers.txn(ctx), session, key, home, inos };
        self.lend_at_birth(ctx, made, birth);
        Ok(self.born((made, base), (*dir, name), birth).into())
    }

    /// Whether this shard has any record of a directory id, or one is arriving.
    pub(crate) fn id_taken(&mut self, ctx: &Ctx<'_>, id: pando_types::DirId) -> Result<bool, Stop> {
        Ok(ctx.get(&keys::dir(id, Kind::Content, 0))?.is_some()
            || !self.headers(ctx, id)?.is_empty()
            || self.arrives(id))
    }

    /// Writes the content and the first header of a new directory, at its home.
    pub(crate) fn put_new_home(
        &mut self,
        ctx: &mut Ctx<'_>,
        dir: DirRef,
        base: Attr,
        parent: DirRef,
        name: &Name,
    ) {
        ctx.set_header(dir.id, first_header(&base));
        ctx.stat.0 += 1;
        let content = first_content(base, parent, name);
        ctx.put(keys::dir(dir.id, Kind::Content, 0), content.encode());
    }

    /// The header of a name's partition, and the name's entry. Waits for a lock of the name. The
    /// caller must have search permission, and write permission if the name is absent.
    fn writable(
        &mut self,
        ctx: &Ctx<'_>,
        dir: DirRef,
        name: &Name,
        credentials: &Credentials,
    ) -> Result<(Header, Option<FoundEntry>), Stop> {
        let order = self.order(name);
        let header = self.own(ctx, dir, order)?;
        self.locks.free(LockKey::Name(dir.id, order.0))?;
        perm::check_dir(&header.inherit, credentials, perm::X)?;
        let entry = names::find(ctx, dir.id, order, name)?;
        // Linux looks the name up before it checks write permission.
        if entry.is_none() {
            perm::check_dir(&header.inherit, credentials, perm::W)?;
        }
        Ok((header, entry))
    }

    pub(crate) fn unlink(
        &mut self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: &Request,
        dir: DirRef,
        name: &Name,
    ) -> Result<Ran, Stop> {
        let credentials = &request.credentials;
        let order = self.order(name);
        let header = self.own(ctx, dir, order)?;
        self.locks.free_for(LockKey::Name(dir.id, order.0), self.shredder())?;
        perm::check_dir(&header.inherit, credentials, perm::X)?;
        let Some(entry) = names::find(ctx, dir.id, order, name)? else {
            return Err(Errno::ENOENT.into());
        };
        let inode = match &entry.value {
            EntryValue::File(inode)
                if !self.is_open(ctx, inode.attr.ino, request.head.id.session) =>
            {
                inode
            }
            EntryValue::Dir(_) => {
                may_delete(&header, &entry, credentials)?;
                return Err(Errno::EISDIR.into());
            }
            _ => {
                let plan = Unlink::new(dir, name.clone());
                return self.begin(ctx, tag, request, Plan::Unlink(plan));
            }
        };
        may_delete(&header, &entry, credentials)?;
        let loc = Loc::of_entry(dir.id, &entry, name);
        self.drop_file(ctx, &loc, inode, Under::Nothing)?;
        self.forget_opens(ctx, inode.attr.ino);
        names::remove(ctx, dir.id, &entry)?;
        names::count(ctx, dir.id, &header, -1, 0);
        Ok(Body::Done.into())
    }

    pub(crate) fn rmdir(
        &mut self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: &Request,
    ) -> Result<Ran, Stop> {
        let Op::Rmdir(dir, name) = &request.op else { return Err(not_here()) };
        let order = self.order(name);
        let header = self.own(ctx, *dir, order)?;
        self.locks.free(LockKey::Name(dir.id, order.0))?;
        perm::check_dir(&header.inherit, &request.credentials, perm::X)?;
        let Some(entry) = names::find(ctx, dir.id, order, name)? else {
            return Err(Errno::ENOENT.into());
        };
        may_delete(&header, &entry, &request.credentials)?;
        if entry.kind() != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        self.begin(ctx, tag, request, Plan::Rmdir(Rmdir::new(*dir, name.clone())))
    }

    pub(crate) fn link(
        &mut self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: &Request,
    ) -> Result<Ran, Stop> {
        let Op::Link(file, dir, name) = &request.op else { return Err(not_here()) };
        let (_, entry) = self.writable(ctx, *dir, name, &request.credentials)?;
        if entry.is_some() {
            return Err(Errno::EEXIST.into());
        }
        let plan = Link::new(file.clone(), *dir, name.clone());
        self.begin(ctx, tag, request, Plan::Link(plan))
    }

    pub(crate) fn rename(
        &mut self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: &Request,
    ) -> Result<Ran, Stop> {
        let Op::Rename { from, name, to, new_name, flags } = &request.op else {
            return Err(not_here());
        };
        if flags.exchange && flags.no_replace {
            return Err(Errno::EINVAL.into());
        }
        let credentials = &request.credentials;
        let order = self.order(name);
        let header = self.own(ctx, *from, order)?;
        self.locks.free(LockKey::Name(from.id, order.0))?;
        perm::check_dir(&header.inherit, credentials, perm::X)?;
        let Some(source) = names::find(ctx, from.id, order, name)? else {
            return Err(Errno::ENOENT.into());
        };
        if (from, name) == (to, new_name) {
            let errno = flags.no_replace.then_some(Errno::EEXIST);
            return errno
                .map_or_else(|| Ok(moved(&source.value, Left::InEntry).into()), |e| Err(e.into()));
        }
        let session = request.head.id.session;
        if flags.exchange {
            let plan = Exchange::new((*from, name.clone()), (*to, new_name.clone()), session);
            return self.begin(ctx, tag, request, Plan::Exchange(plan));
        }
        if let Some(ran) = self.rename_here(ctx, request, (&header, &source), session)? {
            return Ok(ran);
        }
        let moved = match &source.value {
            EntryValue::Dir(access) => Some(access.dir),
            _ => None,
        };
        let names = ((*from, name.clone()), (*to, new_name.clone()));
        let plan = Rename::new(names, flags.no_replace, moved, session);
        self.begin(ctx, tag, request, Plan::Rename(plan))
    }

    /// Renames a file between names of this shard, if its inode stays in the entry. `None`: a
    /// transaction must run the rename.
    fn rename_here(
        &mut self,
        ctx: &mut Ctx<'_>,
        request: &Request,
        (header, source): (&Header, &FoundEntry),
        session: SessionId,
    ) -> Result<Option<Ran>, Stop> {
        let Op::Rename { from, name, to, new_name, flags } = &request.op else { return Ok(None) };
        let credentials = &request.credentials;
        let EntryValue::File(inode) = &source.value else { return Ok(None) };
        if self.namespace.opens.by_others(inode.attr.ino, session) {
            return Ok(None);
        }
        let new_order = self.order(new_name);
        let Ok(new_header) = self.own(ctx, *to, new_order) else { return Ok(None) };
        if let Err(locked) = self.locks.free(LockKey::Name(to.id, new_order.0)) {
            // An element runs once the name is free: it begins no transaction.
            return if ctx.runs_element() { Err(locked) } else { Ok(None) };
        }
        perm::check_dir(&new_header.inherit, credentials, perm::X)?;
        let target = names::find(ctx, to.id, new_order, new_name)?;
        if flags.no_replace && target.is_some() {
            return Err(Errno::EEXIST.into());
        }
        may_delete(header, source, credentials)?;
        let replaced = match &target {
            None => {
                perm::check_dir(&new_header.inherit, credentials, perm::W)?;
                None
            }
            Some(entry) => {
                may_delete(&new_header, entry, credentials)?;
                match self.closed_file(ctx, entry, session)? {
                    Some(old) => Some((entry, old)),
                    None => return Ok(None),
                }
            }
        };
        let loc = Loc::of_entry(from.id, source, name);
        let rows = inode::rows(ctx, &loc, inode)?;
        let mut inode = inode.clone();
        if let Some((entry, old)) = replaced {
            let loc = Loc::of_entry(to.id, entry, new_name);
            inode::drop_rows(ctx, &loc, old, inode::Objects::Garbage)?;
            self.forget_opens(ctx, old.attr.ino);
            names::remove(ctx, to.id, entry)?;
            names::count(ctx, to.id, &new_header, -1, 0);
        }
        inode::drop_rows(ctx, &loc, &inode, inode::Objects::Moved)?;
        names::remove(ctx, from.id, source)?;
        names::count(ctx, from.id, header, -1, 0);
        inode.attr.ctime = ctx.time;
        inode.attr.change += 1;
        let ino = inode.attr.ino;
        let loc = self.put_file_entry(ctx, *to, new_name, &new_header, inode, &rows)?;
        self.place_opens(ctx, ino, &self.namespace.opens.holders(ino), loc.open_at());
        Ok(Some(moved(&source.value, Left::InEntry).into()))
    }

    /// The file at an entry that a file replaces, if no session has it open and its inode is here.
    fn closed_file<'e>(
        &self,
        ctx: &Ctx<'_>,
        entry: &'e FoundEntry,
        session: SessionId,
    ) -> Result<Option<&'e Inode>, Errno> {
        match &entry.value {
            EntryValue::Dir(_) => Err(Errno::EISDIR),
            EntryValue::File(old) if !self.is_open(ctx, old.attr.ino, session) => Ok(Some(old)),
            _ => Ok(None),
        }
    }

    /// Inserts a file's entry, with all rows of the file.
    pub(crate) fn put_file_entry(
        &mut self,
        ctx: &mut Ctx<'_>,
        dir: DirRef,
        name: &Name,
        header: &Header,
        inode: Inode,
        rows: &InodeRows,
    ) -> Result<Loc, Stop> {
        ctx.stat.0 += 1;
        ctx.add_bytes(inode.attr.size.cast_signed());
        let order = names::insert(ctx, dir.id, self.order(name), name, EntryValue::File(inode))?;
        names::count(ctx, dir.id, header, 1, 0);
        let loc = Loc::Name { dir: dir.id, order, name: name.clone(), crowded: false };
        inode::put_rows(ctx, &loc, rows);
        Ok(loc)
    }

    pub(crate) fn dir_setattr(
        &mut self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: &Request,
    ) -> Result<Ran, Stop> {
        let Op::DirSetAttr(dir, set) = &request.op else { return Err(not_here()) };
        if set.size.is_some() {
            return Err(Errno::EISDIR.into());
        }
        let home = LockKey::Home(dir.id);
        if self.is_held_by_others(ctx, home) {
            return Err(Stop::Wait(home));
        }
        let mut content = self.content(ctx, *dir)?;
        let checked = perm::check_setattr(&content.base, set, &request.credentials)?;
        let before = content.base.clone();
        apply(&mut content.base, &checked, ctx.time);
        let same_access = (before.mode, before.uid, before.gid)
            == (content.base.mode, content.base.uid, content.base.gid);
        let headers = self.headers(ctx, dir.id)?;
        let whole = matches!(&headers[..], [only] if only.radix.0 == 0);
        let free = headers
            .iter()
            .all(|h| !self.is_held_by_others(ctx, LockKey::Partition(dir.id, h.partition)));
        let sets_times = checked.mtime.is_some() || checked.atime.is_some();
        if !same_access || (sets_times && !(whole && free)) {
            let parent = (!same_access)
                .then_some((content.parent, content.name))
                .and_then(|(p, n)| Some((p, n?)));
            let search = |base: &Attr| Search::new(base.mode, base.uid, base.gid);
            let changes_search = search(&before) != search(&content.base);
            let plan = DirSetAttr::new(*dir, set.clone(), parent, changes_search);
            return self.begin(ctx, tag, request, Plan::DirSetAttr(plan));
        }
        if checked.mtime.is_some() {
            content.generation += 1;
            for mut header in headers {
                header.generation = content.generation;
                header.mtime = pando_types::Timestamp::default();
                ctx.set_header(dir.id, header);
            }
        }
        self.put_content(ctx, dir.id, &content);
        Ok(Body::Dir(self.dir_attr(ctx, dir.id, content)?).into())
    }
}

/// Linux' `may_delete`: checks write and search permission on the directory, and its sticky bit.
pub fn may_delete(
    header: &Header,
    entry: &FoundEntry,
    credentials: &Credentials,
) -> Result<(), Errno> {
    perm::check_dir(&header.inherit, credentials, perm::W | perm::X)?;
    match &entry.value {
        EntryValue::File(inode) => {
            perm::check_sticky(&header.inherit, (&inode.attr).into(), credentials)
        }
        EntryValue::Dir(access) => {
            perm::check_sticky(&header.inherit, access.judged(), credentials)
        }
        // Only the link shard knows the owner. The transaction checks the sticky bit there.
        EntryValue::Linked(..) => Ok(()),
    }
}
