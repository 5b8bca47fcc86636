//! The client's way to shards in this very process: a call runs the shard on the caller's thread.

use std::sync::Arc;

use pando_client::{BoxFuture, Transport, TransportError};
use pando_server::Host;
use pando_server::sessions::Sessions;
use pando_types::ShardIndex;
use pando_types::op::{Op, Request};
use pando_types::reply::{Body, Reply};

/// Calls go straight to the host; beginning and end of sessions are noted for the next start.
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
            (Ok(_), Some(session)) => self.sessions.ended(session),
            _ => Ok(()),
        };
        if let Err(error) = noted {
            eprintln!(
                "pando: cannot note a session in {} ({error}): after a crash, files that were unlinked while open keep their space",
                self.sessions.path().display()
            );
        }
    }
}

impl Transport for InProcess {
    fn call<'a>(
        &'a self,
        shard: ShardIndex,
        request: Request,
    ) -> BoxFuture<'a, Result<Reply, TransportError>> {
        let is_session = matches!(request.op, Op::OpenSession | Op::EndSession(_));
        if !is_session {
            let call = self.host.call(shard, request);
            return Box::pin(async move { call.await.ok_or(TransportError::Stopped) });
        }
        let ending = match request.op {
            Op::EndSession(session) => Some(session),
            _ => None,
        };
        Box::pin(async move {
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
}
