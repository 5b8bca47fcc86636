//! The process that a shard comes to.

use std::time::{Duration, Instant};

use pando_core::contract::{GroupMeta, Write};
use pando_types::peer::RowChange;
use pando_types::{Epoch, Lsn, ShardIndex};
use pando_wire::{Ask, Group, Hosting, MoveAsk, MoveStage, MoveToken, MoveTold, Told};

use super::ask::{Asked, Silent};
use super::journal::{Coming, put_in_place};
use super::{Point, Shared};
use crate::net::say;
use crate::store::{Room, Store, StoreOptions};

/// A page of records; the source serves nothing else while it reads one.
const PAGE_BYTES: u32 = 64 << 10;
/// So much may be left of changes when the source is frozen, bytes of what it told last.
const LITTLE: usize = 64 << 10;
/// Rounds of changes before the source is frozen whatever is left (it refuses if that is much).
const ROUNDS_MAX: u32 = 200;
/// Attempts, if the source cannot keep what changes, or more changes than can be told while it is frozen.
const ATTEMPTS_MAX: u32 = 5;
/// Log space of a change beyond its keys and values, at most.
const CHANGE_BYTES: u64 = 64;
/// Exchanges with one copy, likewise.
const EXCHANGES_MAX: u32 = 10;
/// The source is told how far it is, so often.
const TELL_EVERY: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(200);

/// Why a move has ended.
enum End {
    /// It stays where it was, in words why.
    Failed(String),
    /// It may be tried again.
    Again(String),
    /// This process ends.
    Stopped,
}

impl From<Silent> for End {
    fn from(silent: Silent) -> Self {
        Self::Failed(format!("its host does not answer: {}", silent.0))
    }
}

impl From<crate::store::StoreError> for End {
    fn from(error: crate::store::StoreError) -> Self {
        Self::Failed(error.what)
    }
}

/// Copies the shard and takes it over.
pub(super) fn adopt(shared: &Shared, shard: ShardIndex, from: Hosting, rate: u64) {
    let mut tries = 0;
    let end = loop {
        tries += 1;
        shared.remove(&shared.folder.coming(shard.0));
        match attempt(shared, shard, &from, rate) {
            Err(End::Again(why)) if tries < ATTEMPTS_MAX => {
                say(&format!("shard {shard}: the move begins anew: {why}"));
                shared.pause(PAUSE);
            }
            end => break end,
        }
    };
    finish(shared, shard, end);
}

/// Goes on with a copy that was complete when the last process of this folder ended. Only the source's word that it has gone on
/// makes the copy worthless.
pub(super) fn resume(shared: &Shared, shard: ShardIndex, mut coming: Coming) {
    if shared.lock.lock().add(&shared.folder, shard.0).is_err() {
        // Another process of this folder is at it.
        return;
    }
    if !coming.is_taken && !shared.folder.coming(shard.0).exists() {
        // Without a copy nothing is to be asked for.
        return finish(shared, shard, Err(End::Failed("its copy is gone".to_owned())));
    }
    shared.note(shard, |moving| moving.from.clone_from(&coming.from.addresses));
    let asked = Asked::new(shared.superblock.id(), shared.keys.clone(), coming.from.clone());
    let mut asked = match asked {
        Ok(asked) => asked,
        Err(Silent(why)) => {
            say(&format!("shard {shard}: a move cannot go on: {why}"));
            return shared.note(shard, |moving| moving.stage = MoveStage::Failed(why));
        }
    };
    let end = match obtain(shared, &mut asked, &mut coming) {
        Ok(Answer::Given) => serve(shared, &mut asked, &coming),
        Ok(Answer::Over(why)) => Err(End::Failed(why)),
        Err(end) => Err(end),
    };
    finish(shared, shard, end);
}

fn finish(shared: &Shared, shard: ShardIndex, end: Result<(), End>) {
    let why = match end {
        Ok(()) => return say(&format!("shard {shard} has come here, and is served")),
        Err(End::Stopped) => return,
        Err(End::Failed(why) | End::Again(why)) => why,
    };
    // First what says that the copy is complete: else a later start asks for the shard, and has nothing of it.
    if let Err(error) = Coming::remove(&shared.folder, shard) {
        say(&format!(
            "shard {shard} stays where it was: {why}; its copy here is looked at again at the next start ({error})"
        ));
        return shared.note(shard, |moving| moving.stage = MoveStage::Failed(why));
    }
    shared.remove(&shared.folder.coming(shard.0));
    shared.lock.lock().release(shard.0);
    say(&format!("shard {shard} stays where it was: {why}"));
    shared.note(shard, |moving| moving.stage = MoveStage::Failed(why));
}

fn attempt(shared: &Shared, shard: ShardIndex, from: &Hosting, rate: u64) -> Result<(), End> {
    let mut token = MoveToken([0; 16]);
    getrandom::fill(&mut token.0).map_err(|error| End::Failed(error.to_string()))?;
    let mut asked = Asked::new(shared.superblock.id(), shared.keys.clone(), from.clone())?;
    let begun = changes(asked.ask_move(shard, token, MoveAsk::Follow(None))?)?;
    shared.note(shard, |moving| {
        (moving.stage, moving.copied, moving.total) = (MoveStage::Copying, 0, begun.bytes);
    });
    // One more than the source is told that it will at least be: so its word and its host's are told apart.
    let options = StoreOptions { epoch_at_least: begun.epoch.0 + 2, ..shared.options.store };
    let id = shared.superblock.database_id(shard.0);
    let (store, _) = Store::open(&shared.folder.coming(shard.0), id, &options)?;
    let checkpoint_bytes = shared.options.checkpoint_bytes;
    let mut copy =
        Copy { shared, shard, token, asked, store, checkpoint_bytes, at: begun.upto, told: None };
    copy.records(rate)?;
    let mut tries = 0;
    let coming = loop {
        tries += 1;
        let why = match copy.exchange(from) {
            Ok((coming, Answer::Given)) => break coming,
            Ok((_, Answer::Over(why))) | Err(End::Again(why)) => why,
            Err(end) => return Err(end),
        };
        if tries == EXCHANGES_MAX {
            return Err(End::Again(why));
        }
        // It goes on there, and what changes is still kept.
        shared.note(shard, |moving| moving.stage = MoveStage::Copying);
        shared.pause(PAUSE);
    };
    let Copy { mut asked, store, .. } = copy;
    drop(store);
    serve(shared, &mut asked, &coming)
}

/// What has changed, as it was told.
struct Changed {
    groups: Vec<Group>,
    upto: Lsn,
    last: Lsn,
    epoch: Epoch,
    clock: u64,
    bytes: u64,
}

fn changes(told: MoveTold) -> Result<Changed, End> {
    match told {
        MoveTold::Changes { groups, upto, last, epoch, clock, bytes } => {
            Ok(Changed { groups, upto, last, epoch, clock, bytes })
        }
        MoveTold::Over(why) | MoveTold::Unsure(why) => Err(End::Again(why)),
        MoveTold::Given | MoveTold::Done => Err(End::Failed("its host speaks nonsense".to_owned())),
    }
}

/// A store that is being filled.
struct Copy<'a> {
    shared: &'a Shared,
    shard: ShardIndex,
    token: MoveToken,
    asked: Asked,
    store: Store,
    checkpoint_bytes: usize,
    /// Changes of the source up to here are in the copy.
    at: Lsn,
    /// When the source was told last how far this is.
    told: Option<Instant>,
}

impl Copy<'_> {
    /// All records, page by page, and what changes meanwhile.
    fn records(&mut self, rate: u64) -> Result<(), End> {
        let mut from = Vec::new();
        loop {
            let ask = Ask::Scan { shard: self.shard, from, bytes: PAGE_BYTES };
            let (rows, is_last) = match self.asked.ask(ask)? {
                Told::Rows { rows, is_last } => (rows, is_last),
                // A copy that lacks what could not be read would be taken for all there is.
                Told::Failed(why) | Told::Gap { why, .. } => return Err(End::Failed(why)),
                _ => return Err(End::Failed("its host speaks nonsense".to_owned())),
            };
            from = rows.last().map(|(key, _)| key.clone()).unwrap_or_default();
            from.push(0);
            let bytes: usize = rows.iter().map(|(key, value)| key.len() + value.len()).sum();
            let writes: Vec<_> =
                rows.into_iter().map(|(key, value)| Write::Put(key, value)).collect();
            self.apply(&writes, 0)?;
            self.shared.note(self.shard, |moving| moving.copied += bytes as u64);
            // Also so that the source need not keep much.
            self.follow()?;
            self.shared.pass(Point::Copying);
            if is_last {
                return Ok(());
            }
            let nanos = (bytes as u64).saturating_mul(1_000_000_000) / rate.max(1);
            self.shared.pause(Duration::from_nanos(nanos));
        }
    }

    /// Takes one round of changes; bytes of it.
    fn follow(&mut self) -> Result<usize, End> {
        if self.shared.is_stopped() {
            return Err(End::Stopped);
        }
        self.tell()?;
        let ask = MoveAsk::Follow(Some(self.at));
        let told = changes(self.asked.ask_move(self.shard, self.token, ask)?)?;
        self.take_groups(told.groups, told.upto)
    }

    /// Now and then: whoever asks the source hears how far this is.
    fn tell(&mut self) -> Result<(), End> {
        if self.told.is_some_and(|at| at.elapsed() < TELL_EVERY) {
            return Ok(());
        }
        self.told = Some(Instant::now());
        let moving = self.shared.coming.lock().get(&self.shard).cloned();
        match moving.map(MoveAsk::SoFar) {
            Some(ask) => Ok(self.asked.ask_move(self.shard, self.token, ask).map(drop)?),
            None => Ok(()),
        }
    }

    fn take_groups(&mut self, groups: Vec<Group>, upto: Lsn) -> Result<usize, End> {
        let mut bytes = 0;
        for group in groups {
            let writes: Vec<_> = group.changes.into_iter().map(write).collect();
            bytes += self.apply(&writes, group.now)?;
        }
        self.at = upto;
        Ok(bytes)
    }

    /// Until little is left.
    fn catch_up(&mut self) -> Result<(), End> {
        for _ in 0..ROUNDS_MAX {
            if self.follow()? < LITTLE {
                break;
            }
        }
        Ok(())
    }

    /// The source stands still; the rest comes, the copy is made durable, and is asked for.
    fn exchange(&mut self, from: &Hosting) -> Result<(Coming, Answer), End> {
        self.catch_up()?;
        // With the source at work, what is not written yet is made durable first: less to do when it stands still.
        self.sync()?;
        self.follow()?;
        self.shared.note(self.shard, |moving| moving.stage = MoveStage::Exchanging);
        let ask = MoveAsk::Freeze(self.at);
        let told = changes(self.asked.ask_move(self.shard, self.token, ask)?)?;
        self.shared.pass(Point::Exchanging);
        if told.upto != told.last {
            return Err(End::Again("not all changes were told".to_owned()));
        }
        self.take_groups(told.groups, told.upto)?;
        // The shard's clock goes on from where it stood.
        self.apply(&[], told.clock)?;
        self.sync()?;
        let last = (told.epoch, told.last);
        let mut coming = Coming { token: self.token, from: from.clone(), last, is_taken: false };
        coming.write(&self.shared.folder).map_err(|error| End::Failed(error.to_string()))?;
        self.shared.pass(Point::Ready);
        let answer = obtain(self.shared, &mut self.asked, &mut coming)?;
        Ok((coming, answer))
    }

    fn sync(&mut self) -> Result<(), End> {
        self.store.write()?;
        let synced = self.store.syncer().sync();
        synced.map(drop).map_err(|fatal| End::Failed(fatal.to_string()))
    }

    fn apply(&mut self, writes: &[Write], now: u64) -> Result<usize, End> {
        let bytes = |write: &Write| match write {
            Write::Put(key, value) => key.len() + value.len(),
            Write::Delete(key) => key.len(),
            Write::DeleteRange(from, to) => from.len() + to.len(),
        };
        let bytes: usize = writes.iter().map(bytes).sum();
        let room = bytes as u64 + CHANGE_BYTES * (writes.len() as u64 + 4);
        match self.store.reserve(room, false) {
            Room::Enough => {}
            Room::Full => {
                let folder = self.shared.folder.path().display();
                return Err(End::Failed(format!("the disk of {folder} is full: make room there")));
            }
            Room::Failed(why) => return Err(End::Failed(why)),
        }
        self.store.apply(writes, &GroupMeta { now, ..GroupMeta::default() });
        self.store.write()?;
        if self.store.tree_bytes() >= self.checkpoint_bytes {
            self.checkpoint()?;
        }
        Ok(bytes)
    }

    fn checkpoint(&mut self) -> Result<(), End> {
        let failed =
            |why: &dyn std::fmt::Display| End::Failed(format!("the copy cannot be written: {why}"));
        let job = match self.store.begin_checkpoint() {
            Ok(job) => job,
            Err(Room::Failed(why)) => return Err(failed(&why)),
            Err(_) => return Err(failed(&"the disk is full")),
        };
        if let Some(job) = job {
            let done = job.run().map_err(|error| failed(&error))?;
            self.store.install(done).remove().map_err(|error| failed(&error))?;
        }
        Ok(())
    }
}

fn write(change: RowChange) -> Write {
    match change {
        RowChange::Put(key, value) => Write::Put(key, value),
        RowChange::Delete(key) => Write::Delete(key),
        RowChange::DeleteRange(from, to) => Write::DeleteRange(from, to),
    }
}

/// What the source says in the end.
enum Answer {
    /// The shard is this process's.
    Given,
    /// The source has gone on, in words why.
    Over(String),
}

/// Asks the source for the shard until it has answered.
fn obtain(shared: &Shared, asked: &mut Asked, coming: &mut Coming) -> Result<Answer, End> {
    let shard = coming.from.shard;
    let hosts = shared.hosts.get().ok_or(End::Stopped)?;
    shared.note(shard, |moving| moving.stage = MoveStage::Asking);
    let to = hosts.here(shard, Epoch(coming.last.0.0 + 1));
    let mut is_said = false;
    loop {
        let ask = MoveAsk::GiveAway { last: coming.last, to: to.clone() };
        match asked.ask_move(shard, coming.token, ask) {
            Ok(MoveTold::Given) => {
                coming.is_taken = true;
                return Ok(Answer::Given);
            }
            Ok(MoveTold::Over(why)) => {
                Coming::remove(&shared.folder, shard)
                    .map_err(|error| End::Failed(error.to_string()))?;
                return Ok(Answer::Over(why));
            }
            Ok(MoveTold::Unsure(why)) | Err(Silent(why)) => {
                if !is_said {
                    say(&format!(
                        "shard {shard} is complete here, but the server that it comes from does not say whether it has given \
                         it away; it is asked until it does ({why})"
                    ));
                    is_said = true;
                }
                shared.pause(PAUSE);
                if shared.is_stopped() {
                    return Err(End::Stopped);
                }
            }
            Ok(_) => return Err(End::Stopped),
        }
    }
}

/// The shard is this process's: opens it, and tells.
fn serve(shared: &Shared, asked: &mut Asked, coming: &Coming) -> Result<(), End> {
    let shard = coming.from.shard;
    let hosting = open(shared, coming).map_err(|why| {
        say(&format!(
            "shard {shard} is this server's, but cannot be served: {why}; it is tried again at the next start"
        ));
        shared.note(shard, |moving| moving.stage = MoveStage::Failed(why));
        End::Stopped
    })?;
    shared.pass(Point::Opened);
    // If it is not heard now, the source learns it as all others do.
    let _ = asked.ask_move(shard, coming.token, MoveAsk::Moved(hosting));
    shared.note(shard, |moving| moving.stage = MoveStage::Done);
    Ok(())
}

fn open(shared: &Shared, coming: &Coming) -> Result<Hosting, String> {
    let shard = coming.from.shard;
    let words = |error: std::io::Error| error.to_string();
    shared.note(shard, |moving| moving.stage = MoveStage::Opening);
    coming.write(&shared.folder).map_err(words)?;
    shared.pass(Point::Taken);
    put_in_place(&shared.folder, shard).map_err(words)?;
    let path = shared.folder.shard(shard.0);
    let (host, superblock) = (&shared.host, &shared.superblock);
    host.take_over(&path, superblock, &shared.options, shard).map_err(|error| error.what)?;
    Coming::remove(&shared.folder, shard).map_err(words)?;
    let server = shared.server.get().and_then(std::sync::Weak::upgrade);
    let server = server.ok_or("the server is stopping")?;
    let epoch = host.epoch(shard).ok_or("it has stopped")?;
    server.open_shard(shard, epoch).map_err(words)?;
    Ok(server.hosts().here(shard, epoch))
}
