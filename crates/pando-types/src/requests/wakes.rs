//! Which operations change what other mounts' kernels may remember (docs/design/holds.md).

use crate::op::Op;

impl Op {
    /// Whether the operation may change a name or an attribute that the kernel of another mount
    /// remembers. A session says [`Holding::Wake`](crate::hold::Holding::Wake) before it sends such
    /// a one. All operations are listed, so that none is forgotten.
    #[must_use]
    pub const fn needs_wake(&self) -> bool {
        match self {
            // It is not known before whether there is such a name. If there is, nothing changes.
            Self::Create { .. }
            | Self::Mkdir(..)
            | Self::Unlink(..)
            | Self::Rmdir(..)
            // Also a file's count of names, and its change time.
            | Self::Link(..)
            | Self::Rename { .. }
            | Self::SetAttr(..)
            | Self::DirSetAttr(..)
            // Size, times, setuid and setgid.
            | Self::WriteData { .. }
            // The change time.
            | Self::SetXattr { .. }
            | Self::RemoveXattr(..) => true,
            Self::Open { truncate, kill, .. } | Self::OpenName { truncate, kill, .. } => {
                *truncate || kill.is_some()
            }
            // These read. No shard notes times of access.
            Self::Lookup(..)
            | Self::GetAttr(_)
            | Self::Readlink(_)
            | Self::Access(..)
            | Self::ReadData { .. }
            | Self::GetXattr(..)
            | Self::ListXattr(_)
            | Self::DirGetAttr(_)
            | Self::PartitionStat(..)
            | Self::DirAccess(..)
            | Self::ReadDir { .. }
            | Self::ReadFiles { .. }
            | Self::Parent(_)
            | Self::StatFs(_)
            | Self::Garbage(..)
            | Self::InspectDir(..)
            | Self::Glimpse(..)
            | Self::TestLock(..) => false,
            // The last one destroys a file without a name. No kernel finds that file any more, but
            // by what it has open itself, and that keeps the file.
            Self::Release(_) | Self::ReleaseAll(..) | Self::EndSession(_) => false,
            // Kernels do not remember locks: the mount asks for each.
            Self::Lock(..) | Self::LockOf(..) | Self::Unlock(..) => false,
            // What was changed is made durable.
            Self::Sync(_) | Self::SyncFile(_) => false,
            // Contents that no file has.
            Self::GarbageDone(..) => false,
            // What elements tell was answered as an operation of this list.
            Self::Borrow(..)
            | Self::BorrowToRead(..)
            | Self::LentRows(..)
            | Self::Attend { .. }
            | Self::Stream { .. } => false,
            // Where names are kept does not show in them.
            Self::HandOver(..) | Self::AddShard(_) => false,
            // Sessions do not show in the tree.
            Self::OpenSession | Self::OpenLocalSession | Self::Renew(_) | Self::Hold(..) => false,
        }
    }
}
