//! How every shard comes to know every version, in order.
//!
//! Shard 0 keeps in mind up to where each shard knows all versions, and tells each what is above
//! that, again and again until it says that it knows. So a message that is lost, late or repeated
//! does no harm, and none is waited for by another. While a shard is yet to say so, versions that
//! are given out gather: one message tells of them all.
//!
//! Told is also what nobody waits for: a version that was given up, and where shard 0 begins when
//! it starts. A walk through a shard that stays behind, and then through one that does not, would
//! be refused by the latter, however often it begins anew.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use pando_types::peer::{Peer, Say, Seen, Vote};
use pando_types::{Epoch, Errno, Ino, ShardIndex, TxnId};

use crate::contract::{Config, Halt, Need};
use crate::ctx::Ctx;
use crate::locks::LockKey;
use crate::sessions::COORDINATOR;
use crate::shard::Shard;

/// What is under way.
#[derive(Default, Debug)]
pub struct Broadcast {
    /// Of shard 0: how far others are.
    others: BTreeMap<ShardIndex, Other>,
    /// Of shard 0: what the slowest of them knows, and of how many shards that was. Looked at with
    /// every input.
    slowest: (u16, u64),
    /// Of shard 0: versions that not all know yet.
    pending: BTreeMap<u64, Pending>,
    /// When this shard last asked, or shard 0 last looked who has not answered, nanoseconds.
    said_at: u64,
    /// When this shard first asked, nanoseconds.
    asking_since: Option<u64>,
}

/// How far another shard is.
#[derive(Clone, Copy, Default, Debug)]
struct Other {
    /// What it knows, as far as it has said so in shard 0's life.
    known: u64,
    /// What it was told last, and when, nanoseconds.
    told: u64,
    told_at: u64,
    /// Since when it knows less than there is and has not said that it knows more, nanoseconds.
    silent_since: Option<u64>,
}

/// A version that not all know yet.
#[derive(Debug)]
struct Pending {
    /// The step that waits for it, and who coordinates that.
    at: (TxnId, u16),
    from: ShardIndex,
    /// It is given up then, nanoseconds.
    until: u64,
}

impl Broadcast {
    /// Whether this shard has asked for so long that shard 0 must be away.
    pub fn is_waiting_in_vain(&self, config: &Config, now: u64) -> bool {
        self.asking_since.is_some_and(|since| since.saturating_add(config.versions_wait) <= now)
    }
}

impl Shard {
    /// At the start.
    pub(crate) fn begin_versions(&mut self) {
        if self.config.shard == COORDINATOR {
            let number = self.numbers.next_txn().saturating_sub(1);
            self.versions.begin(number);
            self.graph.begin(number);
        }
    }

    /// A coordinator is about to change these directories.
    pub(crate) fn invalidate(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: ShardIndex,
        at: (TxnId, u16),
        dirs: &[Ino],
    ) -> Result<(), Halt> {
        if self.config.shard != COORDINATOR
            || self.broadcast.pending.values().any(|pending| pending.at == at)
        {
            return Ok(());
        }
        if self.is_told_in_vain(ctx.now.nanos) {
            // Its coordinator would hold its locks for nothing, and ask for them again and again.
            self.counters.versions_given_up += 1;
            self.tell(ctx, Need::Committed, from, at, Say::Voted(Vote::No(Errno::EBUSY)));
            return Ok(());
        }
        let version = self.numbers.txn(ctx).number;
        let changed: Vec<(u64, Ino)> = dirs.iter().map(|dir| (version, *dir)).collect();
        self.versions.learn(version, &changed);
        self.counters.versions += 1;
        let until = ctx.now.nanos.saturating_add(self.config.versions_wait);
        if self.broadcast.pending.is_empty() {
            self.broadcast.said_at = ctx.now.nanos;
            // What was told before may have been lost, and nothing need gather.
            self.broadcast.others.values_mut().for_each(|other| other.told = other.known);
        }
        self.broadcast.pending.insert(version, Pending { at, from, until });
        self.tell_versions(ctx);
        self.settle_versions(ctx);
        Ok(())
    }

    /// The step is not wanted any more. Its version stays in the lists.
    pub(crate) fn forget_invalidation(&mut self, at: (TxnId, u16)) {
        self.broadcast.pending.retain(|_, pending| pending.at != at);
    }

    fn known_by(&self, shard: ShardIndex) -> u64 {
        self.broadcast.others.get(&shard).map_or(0, |other| other.known)
    }

    /// Of shard 0: whether another is yet to say that it knows all versions.
    fn is_any_behind(&self) -> bool {
        let slowest = match self.broadcast.slowest {
            (shards, known) if shards == self.config.map.shards => known,
            _ => self.known_by_all(),
        };
        self.config.shard == COORDINATOR && Some(slowest) < self.versions.known()
    }

    /// Of shard 0: whether some shard has not acknowledged what it was told for as long as a
    /// transaction waits for a vote. It is told again and again, until it does.
    fn is_told_in_vain(&self, now: u64) -> bool {
        let wait = self.config.votes_wait;
        let is_silent = |other: &Other| {
            other.silent_since.is_some_and(|since| since.saturating_add(wait) <= now)
        };
        self.broadcast.others.values().any(is_silent)
    }

    /// Of shard 0: up to where every other shard knows all versions.
    fn known_by_all(&self) -> u64 {
        self.others().map(|shard| self.known_by(shard)).min().unwrap_or(u64::MAX)
    }

    /// Tells each shard what it does not know.
    fn tell_versions(&mut self, ctx: &mut Ctx<'_>) {
        for shard in self.others() {
            self.tell_one(ctx, shard);
        }
    }

    /// The same to one shard; not while it is yet to answer.
    fn tell_one(&mut self, ctx: &mut Ctx<'_>, shard: ShardIndex) {
        let Some(version) = self.versions.known() else { return };
        let now = ctx.now.nanos;
        let other = self.broadcast.others.entry(shard).or_default();
        let until = other.told_at.saturating_add(self.config.resend_after);
        if other.known >= version || (other.told > other.known && now < until) {
            return;
        }
        (other.told, other.told_at) = (version, now);
        other.silent_since.get_or_insert(now);
        let known = other.known;
        self.tell_above(ctx, shard, known, None);
    }

    fn tell_above(
        &mut self,
        ctx: &mut Ctx<'_>,
        shard: ShardIndex,
        known: u64,
        answers: Option<Epoch>,
    ) {
        let Some(version) = self.versions.known() else { return };
        let (floor, _) = self.versions.all();
        let since = known.max(floor);
        let changed = self.versions.above(since).copied().collect();
        let say = Say::Versions { since, version, changed, answers };
        self.tell(ctx, Need::Committed, shard, NO_TXN, say);
    }

    /// Something about versions from another shard.
    pub(crate) fn hear_versions(&mut self, ctx: &mut Ctx<'_>, peer: Peer) {
        match peer.say {
            Say::Versions { since, version, changed, answers } => {
                if self.config.shard == COORDINATOR {
                    return;
                }
                if self.versions.known().is_none() {
                    // An answer to an earlier start of this shard, or none at all, may lack what
                    // that start had known.
                    if answers != Some(ctx.now.epoch) {
                        return;
                    }
                    self.versions.begin(since);
                    self.broadcast.asking_since = None;
                }
                // It was silent for so long that shard 0 does not remember what it has missed.
                if self.versions.known().is_some_and(|known| known < since) {
                    self.versions.begin(since);
                }
                #[cfg(feature = "planted")]
                let changed = match self.is_planted(crate::Planted::VersionNotLearned) {
                    true => Vec::new(),
                    false => changed,
                };
                self.versions.learn(version, &changed);
                let waiting = self.locks.wake(LockKey::Versions);
                self.ready.extend(waiting);
                if let Some(known) = self.versions.known() {
                    self.tell(ctx, Need::Committed, peer.from, NO_TXN, Say::VersionsKnown(known));
                }
            }
            Say::VersionsKnown(version) => {
                let other = self.broadcast.others.entry(peer.from).or_default();
                other.known = version.max(other.known);
                other.silent_since = None;
                self.broadcast.slowest = (self.config.map.shards, self.known_by_all());
                self.settle_versions(ctx);
                self.tell_one(ctx, peer.from);
            }
            Say::AskVersions(epoch) if self.config.shard == COORDINATOR => {
                self.tell_above(ctx, peer.from, 0, Some(epoch));
            }
            _ => {}
        }
    }

    /// Lets those go on whose versions all shards know.
    fn settle_versions(&mut self, ctx: &mut Ctx<'_>) {
        while let Some((&version, _)) = self.broadcast.pending.first_key_value()
            && self.known_by_all() >= version
            && let Some(Pending { at, from, .. }) = self.broadcast.pending.remove(&version)
        {
            let vote = Vote::Yes(Seen::Version(version));
            self.tell(ctx, Need::Committed, from, at, Say::Voted(vote));
        }
    }

    /// Asks, or tells again; gives up what has waited for too long.
    pub(crate) fn tick_versions(&mut self, ctx: &mut Ctx<'_>) {
        let now = ctx.now.nanos;
        let is_due = self.broadcast.said_at.saturating_add(self.config.resend_after) <= now;
        if !self.has_joined() {
            return;
        }
        if self.versions.known().is_none() {
            if self.broadcast.asking_since.is_none() || is_due {
                self.broadcast.asking_since.get_or_insert(now);
                self.broadcast.said_at = now;
                self.tell(
                    ctx,
                    Need::Committed,
                    COORDINATOR,
                    NO_TXN,
                    Say::AskVersions(ctx.now.epoch),
                );
            }
            if self.broadcast.is_waiting_in_vain(&self.config, now) {
                let waiting = self.locks.wake(LockKey::Versions);
                self.ready.extend(waiting);
            }
            return;
        }
        let late: Vec<u64> = self
            .broadcast
            .pending
            .iter()
            .filter(|(_, p)| p.until <= now)
            .map(|(v, _)| *v)
            .collect();
        for version in late {
            if let Some(Pending { at, from, .. }) = self.broadcast.pending.remove(&version) {
                self.counters.versions_given_up += 1;
                self.tell(ctx, Need::Committed, from, at, Say::Voted(Vote::No(Errno::EBUSY)));
            }
        }
        if is_due && self.is_any_behind() {
            self.broadcast.said_at = now;
            self.tell_versions(ctx);
        }
    }

    /// When `tick_versions` has something to do.
    pub(crate) fn versions_wake(&self) -> Option<u64> {
        let again = self.broadcast.said_at.saturating_add(self.config.resend_after);
        if !self.has_joined() {
            return None;
        }
        if self.versions.known().is_none() {
            return Some(if self.broadcast.asking_since.is_some() { again } else { 0 });
        }
        let until = self.broadcast.pending.values().map(|pending| pending.until).min();
        until.into_iter().chain(self.is_any_behind().then_some(again)).min()
    }
}

/// These messages are of no transaction.
const NO_TXN: (TxnId, u16) = (TxnId { shard: COORDINATOR, number: 0 }, 0);
