//! What a client does on its own, for as long as it lives. It renews its lease, opens the next
//! session when one is over, and resolves requests in doubt.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use pando_types::op::{FileAt, FileRef, Op};
use pando_types::reply::Body;
use pando_types::{Errno, ShardIndex, Trail};

use crate::cache::on_path::OnPath;
use crate::client::Client;
use crate::nodes::openers::SYSTEM;
use crate::request::outcome::{Answer, Failure, Unanswered};
use crate::request::pending::Asked;
use crate::route::plan::{Route, plan};
use crate::session::doubts::Taken;
use crate::session::sessions::{Asker, Maintained, Need, Session};
use crate::transport::counters::Resolved;
use crate::transport::traits::BoxFuture;
use crate::upkeep::reopen::NotOpened;

/// How many times a lease is renewed within its length.
const RENEWALS: u64 = 3;
/// Pause before the next renewal if shard 0 does not tell the lease's length, nanoseconds.
const NO_LEASE: u64 = 10_000_000_000;
/// Pause if no session can be opened, or no answer comes, nanoseconds.
const NO_ANSWER: u64 = 100_000_000;

impl Client {
    /// Does the client's own work. It renews the lease, and opens the next session when one is
    /// over. It resolves requests that were given up, and repeats unlocks that were undone. It lets
    /// a session that changes nothing go quiet, and gives read grants back. Drive it once, for as
    /// long as the client lives, from a runtime or a thread. It ends only when the client is closed
    /// or the transport stopped. Without it the session ends with its lease, and requests in doubt
    /// stay in doubt.
    pub async fn maintain(&self) {
        let mut renewing = pin!(self.renew());
        let mut giving_back = pin!(self.keep_given_back());
        let mut keeping_quiet = pin!(self.keep_quiet());
        let mut telling = pin!(self.keep_telling());
        let mut ending_reads = pin!(self.keep_ending_reads());
        let mut closed = pin!(self.sessions.closed());
        let mut resolving: Vec<BoxFuture<'_, ()>> = Vec::new();
        poll_fn(|context| {
            let is_over = closed.as_mut().poll(context).is_ready();
            if is_over
                || renewing.as_mut().poll(context).is_ready()
                || giving_back.as_mut().poll(context).is_ready()
                || keeping_quiet.as_mut().poll(context).is_ready()
                || telling.as_mut().poll(context).is_ready()
                || ending_reads.as_mut().poll(context).is_ready()
            {
                return Poll::Ready(());
            }
            let more = self.doubts.take(context).into_iter();
            resolving
                .extend(more.map(|taken| -> BoxFuture<'_, ()> { Box::pin(self.resolve(taken)) }));
            resolving.retain_mut(|doubt| doubt.as_mut().poll(context).is_pending());
            Poll::Pending
        })
        .await;
    }

    /// Renews the lease until the client is closed or the transport stopped.
    async fn renew(&self) {
        let route = Route::Shard(ShardIndex(0));
        let mut maintained = Some(self.sessions.maintained());
        while let Some(session) = self.session_to_renew(&mut maintained).await {
            let op = Op::Renew(session.id);
            // The reply's news tell an idle client of changed directories.
            let on = OnPath::new(Trail { version: self.paths.version(), dirs: Vec::new() });
            let asked = Asked { op: &op, on: Some(&on) };
            let pending = self.pending(SYSTEM, asked, route, self.reading());
            let answer = self.chase(&pending, &mut false).await;
            let pause = match answer {
                Ok(Answer::Final(Ok(Body::Lease(nanos)))) => nanos / RENEWALS,
                Ok(Answer::Final(_)) => NO_LEASE,
                Ok(Answer::NoSession) => {
                    self.session_over(session.id);
                    continue;
                }
                Err(Unanswered::Stopped) => return,
                Err(Unanswered::TimedOut | Unanswered::Astray) => NO_ANSWER,
            };
            let until = self.transport.now_nanos().saturating_add(pause);
            self.within(Some(until), self.sessions.gone(session.id)).await;
        }
    }

    /// The current session, opened if there is none. `None` if the client is closed or the
    /// transport stopped. If shard 0 refuses, because its disk is full or has failed, the client
    /// asks again after a pause. During the pause other callers may open a session themselves, and
    /// so hear the reason.
    async fn session_to_renew<'a>(
        &'a self,
        maintained: &mut Option<Maintained<'a>>,
    ) -> Option<Arc<Session>> {
        loop {
            let lead = match self.sessions.need(Asker::Maintain).await {
                Need::Has(session) => return Some(session),
                Need::Closed => return None,
                Need::Leads(lead) => lead,
            };
            match self.reopen(lead).await {
                Ok(()) => {}
                Err(NotOpened::Unanswered(Unanswered::Stopped)) => return None,
                Err(_) => {
                    drop(maintained.take());
                    self.transport.sleep(NO_ANSWER).await;
                    *maintained = Some(self.sessions.maintained());
                }
            }
        }
    }

    /// Sends a request in doubt until it is answered, then does what its caller would have done.
    async fn resolve(&self, taken: Taken<'_>) {
        let doubt = taken.doubt();
        let route = plan(&doubt.op, &self.secrets).route;
        let id = Self::changing(&doubt.session, doubt.slot);
        let on = doubt.trail.clone().map(OnPath::new);
        let asked = Asked { op: &doubt.op, on: on.as_ref() };
        let pending = self.pending(&doubt.credentials, asked, route, id);
        match self.chase(&pending, &mut true).await {
            Ok(Answer::Final(Ok(body))) => {
                self.counters.doubt_resolved(Resolved::HasRun);
                let (session, op) = (doubt.session.clone(), doubt.op.clone());
                self.settle(&op, &body).await;
                taken.settled();
                if let Some(file) = opened(&op, body) {
                    // No caller waits for the result.
                    let _ = self.release_in(&session, &file).await;
                }
            }
            Ok(Answer::Final(Err(failure))) => {
                self.counters.doubt_resolved(Resolved::NeverRan);
                // A shard that failed gives this answer whatever its log has.
                if !matches!(failure, Failure::Unsure(_) | Failure::Errno(Errno::EIO)) {
                    self.not_written(&doubt.op);
                }
                taken.settled();
            }
            // If the request has not run, it never will.
            Ok(Answer::NoSession) => {
                self.counters.doubt_resolved(Resolved::NeverRan);
                self.session_over(doubt.session.id);
                taken.settled();
            }
            // The transport is stopped: the answer will never be known.
            Err(_) => {}
        }
    }

    /// Tells the node table which file a request in doubt has moved.
    async fn settle(&self, op: &Op, body: &Body) {
        match op {
            Op::Rename { from, name, to, new_name, flags } => {
                self.renamed((*from, name), (*to, new_name), *flags, body).await;
            }
            Op::Link(file, ..) => self.nodes.moved(file.ino, FileAt::Link),
            _ => {}
        }
    }
}

/// The file that `op` has opened, if it has opened one.
fn opened(op: &Op, body: Body) -> Option<FileRef> {
    match (op, body) {
        (Op::Create { dir, name, open: true, .. }, Body::Created(attr, ..)) => {
            Some(FileRef { ino: attr.ino, at: FileAt::Name(*dir, name.clone()) })
        }
        (Op::Open { file, .. }, Body::Attr(_)) => Some(file.clone()),
        (Op::OpenName { dir, name, .. }, Body::Attr(attr)) => {
            Some(FileRef { ino: attr.ino, at: FileAt::Name(*dir, name.clone()) })
        }
        _ => None,
    }
}
