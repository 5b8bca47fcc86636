//! How every shard comes to know every version, in order.
//!
//! 1. Shard 0 remembers up to where each shard knows all versions. It tells each shard the later
//!    ones, again and again until the shard acknowledges them. So a lost, late or repeated message
//!    does no harm.
//! 2. While a shard has not acknowledged, further versions gather. The next message tells all of
//!    them.
//! 3. Versions that were given up are told, too, and so is the start of shard 0's list, though no
//!    transaction waits for them. A shard that stayed behind would lower the version of walks
//!    through it. Other shards would then refuse these walks again and again.

use alloc::vec::Vec;
use pando_types::peer::{Peer, PeerMessage, Seen, Vote};
use pando_types::{Epoch, Errno, Ino, ShardIndex, TxnId};

use crate::contract::{Halt, Need, SHARD_0};
use crate::state::ctx::Ctx;
use crate::state::lock_key::LockKey;
use crate::state::paths::broadcast::Pending;
use crate::state::shard::Shard;

impl Shard {
    /// Begins the list of versions at shard 0, at its start. It lies above all numbers that may
    /// have been given out.
    pub(crate) fn begin_versions(&mut self) {
        if self.config.shard == SHARD_0 {
            let number = self.numbers.next_txn().saturating_sub(1);
            self.paths.versions.begin(number);
            self.coordinator.graph.begin(number);
        }
    }

    /// Gives out a version for a step that is about to change these directories, and tells all
    /// shards.
    pub(crate) fn invalidate(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: ShardIndex,
        at: (TxnId, u16),
        dirs: &[Ino],
    ) -> Result<(), Halt> {
        if self.config.shard != SHARD_0 || self.paths.broadcast.has_step(at) {
            return Ok(());
        }
        if self.paths.broadcast.is_told_in_vain(ctx.now.nanos, self.config.votes_wait) {
            // The coordinator would hold its locks in vain, and ask again and again.
            self.counters.versions_given_up += 1;
            self.tell(ctx, Need::Committed, from, at, PeerMessage::Voted(Vote::No(Errno::EBUSY)));
            return Ok(());
        }
        let version = self.numbers.txn(ctx).number;
        let changed: Vec<(u64, Ino)> = dirs.iter().map(|dir| (version, *dir)).collect();
        self.paths.versions.learn(version, &changed);
        self.counters.versions += 1;
        let until = ctx.now.nanos.saturating_add(self.config.versions_wait);
        self.paths.broadcast.begin(version, Pending { at, from, until }, ctx.now.nanos);
        self.tell_versions(ctx);
        self.settle_versions(ctx);
        Ok(())
    }

    /// Forgets a step that no longer waits. Its version stays in the lists.
    pub(crate) fn forget_invalidation(&mut self, at: (TxnId, u16)) {
        self.paths.broadcast.forget(at);
    }

    /// At shard 0: whether some other shard has not acknowledged all versions.
    fn is_any_behind(&self) -> bool {
        let noted = self.paths.broadcast.known_by_all(self.config.map.shards);
        let slowest = noted.unwrap_or_else(|| self.known_by_all());
        self.config.shard == SHARD_0 && Some(slowest) < self.paths.versions.known()
    }

    /// At shard 0: the version up to which all other shards have acknowledged.
    fn known_by_all(&self) -> u64 {
        self.others().map(|shard| self.paths.broadcast.known_by(shard)).min().unwrap_or(u64::MAX)
    }

    /// Tells each shard the versions that it has not acknowledged.
    fn tell_versions(&mut self, ctx: &mut Ctx<'_>) {
        for shard in self.others() {
            self.tell_one(ctx, shard);
        }
    }

    /// Tells one shard the versions that it has not acknowledged. Does nothing while an answer is
    /// due.
    fn tell_one(&mut self, ctx: &mut Ctx<'_>, shard: ShardIndex) {
        let Some(version) = self.paths.versions.known() else { return };
        let (now, again) = (ctx.now.nanos, self.config.resend_after);
        if let Some(known) = self.paths.broadcast.tell(shard, version, now, again) {
            self.tell_above(ctx, shard, known, None);
        }
    }

    fn tell_above(
        &mut self,
        ctx: &mut Ctx<'_>,
        shard: ShardIndex,
        known: u64,
        answers: Option<Epoch>,
    ) {
        let Some(version) = self.paths.versions.known() else { return };
        let (floor, _) = self.paths.versions.all();
        let since = known.max(floor);
        let changed = self.paths.versions.above(since).copied().collect();
        let message = PeerMessage::Versions { since, version, changed, answers };
        self.tell(ctx, Need::Committed, shard, NO_TXN, message);
    }

    /// Handles a peer message about versions.
    pub(crate) fn hear_versions(&mut self, ctx: &mut Ctx<'_>, peer: Peer) {
        match peer.message {
            PeerMessage::Versions { since, version, changed, answers } => {
                if self.config.shard == SHARD_0 {
                    return;
                }
                if self.paths.versions.known().is_none() {
                    // An answer to an earlier start of this shard, or an unasked message, may lack
                    // what that start knew.
                    if answers != Some(ctx.now.epoch) {
                        return;
                    }
                    self.paths.versions.begin(since);
                    self.paths.broadcast.end_asking();
                }
                // This shard was silent for so long that shard 0 does not remember what it has
                // missed.
                if self.paths.versions.known().is_some_and(|known| known < since) {
                    self.paths.versions.begin(since);
                }
                #[cfg(feature = "planted")]
                let changed = match self.is_planted(crate::Planted::VersionNotLearned) {
                    true => Vec::new(),
                    false => changed,
                };
                self.paths.versions.learn(version, &changed);
                self.queue.resume(self.locks.wake(LockKey::Versions));
                if let Some(known) = self.paths.versions.known() {
                    self.tell(
                        ctx,
                        Need::Committed,
                        peer.from,
                        NO_TXN,
                        PeerMessage::VersionsKnown(known),
                    );
                }
            }
            PeerMessage::VersionsKnown(version) => {
                self.paths.broadcast.acknowledge(peer.from, version);
                let known = self.known_by_all();
                self.paths.broadcast.note_known_by_all(self.config.map.shards, known);
                self.settle_versions(ctx);
                self.tell_one(ctx, peer.from);
            }
            PeerMessage::AskVersions(epoch) if self.config.shard == SHARD_0 => {
                self.tell_above(ctx, peer.from, 0, Some(epoch));
            }
            _ => {}
        }
    }

    /// Votes yes for the steps that wait for a version which all shards know by now.
    fn settle_versions(&mut self, ctx: &mut Ctx<'_>) {
        let known = self.known_by_all();
        while let Some((version, Pending { at, from, .. })) = self.paths.broadcast.take_known(known)
        {
            let vote = Vote::Yes(Seen::Version(version));
            self.tell(ctx, Need::Committed, from, at, PeerMessage::Voted(vote));
        }
    }

    /// Asks or tells again, and gives up versions that have waited too long.
    pub(crate) fn tick_versions(&mut self, ctx: &mut Ctx<'_>) {
        let now = ctx.now.nanos;
        let is_due = self.paths.broadcast.next_saying(self.config.resend_after) <= now;
        if !self.has_joined() {
            return;
        }
        if self.paths.versions.known().is_none() {
            if !self.paths.broadcast.is_asking() || is_due {
                self.paths.broadcast.ask(now);
                self.tell(
                    ctx,
                    Need::Committed,
                    SHARD_0,
                    NO_TXN,
                    PeerMessage::AskVersions(ctx.now.epoch),
                );
            }
            if self.paths.broadcast.is_waiting_in_vain(&self.config, now) {
                self.queue.resume(self.locks.wake(LockKey::Versions));
            }
            return;
        }
        while let Some(Pending { at, from, .. }) = self.paths.broadcast.take_late(now) {
            self.counters.versions_given_up += 1;
            let vote = Vote::No(Errno::EBUSY);
            self.tell(ctx, Need::Committed, from, at, PeerMessage::Voted(vote));
        }
        if is_due && self.is_any_behind() {
            self.paths.broadcast.note_said(now);
            self.tell_versions(ctx);
        }
    }

    /// When `tick_versions` has something to do, nanoseconds.
    pub(crate) fn versions_wake(&self) -> Option<u64> {
        let again = self.paths.broadcast.next_saying(self.config.resend_after);
        if !self.has_joined() {
            return None;
        }
        if self.paths.versions.known().is_none() {
            return Some(if self.paths.broadcast.is_asking() { again } else { 0 });
        }
        let until = self.paths.broadcast.next_late();
        until.into_iter().chain(self.is_any_behind().then_some(again)).min()
    }
}

/// Transaction and step of messages that belong to no transaction.
const NO_TXN: (TxnId, u16) = (TxnId { shard: SHARD_0, number: 0 }, 0);
