//! The client's transport to shards of its own process: a call runs the shard on the caller's
//! thread.

use std::sync::Arc;

use pando_client::{BoxFuture, Calling, Transport, TransportError};
use pando_server::Host;
use pando_server::host::AtOnce;
use pando_server::sessions::Sessions;
use pando_types::ShardIndex;
use pando_types::op::{Op, Request};
use pando_types::reply::{Body, Refusal, Reply};

use crate::console::output::say;

/// Calls the host directly. It notes the start and end of each session in a file, for the next
/// start.
pub struct InProcess {
    host: Arc<Host>,
    sessions: Arc<Sessions>,
}

impl InProcess {
    pub const fn new(host: Arc<Host>, sessions: Arc<Sessions>) -> Self {
        Self { host, sessions }
    }

    fn note(&self, ending: Option<pando_types::SessionId>, reply: &Reply) {
        let noted = match (&reply.result, ending) {
            (Ok(Body::Session(session)), _) => self.sessions.begun(*session),
            (Ok(_) | Err(Refusal::NoSession), Some(session)) => self.sessions.ended(session),
            _ => Ok(()),
        };
        if let Err(error) = noted {
            say!(
                "cannot record a session in {} ({error}): after a crash, files that were \
                 unlinked while open keep their space",
                self.sessions.path().display()
            );
        }
    }
}

/// Calls a shard of this process. If the shard is idle, the call runs on the caller's thread.
pub fn call_here(host: &Host, shard: ShardIndex, request: Box<Request>) -> Calling<'static> {
    match host.call_at_once(shard, request) {
        AtOnce::Answered(reply) => Calling::answered(reply.ok_or(TransportError::Stopped)),
        AtOnce::Later(call) => {
            Calling::waiting(async move { call.await.ok_or(TransportError::Stopped) })
        }
    }
}

impl Transport for InProcess {
    fn call<'a>(&'a self, shard: ShardIndex, request: Box<Request>) -> Calling<'a> {
        let is_session = matches!(request.op, Op::OpenLocalSession | Op::EndSession(_));
        if !is_session {
            return call_here(&self.host, shard, request);
        }
        let ending = match request.op {
            Op::EndSession(session) => Some(session),
            _ => None,
        };
        Calling::waiting(async move {
            let reply = self.host.call(shard, request).await.ok_or(TransportError::Stopped)?;
            self.note(ending, &reply);
            Ok(reply)
        })
    }

    fn sleep<'a>(&'a self, nanos: u64) -> BoxFuture<'a, ()> {
        Box::pin(self.host.sleep(nanos))
    }

    fn now_nanos(&self) -> u64 {
        self.host.now_nanos()
    }

    fn is_local(&self) -> bool {
        true
    }

    fn afterwards(&self) {
        self.host.settle();
    }
}
