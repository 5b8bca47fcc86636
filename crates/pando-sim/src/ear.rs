//! What is overheard of requests and replies, by whichever way they come to a shard and leave it.

use std::sync::{Arc, Mutex};

use pando_types::op::{Op, Request, RequestId};
use pando_types::reply::{Body, Found, Refusal};
use pando_types::{Ino, Name};

use crate::check::{EventIndex, History};
use crate::client_run::{event_of, lock};
use crate::locking::judge::Locks;

/// Tells the history, and who judges locks.
#[derive(Clone)]
pub struct Ear {
    /// What clients did.
    pub(crate) history: Arc<Mutex<History>>,
    /// What became of locks, if programs lock.
    pub(crate) locks: Option<Arc<Mutex<Locks>>>,
}

/// A request that has come to a shard.
pub struct Heard {
    /// Which.
    pub(crate) id: RequestId,
    /// Which operation it is part of.
    event: Option<EventIndex>,
    /// A name that is looked up without a trail.
    looked: Option<(Ino, Name)>,
}

impl Ear {
    /// A request comes to a shard.
    #[must_use]
    pub fn comes(&self, request: &Request) -> Heard {
        let (id, event) = (request.head.id, event_of(&request.credentials));
        if let (Some(event), 1..) = (event, id.sequence) {
            lock(&self.history).asked(event, id);
        }
        if let Some(locks) = &self.locks {
            lock(locks).watch.comes(id, &request.op);
        }
        let mut looked = None;
        if let (Some(event), None) = (event, &request.trail) {
            lock(&self.history).asked_loosely(event, request.head.trace, &request.op);
            if let Op::Lookup(dir, name) = &request.op {
                looked = Some((dir.ino, name.clone()));
            }
        }
        Heard { id, event, looked }
    }

    /// What a reply tells of a session, or of an operation. `is_doubtful`: nobody knows whether it
    /// has run.
    pub fn leaves(&self, heard: &Heard, result: &Result<Body, Refusal>, is_doubtful: bool) {
        let Heard { id, event, ref looked } = *heard;
        if let Some(locks) = &self.locks {
            lock(locks).watch.leaves(id, result);
        }
        let mut history = lock(&self.history);
        match result {
            Ok(Body::Session(session)) => history.alive(*session),
            // Renewals are sent by sessions for themselves.
            Ok(Body::Lease(_)) => history.alive(id.session),
            _ => {}
        }
        if let (Some(event), Some((dir, name)), Ok(Body::Found(Found::Dir(access)))) =
            (event, looked, result)
        {
            history.found_loosely(event, *dir, name.clone(), access.dir.ino);
        }
        if is_doubtful {
            return;
        }
        let (Some(event), 1..) = (event, id.sequence) else { return };
        match result {
            // The client has to go on.
            Ok(Body::Linked(..)) => {}
            Ok(Body::Left(left)) if !left.is_empty() => {}
            Ok(Body::Created(attr, true, _)) => history.told(event, id, Some(Some(attr.ino))),
            Ok(Body::Made(dir, _)) => history.told(event, id, Some(Some(dir.ino))),
            Ok(_) => history.told(event, id, Some(None)),
            Err(Refusal::Errno(_) | Refusal::Stale) => history.told(event, id, None),
            Err(_) => {}
        }
    }
}
