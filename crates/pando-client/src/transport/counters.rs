//! Counters of the messages that operations cost.

use std::sync::atomic::{AtomicU64, Ordering};

use pando_types::op::Op;

macro_rules! kinds {
    ($($name:ident),* $(,)?) => {
        /// Names of all operations, in the order of the counters.
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        #[derive(Clone, Copy)]
        enum Kind { $($name),* }

        const fn kind(op: &Op) -> Kind {
            match op { $(Op::$name { .. } => Kind::$name),* }
        }
    };
}

kinds! {
    Lookup, Create, Mkdir, Unlink, Rmdir, Link, Rename,
    GetAttr, SetAttr, Readlink, Open, Release, Access, ReadData, WriteData,
    GetXattr, ListXattr, SetXattr, RemoveXattr,
    DirGetAttr, PartitionStat, DirSetAttr, DirAccess, ReadDir, Parent,
    StatFs, Sync, OpenSession, EndSession, Garbage, GarbageDone, InspectDir, HandOver, AddShard, Renew, OpenName, Glimpse, ReleaseAll,
    Lock, Unlock, TestLock, OpenLocalSession, Hold, LockOf, SyncFile,
    Borrow, LentRows, Attend, Stream, ReadFiles, BorrowToRead,
}

/// How a request in doubt was resolved.
#[derive(Clone, Copy)]
pub(crate) enum Resolved {
    NeverRan,
    HasRun,
}

macro_rules! totals {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Counts since the client began. They only go up.
        pub struct Counters {
            requests: [AtomicU64; NAMES.len()],
            resolved: [AtomicU64; 2],
            $($name: AtomicU64,)*
        }

        impl Counters {
            pub(crate) const fn new() -> Self {
                Self {
                    requests: [const { AtomicU64::new(0) }; NAMES.len()],
                    resolved: [const { AtomicU64::new(0) }; 2],
                    $($name: AtomicU64::new(0),)*
                }
            }

            $(
                $(#[doc = $doc])*
                #[must_use]
                pub fn $name(&self) -> u64 {
                    self.$name.load(Ordering::Relaxed)
                }
            )*

            /// All but the requests and what was resolved: name, what it counts, and the total.
            #[must_use]
            pub fn list(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($name), concat!($($doc),*).trim_ascii_start(), self.$name()),)*]
            }
        }
    };
}

totals! {
    /// Replies that redirected a request to another shard.
    redirects,
    /// Requests sent again because no reply came.
    retries,
    /// Changing requests that were given up while it was unknown whether they ran.
    given_up,
    /// Sessions that this client has begun.
    sessions,
    /// Sessions that ended before this client did.
    sessions_over,
    /// Files that were opened without telling their shards at once.
    opens_untold,
    /// Of these, files of which shards were told while they were open.
    opens_told,
}

impl Counters {
    pub(crate) fn sent(&self, op: &Op) {
        self.requests[kind(op) as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn redirected(&self) {
        self.redirects.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn retried(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn gave_up(&self) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn doubt_resolved(&self, doubt: Resolved) {
        self.resolved[doubt as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn session_begun(&self) {
        self.sessions.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn session_over(&self) {
        self.sessions_over.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn opened_untold(&self) {
        self.opens_untold.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn told_open(&self) {
        self.opens_told.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests sent, of all operations, tries included.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Requests sent, tries included, for each operation that was sent at all. Named as in [`Op`].
    #[must_use]
    pub fn requests_by_op(&self) -> Vec<(&'static str, u64)> {
        let counts = self.requests.iter().map(|count| count.load(Ordering::Relaxed));
        NAMES.iter().copied().zip(counts).filter(|(_, count)| *count > 0).collect()
    }

    /// Given-up requests that were resolved: those that did not run, and those that did.
    #[must_use]
    pub fn resolved(&self) -> [u64; 2] {
        self.resolved.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pando_types::ShardIndex;

    #[test]
    fn requests_are_counted_under_their_names() {
        let counters = Counters::new();
        counters.sent(&Op::OpenSession);
        counters.sent(&Op::StatFs(ShardIndex(3)));
        counters.sent(&Op::OpenSession);
        assert_eq!(counters.requests_by_op(), [("StatFs", 1), ("OpenSession", 2)]);
        assert_eq!(counters.requests(), 3);
    }
}
