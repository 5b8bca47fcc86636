//! Objects in any store that the `object_store` crate reaches, such as S3-compatible ones and
//! shared folders.
//!
//! Its futures need a runtime for their sockets, so one runs in a thread of its own. A caller hands
//! it a future, and waits. A `put` of these stores is durable when it returns, so there is nothing
//! to sync.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use pando_types::op::ObjectId;

use crate::store::traits::{ObjectStore, Space, StoreError};

/// Objects below a prefix of a remote store.
pub struct RemoteStore {
    store: Arc<dyn object_store::ObjectStore>,
    prefix: Path,
    runtime: tokio::runtime::Handle,
    /// Dropping it ends the runtime's thread.
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl RemoteStore {
    /// Objects of `store` with names that begin with `prefix`.
    pub fn new(store: Arc<dyn object_store::ObjectStore>, prefix: &str) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        std::thread::Builder::new()
            .name("pando-objects".to_owned())
            .spawn(move || runtime.block_on(stopped))?;
        Ok(Self { store, prefix: Path::from(prefix), runtime: handle, _stop: stop })
    }

    fn location(&self, id: ObjectId) -> Path {
        let (session, counter) = ((id.0 >> 64) as u64, id.0 as u64);
        // The low digits first: such stores spread load by prefix.
        self.prefix
            .clone()
            .join(format!("{:02x}", counter % 256))
            .join(format!("{session:016x}-{counter:016x}"))
    }

    fn wait<T: Send + 'static>(
        &self,
        future: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (sender, receiver) = sync_channel(1);
        self.runtime.spawn(async move {
            let _ = sender.send(future.await);
        });
        match receiver.recv() {
            Ok(result) => result.map_err(explain),
            Err(_) => Err(StoreError::Io(io::Error::other("the object store's thread is gone"))),
        }
    }
}

/// Looks for the decisive cause down the chain of errors.
fn explain(error: object_store::Error) -> StoreError {
    if matches!(error, object_store::Error::NotFound { .. }) {
        return StoreError::Missing;
    }
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(inner) = cause {
        if let Some(io) = inner.downcast_ref::<io::Error>()
            && matches!(io.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        {
            return StoreError::Full;
        }
        cause = inner.source();
    }
    StoreError::Io(io::Error::other(error))
}

impl ObjectStore for RemoteStore {
    fn put(&self, id: ObjectId, parts: &[&[u8]]) -> Result<(), StoreError> {
        let payload: PutPayload =
            parts.iter().map(|part| bytes::Bytes::copy_from_slice(part)).collect();
        let (store, location) = (Arc::clone(&self.store), self.location(id));
        self.wait(async move { store.put(&location, payload).await.map(drop) })
    }

    fn get_range(&self, id: ObjectId, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        let wanted = range.end - range.start;
        let (store, location) = (Arc::clone(&self.store), self.location(id));
        let bytes = self.wait(async move { store.get_range(&location, range).await })?;
        if bytes.len() as u64 == wanted { Ok(bytes.into()) } else { Err(StoreError::Short) }
    }

    fn delete(&self, id: ObjectId) -> Result<(), StoreError> {
        let (store, location) = (Arc::clone(&self.store), self.location(id));
        match self.wait(async move { store.delete(&location).await }) {
            Err(StoreError::Missing) => Ok(()),
            other => other,
        }
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn space(&self) -> Option<Space> {
        None
    }
}
