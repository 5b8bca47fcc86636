//! The place of an operation, and whether it changes anything.

use pando_placement::Secrets;
use pando_types::op::{FileAt, FileRef, Op, Target};
use pando_types::{DirRef, Ino, Name, Order, PartitionIndex, ShardIndex};

/// The place of an operation: the owner of that place must run it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    /// The partition that holds this order.
    Order(DirRef, Order),
    /// A partition by its index.
    Partition(DirRef, PartitionIndex),
    /// The directory's home.
    Home(DirRef),
    /// The inode's link shard.
    Link(Ino),
    /// The shard with this index.
    Shard(ShardIndex),
}

impl Route {
    /// The directory with the partitions that decide the shard.
    pub(crate) const fn dir(self) -> Option<DirRef> {
        match self {
            Self::Order(dir, _) | Self::Partition(dir, _) | Self::Home(dir) => Some(dir),
            Self::Link(_) | Self::Shard(_) => None,
        }
    }

    /// The route to a file.
    pub(crate) fn of_file(ino: Ino, at: &FileAt, secrets: &Secrets) -> Self {
        match at {
            FileAt::Name(dir, name) => Self::Order(*dir, secrets.order(name.as_bytes())),
            FileAt::Link => Self::Link(ino),
        }
    }
}

/// Where an operation runs, and whether it changes anything and so must run exactly once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    pub(crate) route: Route,
    pub(crate) changes: bool,
}

/// The plan of `op`.
pub(crate) fn plan(op: &Op, secrets: &Secrets) -> Plan {
    let name = |dir: &DirRef, name: &Name| Route::Order(*dir, secrets.order(name.as_bytes()));
    let file = |file: &FileRef| Route::of_file(file.ino, &file.at, secrets);
    let target = |target: &Target| match target {
        Target::File(it) => file(it),
        Target::Dir(dir) => Route::Home(*dir),
    };
    let (route, changes) = match op {
        Op::Lookup(dir, at) => (name(dir, at), false),
        Op::Create { dir, name: at, .. }
        | Op::Mkdir(dir, at, _)
        | Op::Unlink(dir, at)
        | Op::Rmdir(dir, at)
        | Op::Link(_, dir, at)
        | Op::Rename { from: dir, name: at, .. }
        | Op::OpenName { dir, name: at, .. } => (name(dir, at), true),

        Op::GetAttr(it) | Op::Readlink(it) | Op::Access(it, _) | Op::SyncFile(it) => {
            (file(it), false)
        }
        Op::ReadData { file: it, .. } => (file(it), false),
        Op::SetAttr(it, _) | Op::Release(it) => (file(it), true),
        Op::Open { file: it, .. } | Op::WriteData { file: it, .. } => (file(it), true),

        Op::GetXattr(it, _) | Op::ListXattr(it) => (target(it), false),
        Op::SetXattr { target: it, .. } | Op::RemoveXattr(it, _) => (target(it), true),

        Op::Lock(ino, _) | Op::Unlock(ino, ..) => (Route::Link(*ino), true),
        Op::TestLock(ino, _) => (Route::Link(*ino), false),
        Op::LockOf(target, _) => (Route::Link(target.ino()), true),

        Op::DirGetAttr(dir) | Op::DirAccess(dir, _) | Op::Parent(dir) => (Route::Home(*dir), false),
        Op::DirSetAttr(dir, _) => (Route::Home(*dir), true),
        Op::PartitionStat(dir, i) => (Route::Partition(*dir, *i), false),
        Op::ReadDir { dir, from, .. } | Op::ReadFiles { dir, from, .. } => {
            (Route::Order(*dir, *from), false)
        }

        Op::Borrow(_, _, dir, order) => (Route::Order(*dir, *order), false),
        Op::BorrowToRead(_, _, part) => (Route::Partition(part.dir, part.partition), false),
        // A repetition changes nothing.
        Op::LentRows(shard, ..) | Op::Attend { shard, .. } | Op::Stream { shard, .. } => {
            (Route::Shard(*shard), false)
        }
        Op::StatFs(shard)
        | Op::Sync(shard)
        | Op::Garbage(shard, _)
        | Op::InspectDir(shard, _)
        | Op::Glimpse(shard, _) => (Route::Shard(*shard), false),
        Op::GarbageDone(shard, _) | Op::ReleaseAll(shard, _) => (Route::Shard(*shard), true),
        Op::HandOver(shard, ..) => (Route::Shard(*shard), false),
        // Running it twice does no harm.
        Op::AddShard(_) => (Route::Shard(ShardIndex(0)), false),
        // Before there is a session, a request has no number. A second session that is not used
        // does no harm.
        Op::OpenSession | Op::OpenLocalSession => (Route::Shard(ShardIndex(0)), false),
        // Running these twice does no harm, and a session that is over has no outcomes.
        Op::EndSession(_) | Op::Renew(_) | Op::Hold(..) => (Route::Shard(ShardIndex(0)), false),
    };
    Plan { route, changes }
}
