//! Create: files, symlinks, devices, pipes and sockets. It takes one insert group on one shard,
//! whatever the size of the directory.

use pando_types::op::{NewNode, SYMLINK_MAX};
use pando_types::peer::{EntryValue, Inode};
use pando_types::reply::Body;
use pando_types::{Attr, Credentials, DirRef, Errno, FileKind, Ino, Name, SessionId};

use crate::namespace::inode::{self, Loc};
use crate::namespace::names::{self, Sought};
use crate::namespace::perm::{self, Inherited};
use crate::state::ctx::Ctx;
use crate::state::lock_key::LockKey;
use crate::state::shard::Shard;
use crate::state::stop::Stop;

impl Shard {
    pub(crate) fn create(
        &mut self,
        ctx: &mut Ctx<'_>,
        (dir, name): (DirRef, &Name),
        node: &NewNode,
        exclusive: bool,
        open: Option<SessionId>,
        credentials: &Credentials,
    ) -> Result<Body, Stop> {
        check_node(node)?;
        let order = self.order(name);
        let header = self.own(ctx, dir, order)?;
        perm::check_dir(&header.inherit, credentials, perm::X)?;
        self.locks.free(LockKey::Name(dir.id, order.0))?;
        let vacancy = match names::seek(ctx, dir.id, order, name)? {
            Sought::Absent(vacancy) => vacancy,
            Sought::Found(entry) => {
                return match &entry.value {
                    _ if exclusive => Err(Errno::EEXIST.into()),
                    EntryValue::Dir(_) => Err(Errno::EISDIR.into()),
                    EntryValue::Linked(ino, kind) => Ok(Body::Linked(*ino, *kind)),
                    EntryValue::File(inode) => {
                        if let Some(session) = open {
                            let loc = Loc::of_entry(dir.id, &entry, name);
                            self.add_open(ctx, inode.attr.ino, session, loc.open_at());
                        }
                        Ok(Body::Created(inode.attr.clone(), false, header.radix))
                    }
                };
            }
        };
        perm::check_dir(&header.inherit, credentials, perm::W)?;
        let inherited = perm::inherit(&header.inherit, node.kind, node.mode, credentials)?;
        let ino = self.new_ino(ctx)?;
        let project = header.inherit.project;
        let attr = Attr { project, ..new_file(ctx, ino, node, inherited, credentials) };
        let value =
            EntryValue::File(Inode { attr: attr.clone(), is_inline: true, has_xattrs: false });
        let order = names::insert_at(ctx, dir.id, order, name, value, vacancy)?;
        let loc = Loc::Name { dir: dir.id, order, name: name.clone(), crowded: false };
        // No row of an earlier file at this order is left.
        if !node.symlink.is_empty() {
            inode::put_inline(ctx, &loc, &node.symlink);
        }
        names::count(ctx, dir.id, &header, 1, 0);
        ctx.stat.0 += 1;
        ctx.add_bytes(attr.size.cast_signed());
        if let Some(session) = open {
            self.add_open(ctx, ino, session, loc.open_at());
        }
        Ok(Body::Created(attr, true, header.radix))
    }
}

fn check_node(node: &NewNode) -> Result<(), Errno> {
    match node.kind {
        FileKind::Directory => Err(Errno::EINVAL),
        FileKind::Symlink if node.symlink.is_empty() => Err(Errno::ENOENT),
        FileKind::Symlink if node.symlink.len() > SYMLINK_MAX => Err(Errno::ENAMETOOLONG),
        FileKind::Symlink => Ok(()),
        _ if !node.symlink.is_empty() => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

fn new_file(
    ctx: &Ctx<'_>,
    ino: Ino,
    node: &NewNode,
    Inherited { mode, gid }: Inherited,
    credentials: &Credentials,
) -> Attr {
    let now = ctx.time;
    Attr {
        ino,
        kind: node.kind,
        mode: if node.kind == FileKind::Symlink { 0o777 } else { mode },
        nlink: 1,
        uid: credentials.uid,
        gid,
        rdev: match node.kind {
            FileKind::CharDevice | FileKind::BlockDevice => node.rdev,
            _ => 0,
        },
        size: node.symlink.len() as u64,
        atime: now,
        mtime: now,
        ctime: now,
        btime: now,
        data_version: 1,
        change: 1,
        project: 0,
    }
}
