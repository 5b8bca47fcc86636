//! How a client writes and reads files with objects, one lane at a time.

use std::sync::Arc;

use pando_client::Client;
use pando_data::{DataFs, Limits};
use pando_types::{Credentials, Errno, Ino, Name};

use super::Objects;
use super::baton::Baton;
use super::metadata::Blocking;
use super::store::PROCESS;
use crate::client_run::{ClientRun, lock};
use crate::random::Random;

const ROOT: Credentials = Credentials::ROOT;
/// Maximum offset and length of a write, bytes. Few contents are small enough for the metadata,
/// most are not.
pub(super) const OFFSET_MAX: u64 = 30_000;
pub(super) const WRITE_MAX: u64 = 12_000;
/// Access for reading and writing.
pub(super) const READ_WRITE: u8 = 6;

/// A file that this client writes.
pub(super) struct File {
    pub(super) ino: Ino,
    pub(super) name: Name,
    pub(super) content: Vec<u8>,
}

/// A client's `DataFs`, and the files that the client has open there.
pub struct Desk {
    fs: Arc<DataFs>,
    baton: Arc<Baton>,
    pub(super) files: Vec<File>,
    pub(super) made: u32,
}

impl Desk {
    fn new(run: &ClientRun, client: &Arc<Client>, objects: &Objects) -> Self {
        let is_local = run.shared.here.is_some();
        let door = objects.bucket.door(if is_local { PROCESS } else { run.who });
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

    pub(super) async fn work<R: Send + 'static>(
        &self,
        code: impl FnOnce(&DataFs) -> R + Send + 'static,
    ) -> R {
        let fs = Arc::clone(&self.fs);
        self.baton.run(move || code(&fs)).await
    }

    /// Closes one open of a file.
    pub(super) async fn close(&self, client: &Client, ino: Ino) {
        self.work(move |fs| fs.release(ino)).await;
        client.release(ino).await.ok();
    }

    /// Reads the whole file, through an open of its own.
    async fn read(&self, client: &Client, ino: Ino) -> Result<Vec<u8>, Errno> {
        let attr = client.open(&ROOT, ino, READ_WRITE, false, None).await?;
        self.work(move |fs| fs.opened(&attr, false)).await;
        let most = 2 * (OFFSET_MAX + WRITE_MAX);
        let bytes = self.work(move |fs| fs.read(ino, 0, most)).await;
        self.close(client, ino).await;
        bytes
    }
}

impl ClientRun {
    /// Uses files with objects, unless another lane does.
    pub(crate) async fn use_objects(
        &self,
        client: &Arc<Client>,
        lanes: &mut (usize, usize),
        random: &mut Random,
    ) {
        let Some(objects) = self.shared.objects.clone() else { return };
        let taken = {
            let mut desk = lock(&self.desk);
            desk.take().unwrap_or_else(|| Some(Desk::new(self, client, &objects)))
        };
        *lock(&self.desk) = Some(None);
        let Some(mut desk) = taken else { return };
        self.use_some(client, &mut desk, &objects, lanes, random).await;
        if random.chance(1, 2) {
            let all = lock(&objects.contents).all();
            if !all.is_empty() {
                let (ino, name) = random.pick(&all).clone();
                self.compare(client, &desk, &objects, (ino, &name), false).await;
            }
        }
        *lock(&self.desk) = Some(Some(desk));
    }

    /// Closes all of the client's files with objects.
    pub(crate) async fn leave_objects(&self, client: &Arc<Client>) {
        let desk = lock(&self.desk).take().flatten();
        let Some(mut desk) = desk else { return };
        for File { ino, .. } in std::mem::take(&mut desk.files) {
            desk.close(client, ino).await;
        }
    }

    /// Reads any file and compares its content. `must`: nothing is broken, so an error is a fault.
    async fn compare(
        &self,
        client: &Arc<Client>,
        desk: &Desk,
        objects: &Objects,
        (ino, name): (Ino, &Name),
        must: bool,
    ) {
        let Some(oldest) = lock(&objects.contents).oldest(ino) else { return };
        let seen = match client.lookup(&ROOT, Ino::ROOT, name).await {
            Ok(attr) if attr.ino == ino => desk.read(client, ino).await,
            Ok(_) => Err(Errno::ESTALE),
            Err(errno) => Err(errno),
        };
        lock(&objects.contents).compare(ino, oldest, &seen, must);
    }

    /// After all clients have ended, a new client reads all files, then deletes all garbage.
    pub async fn look_at_objects(self: Arc<Self>) {
        Arc::clone(&self).connect().await;
        let (Some(client), Some(objects)) = (self.client(), self.shared.objects.clone()) else {
            return;
        };
        let desk = Desk::new(&self, &client, &objects);
        let all = lock(&objects.contents).all();
        for (ino, name) in all {
            self.compare(&client, &desk, &objects, (ino, &name), true).await;
        }
        while desk.work(DataFs::collect_garbage).await != Ok(0) {}
        client.close().await.ok();
    }
}
