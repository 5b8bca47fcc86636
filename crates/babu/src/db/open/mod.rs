//! Opening a database: finding out what is on disk, and beginning a new epoch.
//!
//! An opening follows these steps. Before step 4 is durable, it changes nothing that a repeated
//! attempt would need.
//!
//! 1. Read the manifest, open the index files, and replay the logs: sealed logs to the byte, then
//!    the tail.
//! 2. Sync the replayed logs, so that all groups found are durable.
//! 3. Create a new log, and sync it.
//! 4. Write the manifest: a higher epoch, the end of every replayed log, the number of the new log.
//! 5. Only then cut torn tails, remove files that are no longer named, and make the ballast whole.
//!
//! On a full disk, `cramped` finds the room for steps 3 and 4.

pub mod cramped;
pub mod listing;
pub mod replay;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use crate::db::database::Db;
use crate::db::open::cramped::Cramped;
use crate::db::open::listing::{Listing, clean_up};
use crate::db::open::replay::Replayed;
use crate::db::published::Published;
use crate::db::state::current::State;
use crate::db::state::scrub::Scrub;
use crate::db::state::stats::WriteCounters;
use crate::disk::room::{Held, Share};
use crate::disk::traits::Disk;
use crate::index::pool::Pool;
use crate::levels::manifest::{MANIFEST, Manifest};
use crate::log::ballast::{Ballast, Made};
use crate::log::batch::Batch;
use crate::log::header::{LOG_HEADER_BYTES, LogHeader};
use crate::log::reader::lost;
use crate::log::recover::{Tail, TornTail, find_tail};
use crate::log::sync::LogState;
use crate::log::window::Window;
use crate::log::writer::LogWriter;
use crate::log::{SealedLog, log_name};
use crate::types::error::{Damage, IoContext, OpenError, ReadError};
use crate::types::ids::{Epoch, Lsn};
use crate::types::options::Options;

/// What an opening found on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// False if the database has just been created.
    pub existed: bool,
    /// The epoch that begins with this opening.
    pub epoch: Epoch,
    /// The last group of the database. It is durable now.
    pub last_lsn: Lsn,
    /// The last group that the index files hold.
    pub checkpoint_lsn: Lsn,
    /// Groups replayed from the log.
    pub groups_replayed: u64,
    /// The unfinished end of the log that a crash had left. It is cut.
    pub torn: Option<TornTail>,
}

/// What is on disk before the new epoch begins.
struct Found {
    /// False if the folder has no database yet.
    existed: bool,
    listing: Listing,
    /// The manifest of the last epoch.
    manifest: Manifest,
    tail: Tail,
    /// The sealed logs, and those of the tail that hold groups.
    logs: Vec<SealedLog>,
    /// Numbers of index files that only the logs name.
    ingested: BTreeSet<u64>,
    /// The state after the last group.
    state: State,
    last: Lsn,
}

impl Db {
    /// Opens the database in a folder. Creates it if the folder has none.
    pub fn open(disk: Arc<dyn Disk>, options: Options) -> Result<(Db, Recovered), OpenError> {
        let mut found = Found::read(&*disk, &options)?;
        found.tail.make_durable(&*disk, found.manifest.database_id)?;
        let share = disk.room().join();
        // Ends after the new database has filled its ballast.
        let (manifest, made, _held) = found.begin_epoch(&*disk, &options, &share)?;
        let Found { existed, mut listing, ingested, tail, state, last, .. } = found;
        let named: BTreeSet<u64> = manifest.files().map(|facts| facts.number).collect();
        let is_named = |number| named.contains(&number) || ingested.contains(&number);
        // The listing does not have the new log.
        clean_up(&*disk, &mut listing, &manifest, |_| false, is_named)?;
        let recovered = Recovered {
            existed,
            epoch: manifest.epoch,
            last_lsn: last,
            checkpoint_lsn: manifest.checkpoint,
            groups_replayed: last.0 - manifest.checkpoint.0,
            torn: tail.torn,
        };
        let begun = (manifest, made);
        let db = Self::begin((disk, share), options, begun, (state, last), named)?;
        Ok((db, recovered))
    }

    /// The database at the beginning of an epoch, whose manifest and first log are durable.
    fn begin(
        (disk, share): (Arc<dyn Disk>, Share),
        options: Options,
        (manifest, made): (Manifest, Made),
        (mut state, last): (State, Lsn),
        named: BTreeSet<u64>,
    ) -> Result<Db, OpenError> {
        let number = manifest.first_log;
        let log_state = LogState::new(
            disk.clone(),
            manifest.database_id,
            manifest.epoch,
            last,
            (number, made.0.clone()),
        );
        let published = Published::new(manifest.clone(), state.version.clone());
        let mut active_logs = manifest.sealed_logs;
        let mut sealed = manifest.checkpoint;
        // Replayed layers were frozen in the middle of logs. With one more layer after them, all
        // logs end with a frozen layer.
        if !state.frozen.is_empty() {
            state.freeze_trees(last);
            sealed = last;
            if let Some(newest) = state.frozen.last_mut() {
                newest.logs = std::mem::take(&mut active_logs);
            }
        }
        let ballast = Ballast::open(&disk, &options, share)?;
        let scrub = Scrub::open(&*disk, manifest.database_id);
        let mut db = Db {
            disk,
            log: LogWriter::new(log_state, ballast, made, number, last, &options),
            options,
            state,
            active_logs,
            sealed,
            applied: last,
            numbers: Arc::new(AtomicU64::new(manifest.next_index)),
            named,
            job: Weak::new(),
            merge: Weak::new(),
            superseded: Vec::new(),
            published,
            later: Batch::new(),
            kept_from: manifest.kept_from,
            kept_logs: manifest.kept_logs,
            written: WriteCounters::default(),
            scrub,
        };
        db.log.expect(db.ahead())?;
        Ok(db)
    }
}

impl Found {
    fn read(disk: &dyn Disk, options: &Options) -> Result<Self, OpenError> {
        let listing = Listing::read(disk)?;
        let found = Manifest::read(disk)?;
        let existed = found.is_some();
        let manifest = match found {
            Some(manifest) => manifest,
            None => {
                refuse_lost_manifest(disk, &listing)?;
                Manifest::new(options.database_id)
            }
        };
        let pool = Arc::new(Pool::new(options.cache_bytes));
        let mut state = replay::load(disk, &manifest, pool)?;
        state.expect_reads();
        let tail = match existed {
            true => read_tail(disk, &manifest, &listing)?,
            false => Tail::default(),
        };
        let mut logs = manifest.sealed_logs.clone();
        logs.extend(tail.logs.iter().filter(|log| log.last > log.base).cloned());
        let Replayed { ingested } = replay::replay(disk, manifest.database_id, &logs, &mut state)?;
        let last = logs.last().map_or(manifest.checkpoint, |log| log.last);
        Ok(Self { existed, listing, manifest, tail, logs, ingested, state, last })
    }

    /// Creates the first log of a new epoch, then writes the manifest that names it.
    fn begin_epoch(
        &mut self,
        disk: &dyn Disk,
        options: &Options,
        share: &Share,
    ) -> Result<(Manifest, Made, Option<Held>), OpenError> {
        let old = &self.manifest;
        let next_index = self.listing.indexes.last().map_or(1, |number| number + 1);
        let epoch = Epoch((old.epoch.0 + 1).max(options.epoch_at_least));
        let number = old.first_log.max(self.listing.logs.last().copied().unwrap_or(0)) + 1;
        let header = LogHeader { database_id: old.database_id, number, epoch, base: self.last };
        let mut cramped = Cramped {
            disk,
            options,
            manifest: old,
            listing: &mut self.listing,
            tail: &self.tail,
            ingested: &self.ingested,
            share,
            held: None,
        };
        let mut made = cramped.first_log(&header)?;
        made.0.sync().during("sync", &log_name(number))?;
        let manifest = Manifest {
            epoch,
            first_log: number,
            next_index: old.next_index.max(next_index),
            sealed_logs: self.logs.clone(),
            ..old.clone()
        };
        cramped.write(&manifest, &mut made)?;
        Ok((manifest, made, cramped.held))
    }
}

/// Refuses a folder that has no manifest, but files that hold anything. The first manifest is
/// durable before anything is written to the log. So empty files alone mean that the database was
/// never created. An export that is not finished may have no other file yet.
pub(crate) fn refuse_lost_manifest(disk: &dyn Disk, listing: &Listing) -> Result<(), ReadError> {
    if listing.is_unfinished {
        let what = "there is no manifest, since an export into this folder was not finished: remove the folder, and export again";
        return Err(Damage::new(MANIFEST, 0, what).into());
    }
    let mut something = !listing.indexes.is_empty();
    for &number in &listing.logs {
        let name = log_name(number);
        let file = Arc::from(disk.open(&name).during("open", &name)?);
        let start = LOG_HEADER_BYTES as u64;
        something |= Window::new(file, name)?.nonzero_end(start)? > start;
    }
    if something {
        let what = "the manifest is missing, though log or index files are there";
        return Err(Damage::new(MANIFEST, 0, what).into());
    }
    Ok(())
}

/// Finds the end of the log, after checking that the sealed logs lead up to it without gaps.
pub(crate) fn read_tail(
    disk: &dyn Disk,
    manifest: &Manifest,
    listing: &Listing,
) -> Result<Tail, ReadError> {
    let mut last = manifest.checkpoint;
    for log in &manifest.sealed_logs {
        if log.base != last || log.last < log.base {
            let what = format!("{} does not follow group {last}", log_name(log.number));
            return Err(Damage::new(MANIFEST, 0, what).into());
        }
        if !listing.logs.contains(&log.number) {
            let what = format!("the log is missing{}", lost(log.base.next(), log.last));
            return Err(Damage::new(&log_name(log.number), 0, what).into());
        }
        last = log.last;
    }
    let start = listing.logs.partition_point(|&number| number < manifest.first_log);
    find_tail(
        disk,
        manifest.database_id,
        manifest.epoch,
        manifest.first_log,
        last,
        &listing.logs[start..],
    )
}
