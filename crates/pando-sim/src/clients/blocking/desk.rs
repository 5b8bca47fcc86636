//! A client's files with objects, through the code of mounts.

use std::sync::Arc;

use pando_client::{Client, Content};
use pando_data::{DataFs, Limits};
use pando_types::{Credentials, Errno, Ino, Name};

use super::baton::Baton;
use super::metadata::Blocking;
use crate::machines::bucket::PROCESS;
use crate::machines::objects::Objects;

const ROOT: Credentials = Credentials::ROOT;
/// Maximum offset and length of a write, bytes. Few contents are small enough for the metadata,
/// most are not.
pub(crate) const OFFSET_MAX: u64 = 30_000;
pub(crate) const WRITE_MAX: u64 = 12_000;
/// Access for reading and writing.
pub(crate) const READ_WRITE: u8 = 6;

/// A file that this client writes.
pub(crate) struct File {
    pub(crate) ino: Ino,
    pub(crate) name: Name,
    /// A second name, of a file that has two.
    pub(crate) other: Option<Name>,
    pub(crate) content: Vec<u8>,
}

/// A client's `DataFs`, and the files that the client has open there.
pub struct Desk {
    fs: Arc<DataFs>,
    baton: Arc<Baton>,
    pub(crate) files: Vec<File>,
    pub(crate) made: u32,
}

impl Desk {
    /// The desk of client `who`. `is_local`: the client is in the process that hosts all shards.
    pub(crate) fn new(who: u32, is_local: bool, client: &Arc<Client>, objects: &Objects) -> Self {
        let door = objects.bucket.door(if is_local { PROCESS } else { who });
        let baton = Arc::<Baton>::default();
        let metadata = Blocking { client: Arc::clone(client), baton: Arc::clone(&baton) };
        // There is no cache: each read goes to the store.
        let limits = Limits {
            cache_bytes: 0,
            sync_objects: objects.synced_by(is_local),
            ..Limits::default()
        };
        let fs = DataFs::new(Arc::new(metadata), door, limits);
        Self { fs, baton, files: Vec::new(), made: 0 }
    }

    pub(crate) async fn work<R: Send + 'static>(
        &self,
        code: impl FnOnce(&DataFs) -> R + Send + 'static,
    ) -> R {
        let fs = Arc::clone(&self.fs);
        self.baton.run(move || code(&fs)).await
    }

    /// Closes one open of a file.
    pub(crate) async fn close(&self, client: &Client, ino: Ino) {
        self.work(move |fs| fs.release(ino)).await;
        client.release(ino).await.ok();
    }

    /// Reads the whole file, through an open of its own.
    pub(crate) async fn read(&self, client: &Client, ino: Ino) -> Result<Vec<u8>, Errno> {
        let attr = client.open(&ROOT, ino, READ_WRITE, Content::Kept, None).await?;
        self.work(move |fs| fs.opened(&attr)).await;
        let most = 2 * (OFFSET_MAX + WRITE_MAX);
        let bytes = self.work(move |fs| fs.read(ino, 0, most)).await;
        self.close(client, ino).await;
        bytes
    }
}
