//! Programs that lock. Lanes of all clients take locks of a few files, read and change what the
//! locks protect, and release them.
//!
//! ```text
//!   file 0, 1: fcntl     [ part 0: value, value │ part 1: value, value ]     each part, or the whole file
//!   file 2:    flock     its size is the value
//! ```
//!
//! No other operation changes these files, and the model does not know their contents:
//! `judges/locks.rs` judges them. Clients die with locks, stand still for longer than their lease,
//! and lose their sessions. Files are renamed, and hash slots move to other shards.

use std::sync::Arc;

use pando_client::{Client, Transport};
use pando_types::op::RenameFlags;
use pando_types::{
    Credentials, Errno, FileKind, Ino, Lock, LockKind, LockOwner, LockRange, LockSpace, Name,
};

use crate::base::lock::lock;
use crate::base::random::Random;
use crate::clients::client::ClientRun;
use crate::clients::programs::lock_holder::{Holder, PART, SIZED};
use crate::model::{Op, Value};

const ROOT: Credentials = Credentials::ROOT;
const FILES: u64 = 3;

/// One of the two names between which a file is renamed.
fn name_of(nth: u64, which: u64) -> Name {
    Name::new(format!("lock-{nth}-{which}").as_bytes()).expect("letters and digits are a name")
}

impl ClientRun {
    /// Takes a lock, works under it, and releases it.
    pub(crate) async fn use_lock(
        &self,
        client: &Arc<Client>,
        lanes: &mut (usize, usize),
        random: &mut Random,
    ) {
        let nth = random.below(FILES);
        let Some(ino) = self.find_locked(client, lanes, random, nth).await else { return };
        if random.chance(1, 10) {
            self.rename_locked(client, lanes, random, nth).await;
        }
        let (wanted, tenure) = {
            let mut locks = lock(&self.shared.locks);
            let wanted = some_lock(nth, locks.new_owner(), random);
            (wanted, locks.asks(self.who, ino, wanted))
        };
        let holder = Holder { run: self, client, ino, nth, lock: wanted, tenure };
        if self.is_granted(&holder, random.chance(1, 4)).await {
            lock(&self.shared.locks).granted(tenure);
            holder.work(random).await;
            holder.settle().await;
            lock(&self.shared.locks).lets_go(tenure);
            let Lock { space, owner, range, .. } = wanted;
            // Sometimes the program unlocks, sometimes it only closes the file.
            if random.chance(2, 3) {
                let unlocked = client.unlock(ino, space, owner, range).await;
                self.told(unlocked.err());
            }
        }
        lock(&self.shared.locks).lets_go(tenure);
        client.forget_locks(ino, wanted.space, wanted.owner).await;
    }

    async fn is_granted(&self, holder: &Holder<'_>, is_once: bool) -> bool {
        let Holder { client, ino, lock: wanted, .. } = *holder;
        let asked = match is_once {
            true => client.try_lock(ino, wanted).await.map(|in_the_way| in_the_way.is_none()),
            false => {
                let mail = &self.shared.mail;
                let until = self.shared.lock_patience.map(|patience| mail.now_nanos() + patience);
                let is_wanted = || until.is_none_or(|until| mail.now_nanos() < until);
                client.lock(ino, wanted, &is_wanted).await.map(|()| true)
            }
        };
        {
            let counts = &mut lock(&self.shared.locks).counts;
            counts.refused += u64::from(asked == Ok(false));
            counts.given_up += u64::from(asked == Err(Errno::EINTR));
        }
        asked.unwrap_or(false)
    }

    fn told(&self, errno: Option<Errno>) {
        lock(&self.shared.locks).counts.told += u64::from(errno == Some(Errno::EIO));
    }

    /// Finds the file, or creates it. The creation is in the history, since names are listed.
    async fn find_locked(
        &self,
        client: &Arc<Client>,
        lanes: &mut (usize, usize),
        random: &mut Random,
        nth: u64,
    ) -> Option<Ino> {
        for which in 0..2 {
            match client.lookup(&ROOT, Ino::ROOT, &name_of(nth, which)).await {
                Ok(attr) => return Some(attr.ino),
                Err(Errno::ENOENT) => {}
                Err(_) => return None,
            }
        }
        let create = Op::Create {
            dir: Ino::ROOT,
            name: name_of(nth, 0),
            kind: FileKind::Regular,
            mode: 0o644,
            symlink: Vec::new(),
            exclusive: true,
            open: false,
        };
        match self.perform(client, lanes, random, ROOT, create).await {
            Ok(Value::Created(stat, _)) => Some(stat.ino),
            _ => None,
        }
    }

    /// Renames the file to its other name.
    async fn rename_locked(
        &self,
        client: &Arc<Client>,
        lanes: &mut (usize, usize),
        random: &mut Random,
        nth: u64,
    ) {
        let which = random.below(2);
        let rename = Op::Rename {
            from: Ino::ROOT,
            name: name_of(nth, which),
            to: Ino::ROOT,
            new_name: name_of(nth, 1 - which),
            flags: RenameFlags { exchange: false, no_replace: true },
        };
        let renamed = self.perform(client, lanes, random, ROOT, rename).await;
        lock(&self.shared.locks).counts.renamed += u64::from(renamed.is_ok());
    }

    /// After all clients have ended, a new client gets every lock at once, and reads the last
    /// values.
    pub async fn look_at_locks(self: Arc<Self>) {
        Arc::clone(&self).connect().await;
        let Some(client) = self.client() else { return };
        for (nth, which) in (0..FILES).flat_map(|nth| [(nth, 0), (nth, 1)]) {
            let Ok(attr) = client.lookup(&ROOT, Ino::ROOT, &name_of(nth, which)).await else {
                continue;
            };
            let (wanted, tenure) = {
                let mut locks = lock(&self.shared.locks);
                let (owner, range) = (locks.new_owner(), LockRange::ALL);
                let wanted =
                    Lock { space: space(nth), owner, range, kind: LockKind::Exclusive, pid: 1 };
                (wanted, locks.asks(self.who, attr.ino, wanted))
            };
            let answer = client.try_lock(attr.ino, wanted).await;
            if answer != Ok(None) {
                let line = format!("nobody is left, and {wanted:?} is not to be had: {answer:?}");
                lock(&self.shared.locks).broken.push(line);
                continue;
            }
            lock(&self.shared.locks).granted(tenure);
            let ino = attr.ino;
            let holder = Holder { run: &self, client: &client, ino, nth, lock: wanted, tenure };
            for part in holder.parts() {
                holder.read(part).await.ok();
            }
            lock(&self.shared.locks).lets_go(tenure);
        }
        client.close().await.ok();
    }
}

fn space(nth: u64) -> LockSpace {
    if nth == SIZED { LockSpace::Flock } else { LockSpace::Record }
}

/// A lock of one part or of all parts, mostly an exclusive one.
fn some_lock(nth: u64, owner: LockOwner, random: &mut Random) -> Lock {
    let range = match random.below(4) {
        _ if nth == SIZED => LockRange::ALL,
        0 => LockRange { first: 0, last: PART - 1 },
        1 => LockRange { first: PART, last: 2 * PART - 1 },
        2 => LockRange { first: 0, last: 2 * PART - 1 },
        _ => LockRange::ALL,
    };
    let kind = if random.chance(1, 6) { LockKind::Shared } else { LockKind::Exclusive };
    Lock { space: space(nth), owner, range, kind, pid: 1 }
}
