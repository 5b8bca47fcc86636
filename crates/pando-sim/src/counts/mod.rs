//! Counts of what happened in runs.

pub mod bytes;
pub mod copies;
pub mod disks;
pub mod local;
pub mod locks;
pub mod moves;
pub mod objects;
pub mod parts;
pub mod stats;

use std::collections::BTreeMap;

/// Counts to which those of another run can be added.
pub trait Count {
    /// Adds each count of another run.
    fn add(&mut self, other: &Self);
}

impl Count for u64 {
    fn add(&mut self, other: &Self) {
        *self += other;
    }
}

/// By shard. Runs may differ in their number of shards.
impl Count for Vec<u64> {
    fn add(&mut self, other: &Self) {
        self.resize(self.len().max(other.len()), 0);
        self.iter_mut().zip(other).for_each(|(mine, theirs)| *mine += theirs);
    }
}

impl<K: Ord + Clone> Count for BTreeMap<K, u64> {
    fn add(&mut self, other: &Self) {
        for (key, count) in other {
            *self.entry(key.clone()).or_default() += count;
        }
    }
}

/// Defines a struct of counts, to which those of another run can be added.
macro_rules! counts {
    ($(#[$about:meta])* pub struct $name:ident {
        $($(#[$field_about:meta])* pub $field:ident: $type:ty,)*
    }) => {
        $(#[$about])*
        pub struct $name {
            $($(#[$field_about])* pub $field: $type,)*
        }

        impl $crate::counts::Count for $name {
            fn add(&mut self, other: &Self) {
                $($crate::counts::Count::add(&mut self.$field, &other.$field);)*
            }
        }
    };
}
use counts;
