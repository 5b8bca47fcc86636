//! Which sessions write, and of which the kernel may remember names and attributes: a readers and
//! writers lock over the volume, at shard 0 (docs/design/holds.md).
//!
//! ```text
//!              Wake: no other session holds
//!   quiet ──────────────────────────────────► writes       holds: no other session writes
//!     ▲                                          │
//!     └──────────────── Quiet ───────────────────┘
//! ```
//!
//! All of this is in memory only. After a start each session counts as one that writes, and each
//! one of another process as one that may hold.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use pando_types::hold::{AWAIT_TIME, HOLD_TIME, Said};
use pando_types::{Epoch, KeyId, SessionId};

/// Time for which a session of another process counts as one that holds after it has asked,
/// nanoseconds. It is longer than the session itself counts: clocks run at different rates, and a
/// kernel takes answers in late.
pub const HELD: u64 = HOLD_TIME / 4 * 5;
/// Time for which no other session begins to hold after one was refused to write, nanoseconds.
/// Clients ask again sooner than that.
const WANTED: u64 = 1_000_000_000;

/// Holds and writers.
#[derive(Clone, Default, Debug)]
pub struct Holds {
    /// Sessions that hold, or may. Also some that are over: their kernels have not heard.
    holders: BTreeMap<SessionId, Holder>,
    /// Sessions that live and do not write. All others that live count as writing.
    quiet: BTreeSet<SessionId>,
    /// What sessions that live have said last.
    heard: BTreeMap<SessionId, Heard>,
    /// Sessions that want to write, each with the time until which it keeps others from holding.
    wanted: BTreeMap<SessionId, u64>,
    /// When a question that waits is answered in any case.
    awaits: BTreeSet<(u64, SessionId)>,
    /// Position of the newest end of a session that counted as writing.
    ended_at: u64,
}

#[derive(Clone, Copy, Debug)]
struct Holder {
    /// The session's key, also if the session is over.
    key: KeyId,
    /// When its kernel remembers nothing any more, whatever becomes of its process. `None`: the
    /// session ends with this process, and has no end of that kind.
    until: Option<u64>,
    /// The number of its question. `None`: nobody knows whether it holds. It may have before this
    /// start of the shard.
    number: Option<u64>,
    /// Whether another session has wanted to write meanwhile.
    is_recalled: bool,
    /// When a question that waits is answered in any case.
    awaits_until: Option<u64>,
}

/// The newest statements of a session, by number.
#[derive(Clone, Copy, Default, Debug)]
struct Heard {
    of_hold: u64,
    of_writing: u64,
}

/// What becomes of a question whether a hold is recalled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recalled {
    /// It is, or the session does not hold.
    Yes,
    /// It is not, and the question has waited long enough.
    NotYet,
    /// It is not: the question waits.
    Wait,
}

impl Holds {
    /// Notes that a session begins: it does not write.
    pub fn begun(&mut self, session: SessionId) {
        self.quiet.insert(session);
    }

    /// Whether `session` holds.
    pub fn is(&self, session: SessionId) -> bool {
        self.holders.get(&session).is_some_and(|holder| holder.number.is_some())
    }

    /// Number of sessions that do not write.
    pub fn quiet(&self) -> usize {
        self.quiet.len()
    }

    /// Whether `session` does not write.
    pub fn is_quiet(&self, session: SessionId) -> bool {
        self.quiet.contains(&session)
    }

    /// Position of the newest end of a session that counted as writing. What such a session has
    /// sent may run on any shard that has not heard of the end.
    pub const fn ended_at(&self) -> u64 {
        self.ended_at
    }

    /// Number of the newest statement of a session about writing.
    #[cfg(feature = "planted")]
    pub fn newest(&self, session: SessionId) -> u64 {
        self.heard.get(&session).map_or(0, |heard| heard.of_writing)
    }

    /// Notes the question of a session that lives. Returns whether it is the newest.
    fn is_news(&mut self, session: SessionId, number: u64) -> bool {
        let heard = self.heard.entry(session).or_default();
        let is_news = heard.of_hold <= number;
        heard.of_hold = heard.of_hold.max(number);
        is_news
    }

    /// Answers a session that lives and asks to hold. `may`: no other session writes, and none that
    /// is over may. A local session that is recalled holds until it says that it does not. One of
    /// another process counts from its question, so the answer is no.
    pub fn ask(
        &mut self,
        (session, key): (SessionId, KeyId),
        number: u64,
        may: bool,
        now: u64,
    ) -> bool {
        self.pass(now);
        if !self.is_news(session, number) {
            return false;
        }
        let old = self.holders.get(&session).copied();
        if old.is_some_and(|holder| holder.is_recalled) {
            return self.is(session) && session.is_local();
        }
        let is_wanted = self.wanted.iter().any(|(by, until)| *by != session && *until > now);
        if !may || is_wanted {
            return false;
        }
        let until = (!session.is_local()).then(|| now.saturating_add(HELD));
        let awaits_until = old.and_then(|holder| holder.awaits_until);
        let holder = Holder { key, until, number: Some(number), is_recalled: false, awaits_until };
        self.holders.insert(session, holder);
        true
    }

    /// Whether a hold is recalled. A question of another process waits for a limited time.
    pub fn is_recalled(&mut self, session: SessionId, now: u64) -> Recalled {
        let Some(holder) = self.holders.get_mut(&session) else { return Recalled::Yes };
        if holder.is_recalled || holder.number.is_none() {
            return Recalled::Yes;
        }
        if session.is_local() {
            return Recalled::Wait;
        }
        match holder.awaits_until {
            Some(until) if until <= now => {
                holder.awaits_until = None;
                self.awaits.remove(&(until, session));
                Recalled::NotYet
            }
            Some(_) => Recalled::Wait,
            None => {
                let until = now.saturating_add(AWAIT_TIME);
                holder.awaits_until = Some(until);
                self.awaits.insert((until, session));
                Recalled::Wait
            }
        }
    }

    /// When the next question is answered in any case.
    pub fn next_due(&self) -> Option<u64> {
        self.awaits.first().map(|(until, _)| *until)
    }

    /// Sessions whose questions have waited long enough.
    pub fn take_due(&mut self, now: u64) -> Vec<SessionId> {
        let mut due = Vec::new();
        while let Some((until, session)) = self.awaits.first().copied()
            && until <= now
        {
            self.awaits.pop_first();
            due.push(session);
        }
        due
    }

    /// A session that lives wants to write. Returns the sessions that are recalled by that, each
    /// for the first time, and whether the session writes from now on.
    pub fn wake(&mut self, session: SessionId, number: u64, now: u64) -> (Vec<SessionId>, bool) {
        self.pass(now);
        let heard = self.heard.entry(session).or_default();
        if number < heard.of_writing {
            return (Vec::new(), false);
        }
        heard.of_writing = number;
        let (mut recalled, mut is_any) = (Vec::new(), false);
        for (other, holder) in self.holders.iter_mut().filter(|(other, _)| **other != session) {
            is_any = true;
            if !core::mem::replace(&mut holder.is_recalled, true) {
                recalled.push(*other);
            }
        }
        if is_any {
            // Otherwise one that asks without end could keep this one waiting.
            self.wanted.insert(session, now.saturating_add(WANTED));
        } else {
            self.wanted.remove(&session);
            self.quiet.remove(&session);
        }
        (recalled, !is_any)
    }

    /// A session that lives says that it changes nothing until it says otherwise. `epoch`: of this
    /// start.
    pub fn be_quiet(&mut self, session: SessionId, said: Said, epoch: Epoch) {
        if said.epoch != epoch {
            // The session may have written since, and this shard would not know.
            return;
        }
        let heard = self.heard.entry(session).or_default();
        if said.number >= heard.of_writing {
            heard.of_writing = said.number;
            self.quiet.insert(session);
            self.wanted.remove(&session);
        }
    }

    /// Ends the hold of `session` of `key`: its kernel remembers nothing. `lives`: the session
    /// lives. Returns whether it held.
    pub fn end(
        &mut self,
        (session, key): (SessionId, KeyId),
        said: Said,
        epoch: Epoch,
        lives: bool,
    ) -> bool {
        let is_news = !lives || self.is_news(session, said.number);
        let ends = |holder: &Holder| {
            let is_its = match holder.number {
                Some(number) => number <= said.number,
                None => said.epoch == epoch,
            };
            holder.key == key && is_its
        };
        let is_over = is_news && self.holders.get(&session).is_some_and(ends);
        if is_over {
            self.forget(session);
        }
        is_over
    }

    fn forget(&mut self, session: SessionId) {
        if let Some(Holder { awaits_until: Some(until), .. }) = self.holders.remove(&session) {
            self.awaits.remove(&(until, session));
        }
    }

    /// Forgets what is over by `now`.
    fn pass(&mut self, now: u64) {
        let is_over = |holder: &Holder| holder.until.is_some_and(|until| until <= now);
        let over: Vec<_> =
            self.holders.iter().filter(|(_, it)| is_over(it)).map(|it| *it.0).collect();
        over.into_iter().for_each(|session| self.forget(session));
        self.wanted.retain(|_, until| *until > now);
    }

    /// At a start: nobody knows which of these sessions wrote and which held. What the kernels of
    /// others than this process's remember ends after a while.
    pub fn begin(
        &mut self,
        living: impl Iterator<Item = (SessionId, KeyId)>,
        position: u64,
        now: u64,
    ) {
        let until = Some(now.saturating_add(HELD));
        let may_hold =
            |key| Holder { key, until, number: None, is_recalled: false, awaits_until: None };
        let remote = living.filter(|(session, _)| !session.is_local());
        self.holders = remote.map(|(session, key)| (session, may_hold(key))).collect();
        self.ended_at = position;
    }

    /// A copy for a shard that begins anew. A local session counts only if it lives.
    pub fn if_lives(&self, lives: impl Fn(SessionId) -> bool) -> Self {
        let mut copy = self.clone();
        copy.holders.retain(|session, _| !session.is_local() || lives(*session));
        copy.quiet.retain(|session| lives(*session));
        copy.heard.retain(|session, _| lives(*session));
        copy.wanted.retain(|session, _| lives(*session));
        // Questions that wait are asked again.
        copy.awaits.clear();
        copy.holders.values_mut().for_each(|holder| holder.awaits_until = None);
        copy
    }

    /// Notes that `session` is over, by the event at `position`. A kernel of another process may
    /// remember until its time ends.
    pub fn ended(&mut self, session: SessionId, position: u64) {
        if session.is_local() {
            self.forget(session);
        }
        if !self.quiet.remove(&session) {
            self.ended_at = position;
        }
        self.heard.remove(&session);
        self.wanted.remove(&session);
    }
}
