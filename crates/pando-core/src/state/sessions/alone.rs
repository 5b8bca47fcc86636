//! The session that is alone on its volume, at shard 0.

use pando_types::op::ALONE_HOLD;
use pando_types::{KeyId, SessionId};

/// Time for which a session of another process counts as alone after it has asked, nanoseconds. It
/// is longer than the session itself counts: clocks run at different rates, and a kernel takes
/// answers in late.
pub const HELD: u64 = ALONE_HOLD / 4 * 5;
/// Time for which no session begins to be alone after another was refused, nanoseconds. Clients ask
/// again sooner than that.
const WANTED: u64 = 1_000_000_000;

/// The session that is alone, if any.
#[derive(Default, Debug)]
pub struct AloneSession {
    alone: Option<Alone>,
    /// Whether another client has wanted to begin a session meanwhile.
    is_recalled: bool,
    /// Until when no other session begins to be alone, since a client wants to begin a session.
    wanted_until: u64,
}

#[derive(Clone, Copy, Debug)]
struct Alone {
    session: SessionId,
    /// The session's key, also if the session is over.
    key: KeyId,
    /// When its kernel remembers nothing any more, whatever becomes of its process. `None`: the
    /// session ends with this process, and has no end of that kind.
    until: Option<u64>,
    /// Whether nobody knows if it was alone: it may have been before this start of the shard.
    is_guess: bool,
}

impl AloneSession {
    /// Whether `session` is alone.
    pub fn is(&self, session: SessionId) -> bool {
        self.alone.is_some_and(|alone| alone.session == session && !alone.is_guess)
    }

    /// Whether `session` is alone, and no other client wants to begin a session.
    pub fn is_undisturbed(&self, session: SessionId) -> bool {
        self.is(session) && !self.is_recalled
    }

    /// Lets `session` be alone from `now` on, unless another client wants to begin a session.
    /// Returns whether it is alone. A local session that is recalled is alone until it says that it
    /// is not. A session of another process counts from its question, so the answer is no.
    pub fn begin(&mut self, session: SessionId, key: KeyId, now: u64) -> bool {
        self.pass(now);
        if self.is_recalled || self.alone.is_some_and(|alone| alone.session != session) {
            return self.is(session) && session.is_local();
        }
        if self.wanted_until > now {
            return false;
        }
        let until = (!session.is_local()).then(|| now.saturating_add(HELD));
        self.alone = Some(Alone { session, key, until, is_guess: false });
        true
    }

    /// Notes that another client wants to begin a session. Returns whether it has to wait for one
    /// that is alone, or may have been before this start.
    pub fn recall(&mut self, now: u64) -> bool {
        self.pass(now);
        self.is_recalled = self.alone.is_some();
        // Otherwise one that asks without end could keep all others out.
        self.wanted_until = if self.is_recalled { now.saturating_add(WANTED) } else { 0 };
        self.is_recalled
    }

    /// Forgets what is over by `now`.
    fn pass(&mut self, now: u64) {
        if self.alone.and_then(|alone| alone.until).is_some_and(|until| until <= now) {
            (self.alone, self.is_recalled) = (None, false);
        }
    }

    /// At a start: `session` may have been alone, and its kernel may remember for a while.
    pub fn may_have_been(&mut self, session: SessionId, key: KeyId, now: u64) {
        let until = Some(now.saturating_add(HELD));
        self.alone = Some(Alone { session, key, until, is_guess: true });
    }

    /// A copy for a shard that begins anew. A local session counts only if it lives.
    pub fn if_lives(&self, lives: impl Fn(SessionId) -> bool) -> Self {
        let counts = |alone: &Alone| !alone.session.is_local() || lives(alone.session);
        let alone = self.alone.filter(counts);
        let is_recalled = alone.is_some() && self.is_recalled;
        Self { alone, is_recalled, wanted_until: self.wanted_until }
    }

    /// Notes that `session` is over. A kernel of another process may remember until its time ends.
    pub fn ended(&mut self, session: SessionId) {
        if session.is_local()
            && let Some(Alone { key, .. }) = self.alone
        {
            self.over(session, key);
        }
    }

    /// Ends that `session` of `key` is alone: its kernel remembers nothing.
    pub fn over(&mut self, session: SessionId, key: KeyId) {
        if self.alone.is_some_and(|alone| (alone.session, alone.key) == (session, key)) {
            (self.alone, self.is_recalled) = (None, false);
        }
    }
}
