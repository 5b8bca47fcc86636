//! The objects in a folder, for a check or a collection.

use std::path::Path;

use pando_data::{Listing, LocalStore, ObjectStore, object};
use pando_fsck::{Objects, Stored};
use pando_types::op::ObjectId;

use crate::failure::{FAILED, Failure};

/// The objects in the volume's folder.
pub struct StoredObjects {
    store: LocalStore,
    /// The listing, and the object after which it continues.
    listing: Option<(Option<ObjectId>, Listing)>,
}

impl StoredObjects {
    /// Opens the folder of objects.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let store = LocalStore::open(path).map_err(|error| {
            let shown = path.display();
            Failure::new(FAILED, format!("cannot open the object store {shown}: {error}"))
        })?;
        Ok(Self { store, listing: None })
    }

    fn error(&self, error: &dyn std::fmt::Display) -> String {
        format!("the object store {}: {error}", self.store.path().display())
    }
}

impl Objects for StoredObjects {
    fn list(&mut self, after: Option<ObjectId>, most: usize) -> Result<Vec<Stored>, String> {
        let mut listing = match self.listing.take() {
            Some((last, listing)) if last == after => listing,
            _ => self.store.list(after).map_err(|error| self.error(&error))?,
        };
        let mut page = Vec::new();
        for object in listing.by_ref().take(most) {
            let (id, bytes) = object.map_err(|error| self.error(&error))?;
            page.push(Stored { id, bytes });
        }
        self.listing = page.last().map(|last: &Stored| (Some(last.id), listing));
        Ok(page)
    }

    fn size(&mut self, id: ObjectId) -> Result<Option<u64>, String> {
        self.store.size(id).map_err(|error| self.error(&error))
    }

    fn size_for(&self, content: u64) -> u64 {
        object::stored_len(content)
    }

    fn delete(&mut self, id: ObjectId) -> Result<(), String> {
        self.store.delete(id).map_err(|error| self.error(&error))
    }
}
