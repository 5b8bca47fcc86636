//! The session that is alone on its volume, at shard 0.

use alloc::collections::BTreeMap;
use pando_types::{KeyId, SessionId};

/// The session that is alone, if any. It ends with this process, so it has no record.
#[derive(Default, Debug)]
pub struct AloneSession {
    pub(crate) session: Option<SessionId>,
    /// Whether another client wants to begin a session.
    pub(crate) is_recalled: bool,
}

impl AloneSession {
    /// Whether `session` is alone.
    pub fn is(&self, session: SessionId) -> bool {
        self.session == Some(session)
    }

    /// A copy for a shard that begins anew: it is empty if the session is not in `sessions`.
    pub fn if_lives(&self, sessions: &BTreeMap<SessionId, KeyId>) -> Self {
        let session = self.session.filter(|session| sessions.contains_key(session));
        Self { session, is_recalled: session.is_some() && self.is_recalled }
    }

    /// Ends that `session` is alone.
    pub fn over(&mut self, session: SessionId) {
        if self.is(session) {
            *self = Self::default();
        }
    }
}
