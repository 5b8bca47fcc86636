//! The copy of a shard: its records page by page, the groups that come meanwhile, and the exchange.

use std::time::Duration;

use babu::Priority;
use pando_core::contract::{GroupMeta, Write};
use pando_types::peer::RowChange;
use pando_types::{Epoch, Lsn};
use pando_wire::{Ask, Group, Hosting, MoveAsk, MoveStage, MoveToken, MoveTold, Told};

#[cfg(feature = "planted")]
use crate::common::planted::Planted;
use crate::folder::move_notes::Coming;
use crate::moving::faults::Point;
use crate::moving::target::end::End;
use crate::moving::target::taker::Pace;
use crate::moving::target::work::{Answer, Move};
use crate::store::error::Room;
use crate::store::records::Store;

/// Size of the last round of changes below which the source is frozen, bytes.
const LITTLE: usize = 64 << 10;
/// Rounds of changes after which the source is frozen, whatever is left. It refuses if too much is
/// left.
const ROUNDS_MAX: u32 = 200;
/// Largest log space of a change beyond its keys and values, bytes.
const CHANGE_BYTES: u64 = 64;
/// How often the target tells the source how far it is, nanoseconds.
const TELL_EVERY: u64 = 1_000_000_000;

/// Changes that the source has sent.
pub(crate) struct Changed {
    groups: Vec<Group>,
    pub(crate) upto: Lsn,
    last: Lsn,
    pub(crate) epoch: Epoch,
    clock: u64,
    pub(crate) bytes: u64,
}

pub(crate) fn changes(told: MoveTold) -> Result<Changed, End> {
    match told {
        MoveTold::Changes { groups, upto, last, epoch, clock, bytes } => {
            Ok(Changed { groups, upto, last, epoch, clock, bytes })
        }
        MoveTold::Over(why) | MoveTold::Unsure(why) => Err(End::Again(why)),
        MoveTold::Given | MoveTold::Done => {
            Err(End::Failed("its server sent an invalid reply".to_owned()))
        }
    }
}

/// A store that is being filled.
pub(crate) struct Copy {
    work: Move,
    token: MoveToken,
    store: Store,
    pace: Pace,
    /// Position up to which the source's groups are in the copy.
    at: Lsn,
    /// When the target last sent a report to the source, by the clock of timers.
    told: Option<u64>,
    /// Whether it takes no changes any more.
    #[cfg(feature = "planted")]
    is_deaf: bool,
}

impl Copy {
    pub(crate) fn new(work: Move, token: MoveToken, store: Store, pace: Pace, at: Lsn) -> Self {
        Self {
            work,
            token,
            store,
            pace,
            at,
            told: None,
            #[cfg(feature = "planted")]
            is_deaf: false,
        }
    }

    async fn ask_move(&self, ask: MoveAsk) -> Result<MoveTold, End> {
        Ok(self.work.desk.ask_move(self.work.shard, self.token, ask).await?)
    }

    /// Copies all records page by page, and takes the groups that come meanwhile.
    pub(crate) async fn records(&mut self) -> Result<(), End> {
        let mut from = Vec::new();
        loop {
            let ask = Ask::Scan { shard: self.work.shard, from, bytes: self.pace.page_bytes };
            let (rows, is_last) = match self.work.desk.ask(ask).await? {
                Told::Rows { rows, is_last } => (rows, is_last),
                // A copy without the records that cannot be read would be taken for the whole
                // shard.
                Told::Failed(why) | Told::Gap { why, .. } => return Err(End::Failed(why)),
                _ => return Err(End::Failed("its server sent an invalid reply".to_owned())),
            };
            from = rows.last().map(|(key, _)| key.clone()).unwrap_or_default();
            from.push(0);
            let bytes: usize = rows.iter().map(|(key, value)| key.len() + value.len()).sum();
            let writes: Vec<_> =
                rows.into_iter().map(|(key, value)| Write::Put(key, value)).collect();
            self.apply(&writes, 0)?;
            self.work.desk.note(|moving| moving.copied += bytes as u64);
            // The source keeps these groups in memory until they are taken.
            self.follow().await?;
            self.work.desk.pass(Point::Copying).await;
            if is_last {
                return Ok(());
            }
            let nanos = (bytes as u64).saturating_mul(1_000_000_000) / self.pace.rate.max(1);
            self.work.desk.pause(Duration::from_nanos(nanos)).await;
        }
    }

    /// Takes one round of changes. Returns their size in bytes.
    async fn follow(&mut self) -> Result<usize, End> {
        self.tell().await?;
        let told = changes(self.ask_move(MoveAsk::Follow(Some(self.at))).await?)?;
        self.take_groups(told.groups, told.upto)
    }

    /// Tells the source how far the copy is, once a second. Tools can ask the source.
    async fn tell(&mut self) -> Result<(), End> {
        let now = self.work.desk.now();
        if self.told.is_some_and(|at| now.saturating_sub(at) < TELL_EVERY) {
            return Ok(());
        }
        self.told = Some(now);
        let moving = self.work.desk.moving();
        self.ask_move(MoveAsk::SoFar(moving)).await.map(drop)
    }

    fn take_groups(&mut self, groups: Vec<Group>, upto: Lsn) -> Result<usize, End> {
        let mut bytes = 0;
        #[cfg(feature = "planted")]
        let groups = if self.is_deaf { Vec::new() } else { groups };
        for group in groups {
            let writes: Vec<_> = group.changes.into_iter().map(write).collect();
            bytes += self.apply(&writes, group.now)?;
        }
        self.at = upto;
        Ok(bytes)
    }

    /// Takes rounds of changes until little is left.
    async fn catch_up(&mut self) -> Result<(), End> {
        for _ in 0..ROUNDS_MAX {
            if self.follow().await? < LITTLE {
                break;
            }
        }
        Ok(())
    }

    /// Freezes the source, takes the last groups, syncs the copy, and asks for the shard.
    pub(crate) async fn exchange(&mut self, from: &Hosting) -> Result<(Coming, Answer), End> {
        self.catch_up().await?;
        // Syncs most of the copy while the source still serves: less is left to sync while it is
        // frozen.
        self.sync()?;
        #[cfg(feature = "planted")]
        {
            self.is_deaf = self.pace.planted == Some(Planted::LastChangesLost);
        }
        self.follow().await?;
        self.work.desk.stage(MoveStage::Exchanging);
        let told = changes(self.ask_move(MoveAsk::Freeze(self.at)).await?)?;
        self.work.desk.pass(Point::Exchanging).await;
        if told.upto != told.last {
            return Err(End::Again("its server did not send all changes".to_owned()));
        }
        self.take_groups(told.groups, told.upto)?;
        // Makes the copy's log remember the shard's time of day.
        self.apply(&[], told.clock)?;
        #[cfg(feature = "planted")]
        let is_synced = self.pace.planted != Some(Planted::CopyUnsynced);
        #[cfg(not(feature = "planted"))]
        let is_synced = true;
        if is_synced {
            self.sync()?;
        }
        let last = (told.epoch, told.last);
        let mut coming = Coming { token: self.token, from: from.clone(), last, is_taken: false };
        let written = coming.write(self.work.place());
        written.map_err(|error| End::Failed(error.to_string()))?;
        self.work.check_copy(&coming)?;
        self.work.desk.pass(Point::Ready).await;
        let answer = self.work.obtain(&mut coming).await?;
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
        match self.store.reserve(room, Priority::Normal) {
            Room::Enough => {}
            Room::Full => {
                let why = "the disk of the target folder is full: make room there";
                return Err(End::Failed(why.to_owned()));
            }
            Room::Failed(why) => return Err(End::Failed(why)),
        }
        self.store.apply(writes, &GroupMeta { now, ..GroupMeta::default() });
        self.store.write()?;
        if self.store.unflushed_bytes() >= self.pace.checkpoint_bytes {
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
        while let Some(job) = self.store.begin_merge() {
            match job.run() {
                Ok(done) => {
                    self.store.install_merge(done).remove().map_err(|error| failed(&error))?;
                }
                Err(babu::CheckpointError::Read(error)) if error.is_full() => break,
                Err(error) => return Err(failed(&error)),
            }
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
