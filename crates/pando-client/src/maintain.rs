//! What a client does on its own, for as long as it lives: renews its lease, opens the next session
//! when one is over, brings what is in doubt to its end.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use pando_types::op::{FileAt, FileRef, Op};
use pando_types::reply::Body;
use pando_types::{Errno, ShardIndex, Trail};

use crate::cache::OnPath;
use crate::call::{Answer, Asked, Failure, Unanswered};
use crate::client::{Client, SYSTEM};
use crate::doubts::Taken;
use crate::reopen::NotOpened;
use crate::route::{Route, plan};
use crate::sessions::{Maintained, Need, Session};
use crate::transport::BoxFuture;

/// A lease is renewed so often within its length.
const RENEWALS: u64 = 3;
/// Ask again after this long when the coordinator says nothing of a lease, nanoseconds.
const NO_LEASE: u64 = 10_000_000_000;
/// Ask again after this long when no session can be opened, or nobody says anything of it,
/// nanoseconds.
const NO_ANSWER: u64 = 100_000_000;

impl Client {
    /// To be driven, once at a time, for as long as the client lives, by whoever has a runtime or a
    /// thread: renews the lease, opens the next session when one is over, resolves requests that
    /// were given up, repeats unlocks that were undone. Ends only when the client is closed or the
    /// transport stopped. Without it the session ends when its lease does, and what was given up
    /// stays so.
    pub async fn maintain(&self) {
        let mut renewing = pin!(self.renew());
        let mut giving_back = pin!(self.keep_given_back());
        let mut closed = pin!(self.sessions.closed());
        let mut resolving: Vec<BoxFuture<'_, ()>> = Vec::new();
        poll_fn(|context| {
            let is_over = closed.as_mut().poll(context).is_ready();
            if is_over
                || renewing.as_mut().poll(context).is_ready()
                || giving_back.as_mut().poll(context).is_ready()
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

    /// Ends when the client is closed or the transport stopped.
    async fn renew(&self) {
        let route = Route::Shard(ShardIndex(0));
        let mut maintained = Some(self.sessions.maintained());
        while let Some(session) = self.session_to_renew(&mut maintained).await {
            let op = Op::Renew(session.id);
            // An idle client hears of changes in this way.
            let on = OnPath::new(Trail { version: self.ways.version(), dirs: Vec::new() });
            let asked = Asked { op: &op, on: Some(&on) };
            let errand = self.errand(SYSTEM, asked, route, self.reading());
            let answer = self.chase(&errand, &mut false).await;
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

    /// The current session, opened if there is none; `None`: the client is closed or the transport
    /// stopped. Shard 0 may refuse, as its disk is full or has failed. Then it is asked again after
    /// a pause, in which whoever needs a session asks as well, and hears why there is none.
    async fn session_to_renew<'a>(
        &'a self,
        maintained: &mut Option<Maintained<'a>>,
    ) -> Option<Arc<Session>> {
        loop {
            let lead = match self.sessions.need(true).await {
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
        let errand = self.errand(&doubt.by, asked, route, id);
        match self.chase(&errand, &mut true).await {
            Ok(Answer::Final(Ok(body))) => {
                self.counters.doubt_resolved(true);
                let (session, op) = (doubt.session.clone(), doubt.op.clone());
                self.settle(&op, &body).await;
                taken.settled();
                if let Some(file) = opened(&op, body) {
                    // Nobody waits to hear of it.
                    let _ = self.release_in(&session, &file).await;
                }
            }
            Ok(Answer::Final(Err(failure))) => {
                self.counters.doubt_resolved(false);
                // A shard that failed answers so whatever its log has.
                if !matches!(failure, Failure::Unsure(_) | Failure::Errno(Errno::EIO)) {
                    self.not_written(&doubt.op);
                }
                taken.settled();
            }
            // It will never run, if it has not.
            Ok(Answer::NoSession) => {
                self.counters.doubt_resolved(false);
                self.session_over(doubt.session.id);
                taken.settled();
            }
            // The transport is stopped: nothing will be known.
            Err(_) => {}
        }
    }

    /// Tells the node table what a request that was given up has moved.
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

/// The file that `op` has opened.
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
