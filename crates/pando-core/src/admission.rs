//! Which requests are run at all: those that keep to the protocol, of clients to whom what they
//! name belongs.
//!
//! A client is known by the key that it came by ([`ClientTag`]). All else in a request is what the
//! client wrote, and may be a lie. [`asks`] says of every operation what it needs; this is all of
//! it:
//!
//! | operation | names | checked |
//! |---|---|---|
//! | every one | the session of its head | if it has a sequence: the session is one of the key's, the slot is below [`MAX_SLOTS`] |
//! | what reads | places, inos | permission, where its credentials say on whose behalf. A head without sequence names no session: of `TestLock`, it is none of the key's unless it is |
//! | what changes | places, inos | needs a session and a sequence; then permission |
//! | `WriteData` | objects | each was made in the request's own session ([`Improper::ForeignObject`]) |
//! | `Open`, `OpenName`, `Create`, `Release`, `ReleaseAll` | opens | those of the request's own session only |
//! | `Lock`, `LockOf`, `Unlock` | locks | those of the request's own session only; of `LockOf`, permission |
//! | `OpenSession`, `OpenLocalSession` | nothing | how many sessions the key has already ([`SESSIONS_MAX`]) |
//! | `EndSession` | a session | it is one of the key's; the owner may end any |
//! | `Renew`, `Alone` | a session | it is one of the key's |
//! | `Garbage`, `GarbageDone` | objects that are deleted | see below |
//! | `HandOver`, `AddShard` | shards | the key is the owner's |
//!
//! Another key's session is answered like one that does not exist: [`Refusal::NoSession`]. Each
//! refusal is counted by its kind.
//!
//! **Objects.** A piece names objects of the request's session only. Numbers of sessions are never
//! given twice, so of every object there is one session that may put it into files, and of every
//! session one key. This needs no record of sessions that are over: a mount whose session ended
//! before its pieces were taken stores the bytes again, as objects of its next session. A client
//! may put *its own* object into two files and lose both contents with one: it could have written
//! anything there.
//!
//! **Garbage.** Any client may ask which objects nobody needs, and say that they are deleted. A lie
//! keeps an object in the store that nobody needs, which a collection finds
//! (docs/design/collecting.md). None can bring an object on that list but by a file that had it.

use pando_types::op::{
    GARBAGE_MAX, GLIMPSES_MAX, GROUPS_MAX, MAX_SLOTS, Op, RELEASES_MAX, Request,
};
use pando_types::reply::{Improper, Refusal};
use pando_types::{Judge, KeyId, Powers, SessionId};

use crate::contract::ClientTag;
use crate::shard::Shard;

/// Most sessions of one key at once, but for the owner's.
pub const SESSIONS_MAX: usize = 256;

/// Most sessions of one key that have ended and left something here, which goes when every shard
/// has heard that.
const SESSIONS_OVER_MAX: usize = 16 * SESSIONS_MAX;

/// What an operation needs to be run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asks {
    /// It changes nothing, and needs nothing.
    Reads,
    /// It changes something: a session and a sequence, so that it runs once.
    Changes,
    /// A session begins. It needs nothing.
    Begins,
    /// This session, which must be one of the key's, is renewed, or asked to be alone.
    OfSession(SessionId),
    /// This session ends; the owner may end any.
    Ends(SessionId),
    /// The volume itself changes: for its owner.
    Owns,
}

/// What `op` needs.
#[must_use]
pub const fn asks(op: &Op) -> Asks {
    match op {
        Op::Lookup(..)
        | Op::GetAttr(_)
        | Op::Readlink(_)
        | Op::Access(..)
        | Op::ReadData { .. }
        | Op::GetXattr(..)
        | Op::ListXattr(_)
        | Op::DirGetAttr(_)
        | Op::PartitionStat(..)
        | Op::DirAccess(..)
        | Op::ReadDir { .. }
        | Op::Parent(_)
        | Op::StatFs(_)
        | Op::Sync(_)
        | Op::SyncFile(_)
        | Op::Garbage(..)
        | Op::InspectDir(..)
        | Op::Glimpse(..)
        | Op::TestLock(..) => Asks::Reads,
        Op::Create { .. }
        | Op::Mkdir(..)
        | Op::Unlink(..)
        | Op::Rmdir(..)
        | Op::Link(..)
        | Op::Rename { .. }
        | Op::SetAttr(..)
        | Op::Open { .. }
        | Op::OpenName { .. }
        | Op::Release(_)
        | Op::ReleaseAll(..)
        | Op::WriteData { .. }
        | Op::SetXattr { .. }
        | Op::RemoveXattr(..)
        | Op::DirSetAttr(..)
        | Op::GarbageDone(..)
        | Op::Lock(..)
        | Op::LockOf(..)
        | Op::Unlock(..) => Asks::Changes,
        Op::OpenSession | Op::OpenLocalSession => Asks::Begins,
        Op::Renew(session) | Op::Alone(session, _) => Asks::OfSession(*session),
        Op::EndSession(session) => Asks::Ends(*session),
        Op::HandOver(..) | Op::AddShard(_) => Asks::Owns,
    }
}

/// Whether it has more of something than one request may. Other limits are errors that applications
/// know, and cut pages.
fn asks_too_much(request: &Request) -> bool {
    let judged = match &request.credentials.judge {
        Judge::Shard(groups) => groups.len() > GROUPS_MAX,
        Judge::Kernel => false,
        Judge::Powers(powers) => {
            let ranges = powers.users.len().max(powers.groups_known.len());
            powers.groups.len() > GROUPS_MAX || ranges > Powers::RANGES_MAX
        }
    };
    let op = match &request.op {
        Op::ReleaseAll(_, files) => files.len() > RELEASES_MAX,
        Op::GarbageDone(_, objects) => objects.len() > GARBAGE_MAX,
        Op::Glimpse(_, places) => places.len() > GLIMPSES_MAX,
        _ => false,
    };
    judged || op
}

impl Shard {
    /// Refuses what must not be run, whoever else's it may be. Whether the session of its head is
    /// known is looked at afterwards: it may have to be waited for.
    pub(crate) fn admit(&mut self, tag: ClientTag, request: &Request) -> Result<(), Refusal> {
        let result = self.check_admission(tag.1, request);
        if let Err(Refusal::Improper(improper)) = &result {
            self.counters.improper[*improper as usize] += 1;
        }
        result
    }

    pub(crate) fn check_admission(&mut self, key: KeyId, request: &Request) -> Result<(), Refusal> {
        let id = request.head.id;
        if id.sequence > 0 && id.slot >= MAX_SLOTS {
            return Err(Improper::Slot.into());
        }
        if asks_too_much(request) {
            return Err(Improper::TooMuch.into());
        }
        match asks(&request.op) {
            Asks::Changes if id.sequence == 0 || id.session == SessionId(0) => {
                Err(Improper::Unnumbered.into())
            }
            Asks::Owns if key != KeyId::OWNER => Err(Improper::NotOwner.into()),
            Asks::Ends(session) if key != KeyId::OWNER => self.must_own(key, session),
            Asks::OfSession(session) => self.must_own(key, session),
            Asks::Begins if key != KeyId::OWNER && self.has_too_many(key) => {
                Err(Improper::Sessions.into())
            }
            _ => Ok(()),
        }
    }

    /// Whether a session that is known here is one of the key's; `None`: it is not known.
    pub(crate) fn is_its(&mut self, key: KeyId, session: SessionId) -> Option<bool> {
        let is_its = *self.sessions.get(&session)? == key;
        self.counters.foreign_sessions += u64::from(!is_its);
        Some(is_its)
    }

    fn must_own(&mut self, key: KeyId, session: SessionId) -> Result<(), Refusal> {
        match self.is_its(key, session) {
            Some(false) => Err(Refusal::NoSession),
            // What is not known is for the operation to say.
            Some(true) | None => Ok(()),
        }
    }

    /// Whether the key has as many sessions as it may, or has had too many that are not over
    /// everywhere.
    fn has_too_many(&self, key: KeyId) -> bool {
        let living = self.sessions.values().filter(|of| **of == key).count();
        let over = self.session_log.over().filter(|(_, over)| over.key == Some(key)).count();
        living >= SESSIONS_MAX || over >= SESSIONS_OVER_MAX
    }
}
