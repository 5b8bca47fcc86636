//! What a holder has done, as its users are shown.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counts {
    (
        now { $($(#[doc = $now_doc:literal])* $now:ident,)* }
        so far { $($(#[doc = $doc:literal])* $name:ident,)* }
    ) => {
        /// Counts since the transport began, and the present state.
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        pub struct Counts {
            $($(#[doc = $now_doc])* pub $now: u64,)*
            $($(#[doc = $doc])* pub $name: u64,)*
        }

        impl Counts {
            /// The present state: name, what it is, and its value.
            #[must_use]
            pub fn now(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($now), concat!($($now_doc),*).trim_ascii_start(), self.$now),)*]
            }

            /// Counts since the transport began: name, what it counts, and the total.
            #[must_use]
            pub fn so_far(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($name), concat!($($doc),*).trim_ascii_start(), self.$name),)*]
            }
        }
    };
}

counts! {
    now {
        /// Parts of directories that are lent to the mount now.
        parts,
        /// Directories of which the mount has a read grant now.
        reads,
        /// Changes of lent parts that shards have not acknowledged.
        unsent,
    }
    so far {
        /// Requests that the mount answered from parts lent to it.
        answered,
        /// Parts of directories that were lent to the mount so far.
        lent,
        /// Changes of names and modes that shards made in parts which stayed lent.
        amended,
        /// Changes that were answered and are lost.
        set_aside,
        /// Requests that the mount answered from what it has read and remembers.
        remembered,
    }
}

/// Counts that only go up.
#[derive(Default, Debug)]
pub(crate) struct Sums {
    pub(crate) answered: AtomicU64,
    pub(crate) lent: AtomicU64,
    pub(crate) amended: AtomicU64,
    pub(crate) set_aside: AtomicU64,
}

pub(crate) fn add(to: &AtomicU64, count: usize) {
    to.fetch_add(count as u64, Ordering::Relaxed);
}
