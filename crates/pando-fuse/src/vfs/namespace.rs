//! The interface of the client that the adaptor uses. Tests implement a small model of it.

use std::sync::Arc;

use pando_client::{BoxFuture, Content, DirEntry, Grounds, IfThere, Then, Usage};
use pando_types::op::{AccessMask, NewNode, RenameFlags, XattrMode};
use pando_types::{
    Attr, Credentials, Errno, Ino, Kill, Lock, LockHolder, LockOwner, LockRange, LockSpace, Name,
    SessionId, SetAttr,
};

/// A future of a call's result. It may be ready at once.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, Errno>>;

/// Names, permissions and attributes. Any thread may call and poll. Each method does what the
/// client's method of that name does.
#[expect(missing_docs, reason = "each is the client's method of the same name")]
pub trait Namespace: Send + Sync {
    fn getattr<'a>(&'a self, ino: Ino) -> Answer<'a, Attr>;
    fn setattr<'a>(
        &'a self,
        credentials: &'a Credentials,
        ino: Ino,
        set: SetAttr,
    ) -> Answer<'a, Attr>;
    fn lookup<'a>(
        &'a self,
        credentials: &'a Credentials,
        parent: Ino,
        name: &'a Name,
    ) -> Answer<'a, Attr>;
    fn forget(&self, ino: Ino, count: u64);
    /// Nodes that were looked up and not forgotten, and the root.
    fn known(&self) -> Vec<Ino> {
        Vec::new()
    }
    /// Whether a node that is known is a directory.
    fn is_dir(&self, ino: Ino) -> bool {
        let _ = ino;
        false
    }
    /// Whether the kernel knows a node: it was looked up more often than forgotten.
    fn knows(&self, ino: Ino) -> bool {
        let _ = ino;
        false
    }
    /// Whether the kernel of this session may ever remember more than for a moment.
    fn may_hold(&self) -> bool {
        false
    }
    /// Whether it holds until it says otherwise. Else it holds for
    /// [`HOLD_TIME`](pando_types::hold::HOLD_TIME) from when it asked.
    fn holds_for_good(&self) -> bool {
        false
    }
    /// Whether requests about open files run on behalf of the users who opened them. That is so
    /// where the superuser may lack the right.
    fn asks_as_openers(&self) -> bool {
        false
    }
    /// Asks to hold. If the answer is true, the kernel may remember names and attributes until the
    /// session is [recalled](Namespace::recalled).
    fn ask_to_hold(&self) -> Answer<'_, bool> {
        Box::pin(async { Ok(false) })
    }
    /// Waits until another session wants to write, or this session is over.
    fn recalled(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
    /// Whether another session wants to write, or this one does not hold. If not, the answer comes
    /// after a while.
    fn is_recalled(&self) -> Answer<'_, bool> {
        Box::pin(async { Ok(true) })
    }
    /// Notes that the hold is over by itself, or was not given.
    fn hold_lapsed(&self) {}
    /// Says that the kernel remembers nothing any more.
    fn end_hold(&self) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }
    /// On what grounds the kernel may remember names and attributes of single directories while
    /// the session does not hold. `None`: on none.
    fn grounds(&self) -> Option<Arc<Grounds>> {
        None
    }
    /// The entry in which a file lies: its directory, and its name's key for [`Grounds`]. `None`:
    /// it lies elsewhere, or is not known.
    fn lies_in(&self, ino: Ino) -> Option<(Ino, u64)> {
        let _ = ino;
        None
    }
    /// Runs work after answers have left, when there is nothing else to do.
    fn afterwards(&self) {}
    fn access<'a>(
        &'a self,
        credentials: &'a Credentials,
        ino: Ino,
        mask: AccessMask,
    ) -> Answer<'a, ()>;
    fn create<'a>(
        &'a self,
        credentials: &'a Credentials,
        parent: Ino,
        name: &'a Name,
        node: NewNode,
        if_there: IfThere,
        then: Then,
    ) -> Answer<'a, (Attr, bool)>;
    fn mkdir<'a>(
        &'a self,
        credentials: &'a Credentials,
        parent: Ino,
        name: &'a Name,
        mode: u16,
    ) -> Answer<'a, Attr>;
    fn unlink<'a>(
        &'a self,
        credentials: &'a Credentials,
        parent: Ino,
        name: &'a Name,
    ) -> Answer<'a, ()>;
    fn rmdir<'a>(
        &'a self,
        credentials: &'a Credentials,
        parent: Ino,
        name: &'a Name,
    ) -> Answer<'a, ()>;
    fn link<'a>(
        &'a self,
        credentials: &'a Credentials,
        ino: Ino,
        parent: Ino,
        name: &'a Name,
    ) -> Answer<'a, Attr>;
    fn rename<'a>(
        &'a self,
        credentials: &'a Credentials,
        from: (Ino, &'a Name),
        to: (Ino, &'a Name),
        flags: RenameFlags,
    ) -> Answer<'a, ()>;
    fn readlink<'a>(&'a self, credentials: &'a Credentials, ino: Ino) -> Answer<'a, Vec<u8>>;
    fn open<'a>(
        &'a self,
        credentials: &'a Credentials,
        ino: Ino,
        access: AccessMask,
        content: Content,
        kill: Option<Kill>,
    ) -> Answer<'a, Attr>;
    fn release<'a>(&'a self, ino: Ino) -> Answer<'a, ()>;
    fn release_all<'a>(&'a self, inos: &'a [Ino]) -> Answer<'a, ()>;
    fn opendir<'a>(&'a self, credentials: &'a Credentials, ino: Ino) -> Answer<'a, ()>;
    /// Learns what the names of a directory lead to, if it remembers that. The kernel keeps the
    /// listing.
    fn learn_names<'a>(
        &'a self,
        credentials: &'a Credentials,
        ino: Ino,
        limit: u32,
    ) -> Answer<'a, ()>;
    fn readdir_plus<'a>(
        &'a self,
        credentials: &'a Credentials,
        ino: Ino,
        position: u64,
        limit: u32,
    ) -> Answer<'a, Vec<DirEntry>>;
    /// A listing of all entries after `position`, page by page.
    fn listing(
        self: Arc<Self>,
        credentials: &Credentials,
        ino: Ino,
        position: u64,
    ) -> Result<Box<dyn Pages>, Errno>;
    fn parent<'a>(&'a self, ino: Ino) -> Answer<'a, Ino>;
    fn getxattr<'a>(
        &'a self,
        credentials: &'a Credentials,
        ino: Ino,
        name: &'a [u8],
    ) -> Answer<'a, Vec<u8>>;
    fn listxattr<'a>(&'a self, credentials: &'a Credentials, ino: Ino) -> Answer<'a, Vec<Vec<u8>>>;
    fn setxattr<'a>(
        &'a self,
        credentials: &'a Credentials,
        ino: Ino,
        name: &'a [u8],
        value: &'a [u8],
        mode: XattrMode,
    ) -> Answer<'a, ()>;
    fn removexattr<'a>(
        &'a self,
        credentials: &'a Credentials,
        ino: Ino,
        name: &'a [u8],
    ) -> Answer<'a, ()>;
    fn statfs<'a>(&'a self) -> Answer<'a, Usage>;
    /// Whether the lock methods below work. Otherwise the kernel keeps locks, for this mount alone.
    fn keeps_locks(&self) -> bool {
        false
    }
    fn try_lock<'a>(&'a self, _ino: Ino, _lock: Lock) -> Answer<'a, Option<LockHolder>> {
        Box::pin(async { Err(Errno::ENOSYS) })
    }
    fn lock<'a>(
        &'a self,
        _ino: Ino,
        _lock: Lock,
        _is_wanted: &'a (dyn Fn() -> bool + Sync),
    ) -> Answer<'a, ()> {
        Box::pin(async { Err(Errno::ENOSYS) })
    }
    fn test_lock<'a>(&'a self, _ino: Ino, _lock: Lock) -> Answer<'a, Option<LockHolder>> {
        Box::pin(async { Err(Errno::ENOSYS) })
    }
    fn unlock<'a>(
        &'a self,
        _ino: Ino,
        _space: LockSpace,
        _owner: LockOwner,
        _range: LockRange,
    ) -> Answer<'a, ()> {
        Box::pin(async { Err(Errno::ENOSYS) })
    }
    fn forget_locks<'a>(
        &'a self,
        _ino: Ino,
        _space: LockSpace,
        _owner: LockOwner,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
    fn is_own(&self, _session: SessionId) -> bool {
        false
    }
}

/// A listing in progress.
pub trait Pages: Send {
    /// The next entries; empty at the end. A future may be dropped without loss: the next call goes
    /// on.
    fn next(&mut self) -> Answer<'_, Vec<DirEntry>>;
}
