//! What a client does to the names of its files with objects.

use std::sync::Arc;

use pando_client::{Client, Content};
use pando_types::op::RenameFlags;
use pando_types::{Credentials, Errno, FileKind, Ino, Name};

use super::object_writer::Lanes;
use crate::base::lock::lock;
use crate::base::random::Random;
use crate::check::file_names::has_objects;
use crate::clients::blocking::desk::{Desk, File, READ_WRITE};
use crate::clients::client::ClientRun;
use crate::machines::objects::Objects;
use crate::model::{Op, Value};

const ROOT: Credentials = Credentials::ROOT;

impl ClientRun {
    pub(super) async fn make(
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
            desk.files.push(File { ino, name, other: None, content: Vec::new() });
        }
    }

    fn new_name(&self, desk: &mut Desk) -> Name {
        desk.made += 1;
        let name = format!("object-{}-{}", self.who, desk.made);
        let name = Name::new(name.as_bytes()).expect("letters and digits are a name");
        debug_assert!(has_objects(&name));
        name
    }

    pub(super) async fn rename(
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
        file.name = new_name;
        self.change_names(client, objects, lanes, random, file, rename).await?;
        lock(&objects.contents).counts.renamed += 1;
        Ok(())
    }

    /// Gives the file a second name, or takes one of two names away.
    pub(super) async fn link(
        &self,
        client: &Arc<Client>,
        objects: &Objects,
        lanes: &mut Lanes,
        random: &mut Random,
        desk: &mut Desk,
        file: &mut File,
    ) -> Result<(), Errno> {
        let change = match file.other.take() {
            Some(mut gone) => {
                if random.chance(1, 2) {
                    std::mem::swap(&mut gone, &mut file.name);
                }
                Op::Unlink(Ino::ROOT, gone)
            }
            None => {
                let second = self.new_name(desk);
                file.other = Some(second.clone());
                Op::Link(file.ino, Ino::ROOT, second)
            }
        };
        self.change_names(client, objects, lanes, random, file, change).await?;
        if random.chance(1, 2)
            && let Some(other) = &mut file.other
        {
            std::mem::swap(other, &mut file.name);
        }
        lock(&objects.contents).counts.linked += 1;
        Ok(())
    }

    /// Changes names of the file. It then has the name `file.name`.
    async fn change_names(
        &self,
        client: &Arc<Client>,
        objects: &Objects,
        lanes: &mut Lanes,
        random: &mut Random,
        file: &File,
        change: Op,
    ) -> Result<(), Errno> {
        let (held, losses) =
            (lock(&objects.contents).take(file.ino), self.shared.mail.power_losses());
        self.perform(client, lanes, random, ROOT, change).await?;
        // The last changes may have been lost before this one was acknowledged.
        let is_known = !objects.may_lose || self.shared.mail.power_losses() == losses;
        if let Some(held) = held.filter(|_| is_known) {
            lock(&objects.contents).renamed(file.ino, held, file.name.clone());
        }
        Ok(())
    }

    /// Removes the file's only name, then closes its last open.
    pub(super) async fn remove(
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
