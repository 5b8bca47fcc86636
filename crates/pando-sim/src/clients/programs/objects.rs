//! How a client uses files with objects, one lane at a time.

use std::sync::Arc;

use pando_client::Client;
use pando_data::DataFs;
use pando_types::{Credentials, Errno, Ino, Name};

use crate::base::lock::lock;
use crate::base::random::Random;
use crate::clients::blocking::desk::{Desk, File};
use crate::clients::client::ClientRun;
use crate::judges::contents::Errors;
use crate::machines::objects::Objects;

const ROOT: Credentials = Credentials::ROOT;

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
            desk.take().unwrap_or_else(|| Some(self.new_desk(client, &objects)))
        };
        *lock(&self.desk) = Some(None);
        let Some(mut desk) = taken else { return };
        self.use_some(client, &mut desk, &objects, lanes, random).await;
        if random.chance(1, 2) {
            let all = lock(&objects.contents).all();
            if !all.is_empty() {
                let (ino, name) = random.pick(&all).clone();
                self.compare(client, &desk, &objects, (ino, &name), Errors::MayCome).await;
            }
        }
        *lock(&self.desk) = Some(Some(desk));
    }

    fn new_desk(&self, client: &Arc<Client>, objects: &Objects) -> Desk {
        Desk::new(self.who, self.shared.here.is_some(), client, objects)
    }

    /// Closes all of the client's files with objects.
    pub(crate) async fn leave_objects(&self, client: &Arc<Client>) {
        let desk = lock(&self.desk).take().flatten();
        let Some(mut desk) = desk else { return };
        for File { ino, .. } in std::mem::take(&mut desk.files) {
            desk.close(client, ino).await;
        }
    }

    /// Reads any file and compares its content.
    pub(crate) async fn compare(
        &self,
        client: &Arc<Client>,
        desk: &Desk,
        objects: &Objects,
        (ino, name): (Ino, &Name),
        errors: Errors,
    ) {
        let Some(oldest) = lock(&objects.contents).oldest(ino) else { return };
        let seen = match client.lookup(&ROOT, Ino::ROOT, name).await {
            Ok(attr) if attr.ino == ino => desk.read(client, ino).await,
            Ok(_) => Err(Errno::ESTALE),
            Err(errno) => Err(errno),
        };
        lock(&objects.contents).compare(ino, oldest, &seen, errors);
    }

    /// After all clients have ended, a new client reads all files, then deletes all garbage.
    pub async fn look_at_objects(self: Arc<Self>) {
        Arc::clone(&self).connect().await;
        let (Some(client), Some(objects)) = (self.client(), self.shared.objects.clone()) else {
            return;
        };
        let desk = self.new_desk(&client, &objects);
        let all = lock(&objects.contents).all();
        for (ino, name) in all {
            self.compare(&client, &desk, &objects, (ino, &name), Errors::AreFaults).await;
        }
        while desk.work(DataFs::collect_garbage).await != Ok(0) {}
        client.close().await.ok();
    }
}
