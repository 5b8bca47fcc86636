//! Which requests run at all: those that keep to the protocol, and name only sessions of their
//! client's key.
//!
//! A client is known by its key ([`ClientTag`]). All else in a request is the client's claim, and
//! may be false. [`asks`] says what each operation needs. The whole of it:
//!
//! | operation | names | checked |
//! |---|---|---|
//! | all | the session of the head | if the head has a sequence: the session is one of the key's, the request slot is below [`MAX_SLOTS`] |
//! | reads | places, inos | permission, if the credentials name a user. A head without a sequence names no session; `TestLock` takes its session only if it is one of the key's |
//! | changes | places, inos | a session and a sequence; then permission |
//! | `WriteData` | objects | each was made in the request's own session ([`Improper::ForeignObject`]) |
//! | `Open`, `OpenName`, `Create`, `Release`, `ReleaseAll` | opens | concern the request's own session only |
//! | `Lock`, `LockOf`, `Unlock` | locks | concern the request's own session only; `LockOf` checks permission |
//! | `OpenSession`, `OpenLocalSession` | nothing | number of sessions that the key has already ([`SESSIONS_MAX`]) |
//! | `EndSession` | a session | it is one of the key's; the owner may end any |
//! | `Renew`, `Hold`, `Borrow`, `BorrowToRead`, `Attend` | a session | it is one of the key's |
//! | `LentRows`, `Stream`, and what `Attend` names | grants | each is one of the key's; others are ignored |
//! | elements of `Stream` | names, inos, opens | names lie in the grant's part, inos in its ranges; then permission, as for changes |
//! | `Garbage`, `GarbageDone` | objects that are deleted | nothing; see **Garbage** |
//! | `HandOver`, `AddShard` | shards | the key is the owner's |
//!
//! A session of another key is answered like one that does not exist: [`Refusal::NoSession`]. Each
//! refusal is counted by its kind.
//!
//! **Objects.** A piece names only objects of the request's own session. A session's number is
//! never given twice. So each object has one session that may put it into files, and each session
//! has one key. This needs no record of ended sessions. If a mount's session ends before its pieces
//! are taken, the mount stores the bytes again, as objects of its next session. A client may put
//! *its own* object into two files, and lose both contents with that object. It could have written
//! anything there.
//!
//! **Garbage.** Any client may ask for unused objects, and report that they are deleted. A false
//! report leaves an unused object in the store, which a collection finds
//! (docs/design/collecting.md). An object enters that list only by a file that had it.

use pando_types::op::{
    ELEMENTS_MAX, GARBAGE_MAX, GLIMPSES_MAX, GROUPS_MAX, KNOWN_MAX, MAX_SLOTS, Op, RELEASES_MAX,
    Request,
};
use pando_types::reply::{Improper, Refusal};
use pando_types::{Judge, KeyId, Powers, SessionId};

use crate::contract::ClientTag;
use crate::state::shard::Shard;

/// Most sessions that one key may have at a time. The owner's key has no limit.
pub const SESSIONS_MAX: usize = 256;

/// Most ended sessions of one key that have left something on this shard. What they left goes when
/// every shard has heard of their ends.
const SESSIONS_OVER_MAX: usize = 16 * SESSIONS_MAX;

/// What an operation needs to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asks {
    /// The operation only reads, and needs nothing.
    Reads,
    /// The operation changes something. It needs a session and a sequence, so that it runs once.
    Changes,
    /// A session begins; this needs nothing.
    Begins,
    /// The operation renews this session, or says what its kernel remembers. The session must be
    /// one of the key's.
    OfSession(SessionId),
    /// The operation ends this session, which must be one of the key's. The owner may end any.
    Ends(SessionId),
    /// The operation changes the volume itself, and needs the owner's key.
    Owns,
}

/// What `op` needs to run.
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
        | Op::ReadFiles { .. }
        | Op::Parent(_)
        | Op::StatFs(_)
        | Op::Sync(_)
        | Op::SyncFile(_)
        | Op::Garbage(..)
        | Op::InspectDir(..)
        | Op::Glimpse(..)
        | Op::TestLock(..)
        | Op::LentRows(..)
        | Op::Stream { .. } => Asks::Reads,
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
        Op::Renew(session)
        | Op::Hold(session, _)
        | Op::Borrow(session, ..)
        | Op::BorrowToRead(session, ..)
        | Op::Attend { session, .. } => Asks::OfSession(*session),
        Op::EndSession(session) => Asks::Ends(*session),
        Op::HandOver(..) | Op::AddShard(_) => Asks::Owns,
    }
}

/// Whether a request has more groups, ranges or items than one request may have. Other limits give
/// errors that applications know, or cut pages.
pub fn asks_too_much(request: &Request) -> bool {
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
        Op::Stream { elements, .. } => elements.len() > ELEMENTS_MAX,
        Op::Attend { recalled, over, .. } => recalled.len().max(over.len()) > KNOWN_MAX,
        _ => false,
    };
    judged || op
}

impl Shard {
    /// Refuses a request that must not run, without regard to whether its session is known. That is
    /// checked later: the request may have to wait for news of its session.
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

    /// Whether a session is one of the key's; `None`: this shard does not know the session.
    pub(crate) fn is_its(&mut self, key: KeyId, session: SessionId) -> Option<bool> {
        let is_its = self.sessions.key_of(session)? == key;
        self.counters.foreign_sessions += u64::from(!is_its);
        Some(is_its)
    }

    fn must_own(&mut self, key: KeyId, session: SessionId) -> Result<(), Refusal> {
        match self.is_its(key, session) {
            Some(false) => Err(Refusal::NoSession),
            // For an unknown session the operation itself gives the answer.
            Some(true) | None => Ok(()),
        }
    }

    /// Whether the key has as many sessions as it may have, or too many ended ones that are not
    /// over on all shards.
    fn has_too_many(&self, key: KeyId) -> bool {
        let living = self.sessions.living().filter(|(_, of)| *of == key).count();
        let over = self.sessions.log.over().filter(|(_, over)| over.key == Some(key)).count();
        living >= SESSIONS_MAX || over >= SESSIONS_OVER_MAX
    }
}
