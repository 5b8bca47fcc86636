//! One operation from its first request to its final answer.
//!
//! ```text
//!   run ── session, slot, identity
//!    └ chase ── Redirect: learn, AskHome: forget; then ask the next shard
//!       └ send ── Lost: wait, send the same again
//! ```
//!
//! Redirects and losses keep the identity: whether it ran is for the owner to know. Everything else is an answer.
//!
//! What a caller hears of a changing request when there is no plain answer:
//!
//! | what happened | what is known | what follows |
//! |---|---|---|
//! | patience ran out, no copy was ever sent (no free slot, no session, an earlier doubt) | never runs | `ETIMEDOUT` |
//! | patience ran out, some copy was lost | may have run, or may yet | `ETIMEDOUT`; in doubt until answered: [`crate::doubts`] |
//! | the caller is gone while a copy is under way | the same | in doubt until answered |
//! | refused with `NoSession`, no copy was ever lost | never ran: whoever redirected it did not run it, and an unknown session is refused unrun | repeated in the next session, with a new identity |
//! | refused with `NoSession` after a copy was lost | unknown: it may have run before the session ended, and its outcome went with the session. It does not run any more | `EIO` |
//! | the same, of an open without truncation | whatever it did went with the session | repeated in the next session |
//! | the same, of a release | the open went with the session | done |
//! | refused with `EBUSY`: a directory's rename or change of permissions, and a shard that could not be told of it in time | never ran | repeated with a new identity; when patience runs out, `ETIMEDOUT` |
//! | in doubt, then refused with `NoSession` | does not run any more | the doubt is over |
//! | answered after another request has heard that the session is over | what the answer says | as said; an open is opened anew ([`crate::reopen`]) |
//! | the transport is stopped, or the client closed | unknown | `EIO` |
//!
//! Reading requests belong to no session: they are asked again until patience runs out.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use pando_types::op::{Head, Op, Request, RequestId};
use pando_types::reply::{Body, Refusal};
use pando_types::{Credentials, Errno, SessionId};

use crate::cache::OnPath;
use crate::client::Client;
use crate::doubts::Doubt;
use crate::route::{Plan, Route, plan};
use crate::sessions::Session;
use crate::slots::{Closed, Slot};
use crate::transport::TransportError;

const MILLISECOND: u64 = 1_000_000;
/// Fruitless answers of "not here" in a row of attempts, after which a shard is taken for mistaken.
const ASTRAY_MAX: u32 = 64;
/// Of those, how many are followed at once; before the others there is a pause, since the target of a split may not be
/// ready yet.
const ASTRAY_AT_ONCE: u32 = 4;
/// Answers of "not here" from which something can be learned, after which they count as fruitless, too: a tree of partitions
/// is 24 deep, and as much of it may be known that is gone.
const LEARNED_MAX: u32 = 48;

/// What an operation's caller must tell apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// Final.
    Errno(Errno),
    /// The inode is not where it was looked for.
    NotThere,
    /// The data is not what it was.
    DataChanged,
    /// The session that it was asked in is over ([`Via::In`] only).
    Over,
    /// The way by which it came has changed.
    Stale,
}

/// An operation, and by which way it comes.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) op: &'a Op,
    pub(crate) on: Option<&'a OnPath>,
}

impl<'a> From<&'a Op> for Asked<'a> {
    fn from(op: &'a Op) -> Self {
        Self { op, on: None }
    }
}

impl From<Failure> for Errno {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Errno(errno) => errno,
            Failure::NotThere | Failure::Stale => Self::ESTALE,
            Failure::DataChanged | Failure::Over => Self::EIO,
        }
    }
}

/// There is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unanswered {
    /// Within the caller's patience. It may have run, or may yet.
    TimedOut,
    /// Shards pass it to and fro, and a copy was lost.
    Astray,
    /// The transport is shut down, or the client closed.
    Stopped,
}

impl From<Unanswered> for Errno {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::TimedOut => Self::ETIMEDOUT,
            Unanswered::Astray | Unanswered::Stopped => Self::EIO,
        }
    }
}

/// A pause that grows.
pub(crate) struct Backoff {
    next: u64,
    max: u64,
}

impl Backoff {
    /// While a shard does not answer.
    pub(crate) const fn lost() -> Self {
        Self { next: 10 * MILLISECOND, max: 1000 * MILLISECOND }
    }

    /// While shards pass a request to and fro, or an inode is nowhere.
    pub(crate) const fn astray() -> Self {
        Self { next: MILLISECOND, max: 250 * MILLISECOND }
    }

    pub(crate) async fn pause(&mut self, client: &Client) {
        self.pause_at_most(client, u64::MAX).await;
    }

    /// A pause that is not longer than patience.
    async fn pause_until(&mut self, client: &Client, deadline: Option<u64>) {
        let left = |at: u64| at.saturating_sub(client.transport.now_nanos());
        self.pause_at_most(client, deadline.map_or(u64::MAX, left)).await;
    }

    /// A pause that is cut to `most` nanoseconds.
    async fn pause_at_most(&mut self, client: &Client, most: u64) {
        let nanos = self.next;
        self.next = (nanos * 2).min(self.max);
        client.transport.sleep(nanos.min(most)).await;
    }
}

/// In which session a changing request is made.
#[derive(Clone, Copy)]
pub(crate) enum Via<'a> {
    /// The one that the client has; if it is over, the next.
    Current,
    /// This one, for as long as it takes.
    In(&'a Arc<Session>),
}

/// What came of chasing a request.
pub(crate) enum Answer {
    /// This, for good.
    Final(Result<Body, Failure>),
    /// The session is over.
    NoSession,
}

/// The session was over before the request ran.
struct Over;

impl Client {
    /// Runs `op` exactly once, or any number of times if it only reads.
    pub(crate) async fn run(&self, by: &Credentials, op: Op) -> Result<Body, Failure> {
        self.run_told(Via::Current, by, (&op).into()).await.map(|(body, _)| body)
    }

    /// As [`Client::run`], where every failure is an errno.
    pub(crate) async fn run_plain(&self, by: &Credentials, op: Op) -> Result<Body, Errno> {
        self.run(by, op).await.map_err(Errno::from)
    }

    /// As [`Client::run_plain`], by a way.
    pub(crate) async fn run_by(
        &self,
        by: &Credentials,
        op: Op,
        on: Option<&OnPath>,
    ) -> Result<Body, Errno> {
        let ran = self.run_told(Via::Current, by, Asked { op: &op, on }).await;
        ran.map(|(body, _)| body).map_err(Errno::from)
    }

    /// As [`Client::run`]; also in which session it ran.
    pub(crate) async fn run_told(
        &self,
        via: Via<'_>,
        by: &Credentials,
        asked: Asked<'_>,
    ) -> Result<(Body, SessionId), Failure> {
        let Plan { route, changes } = plan(asked.op, &self.secrets);
        let deadline = self.deadline(via);
        if !changes {
            let id = self.reading();
            return match self.chase(by, asked, route, id, deadline, &mut false).await {
                Ok(Answer::Final(answer)) => answer.map(|body| (body, id.session)),
                Ok(Answer::NoSession) => Err(Failure::Over),
                Err(unanswered) => Err(Failure::Errno(unanswered.into())),
            };
        }
        let mut backoff = Backoff::lost();
        loop {
            let next;
            let session = match via {
                Via::In(session) => session,
                Via::Current => {
                    let found = self.session_for(false, deadline).await;
                    next = found.map_err(Failure::Errno)?;
                    &next
                }
            };
            match self.run_in(session, by, asked, route, deadline).await {
                // Some shard could not be told of it.
                Ok(Err(Failure::Errno(Errno::EBUSY))) if !self.is_past(deadline) => {
                    backoff.pause_until(self, deadline).await;
                }
                Ok(Err(Failure::Errno(Errno::EBUSY))) => {
                    return Err(Failure::Errno(Errno::ETIMEDOUT));
                }
                Ok(answer) => return answer.map(|body| (body, session.id)),
                Err(Over) if matches!(via, Via::In(_)) => return Err(Failure::Over),
                Err(Over) => {}
            }
        }
    }

    /// Runs a changing `op` once, in `session`.
    async fn run_in(
        &self,
        session: &Arc<Session>,
        by: &Credentials,
        asked: Asked<'_>,
        route: Route,
        deadline: Option<u64>,
    ) -> Result<Result<Body, Failure>, Over> {
        const TIMED_OUT: Result<Body, Failure> = Err(Failure::Errno(Errno::ETIMEDOUT));
        if self.within(deadline, self.doubts.clear_of(asked.op)).await.is_none() {
            return Ok(TIMED_OUT);
        }
        let slot = match self.within(deadline, session.slots.acquire()).await {
            Some(Ok(slot)) => slot,
            Some(Err(Closed)) => return Err(Over),
            None => return Ok(TIMED_OUT),
        };
        let mut way = UnderWay { client: self, session, slot, by, asked, is_unsure: false };
        let id = Self::changing(session, slot);
        match self.chase(by, asked, route, id, deadline, &mut way.is_unsure).await {
            Ok(Answer::Final(answer)) => {
                way.is_unsure = false;
                Ok(answer)
            }
            Ok(Answer::NoSession) => {
                self.session_over(session.id);
                let was_lost = std::mem::replace(&mut way.is_unsure, false);
                if was_lost && !concerns_only_its_session(asked.op) {
                    return Ok(Err(Failure::Errno(Errno::EIO)));
                }
                Err(Over)
            }
            Err(unanswered) => Ok(Err(Failure::Errno(unanswered.into()))),
        }
    }

    /// Follows redirects to whoever answers. `is_unsure` is true whenever a copy may run that nobody has answered: while one
    /// is under way, and after one was lost.
    pub(crate) async fn chase(
        &self,
        by: &Credentials,
        asked: Asked<'_>,
        route: Route,
        id: RequestId,
        deadline: Option<u64>,
        is_unsure: &mut bool,
    ) -> Result<Answer, Unanswered> {
        let head = self.head(id);
        let (mut astray, mut learned) = (0, 0);
        let mut backoff = Backoff::astray();
        let failed = |failure| Ok(Answer::Final(Err(failure)));
        loop {
            let refusal = match self.send(by, asked, route, head, deadline, is_unsure).await? {
                Ok(body) => return Ok(Answer::Final(Ok(body))),
                Err(refusal) => refusal,
            };
            let is_progress = match refusal {
                Refusal::Errno(errno) => return failed(Failure::Errno(errno)),
                Refusal::NotUnderName => return failed(Failure::NotThere),
                Refusal::DataChanged => return failed(Failure::DataChanged),
                // Nobody but us answers for our slots, so an answer cannot be gone.
                Refusal::Answered => return failed(Failure::Errno(Errno::EIO)),
                Refusal::NoSession => return Ok(Answer::NoSession),
                Refusal::Stale => {
                    self.ways.refused();
                    return failed(Failure::Stale);
                }
                Refusal::Redirect(history) => {
                    self.counters.redirected();
                    route.dir().is_some_and(|dir| self.routes.learn(dir, &history))
                }
                Refusal::Slot(news) => {
                    self.counters.redirected();
                    let is_news = self.routes.learn_slot(news);
                    // What is known here is newer: then it was a partition that was looked for there.
                    if !is_news && let Some(dir) = route.dir() {
                        self.routes.forget(dir);
                    }
                    is_news
                }
                Refusal::AskHome => {
                    self.counters.redirected();
                    if let Some(dir) = route.dir() {
                        self.routes.forget(dir);
                    }
                    false
                }
            };
            if is_progress && learned < LEARNED_MAX {
                learned += 1;
                continue;
            }
            astray += 1;
            if astray >= ASTRAY_MAX && *is_unsure {
                return Err(Unanswered::Astray);
            }
            if astray >= ASTRAY_MAX {
                return failed(Failure::Errno(Errno::EIO));
            }
            if astray > ASTRAY_AT_ONCE {
                backoff.pause(self).await;
            }
        }
    }

    /// Sends until there is a reply; what it says.
    pub(crate) async fn send(
        &self,
        by: &Credentials,
        Asked { op, on }: Asked<'_>,
        route: Route,
        mut head: Head,
        deadline: Option<u64>,
        is_unsure: &mut bool,
    ) -> Result<Result<Body, Refusal>, Unanswered> {
        let was_unsure = *is_unsure;
        let mut was_lost = false;
        let mut backoff = Backoff::lost();
        // Who may have run it is asked again, whatever others have learned meanwhile: the answer is recorded there, even if the
        // directory is gone.
        let shard = self.routes.shard(route);
        loop {
            if self.sessions.is_closed() {
                return Err(Unanswered::Stopped);
            }
            head.clock = self.clock.load(Ordering::Relaxed);
            head.version = self.version.load(Ordering::Relaxed);
            let trail = on.map(|on| on.trail.clone());
            let request = Request { head, credentials: by.clone(), op: op.clone(), trail };
            self.counters.sent(op);
            *is_unsure = true;
            match self.transport.call(shard, request).await {
                Ok(reply) => {
                    *is_unsure = was_unsure || was_lost;
                    raise(&self.clock, reply.clock);
                    raise(&self.version, reply.version);
                    if let Some(news) = &reply.news {
                        self.ways.apply(news);
                    }
                    if let Some(on) = on {
                        on.answered(reply.version);
                    }
                    return Ok(reply.result);
                }
                Err(TransportError::Stopped) => return Err(Unanswered::Stopped),
                Err(TransportError::Lost) => was_lost = true,
            }
            let left =
                deadline.map_or(u64::MAX, |at| at.saturating_sub(self.transport.now_nanos()));
            if left == 0 {
                return Err(Unanswered::TimedOut);
            }
            self.counters.retried();
            backoff.pause_at_most(self, left).await;
        }
    }

    /// When the patience of a call that begins now ends. By the clock, as the calls themselves take time: that of a
    /// stopped process takes seconds to get lost.
    pub(crate) fn deadline(&self, via: Via<'_>) -> Option<u64> {
        let patience = self.options.patience.filter(|_| matches!(via, Via::Current))?;
        Some(self.transport.now_nanos().saturating_add(patience))
    }

    pub(crate) fn is_past(&self, deadline: Option<u64>) -> bool {
        deadline.is_some_and(|at| self.transport.now_nanos() >= at)
    }

    /// What comes of `future`, unless the deadline comes first.
    pub(crate) async fn within<F: Future>(
        &self,
        deadline: Option<u64>,
        future: F,
    ) -> Option<F::Output> {
        let mut future = pin!(future);
        let mut sleep = None;
        poll_fn(|context| {
            loop {
                if let Poll::Ready(output) = future.as_mut().poll(context) {
                    return Poll::Ready(Some(output));
                }
                let Some(deadline) = deadline else { return Poll::Pending };
                let left = deadline.saturating_sub(self.transport.now_nanos());
                if left == 0 {
                    return Poll::Ready(None);
                }
                let sleeping = sleep.get_or_insert_with(|| self.transport.sleep(left));
                if sleeping.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                sleep = None;
            }
        })
        .await
    }

    /// The head of a new request: a trace of its own; clock and version are set when it is sent.
    pub(crate) fn head(&self, id: RequestId) -> Head {
        let number = self.traces.fetch_add(1, Ordering::Relaxed);
        Head { id, trace: id.session.0.rotate_left(40) ^ number, ..Head::default() }
    }

    /// Identity of a request that only reads.
    pub(crate) fn reading(&self) -> RequestId {
        RequestId { session: self.sessions.id(), slot: 0, sequence: 0 }
    }

    /// Identity of a changing request.
    pub(crate) const fn changing(session: &Session, slot: Slot) -> RequestId {
        RequestId { session: session.id, slot: slot.index, sequence: slot.sequence }
    }
}

/// A changing request with its slot. Dropped while it may run, it is in doubt.
struct UnderWay<'a> {
    client: &'a Client,
    session: &'a Arc<Session>,
    slot: Slot,
    by: &'a Credentials,
    asked: Asked<'a>,
    is_unsure: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.is_unsure {
            self.session.slots.free(self.slot);
            return;
        }
        self.client.counters.gave_up();
        self.client.doubts.add(Doubt {
            session: self.session.clone(),
            slot: self.slot,
            by: self.by.clone(),
            op: self.asked.op.clone(),
            trail: self.asked.on.map(|on| on.trail.clone()),
        });
    }
}

/// Whether all that a request does goes with its session.
fn concerns_only_its_session(op: &Op) -> bool {
    matches!(
        op,
        Op::Open { truncate: false, .. } | Op::OpenName { truncate: false, .. } | Op::Release(_)
    )
}

/// What the reply to an operation holds, where a reply of another form is an error of the shard's.
macro_rules! take {
    ($body:expr, $pattern:pat => $value:expr) => {
        match $body {
            $pattern => Ok($value),
            _ => Err(Errno::EIO),
        }
    };
}
pub(crate) use take;

/// What a missing inode is called when it was asked for by number.
pub(crate) const fn stale(errno: Errno) -> Errno {
    match errno {
        Errno::ENOENT => Errno::ESTALE,
        other => other,
    }
}

/// Raises `cell` to `value`; writes only where that changes something, as many threads share it.
fn raise(cell: &AtomicU64, value: u64) {
    if cell.load(Ordering::Relaxed) < value {
        cell.fetch_max(value, Ordering::Relaxed);
    }
}
