//! What a client does to its files with objects.

use std::sync::Arc;

use pando_client::{Client, Content};
use pando_data::Allocate;
use pando_types::op::RenameFlags;
use pando_types::{Credentials, Errno, FileKind, Ino, Name, SetAttr};

use crate::base::lock::lock;
use crate::base::random::Random;
use crate::clients::blocking::desk::{Desk, File, OFFSET_MAX, READ_WRITE, WRITE_MAX};
use crate::clients::client::ClientRun;
use crate::clients::file_names::has_objects;
use crate::machines::objects::Objects;
use crate::model::{Op, Value};

const ROOT: Credentials = Credentials::ROOT;
/// Maximum number of files that a client has open.
const FILES_MAX: usize = 4;

type Lanes = (usize, usize);

impl ClientRun {
    /// Changes one of the client's files, or deletes garbage.
    pub(crate) async fn use_some(
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
            // What fails is tried again later.
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
        // The file is put back if all calls succeed.
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
        if let Ok(attr) = client.open(&ROOT, ino, READ_WRITE, Content::Kept, None).await {
            lock(&objects.contents).made(ino, name.clone());
            desk.work(move |fs| fs.opened(&attr)).await;
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

    /// Writes some bytes and stores them at once. Sometimes a machine then loses power.
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
        match is_synced {
            true => lock(&objects.contents).synced(ino),
            false => lock(&objects.contents).stored(ino),
        }
        if objects.may_lose && random.chance(1, 6) {
            self.shared.mail.lose_power();
        }
        Ok(())
    }

    /// Makes the file shorter or longer, or punches a hole.
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
        contents.stored(ino);
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
        let (held, losses) =
            (lock(&objects.contents).take(file.ino), self.shared.mail.power_losses());
        self.perform(client, lanes, random, ROOT, rename).await?;
        file.name = new_name;
        // The last changes may have been lost before the rename was acknowledged.
        let is_known = !objects.may_lose || self.shared.mail.power_losses() == losses;
        if let Some(held) = held.filter(|_| is_known) {
            lock(&objects.contents).renamed(file.ino, held, file.name.clone());
        }
        Ok(())
    }

    /// Removes the file's name, then closes its last open.
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
}
