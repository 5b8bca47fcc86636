//! The session that is alone on its volume, at shard 0.

use pando_types::SessionId;

/// The session that is alone, if any. It ends with this process, so it has no record.
#[derive(Default, Debug)]
pub struct AloneSession {
    session: Option<SessionId>,
    /// Whether another client wants to begin a session.
    is_recalled: bool,
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

    /// Lets `session` be alone, unless another client wants to begin a session.
    pub fn begin(&mut self, session: SessionId) {
        if !self.is_recalled {
            self.session = Some(session);
        }
    }

    /// Notes that another client wants to begin a session. Returns whether one is alone.
    pub fn recall(&mut self) -> bool {
        self.is_recalled = self.session.is_some();
        self.is_recalled
    }

    /// A copy for a shard that begins anew: it is empty if the session does not live.
    pub fn if_lives(&self, lives: impl Fn(SessionId) -> bool) -> Self {
        let session = self.session.filter(|session| lives(*session));
        Self { session, is_recalled: session.is_some() && self.is_recalled }
    }

    /// Ends that `session` is alone.
    pub fn over(&mut self, session: SessionId) {
        if self.is(session) {
            *self = Self::default();
        }
    }
}
