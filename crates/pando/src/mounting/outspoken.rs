//! A store of objects that tells the user when it cannot be synced any more.
//!
//! After a failed sync, a mount names no further object: the kernel reports a failed write-back
//! once, and a later success would mean nothing. Programs hear `EIO`, and not why.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use pando_data::{ObjectStore, Space, StoreError};
use pando_types::op::ObjectId;

use crate::console::output::say;

/// A store over another one, at this place.
pub struct Outspoken<S> {
    store: S,
    place: String,
    has_told: AtomicBool,
}

impl<S: ObjectStore> Outspoken<S> {
    pub fn new(store: S, place: String) -> Self {
        Self { store, place, has_told: AtomicBool::new(false) }
    }
}

impl<S: ObjectStore> ObjectStore for Outspoken<S> {
    fn put(&self, id: ObjectId, parts: &[&[u8]]) -> Result<(), StoreError> {
        self.store.put(id, parts)
    }

    fn get_range(&self, id: ObjectId, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        self.store.get_range(id, range)
    }

    fn delete(&self, id: ObjectId) -> Result<(), StoreError> {
        self.store.delete(id)
    }

    fn sync(&self) -> io::Result<()> {
        let result = self.store.sync();
        if let Err(error) = &result
            && !self.has_told.swap(true, Ordering::Relaxed)
        {
            say!(
                "file data in {} cannot be made durable: {error}. This mount stores no more \
                 of it: writes that are flushed or synced fail with EIO. Remove the cause, then \
                 unmount and mount again",
                self.place
            );
        }
        result
    }

    fn note_unsynced(&self, objects: &[ObjectId]) {
        self.store.note_unsynced(objects);
    }

    fn space(&self) -> Option<Space> {
        self.store.space()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Failing;

    impl ObjectStore for Failing {
        fn put(&self, _: ObjectId, _: &[&[u8]]) -> Result<(), StoreError> {
            Err(StoreError::Full)
        }

        fn get_range(&self, _: ObjectId, _: Range<u64>) -> Result<Vec<u8>, StoreError> {
            Err(StoreError::Missing)
        }

        fn delete(&self, _: ObjectId) -> Result<(), StoreError> {
            Ok(())
        }

        fn sync(&self) -> io::Result<()> {
            Err(io::Error::other("a disk fails"))
        }

        fn space(&self) -> Option<Space> {
            Some(Space { total: 3, free: 2, available: 1 })
        }
    }

    #[test]
    fn all_is_passed_on_and_the_first_failure_is_told() {
        let store = Outspoken::new(Failing, "/objects".to_owned());
        let id = ObjectId(1);
        assert!(matches!(store.put(id, &[]), Err(StoreError::Full)));
        assert!(matches!(store.get_range(id, 0..1), Err(StoreError::Missing)));
        assert!(store.delete(id).is_ok());
        assert_eq!(store.space().map(|space| space.available), Some(1));
        for _ in 0..2 {
            assert_eq!(store.sync().unwrap_err().to_string(), "a disk fails");
            assert!(store.has_told.load(Ordering::Relaxed));
        }
    }
}
