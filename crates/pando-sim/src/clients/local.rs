//! Clients in the process that hosts all shards, as `pando up` has one. Their calls run the shards
//! at once, and the clients die with the process.
//!
//! ```text
//!   client ── call ──► the host, which answers before it returns, or later
//!                      now and then another thread has the shard, or one of its neighbours
//!   the process dies ──► all of them die; the next process ends the sessions that the last one has noted
//! ```
//!
//! No request or reply is lost here. So a request is repeated only after its program was
//! interrupted, when the client asks for the outcome.

use std::future::pending;
use std::sync::{Arc, Mutex};

use pando_client::{BoxFuture, Calling, Transport, TransportError};
use pando_server::host::AtOnce;
use pando_server::host::driven::Driven;
use pando_types::op::{Op as Wire, Request};
use pando_types::reply::{Body, Refusal, Reply};
use pando_types::{Errno, SessionId, ShardIndex};

use crate::base::lock::lock;
use crate::base::random::Random;
use crate::base::time::MILLISECOND;
use crate::config::parameters::SimConfig;
use crate::counts::local::LocalCounts;
use crate::judges::ear::{Ear, Heard};
use crate::machines::post::Post;
use crate::model::Op;
use crate::network::mail::Mail;

/// The process that hosts all shards.
pub(crate) const SERVER: usize = 0;

/// What these clients share.
pub struct Here {
    ear: Ear,
    pub(crate) inner: Mutex<Inner>,
}

pub(crate) struct Inner {
    pub(crate) running: Option<Running>,
    /// Sessions that have begun and not ended. Their file survives a loss of power.
    pub(crate) noted: Vec<SessionId>,
    /// Whether the process has died, and its clients still have to be replaced.
    pub(crate) has_died: bool,
    /// Shards that were called, or that must run because a call came while another thread had them.
    pub(crate) turns: Vec<ShardIndex>,
    pub(crate) random: Random,
    pub(crate) counts: LocalCounts,
}

/// One life of the process.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) driven: Arc<Driven>,
    pub(crate) post: Arc<Post>,
}

impl Here {
    /// The clients' shared state; `None`: the run has no such clients.
    #[must_use]
    pub fn of(config: &SimConfig, ear: &Ear) -> Option<Arc<Self>> {
        let inner = Inner {
            running: None,
            noted: Vec::new(),
            has_died: false,
            turns: Vec::new(),
            random: Random::new(config.seed ^ 0x10CA_1000),
            counts: LocalCounts::default(),
        };
        let here = Self { ear: ear.clone(), inner: Mutex::new(inner) };
        (config.locals > 0).then(|| Arc::new(here))
    }

    pub(crate) fn running(&self) -> Option<Running> {
        lock(&self.inner).running.clone()
    }

    /// How long after its start a call is interrupted, nanoseconds, if it is.
    pub(crate) fn interrupts(&self, op: &Op) -> Option<u64> {
        // Reads and listings are simply begun again. A `close` is not interrupted.
        let may_be = matches!(
            op,
            Op::Create { .. }
                | Op::Mkdir(..)
                | Op::Unlink(..)
                | Op::Rmdir(..)
                | Op::Link(..)
                | Op::Rename { .. }
                | Op::SetAttr(..)
                | Op::Open { .. }
                | Op::Write(..)
                | Op::SetXattr(..)
                | Op::RemoveXattr(..)
        );
        let random = &mut lock(&self.inner).random;
        (may_be && random.chance(1, 4)).then(|| random.below(MILLISECOND))
    }

    /// Calls a shard, sometimes while other threads have some shards.
    fn call(&self, driven: &Driven, shard: ShardIndex, request: Box<Request>) -> AtOnce {
        let mut busy = driven.host().hosted();
        {
            let Inner { random, counts, turns, .. } = &mut *lock(&self.inner);
            let is_beside = random.chance(1, 6);
            busy.retain(|_| is_beside && random.chance(1, 2));
            counts.beside += u64::from(!busy.is_empty());
            turns.push(shard);
            turns.extend(&busy);
        }
        driven.call_beside(&busy, shard, request)
    }

    /// A reply reaches its caller.
    fn heard(&self, (heard, ending): (&Heard, Option<SessionId>), reply: &Reply, is_failed: bool) {
        let is_eio = matches!(reply.result, Err(Refusal::Errno(Errno::EIO)));
        self.ear.leaves(heard, &reply.result, is_eio && is_failed);
        let noted = &mut lock(&self.inner).noted;
        match (&reply.result, ending) {
            (Ok(Body::Session(session)), _) => noted.push(*session),
            (Ok(_) | Err(Refusal::NoSession), Some(session)) => noted.retain(|it| *it != session),
            _ => {}
        }
    }
}

/// One client's transport to the shards of its process.
pub struct Local {
    /// The process that hosts all shards.
    pub here: Arc<Here>,
    /// The clock while the process does not run.
    pub mail: Mail,
}

impl Transport for Local {
    fn call<'a>(&'a self, shard: ShardIndex, request: Box<Request>) -> Calling<'a> {
        let here = &self.here;
        let Some(Running { driven, post }) = here.running() else {
            return Calling::answered(Err(TransportError::Stopped));
        };
        let ending = match request.op {
            Wire::EndSession(session) => Some(session),
            _ => None,
        };
        let heard = here.ear.comes(&request);
        let begun = here.call(&driven, shard, request);
        let told = move |reply: Option<Box<Reply>>| {
            let reply = reply.ok_or(TransportError::Stopped)?;
            here.heard((&heard, ending), &reply, driven.failure_of(shard).is_some());
            Ok(reply)
        };
        match begun {
            // A disk has stopped, and with it the process: no reply reaches a caller.
            AtOnce::Answered(_) if post.has_stopped() => Calling::waiting(pending()),
            AtOnce::Answered(reply) => {
                lock(&here.inner).counts.at_once += 1;
                Calling::answered(told(reply))
            }
            AtOnce::Later(call) => Calling::waiting(async move {
                let reply = call.await;
                if post.has_stopped() {
                    return pending().await;
                }
                lock(&here.inner).counts.later += 1;
                told(reply)
            }),
        }
    }

    fn sleep<'a>(&'a self, nanos: u64) -> BoxFuture<'a, ()> {
        match self.here.running() {
            Some(Running { driven, .. }) => Box::pin(driven.host().sleep(nanos)),
            None => self.mail.sleep(nanos),
        }
    }

    fn now_nanos(&self) -> u64 {
        let running = self.here.running();
        running.map_or_else(|| self.mail.now_nanos(), |it| it.driven.host().now_nanos())
    }

    fn is_local(&self) -> bool {
        true
    }
}
