//! How every shard comes to know every version, in order.
//!
//! Shard 0 keeps in mind up to where each shard knows all versions, and tells each what is above that, again and again until
//! it says that it knows. So a message that is lost, late or repeated does no harm, and none is waited for by another.

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
    /// Of shard 0: what others know, as far as they have said so in its life.
    known_by: BTreeMap<ShardIndex, u64>,
    /// Of shard 0: versions that not all know yet.
    pending: BTreeMap<u64, Pending>,
    /// When it was last told, or asked, nanoseconds.
    said_at: u64,
    /// When this shard first asked, nanoseconds.
    asking_since: Option<u64>,
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
        let version = self.numbers.txn(ctx).number;
        let changed: Vec<(u64, Ino)> = dirs.iter().map(|dir| (version, *dir)).collect();
        self.versions.learn(version, &changed);
        self.counters.versions += 1;
        let until = ctx.now.nanos.saturating_add(self.config.versions_wait);
        self.broadcast.pending.insert(version, Pending { at, from, until });
        self.tell_versions(ctx);
        self.settle_versions(ctx);
        Ok(())
    }

    /// The step is not wanted any more. Its version stays in the lists.
    pub(crate) fn forget_invalidation(&mut self, at: (TxnId, u16)) {
        self.broadcast.pending.retain(|_, pending| pending.at != at);
    }

    fn others(&self) -> impl Iterator<Item = ShardIndex> + use<> {
        (0..self.config.map.shards).map(ShardIndex).filter(|shard| *shard != COORDINATOR)
    }

    fn known_by(&self, shard: ShardIndex) -> u64 {
        self.broadcast.known_by.get(&shard).copied().unwrap_or(0)
    }

    /// Tells each shard what it does not know, as far as it is waited for.
    fn tell_versions(&mut self, ctx: &mut Ctx<'_>) {
        let Some((&newest, _)) = self.broadcast.pending.last_key_value() else { return };
        self.broadcast.said_at = ctx.now.nanos;
        for shard in self.others() {
            let known = self.known_by(shard);
            if known < newest {
                self.tell_above(ctx, shard, known, None);
            }
        }
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
                    // An answer to an earlier start of this shard, or none at all, may lack what that start had known.
                    if answers != Some(ctx.now.epoch) {
                        return;
                    }
                    self.versions.begin(since);
                    self.broadcast.asking_since = None;
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
                let known = self.broadcast.known_by.entry(peer.from).or_insert(0);
                *known = version.max(*known);
                self.settle_versions(ctx);
            }
            Say::AskVersions(epoch) if self.config.shard == COORDINATOR => {
                self.tell_above(ctx, peer.from, 0, Some(epoch));
            }
            _ => {}
        }
    }

    /// Lets those go on whose versions all shards know.
    fn settle_versions(&mut self, ctx: &mut Ctx<'_>) {
        let others = self.others().map(|shard| self.known_by(shard));
        let by_all = others.min().unwrap_or(u64::MAX);
        while let Some(first) = self.broadcast.pending.first_entry()
            && *first.key() <= by_all
        {
            let (version, Pending { at, from, .. }) = first.remove_entry();
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
        if is_due {
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
        let until = self.broadcast.pending.values().map(|pending| pending.until).min()?;
        Some(until.min(again))
    }
}

/// These messages are of no transaction.
const NO_TXN: (TxnId, u16) = (TxnId { shard: COORDINATOR, number: 0 }, 0);
