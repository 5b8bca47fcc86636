//! The part of a shard that holds sessions.

use alloc::collections::BTreeMap;
use pando_types::{KeyId, SessionId};

use crate::state::outcomes::Outcomes;
use crate::state::sessions::alone::AloneSession;
use crate::state::sessions::leases::Leases;
use crate::state::sessions::log::SessionLog;
use crate::state::sessions::running::Running;

/// Sessions, their leases, their ends, and the outcomes of their requests.
pub struct Sessions {
    /// Sessions that live, each with the key that it belongs to.
    pub(crate) alive: BTreeMap<SessionId, KeyId>,
    /// Leases of sessions; used by shard 0 only.
    pub(crate) leases: Leases,
    /// The session that is alone on the volume, if any; used by shard 0 only.
    pub(crate) alone: AloneSession,
    /// Position in the sequence of begins and ends of sessions, and what is known of ended
    /// sessions.
    pub(crate) log: SessionLog,
    /// Outcomes of requests that ran here.
    pub(crate) outcomes: Outcomes,
    /// Requests of undecided transactions.
    pub(crate) running: Running,
}

impl Sessions {
    /// No session, with these leases.
    pub(crate) fn new(leases: Leases) -> Self {
        Self {
            alive: BTreeMap::new(),
            leases,
            alone: AloneSession::default(),
            log: SessionLog::default(),
            outcomes: Outcomes::default(),
            running: Running::default(),
        }
    }
}
