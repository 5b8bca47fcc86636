//! Records requests and replies for the judges, however they reach a shard and leave it.

use std::sync::{Arc, Mutex};

use pando_types::op::{Op, Request, RequestId};
use pando_types::reply::{Body, Found, Refusal};
use pando_types::{Ino, Name};

use crate::base::lock::lock;
use crate::check::{EventIndex, History};
use crate::judges::locks::Locks;
use crate::judges::mark::event_of;

/// Reports requests and replies to the history, and to the judge of locks.
#[derive(Clone)]
pub struct Ear {
    /// The history of what clients did.
    pub(crate) history: Arc<Mutex<History>>,
    /// The judge of locks, if programs lock.
    pub(crate) locks: Option<Arc<Mutex<Locks>>>,
}

/// A request that has reached a shard.
pub struct Heard {
    /// The request's id.
    pub(crate) id: RequestId,
    /// The operation that the request is part of, if it is a client's.
    event: Option<EventIndex>,
    /// Directory and name, if the request looks up a name without a trail.
    looked: Option<(Ino, Name)>,
}

impl Ear {
    /// Reports a request that reaches a shard.
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

    /// Reports what a reply says of a session or of an operation. `is_doubtful`: whether the
    /// operation has run is unknown, so its answer is not reported.
    pub fn leaves(&self, heard: &Heard, result: &Result<Body, Refusal>, is_doubtful: bool) {
        let Heard { id, event, ref looked } = *heard;
        if let Some(locks) = &self.locks {
            lock(locks).watch.leaves(id, result);
        }
        let mut history = lock(&self.history);
        match result {
            Ok(Body::Session(session)) => history.alive(*session),
            // A session sends its renewals for itself.
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
            // The operation is not over: the client has to go on.
            Ok(Body::Linked(..)) => {}
            Ok(Body::Left(left)) if !left.is_empty() => {}
            Ok(Body::Created(attr, true, _)) => history.told(event, id, Some(Some(attr.ino))),
            Ok(Body::Made(dir, _) | Body::Born(dir, ..)) => {
                history.told(event, id, Some(Some(dir.ino)))
            }
            Ok(_) => history.told(event, id, Some(None)),
            Err(Refusal::Errno(_) | Refusal::Stale) => history.told(event, id, None),
            Err(_) => {}
        }
    }
}
