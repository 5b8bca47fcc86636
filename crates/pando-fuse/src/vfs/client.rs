//! The client as the namespace of a mount.

use std::sync::Arc;

use pando_client::{BoxFuture, Client, Content, DirEntry, Grounds, IfThere, Then, Usage};
use pando_types::op::{AccessMask, NewNode, RenameFlags, XattrMode};
use pando_types::{
    Attr, Credentials, Errno, Ino, Kill, Lock, LockHolder, LockOwner, LockRange, LockSpace, Name,
    SessionId, SetAttr,
};

use crate::vfs::namespace::{Answer, Namespace, Pages};

impl Pages for pando_client::Listing {
    fn next(&mut self) -> Answer<'_, Vec<DirEntry>> {
        Box::pin(self.next())
    }
}

impl Namespace for Client {
    fn getattr<'a>(&'a self, ino: Ino) -> Answer<'a, Attr> {
        Box::pin(self.getattr(ino))
    }

    fn setattr<'a>(
        &'a self,
        credentials: &'a Credentials,
        ino: Ino,
        set: SetAttr,
    ) -> Answer<'a, Attr> {
        Box::pin(self.setattr(credentials, ino, set))
    }

    fn lookup<'a>(
        &'a self,
        credentials: &'a Credentials,
        parent: Ino,
        name: &'a Name,
    ) -> Answer<'a, Attr> {
        Box::pin(self.lookup(credentials, parent, name))
    }

    fn known(&self) -> Vec<Ino> {
        self.known()
    }

    fn is_dir(&self, ino: Ino) -> bool {
        self.is_dir(ino)
    }

    fn knows(&self, ino: Ino) -> bool {
        self.knows(ino)
    }

    fn may_hold(&self) -> bool {
        // What the kernel remembers, it shows to its own superuser. Where shards take that for
        // another user, they have to be asked.
        !self.asks_as_openers()
    }

    fn holds_for_good(&self) -> bool {
        self.holds_for_good()
    }

    fn asks_as_openers(&self) -> bool {
        self.asks_as_openers()
    }

    fn ask_to_hold(&self) -> Answer<'_, bool> {
        Box::pin(self.ask_to_hold())
    }

    fn recalled(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.recalled())
    }

    fn is_recalled(&self) -> Answer<'_, bool> {
        Box::pin(self.is_recalled())
    }

    fn hold_lapsed(&self) {
        self.hold_lapsed();
    }

    fn end_hold(&self) -> Answer<'_, ()> {
        Box::pin(self.end_hold())
    }

    fn grounds(&self) -> Option<Arc<Grounds>> {
        self.grounds().filter(|_| !self.holds_for_good()).cloned()
    }

    fn lies_in(&self, ino: Ino) -> Option<(Ino, u64)> {
        self.lies_in(ino)
    }

    fn afterwards(&self) {
        self.afterwards();
    }

    fn forget(&self, ino: Ino, count: u64) {
        self.forget(ino, count);
    }

    fn access<'a>(
        &'a self,
        credentials: &'a Credentials,
        ino: Ino,
        mask: AccessMask,
    ) -> Answer<'a, ()> {
        Box::pin(self.access(credentials, ino, mask))
    }

    fn create<'a>(
        &'a self,
        credentials: &'a Credentials,
        parent: Ino,
        name: &'a Name,
        node: NewNode,
        if_there: IfThere,
        then: Then,
    ) -> Answer<'a, (Attr, bool)> {
        Box::pin(self.create(credentials, parent, name, node, if_there, then))
    }

    fn mkdir<'a>(
        &'a self,
        credentials: &'a Credentials,
        parent: Ino,
        name: &'a Name,
        mode: u16,
    ) -> Answer<'a, Attr> {
        Box::pin(self.mkdir(credentials, parent, name, mode))
    }

    fn unlink<'a>(
        &'a self,
        credentials: &'a Credentials,
        parent: Ino,
        name: &'a Name,
    ) -> Answer<'a, ()> {
        Box::pin(self.unlink(credentials, parent, name))
    }

    fn rmdir<'a>(
        &'a self,
        credentials: &'a Credentials,
        parent: Ino,
        name: &'a Name,
    ) -> Answer<'a, ()> {
        Box::pin(self.rmdir(credentials, parent, name))
    }

    fn link<'a>(
        &'a self,
        credentials: &'a Credentials,
        ino: Ino,
        parent: Ino,
        name: &'a Name,
    ) -> Answer<'a, Attr> {
        Box::pin(self.link(credentials, ino, parent, name))
    }

    fn rename<'a>(
        &'a self,
        credentials: &'a Credentials,
        from: (Ino, &'a Name),
        to: (Ino, &'a Name),
        flags: RenameFlags,
    ) -> Answer<'a, ()> {
        Box::pin(self.by_dentry(None).rename(credentials, from, to, flags))
    }

    fn readlink<'a>(&'a self, credentials: &'a Credentials, ino: Ino) -> Answer<'a, Vec<u8>> {
        Box::pin(self.readlink(credentials, ino))
    }

    fn open<'a>(
        &'a self,
        credentials: &'a Credentials,
        ino: Ino,
        access: AccessMask,
        content: Content,
        kill: Option<Kill>,
    ) -> Answer<'a, Attr> {
        Box::pin(self.open(credentials, ino, access, content, kill))
    }

    fn release<'a>(&'a self, ino: Ino) -> Answer<'a, ()> {
        Box::pin(self.release(ino))
    }

    fn release_all<'a>(&'a self, inos: &'a [Ino]) -> Answer<'a, ()> {
        Box::pin(self.release_all(inos))
    }

    fn opendir<'a>(&'a self, credentials: &'a Credentials, ino: Ino) -> Answer<'a, ()> {
        Box::pin(self.opendir(credentials, ino))
    }

    fn learn_names<'a>(
        &'a self,
        credentials: &'a Credentials,
        ino: Ino,
        limit: u32,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            self.learn_names(credentials, ino, limit).await;
            Ok(())
        })
    }

    fn readdir_plus<'a>(
        &'a self,
        credentials: &'a Credentials,
        ino: Ino,
        position: u64,
        limit: u32,
    ) -> Answer<'a, Vec<DirEntry>> {
        Box::pin(self.readdir_plus(credentials, ino, position, limit))
    }

    fn listing(
        self: Arc<Self>,
        credentials: &Credentials,
        ino: Ino,
        position: u64,
    ) -> Result<Box<dyn Pages>, Errno> {
        Ok(Box::new(Self::listing(&self, credentials, ino, position)?))
    }

    fn parent<'a>(&'a self, ino: Ino) -> Answer<'a, Ino> {
        Box::pin(self.parent(ino))
    }

    fn getxattr<'a>(
        &'a self,
        credentials: &'a Credentials,
        ino: Ino,
        name: &'a [u8],
    ) -> Answer<'a, Vec<u8>> {
        Box::pin(self.getxattr(credentials, ino, name))
    }

    fn listxattr<'a>(&'a self, credentials: &'a Credentials, ino: Ino) -> Answer<'a, Vec<Vec<u8>>> {
        Box::pin(self.listxattr(credentials, ino))
    }

    fn setxattr<'a>(
        &'a self,
        credentials: &'a Credentials,
        ino: Ino,
        name: &'a [u8],
        value: &'a [u8],
        mode: XattrMode,
    ) -> Answer<'a, ()> {
        Box::pin(self.setxattr(credentials, ino, name, value, mode))
    }

    fn removexattr<'a>(
        &'a self,
        credentials: &'a Credentials,
        ino: Ino,
        name: &'a [u8],
    ) -> Answer<'a, ()> {
        Box::pin(self.removexattr(credentials, ino, name))
    }

    fn statfs<'a>(&'a self) -> Answer<'a, Usage> {
        Box::pin(self.statfs())
    }

    fn keeps_locks(&self) -> bool {
        true
    }

    fn try_lock<'a>(&'a self, ino: Ino, lock: Lock) -> Answer<'a, Option<LockHolder>> {
        Box::pin(self.try_lock(ino, lock))
    }

    fn lock<'a>(
        &'a self,
        ino: Ino,
        lock: Lock,
        is_wanted: &'a (dyn Fn() -> bool + Sync),
    ) -> Answer<'a, ()> {
        Box::pin(self.lock(ino, lock, is_wanted))
    }

    fn test_lock<'a>(&'a self, ino: Ino, lock: Lock) -> Answer<'a, Option<LockHolder>> {
        Box::pin(self.test_lock(ino, lock))
    }

    fn unlock<'a>(
        &'a self,
        ino: Ino,
        space: LockSpace,
        owner: LockOwner,
        range: LockRange,
    ) -> Answer<'a, ()> {
        Box::pin(self.unlock(ino, space, owner, range))
    }

    fn forget_locks<'a>(
        &'a self,
        ino: Ino,
        space: LockSpace,
        owner: LockOwner,
    ) -> BoxFuture<'a, ()> {
        Box::pin(self.forget_locks(ino, space, owner))
    }

    fn is_own(&self, session: SessionId) -> bool {
        self.is_own(session)
    }
}
