//! Where a client writes and reads files with objects: one lane at a time.

use std::sync::Arc;

use pando_client::Client;
use pando_data::{Allocate, DataFs, Limits};
use pando_model::{Op, Value};
use pando_types::op::RenameFlags;
use pando_types::{Credentials, Errno, FileKind, Ino, Name, SetAttr};

use super::baton::Baton;
use super::metadata::Blocking;
use super::store::PROCESS;
use super::{Objects, has_objects};
use crate::client_run::{ClientRun, lock};
use crate::random::Random;

const ROOT: Credentials = Credentials::ROOT;
/// Files that a client has at most.
const FILES_MAX: usize = 4;
/// Where writes begin at most, and what they are at most, bytes: a few contents that stay in the metadata, many that do not.
const OFFSET_MAX: u64 = 30_000;
const WRITE_MAX: u64 = 12_000;
/// Reading and writing.
const READ_WRITE: u8 = 6;

/// A file that this client writes.
struct File {
    ino: Ino,
    name: Name,
    content: Vec<u8>,
}

/// What a client has at hand.
pub struct Desk {
    fs: Arc<DataFs>,
    baton: Arc<Baton>,
    files: Vec<File>,
    made: u32,
}

type Lanes = (usize, usize);

impl Desk {
    fn new(run: &ClientRun, client: &Arc<Client>, objects: &Objects) -> Self {
        let is_local = run.shared.here.is_some();
        let door = objects.bucket.door(if is_local { PROCESS } else { run.who });
        let baton = Arc::<Baton>::default();
        let metadata = Blocking { client: Arc::clone(client), baton: Arc::clone(&baton) };
        // Nothing is kept in memory: each read is one of the store.
        let limits = Limits {
            cache_bytes: 0,
            sync_objects: objects.synced_by(is_local),
            ..Limits::default()
        };
        let fs = DataFs::new(Arc::new(metadata), door, limits);
        Self { fs, baton, files: Vec::new(), made: 0 }
    }

    async fn work<R: Send + 'static>(&self, code: impl FnOnce(&DataFs) -> R + Send + 'static) -> R {
        let fs = Arc::clone(&self.fs);
        self.baton.run(move || code(&fs)).await
    }

    /// One open file less.
    async fn close(&self, client: &Client, ino: Ino) {
        self.work(move |fs| fs.release(ino)).await;
        client.release(ino).await.ok();
    }

    /// The whole file, through an open of its own.
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
    /// Uses files with objects, if no other lane is at it.
    pub(crate) async fn use_objects(
        &self,
        client: &Arc<Client>,
        lanes: &mut Lanes,
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

    /// Files are closed.
    pub(crate) async fn leave_objects(&self, client: &Arc<Client>) {
        let desk = lock(&self.desk).take().flatten();
        let Some(mut desk) = desk else { return };
        for File { ino, .. } in std::mem::take(&mut desk.files) {
            desk.close(client, ino).await;
        }
    }

    async fn use_some(
        &self,
        client: &Arc<Client>,
        desk: &mut Desk,
        objects: &Objects,
        lanes: &mut Lanes,
        random: &mut Random,
    ) {
        if desk.files.is_empty() || (desk.files.len() < FILES_MAX && random.chance(1, 6)) {
            self.make(client, desk, objects, lanes, random).await;
        }
        if random.chance(1, 4) {
            // What fails is tried again at another time.
            desk.work(|fs| {
                fs.discard_again();
                fs.collect_garbage().ok();
            })
            .await;
        }
        if desk.files.is_empty() {
            return;
        }
        let nth = random.below(desk.files.len() as u64) as usize;
        // It comes back if all goes well.
        let mut file = desk.files.swap_remove(nth);
        let ino = file.ino;
        let done = match random.below(10) {
            0 => {
                self.remove(client, desk, objects, lanes, random, file).await;
                return;
            }
            1 => self.rename(client, objects, lanes, random, desk, &mut file).await,
            2 | 3 => self.cut(desk, objects, random, &mut file).await,
            _ => self.write(desk, objects, random, &mut file).await,
        };
        match done {
            Ok(()) => desk.files.push(file),
            Err(_) => {
                lock(&objects.contents).doubt(ino);
                desk.close(client, ino).await;
            }
        }
    }

    async fn make(
        &self,
        client: &Arc<Client>,
        desk: &mut Desk,
        objects: &Objects,
        lanes: &mut Lanes,
        random: &mut Random,
    ) {
        let name = self.new_name(desk);
        let create = Op::Create {
            dir: Ino::ROOT,
            name: name.clone(),
            kind: FileKind::Regular,
            mode: 0o644,
            symlink: Vec::new(),
            exclusive: true,
            open: false,
        };
        let made = self.perform(client, lanes, random, ROOT, create).await;
        let Ok(Value::Created(stat, _)) = made else { return };
        let ino = stat.ino;
        if let Ok(attr) = client.open(&ROOT, ino, READ_WRITE, false, None).await {
            lock(&objects.contents).made(ino, name.clone());
            desk.work(move |fs| fs.opened(&attr, false)).await;
            desk.files.push(File { ino, name, content: Vec::new() });
        }
    }

    fn new_name(&self, desk: &mut Desk) -> Name {
        desk.made += 1;
        let name = format!("object-{}-{}", self.who, desk.made);
        let name = Name::new(name.as_bytes()).expect("letters and digits are a name");
        debug_assert!(has_objects(&name));
        name
    }

    /// Some bytes, stored at once; and perhaps somebody loses power.
    async fn write(
        &self,
        desk: &Desk,
        objects: &Objects,
        random: &mut Random,
        file: &mut File,
    ) -> Result<(), Errno> {
        let ino = file.ino;
        for _ in 0..random.between(1, 4) {
            let (offset, len) = (random.below(OFFSET_MAX), random.between(1, WRITE_MAX));
            let stamp = random.draw().to_le_bytes();
            let data: Vec<u8> = stamp.iter().copied().cycle().take(len as usize).collect();
            let end = (offset + len) as usize;
            file.content.resize(file.content.len().max(end), 0);
            file.content[offset as usize..end].copy_from_slice(&data);
            desk.work(move |fs| fs.write(ino, Some(offset), &data, None)).await?;
        }
        self.store(desk, objects, random, file).await
    }

    async fn store(
        &self,
        desk: &Desk,
        objects: &Objects,
        random: &mut Random,
        file: &File,
    ) -> Result<(), Errno> {
        let (ino, is_synced) = (file.ino, random.chance(1, 2));
        lock(&objects.contents).begins(ino, &file.content);
        desk.work(move |fs| if is_synced { fs.fsync(ino) } else { fs.flush(ino) }).await?;
        lock(&objects.contents).stored(ino, is_synced);
        if objects.may_lose && random.chance(1, 6) {
            self.shared.mail.lose_power();
        }
        Ok(())
    }

    /// The file becomes shorter or longer, or has a hole.
    async fn cut(
        &self,
        desk: &Desk,
        objects: &Objects,
        random: &mut Random,
        file: &mut File,
    ) -> Result<(), Errno> {
        let (ino, size) = (file.ino, file.content.len() as u64);
        let (from, len) = (random.below(OFFSET_MAX), random.between(1, OFFSET_MAX));
        let is_hole = random.chance(1, 2);
        if is_hole {
            let hole = from.min(size) as usize..(from + len).min(size) as usize;
            file.content[hole].fill(0);
        } else {
            file.content.resize(from as usize, 0);
        }
        lock(&objects.contents).begins(ino, &file.content);
        desk.work(move |fs| match is_hole {
            true => fs.fallocate(ino, (from, len), Allocate::PunchHole, None),
            false => {
                let set = SetAttr { size: Some(from), ..SetAttr::default() };
                fs.setattr(&ROOT, ino, set).map(drop)
            }
        })
        .await?;
        let contents = &mut lock(&objects.contents);
        contents.counts.cut += 1;
        contents.stored(ino, false);
        Ok(())
    }

    async fn rename(
        &self,
        client: &Arc<Client>,
        objects: &Objects,
        lanes: &mut Lanes,
        random: &mut Random,
        desk: &mut Desk,
        file: &mut File,
    ) -> Result<(), Errno> {
        let new_name = self.new_name(desk);
        let rename = Op::Rename {
            from: Ino::ROOT,
            name: file.name.clone(),
            to: Ino::ROOT,
            new_name: new_name.clone(),
            flags: RenameFlags::default(),
        };
        self.perform(client, lanes, random, ROOT, rename).await?;
        file.name = new_name;
        lock(&objects.contents).named(file.ino, file.name.clone());
        Ok(())
    }

    /// Its name goes, and then the last who has it open.
    async fn remove(
        &self,
        client: &Arc<Client>,
        desk: &Desk,
        objects: &Objects,
        lanes: &mut Lanes,
        random: &mut Random,
        file: File,
    ) {
        lock(&objects.contents).removed(file.ino);
        let unlink = Op::Unlink(Ino::ROOT, file.name);
        let unlinked = self.perform(client, lanes, random, ROOT, unlink).await;
        lock(&objects.contents).counts.unlinked += u64::from(unlinked.is_ok());
        desk.close(client, file.ino).await;
    }

    /// Reads a file, whoever writes it, and compares. `must`: nothing is broken.
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

    /// When nobody is left, a fresh client reads all files, and then deletes all garbage.
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
