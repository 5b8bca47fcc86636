//! A shard leaves this process for another: the shell's part of docs/design/shard-move.md. The
//! questions are those of `pando_wire::MoveAsk`.
//!
//! 1. A frozen shard runs nothing, and its log is synced. So the groups that it tells then are the
//!    last ones.
//! 2. A frozen shard thaws by itself unless it is given away. Thawing and giving away each hold the
//!    state, so they exclude each other. Each freeze has a last group of its own. So a question
//!    that comes late, after its freeze was over, gives nothing away.
//! 3. A shard that was given away is never run here again. Before it goes, it is made durable that
//!    it was given away.

use std::io;
use std::sync::Arc;

use babu::Priority;
use pando_core::contract::{GroupMeta, Rows};
use pando_core::keys::{self, Kind};
use pando_core::record::{Header, Record};
use pando_types::{DirId, Epoch, Lsn, ShardIndex};
use pando_wire::{Census, Group, MoveToken};

#[cfg(feature = "planted")]
use crate::common::planted::Planted;
use crate::host::shards::Host;
use crate::host::shared::Shared;
use crate::shard::cell::Cell;
use crate::shard::state::State;
use crate::store::error::Room;
use crate::store::records::Store;

/// Insert groups in one answer, bytes.
const TOLD_MAX: usize = 1 << 20;
/// Insert groups that may be left when a shard is frozen, beyond [`TOLD_MAX`], bytes.
const LAST_MAX: usize = 4 << 20;
/// Directories that one call of `count` visits at most.
const COUNTED_MAX: u64 = 64;
/// Log space of the group that a freeze adds, bytes.
const FREEZE_ROOM: u64 = 256;
/// Why the target of a move is not told whether the shard was given away.
pub(crate) const MAY_BE_GIVEN: &str =
    "whether its server gave it away is unknown: restart that server to find out";
/// Headers after which `count` ends, once it has finished their directory.
const HEADERS_MAX: u64 = 1_024;

/// Why a step of a move was refused, in words. The attempt is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MoveRefused(pub String);

impl MoveRefused {
    fn elsewhere(shard: ShardIndex) -> Self {
        Self(format!("shard {shard} is not served there"))
    }
}

/// Why a shard was not given away.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotGiven {
    /// The shard stays in this process.
    Refused(MoveRefused),
    /// The shard may have been given away. It runs here no more, until a start has read the folder.
    Unknown(String),
}

impl From<MoveRefused> for NotGiven {
    fn from(refused: MoveRefused) -> Self {
        Self::Refused(refused)
    }
}

/// Changes of a shard that is followed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changes {
    /// Insert groups in order.
    pub groups: Vec<Group>,
    /// Position of the last of `groups`; if there are none, the position that was asked for.
    pub upto: Lsn,
    /// Position of the last group that the shard has applied.
    pub last: Lsn,
    /// Epoch of the log.
    pub epoch: Epoch,
    /// The shard's time of day, nanoseconds since 1970.
    pub clock: u64,
    /// Size of the store, bytes, roughly.
    pub bytes: u64,
}

impl Host {
    /// Tells the changes after the position `after`. `None`: the shard keeps its insert groups from
    /// now on, for the attempt `token`.
    pub fn follow(
        &self,
        shard: ShardIndex,
        token: MoveToken,
        after: Option<Lsn>,
    ) -> Result<Changes, MoveRefused> {
        let cell = self.leaver(shard)?;
        self.shared.with(&cell, |state| {
            let (last, now) = (state.store.applied(), self.shared.timer.clock.mono());
            if after.is_none() && !state.leaving.follow(token, last, now) {
                return Err(MoveRefused(format!("shard {shard} is being given away already")));
            }
            self.changes(state, token, after.unwrap_or(last), TOLD_MAX)
        })
    }

    fn changes(
        &self,
        state: &mut State,
        token: MoveToken,
        after: Lsn,
        most: usize,
    ) -> Result<Changes, MoveRefused> {
        let (groups, upto) = state
            .leaving
            .after(token, after, most, self.shared.timer.clock.mono())
            .ok_or_else(|| {
                MoveRefused(
                    "its server no longer keeps its changes: it restarted, or they are too many"
                        .to_owned(),
                )
            })?;
        let (last, epoch) = (state.store.applied(), state.store.epoch());
        let clock = state.wall.at(self.shared.timer.clock.wall());
        let stats = state.store.stats();
        let bytes = stats.index_bytes + (stats.active_bytes + stats.frozen_bytes) as u64;
        Ok(Changes { groups, upto, last, epoch, clock, bytes })
    }

    /// Freezes a shard, syncs its log, and tells its last insert groups. The shard thaws by itself
    /// after [`HostOptions::standstill`](crate::common::options::HostOptions::standstill).
    pub fn freeze(
        &self,
        shard: ShardIndex,
        token: MoveToken,
        after: Lsn,
    ) -> Result<Changes, MoveRefused> {
        let cell = self.leaver(shard)?;
        let told = self.shared.with(&cell, |state| {
            let Some(left) = state.leaving.left(token) else {
                return Err(MoveRefused("its server no longer keeps its changes".to_owned()));
            };
            if left > LAST_MAX + TOLD_MAX {
                return Err(MoveRefused("too much was changed during the copy".to_owned()));
            }
            self.mark_freeze(state)?;
            // This fails if the follower was silent for long: the group above has dropped it.
            let told = self.changes(state, token, after, usize::MAX)?;
            state.leaving.freeze(token);
            Ok(told)
        })?;
        let thaw_at = self.shared.timer.clock.mono() + self.shared.standstill;
        self.shared.timer.thaw_at(thaw_at, shard, token);
        match cell.syncer.sync() {
            Ok(_) => Ok(told),
            Err(fatal) => {
                self.shared.thaw(shard, token, "its log could not be synced for its move");
                Err(MoveRefused(fatal.to_string()))
            }
        }
    }

    /// Adds an empty group, so that the last group belongs to this freeze and to no other.
    fn mark_freeze(&self, state: &mut State) -> Result<(), MoveRefused> {
        match state.store.reserve(FREEZE_ROOM, Priority::Reserve) {
            Room::Enough => {}
            Room::Full => return Err(MoveRefused("its server's disk is full".to_owned())),
            Room::Failed(why) => return Err(MoveRefused(why)),
        }
        let clock = &self.shared.timer.clock;
        let meta = GroupMeta { now: state.wall.at(clock.wall()), ..GroupMeta::default() };
        let lsn = state.store.apply(&[], &meta);
        state.leaving.note(lsn, &[], &meta, clock.mono());
        state.store.write().map_err(|error| MoveRefused(error.what))
    }

    /// Serves a shard again that was frozen for this attempt, unless it was given away. Any later
    /// question of that exchange is refused.
    pub fn keep(&self, shard: ShardIndex, token: MoveToken, why: &str) {
        self.shared.thaw(shard, token, why);
    }

    /// Gives a frozen shard away, if `last` is its last group. `commit` makes it durable that
    /// another process owns the shard. If `commit` fails, what a start will find is unknown. Then
    /// the shard stops, so that no two processes serve it.
    pub fn give_away(
        &self,
        shard: ShardIndex,
        token: MoveToken,
        last: (Epoch, Lsn),
        commit: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), NotGiven> {
        let unknown = || NotGiven::Unknown(MAY_BE_GIVEN.to_owned());
        let cell = self.shared.cell(shard).ok_or_else(|| MoveRefused::elsewhere(shard))?;
        if self.shared.with(&cell, |state| state.leaving.may_be_given) {
            return Err(unknown());
        }
        let cell = self.leaver(shard)?;
        self.shared.with(&cell, |state| {
            let is_followed = state.leaving.left(token).is_some();
            let is_last = (state.store.epoch(), state.store.applied()) == last;
            let is_as_told = state.leaving.is_frozen() && is_last;
            #[cfg(feature = "planted")]
            let is_as_told = is_as_told || state.has(Planted::ThawedAndGiven);
            if !is_followed || !is_as_told {
                return Err(MoveRefused("its server has resumed it meanwhile".to_owned()).into());
            }
            #[cfg(feature = "planted")]
            let commit = || match state.has(Planted::GivenUnwritten) {
                true => Ok(()),
                false => commit(),
            };
            if let Err(error) = commit() {
                state.leaving.may_be_given = true;
                cell.fail(&format!(
                    "it was being given to another server, and whether that is durable is unknown ({error})"
                ));
                return Err(unknown());
            }
            self.shared.cells[usize::from(shard.0)].store(None);
            Ok(())
        })?;
        cell.end();
        Ok(())
    }

    /// Whether the shard stopped here, as nobody knows whether it was given away.
    #[must_use]
    pub fn may_be_given(&self, shard: ShardIndex) -> bool {
        let Some(cell) = self.shared.cell(shard) else { return false };
        self.shared.with(&cell, |state| state.leaving.may_be_given)
    }

    /// Ends a shard that was durably given away after all. It had stopped because that was unknown.
    /// Answers whether such a shard was here.
    pub fn was_given(&self, shard: ShardIndex) -> bool {
        let Some(cell) = self.shared.cell(shard) else { return false };
        let was_given = self.shared.with(&cell, |state| {
            if state.leaving.may_be_given {
                self.shared.cells[usize::from(shard.0)].store(None);
            }
            state.leaving.may_be_given
        });
        if was_given {
            cell.end();
        }
        was_given
    }

    /// Whether the shard keeps its insert groups for this attempt.
    #[must_use]
    pub fn is_followed(&self, shard: ShardIndex, token: MoveToken) -> bool {
        let Some(cell) = self.shared.cell(shard) else { return false };
        self.shared.with(&cell, |state| state.leaving.left(token).is_some())
    }

    fn leaver(&self, shard: ShardIndex) -> Result<Arc<Cell>, MoveRefused> {
        let cell = self.shared.cell(shard).ok_or_else(|| MoveRefused::elsewhere(shard))?;
        match cell.failure() {
            None => Ok(cell),
            Some(reason) => Err(MoveRefused(format!("shard {shard} has stopped: {reason}"))),
        }
    }

    /// Counts some of a shard's partitions and names, beginning at the key `from`. `None`: the
    /// shard does not run here.
    pub fn census(&self, shard: ShardIndex, from: &[u8]) -> Option<Result<Census, String>> {
        let cell = self.shared.cell(shard)?;
        let counted = self.shared.with(&cell, |state| count(&state.store, from));
        Some(counted.map_err(|halt| format!("{halt:?}")))
    }
}

impl Shared {
    /// Thaws a shard that was frozen for this attempt, unless it was given away.
    pub(crate) fn thaw(&self, shard: ShardIndex, token: MoveToken, why: &str) {
        let Some(cell) = self.cell(shard) else { return };
        self.with(&cell, |state| {
            if state.leaving.thaw(token) {
                cell.complain(&format!("{why}: it is served here again"));
                cell.set_tick();
            }
        });
    }
}

/// Counts by the headers of one directory after the other, and skips the entries.
fn count(store: &Store, from: &[u8]) -> Result<Census, pando_core::Halt> {
    let (first, end) = (keys::dir(DirId([0; 16]), Kind::Content, 0), keys::after(b"d"));
    let mut census = Census::default();
    let mut at = from.max(&first[..1]).to_vec();
    for _ in 0..COUNTED_MAX {
        let mut found = None;
        store.scan(&at, &end, &mut |key, _| {
            found = keys::dir_of(key);
            false
        })?;
        let Some(dir) = found else { return Ok(census) };
        let (from, to) = keys::dir_range(dir, Kind::Header, &(0..u64::MAX));
        let mut bad = None;
        store.scan(&from, &to, &mut |_, value| match Header::decode(value) {
            Ok(header) => {
                census.partitions += 1;
                census.entries += header.entries;
                true
            }
            Err(halt) => {
                bad = Some(halt);
                false
            }
        })?;
        if let Some(halt) = bad {
            return Err(halt);
        }
        // Directory ids are hashes: no id is all ones.
        at = keys::after(&from[..17]);
        if census.partitions >= HEADERS_MAX {
            break;
        }
    }
    census.next = Some(at);
    Ok(census)
}
