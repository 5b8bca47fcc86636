//! Checks that fsynced changes survive losses of power. Each lane has files of its own that no
//! other lane changes.
//!
//! A name is promised when its last change was fsynced, and no machine lost power between the
//! change and the answer to the fsync. Often some machine loses power right after that, while
//! others go on. Every later look must find what was promised.

use std::sync::Arc;

use pando_client::{Client, IfThere, Then};
use pando_types::op::{NewNode, RenameFlags};
use pando_types::{Credentials, Errno, FileKind, Ino, Name};

use crate::base::lock::lock;
use crate::base::random::Random;
use crate::clients::client::ClientRun;
use crate::clients::execute::{read, write};
use crate::judges::promises::Promise;

const ROOT: Credentials = Credentials::ROOT;
/// Number of directories of a lane.
const DIRS: usize = 2;
/// Maximum number of files of a lane.
const FILES_MAX: usize = 6;

#[derive(Clone, Debug)]
struct Kept {
    at: (Ino, Name),
    ino: Ino,
    content: Vec<u8>,
}

/// The files and directories of one lane.
#[derive(Default, Debug)]
pub struct Keeper {
    lane: usize,
    dirs: Vec<Ino>,
    files: Vec<Kept>,
    made: u32,
}

impl Keeper {
    /// An empty keeper of a lane. No other lane has this number.
    #[must_use]
    pub fn new(lane: usize) -> Self {
        Self { lane, ..Self::default() }
    }

    fn name(&mut self, what: &str) -> Name {
        self.made += 1;
        let name = format!("{what}-{}-{}", self.lane, self.made);
        Name::new(name.as_bytes()).expect("letters and digits are a name")
    }
}

impl ClientRun {
    /// Changes and fsyncs a file of the lane's own. Sometimes a machine then loses power. At last
    /// it looks at one of the lane's files.
    pub async fn keep(&self, client: &Arc<Client>, keeper: &mut Keeper, random: &mut Random) {
        let losses = self.losses();
        // After an error it is unknown which calls ran, so nothing is promised of the names.
        let promises = self.change(client, keeper, random).await.unwrap_or_default();
        // What a fence has taken is not promised by a later fsync.
        if self.losses() == losses {
            for (at, promise) in promises {
                lock(&self.shared.promises).make(at, promise);
            }
        } else {
            // The change may have been lost before the fsync. The file's state is unknown from now
            // on.
            keeper.files.retain(|kept| promises.iter().all(|(at, _)| *at != kept.at));
        }
        if random.chance(1, 3) {
            self.shared.mail.lose_power();
        }
        if !keeper.files.is_empty() {
            let at = random.pick(&keeper.files).at.clone();
            self.look(client, &at).await;
        }
    }

    /// Number of losses of power, and of this client's changes that were set aside.
    fn losses(&self) -> (u64, u64) {
        (self.shared.mail.power_losses(), self.set_aside())
    }

    async fn change(
        &self,
        client: &Arc<Client>,
        keeper: &mut Keeper,
        random: &mut Random,
    ) -> Result<Vec<((Ino, Name), Promise)>, Errno> {
        if keeper.dirs.len() < DIRS {
            return self.make_dir(client, keeper).await;
        }
        let dir = *random.pick(&keeper.dirs);
        let doubt = |at: &(Ino, Name)| lock(&self.shared.promises).doubt(at);
        if keeper.files.len() < 2 || (keeper.files.len() < FILES_MAX && random.chance(1, 4)) {
            let (name, content) = (keeper.name("file"), content(random));
            let node =
                NewNode { kind: FileKind::Regular, mode: 0o644, rdev: 0, symlink: Vec::new() };
            let (attr, _) =
                client.create(&ROOT, dir, &name, node, IfThere::Refuse, Then::Nothing).await?;
            write(client, &ROOT, attr.ino, 0, &content).await?;
            client.sync_file(attr.ino).await?;
            let kept = Kept { at: (dir, name), ino: attr.ino, content };
            keeper.files.push(kept.clone());
            return Ok(vec![(kept.at, Promise::File(kept.ino, kept.content))]);
        }
        let nth = random.below(keeper.files.len() as u64) as usize;
        // The file is put back if all calls succeed.
        let mut kept = keeper.files.swap_remove(nth);
        let old = kept.at.clone();
        doubt(&old);
        match random.below(5) {
            0 => {
                client.unlink(&ROOT, old.0, &old.1).await?;
                client.sync_file(old.0).await?;
                return Ok(vec![(old, Promise::Nothing)]);
            }
            1 | 2 => {
                kept.at = (dir, keeper.name("file"));
                let flags = RenameFlags::default();
                client.rename(&ROOT, old.0, &old.1, dir, &kept.at.1, flags).await?;
                client.sync_file(kept.ino).await?;
            }
            _ => {
                kept.content = content(random);
                write(client, &ROOT, kept.ino, 0, &kept.content).await?;
                client.sync_file(kept.ino).await?;
            }
        }
        keeper.files.push(kept.clone());
        let mut promises = vec![(kept.at.clone(), Promise::File(kept.ino, kept.content))];
        if old != kept.at {
            promises.push((old, Promise::Nothing));
        }
        Ok(promises)
    }

    async fn make_dir(
        &self,
        client: &Arc<Client>,
        keeper: &mut Keeper,
    ) -> Result<Vec<((Ino, Name), Promise)>, Errno> {
        let losses = self.losses();
        let name = keeper.name("kept");
        let attr = client.mkdir(&ROOT, Ino::ROOT, &name, 0o755).await?;
        client.sync_file(attr.ino).await?;
        client.sync_file(Ino::ROOT).await?;
        if self.losses() == losses {
            keeper.dirs.push(attr.ino);
        }
        Ok(vec![((Ino::ROOT, name), Promise::Dir(attr.ino))])
    }

    async fn look(&self, client: &Arc<Client>, at: &(Ino, Name)) {
        let promised = lock(&self.shared.promises).names.get(at).cloned();
        let Some(promised) = promised else { return };
        let seen = match client.lookup(&ROOT, at.0, &at.1).await {
            Ok(attr) if attr.kind == FileKind::Directory => Promise::Dir(attr.ino),
            Ok(attr) => match read(client, attr.ino, 0, 100).await {
                Ok(crate::model::Value::Bytes(bytes)) => Promise::File(attr.ino, bytes),
                _ => return,
            },
            Err(Errno::ENOENT | Errno::ESTALE) => Promise::Nothing,
            // There was no answer.
            Err(_) => return,
        };
        lock(&self.shared.promises).judge(at, &promised, &seen);
    }

    /// Looks at everything that was promised, with a new client.
    pub async fn look_at_all(self: Arc<Self>) {
        Arc::clone(&self).connect().await;
        let Some(client) = self.client() else { return };
        // Directories come first, since the files in them are found through them.
        let all: Vec<_> = lock(&self.shared.promises).names.keys().cloned().collect();
        for at in all {
            self.look(&client, &at).await;
        }
        client.close().await.ok();
    }
}

fn content(random: &mut Random) -> Vec<u8> {
    random.draw().to_le_bytes().to_vec()
}
