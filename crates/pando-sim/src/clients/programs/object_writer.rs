//! What a client does to the contents of its files with objects.

use std::sync::Arc;

use pando_client::Client;
use pando_data::Allocate;
use pando_types::{Credentials, Errno, SetAttr};

use crate::base::lock::lock;
use crate::base::random::Random;
use crate::clients::blocking::desk::{Desk, File, OFFSET_MAX, WRITE_MAX};
use crate::clients::client::ClientRun;
use crate::machines::objects::Objects;

const ROOT: Credentials = Credentials::ROOT;
/// Maximum number of files that a client has open.
const FILES_MAX: usize = 4;

pub(super) type Lanes = (usize, usize);

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
        let done = match random.below(12) {
            0 if file.other.is_none() => {
                self.remove(client, desk, objects, lanes, random, file).await;
                return;
            }
            1 => self.rename(client, objects, lanes, random, desk, &mut file).await,
            2 | 3 => self.cut(desk, objects, random, &mut file).await,
            4 => self.link(client, objects, lanes, random, desk, &mut file).await,
            5 => self.append(desk, objects, random, &mut file).await,
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
            let offset = random.below(OFFSET_MAX);
            let data = bytes(random);
            let end = offset as usize + data.len();
            file.content.resize(file.content.len().max(end), 0);
            file.content[offset as usize..end].copy_from_slice(&data);
            desk.work(move |fs| fs.write(ino, Some(offset), &data, None)).await?;
        }
        self.store(desk, objects, random, file).await
    }

    /// Appends some bytes, as `O_APPEND` does, and stores them at once. A file that has grown too
    /// long is left as it is.
    async fn append(
        &self,
        desk: &Desk,
        objects: &Objects,
        random: &mut Random,
        file: &mut File,
    ) -> Result<(), Errno> {
        let (ino, end) = (file.ino, file.content.len() as u64);
        if end > OFFSET_MAX {
            return Ok(());
        }
        let data = bytes(random);
        file.content.extend_from_slice(&data);
        let at = desk.work(move |fs| fs.write(ino, None, &data, None)).await?;
        lock(&objects.contents).appended(ino, end, at);
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

    /// Makes the file shorter or longer, punches a hole, or zeroes or reserves a range.
    async fn cut(
        &self,
        desk: &Desk,
        objects: &Objects,
        random: &mut Random,
        file: &mut File,
    ) -> Result<(), Errno> {
        let (ino, size) = (file.ino, file.content.len() as u64);
        let (from, len) = (random.below(OFFSET_MAX), random.between(1, OFFSET_MAX));
        let keep_size = random.chance(1, 2);
        let what = match random.below(6) {
            0 | 1 => Some(Allocate::PunchHole),
            2 => Some(Allocate::Zero { keep_size }),
            3 => Some(Allocate::Reserve { keep_size }),
            _ => None,
        };
        let content = &mut file.content;
        match what {
            None => content.resize(from as usize, 0),
            Some(Allocate::PunchHole | Allocate::Zero { keep_size: true }) => {
                content[from.min(size) as usize..(from + len).min(size) as usize].fill(0);
            }
            Some(Allocate::Zero { keep_size: false }) => {
                let end = (from + len) as usize;
                content[from.min(size) as usize..end.min(size as usize)].fill(0);
                // Then the file grows. A reader may find it in between.
                lock(&objects.contents).begins(ino, content);
                content.resize(content.len().max(end), 0);
            }
            Some(Allocate::Reserve { keep_size }) => {
                let end = if keep_size { 0 } else { (from + len) as usize };
                content.resize(content.len().max(end), 0);
            }
        }
        lock(&objects.contents).begins(ino, &file.content);
        desk.work(move |fs| match what {
            Some(what) => fs.fallocate(ino, (from, len), what, None),
            None => {
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
}

/// Some random bytes.
fn bytes(random: &mut Random) -> Vec<u8> {
    let len = random.between(1, WRITE_MAX) as usize;
    random.draw().to_le_bytes().into_iter().cycle().take(len).collect()
}
