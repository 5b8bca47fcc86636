//! Syncs of the objects that a mount stores, beside its requests.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use pando_client::BoxFuture;
use pando_data::ObjectStore;
use pando_data::object::stored_len;
use pando_lent::Objects;
use pando_types::Errno;
use pando_types::op::{ObjectId, ObjectRange};
use tokio::runtime::Handle;

/// A store of which threads of this runtime make the syncs.
#[derive(Clone)]
pub struct Syncing {
    store: Arc<dyn ObjectStore>,
    runtime: Handle,
}

impl Syncing {
    pub fn new(store: Arc<dyn ObjectStore>, runtime: Handle) -> Self {
        Self { store, runtime }
    }
}

impl std::fmt::Debug for Syncing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Syncing")
    }
}

impl Syncing {
    async fn run<R: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn ObjectStore) -> io::Result<R> + Send + 'static,
    ) -> Result<R, Errno> {
        let store = Arc::clone(&self.store);
        let done = self.runtime.spawn_blocking(move || work(&*store)).await;
        // A runtime that ends runs nothing any more.
        done.ok().and_then(Result::ok).ok_or(Errno::EIO)
    }
}

impl Objects for Syncing {
    fn sync<'a>(&'a self) -> BoxFuture<'a, Result<(), Errno>> {
        Box::pin(self.run(|store| store.sync()))
    }

    fn adopt<'a>(
        &'a self,
        objects: Vec<ObjectRange>,
    ) -> BoxFuture<'a, Result<BTreeSet<ObjectId>, Errno>> {
        let adopt = move |store: &dyn ObjectStore| {
            let ids: Vec<_> = objects.iter().map(|it| it.object).collect();
            store.note_unsynced(&ids);
            store.sync()?;
            let last = |it: &ObjectRange| stored_len(it.object_len).saturating_sub(1);
            let is_whole =
                |it: &&ObjectRange| store.get_range(it.object, last(it)..last(it) + 1).is_ok();
            Ok(objects.iter().filter(|it| !is_whole(it)).map(|it| it.object).collect())
        };
        Box::pin(self.run(adopt))
    }
}
