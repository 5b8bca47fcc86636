//! The session that is alone on its volume, at shard 0.

use pando_types::SessionId;
use pando_types::op::ALONE_HOLD;

/// Time for which a session of another process counts as alone after it has asked, nanoseconds. It
/// is longer than the session itself counts, since clocks run at different rates.
pub const HELD: u64 = ALONE_HOLD / 4 * 5;

/// The session that is alone, if any.
#[derive(Default, Debug)]
pub struct AloneSession {
    session: Option<SessionId>,
    /// When the session's kernel remembers nothing any more, whatever becomes of its process.
    /// `None`: the session ends with this process, and has no end of that kind.
    until: Option<u64>,
    /// Whether another client wants to begin a session.
    is_recalled: bool,
    /// A session that may have been alone before this start of the shard, and until when.
    before: Option<(SessionId, u64)>,
}

impl AloneSession {
    /// Whether `session` is alone.
    pub fn is(&self, session: SessionId) -> bool {
        self.session == Some(session)
    }

    /// Whether `session` is alone, and no other client wants to begin a session.
    pub fn is_undisturbed(&self, session: SessionId) -> bool {
        self.is(session) && !self.is_recalled
    }

    /// Lets `session` be alone from `now` on, unless another client wants to begin a session.
    /// Returns whether it is alone. A local session that is recalled is alone until it says that it
    /// is not. A session of another process counts from its question, so the answer is no.
    pub fn begin(&mut self, session: SessionId, now: u64) -> bool {
        self.pass(now);
        if self.is_recalled || self.session.is_some_and(|alone| alone != session) {
            return self.is(session) && session.is_local();
        }
        self.session = Some(session);
        self.until = (!session.is_local()).then(|| now.saturating_add(HELD));
        // It is the only session that lives, so no other was alone before this start.
        self.before = None;
        true
    }

    /// Notes that another client wants to begin a session. Returns whether one is alone, or may
    /// have been before this start.
    pub fn recall(&mut self, now: u64) -> bool {
        self.pass(now);
        self.is_recalled = self.session.is_some();
        self.is_recalled || self.before.is_some()
    }

    /// Forgets what is over by `now`.
    fn pass(&mut self, now: u64) {
        if self.until.is_some_and(|until| until <= now) {
            (self.session, self.until, self.is_recalled) = (None, None, false);
        }
        self.before = self.before.filter(|(_, until)| *until > now);
    }

    /// At a start: `session` may have been alone, and its kernel may remember for a while.
    pub fn may_have_been(&mut self, session: SessionId, now: u64) {
        self.before = Some((session, now.saturating_add(HELD)));
    }

    /// A copy for a shard that begins anew. A local session counts only if it lives.
    pub fn if_lives(&self, lives: impl Fn(SessionId) -> bool) -> Self {
        let counts = |session: &SessionId| !session.is_local() || lives(*session);
        let session = self.session.filter(counts);
        Self {
            session,
            until: self.until.filter(|_| session.is_some()),
            is_recalled: session.is_some() && self.is_recalled,
            before: self.before,
        }
    }

    /// Notes that `session` is over. A kernel of another process may remember until its time ends.
    pub fn ended(&mut self, session: SessionId) {
        if session.is_local() {
            self.over(session);
        }
    }

    /// Ends that `session` is alone: its kernel remembers nothing.
    pub fn over(&mut self, session: SessionId) {
        if self.is(session) {
            (self.session, self.until, self.is_recalled) = (None, None, false);
        }
        self.before = self.before.filter(|(before, _)| *before != session);
    }
}
