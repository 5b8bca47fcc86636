//! One operation from its first request to its final answer.
//!
//! ```text
//!   run ── session, slot, identity
//!    └ chase ── Redirect: learn, AskHome: forget; then ask the next shard
//!       └ send ── Lost: wait, send the request again
//! ```
//!
//! Redirects and losses keep the request's identity: only the owner knows whether it ran. Every
//! other reply is the answer.
//!
//! What a caller hears of a changing request that gets no plain answer:
//!
//! | what happened | what is known | what follows |
//! |---|---|---|
//! | patience ran out, and no copy was ever sent (no free slot, no session, an earlier doubt, another mount's kernel that remembers) | never runs | `ETIMEDOUT` |
//! | patience ran out, and some copy was lost | may have run, or may yet | `ETIMEDOUT`; in doubt until answered: [`crate::session::doubts`] |
//! | the caller drops the request while a copy is pending | may have run, or may yet | in doubt until answered |
//! | refused with `NoSession`, and no copy was ever lost | never ran: a shard that redirects does not run, and a shard refuses an unknown session before it runs | repeated in the next session, with a new identity |
//! | refused with `NoSession` after a copy was lost | unknown: a copy may have run before the session ended, and its outcome went with the session. It does not run any more | `EIO` |
//! | refused so after a loss: an open without truncation | all that it did went with the session | repeated in the next session |
//! | refused so after a loss: a release | the open went with the session | done |
//! | refused so after a loss: a lock or an unlock | all that it did went with the session | handled by [`crate::session::locks`] |
//! | refused with `EBUSY`: a directory's rename or change of permissions, of which some shard could not be told in time | never ran | repeated with a new identity; `ETIMEDOUT` when patience runs out |
//! | refused since its objects were made in a session that is over | never ran | the caller stores the bytes anew |
//! | in doubt, then refused with `NoSession` | does not run any more | the doubt is over |
//! | answered after another request has heard that the session is over | the answer holds | the caller gets the answer; an open is opened anew ([`crate::upkeep::reopen`]) |
//! | the transport is stopped, or the client closed | unknown | `EIO` |
//!
//! Reading requests belong to no session. They are asked again until patience runs out.
//!
//! Futures of rare steps are boxed, so that the future of each call stays small. A future that
//! begins takes memory, of which an allocator has a kilobyte at hand.

use std::sync::Arc;

use pando_types::op::Op;
use pando_types::reply::Body;
use pando_types::{Credentials, Errno, SessionId};

use crate::cache::on_path::OnPath;
use crate::client::Client;
use crate::request::backoff::Backoff;
use crate::request::outcome::{Answer, Failure};
use crate::request::pending::{Asked, PendingRequest, Via};
use crate::request::wake::Asleep;
use crate::route::plan::{Plan, plan};
use crate::session::doubts::Doubt;
use crate::session::sessions::Session;
use crate::session::slots::{Closed, Slot};

/// The session was over before the request ran.
struct Over;

impl Client {
    /// Runs `op`: exactly once if it changes something, any number of times if it only reads.
    pub(crate) async fn run(&self, credentials: &Credentials, op: Op) -> Result<Body, Failure> {
        self.run_told(Via::Current, credentials, (&op).into()).await.map(|(body, _)| body)
    }

    /// Runs `op` without a trail. Every failure is an errno.
    pub(crate) async fn run_plain(&self, credentials: &Credentials, op: Op) -> Result<Body, Errno> {
        self.run(credentials, op).await.map_err(Errno::from)
    }

    /// Runs `op` by a trail, if there is one. Every failure is an errno.
    pub(crate) async fn run_by(
        &self,
        credentials: &Credentials,
        op: &Op,
        on: Option<&OnPath>,
    ) -> Result<Body, Errno> {
        let ran = self.run_told(Via::Current, credentials, Asked { op, on }).await;
        ran.map(|(body, _)| body).map_err(Errno::from)
    }

    /// Runs an operation: exactly once if it changes something, any number of times if it only
    /// reads. Returns also the session in which it ran.
    pub(crate) async fn run_told(
        &self,
        via: Via<'_>,
        credentials: &Credentials,
        asked: Asked<'_>,
    ) -> Result<(Body, SessionId), Failure> {
        let Plan { route, changes } = plan(asked.op, &self.secrets);
        let mut pending = self.pending(credentials, asked, route, self.reading());
        pending.deadline = self.deadline(via);
        if changes {
            return self.run_once(via, &mut pending).await;
        }
        match self.chase(&pending, &mut false).await {
            Ok(Answer::Final(answer)) => answer.map(|body| (body, pending.id.session)),
            Ok(Answer::NoSession) => Err(Failure::Over),
            Err(unanswered) => Err(Failure::Errno(unanswered.into())),
        }
    }

    /// Runs a changing operation in `session`, or not at all, until `deadline`.
    pub(crate) async fn run_within(
        &self,
        session: &Arc<Session>,
        credentials: &Credentials,
        op: &Op,
        deadline: Option<u64>,
    ) -> Result<Body, Failure> {
        let route = plan(op, &self.secrets).route;
        let mut pending = self.pending(credentials, op.into(), route, self.reading());
        pending.deadline = deadline;
        self.run_once(Via::In(session), &mut pending).await.map(|(body, _)| body)
    }

    /// Runs a changing operation exactly once.
    async fn run_once(
        &self,
        via: Via<'_>,
        pending: &mut PendingRequest<'_>,
    ) -> Result<(Body, SessionId), Failure> {
        let mut backoff = Backoff::lost();
        loop {
            let next;
            let session = match via {
                Via::In(session) => session,
                Via::Current => {
                    next = match self.sessions.live() {
                        Some(session) => session,
                        None => Box::pin(self.session_for(pending.deadline))
                            .await
                            .map_err(Failure::Errno)?,
                    };
                    &next
                }
            };
            {
                match self.run_in(session, pending).await {
                    Ok(Err(Failure::Errno(Errno::EBUSY))) => {}
                    Ok(answer) => return answer.map(|body| (body, session.id)),
                    Err(Over) if matches!(via, Via::In(_)) => return Err(Failure::Over),
                    Err(Over) => continue,
                }
            }
            // Some shard could not be told of the change in time.
            if self.is_past(pending.deadline) {
                return Err(Failure::Errno(Errno::ETIMEDOUT));
            }
            Box::pin(backoff.pause_until(self, pending.deadline)).await;
        }
    }

    /// Runs a changing operation once, in `session`.
    async fn run_in(
        &self,
        session: &Arc<Session>,
        pending: &mut PendingRequest<'_>,
    ) -> Result<Result<Body, Failure>, Over> {
        const TIMED_OUT: Result<Body, Failure> = Err(Failure::Errno(Errno::ETIMEDOUT));
        if self.doubts.count() > 0 {
            let clear = self.doubts.clear_of(pending.asked.op);
            if Box::pin(self.within(pending.deadline, clear)).await.is_none() {
                return Ok(TIMED_OUT);
            }
        }
        // It counts until all that is below has ended, and a request in doubt counts as such.
        let _under_way = match pending.asked.op.needs_wake() {
            true => {
                let (under_way, is_awake) = session.stance.begin();
                if !is_awake && !is_planted!(ChangesAsleep) {
                    match Box::pin(self.wake(session, pending.deadline)).await {
                        Ok(()) => {}
                        Err(Asleep::Over) => return Err(Over),
                        Err(Asleep::Failed(errno)) => return Ok(Err(Failure::Errno(errno))),
                    }
                }
                Some(under_way)
            }
            false => None,
        };
        let slot = match session.slots.acquire_now() {
            Some(slot) => slot,
            None => match Box::pin(self.within(pending.deadline, session.slots.acquire())).await {
                Some(Ok(slot)) => slot,
                Some(Err(Closed)) => return Err(Over),
                None => return Ok(TIMED_OUT),
            },
        };
        pending.id = Self::changing(session, slot);
        pending.trace = self.new_trace(pending.id);
        let mut pending = Pending { client: self, session, slot, pending, is_unsure: false };
        match self.chase(pending.pending, &mut pending.is_unsure).await {
            Ok(Answer::Final(answer)) => {
                pending.is_unsure = false;
                Ok(answer)
            }
            Ok(Answer::NoSession) => {
                self.session_over(session.id);
                let was_lost = std::mem::replace(&mut pending.is_unsure, false);
                if was_lost
                    && !concerns_only_its_session(pending.pending.asked.op)
                    && !is_planted!(LostSaysNotRun)
                {
                    return Ok(Err(Failure::Unsure(Errno::EIO)));
                }
                Err(Over)
            }
            Err(unanswered) => Ok(Err(Failure::Unsure(unanswered.into()))),
        }
    }
}

/// A changing request with its slot. If it is dropped while a copy may run, it is in doubt.
struct Pending<'a> {
    client: &'a Client,
    session: &'a Arc<Session>,
    slot: Slot,
    pending: &'a PendingRequest<'a>,
    is_unsure: bool,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if !self.is_unsure || is_planted!(SlotFreedInDoubt) {
            self.session.slots.free(self.slot);
        }
        if !self.is_unsure {
            return;
        }
        self.client.counters.gave_up();
        self.client.doubts.add(Doubt {
            session: self.session.clone(),
            slot: self.slot,
            credentials: self.pending.credentials.clone(),
            op: self.pending.asked.op.clone(),
            trail: self.pending.asked.on.map(|on| on.trail.clone()),
        });
    }
}

/// Whether all effects of an operation end with its session.
fn concerns_only_its_session(op: &Op) -> bool {
    matches!(
        op,
        Op::Open { truncate: false, .. }
            | Op::OpenName { truncate: false, .. }
            | Op::Release(_)
            | Op::ReleaseAll(..)
            | Op::Lock(..)
            | Op::LockOf(..)
            | Op::Unlock(..)
    )
}
