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
//! | patience ran out, and no copy was ever sent (no free slot, no session, an earlier doubt) | never runs | `ETIMEDOUT` |
//! | patience ran out, and some copy was lost | may have run, or may yet | `ETIMEDOUT`; in doubt until answered: [`crate::doubts`] |
//! | the caller drops the request while a copy is pending | may have run, or may yet | in doubt until answered |
//! | refused with `NoSession`, and no copy was ever lost | never ran: a shard that redirects does not run, and a shard refuses an unknown session before it runs | repeated in the next session, with a new identity |
//! | refused with `NoSession` after a copy was lost | unknown: a copy may have run before the session ended, and its outcome went with the session. It does not run any more | `EIO` |
//! | refused so after a loss: an open without truncation | all that it did went with the session | repeated in the next session |
//! | refused so after a loss: a release | the open went with the session | done |
//! | refused so after a loss: a lock or an unlock | all that it did went with the session | handled by [`crate::locks`] |
//! | refused with `EBUSY`: a directory's rename or change of permissions, of which some shard could not be told in time | never ran | repeated with a new identity; `ETIMEDOUT` when patience runs out |
//! | refused since its objects were made in a session that is over | never ran | the caller stores the bytes anew |
//! | in doubt, then refused with `NoSession` | does not run any more | the doubt is over |
//! | answered after another request has heard that the session is over | the answer holds | the caller gets the answer; an open is opened anew ([`crate::reopen`]) |
//! | the transport is stopped, or the client closed | unknown | `EIO` |
//!
//! Reading requests belong to no session. They are asked again until patience runs out.
//!
//! Futures of rare steps are boxed, so that the future of each call stays small. A future that
//! begins takes memory, of which an allocator has a kilobyte at hand.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use pando_types::op::{Head, Op, Request, RequestId};
use pando_types::reply::{Body, Improper, Refusal, Reply};
use pando_types::{Credentials, Errno, SessionId};

use crate::backoff::Backoff;
use crate::cache::OnPath;
use crate::client::Client;
use crate::doubts::Doubt;
use crate::route::{Plan, Route, plan};
use crate::sessions::Session;
use crate::slots::{Closed, Slot};
use crate::transport::TransportError;

/// Redirects without progress that one request may get. After that many it fails with `EIO`.
const ASTRAY_MAX: u32 = 64;
/// How many of these are followed at once. Before each further one comes a pause, since the target
/// of a split may not be ready yet.
const ASTRAY_AT_ONCE: u32 = 4;
/// Redirects with progress (the client learned something) that one request may get. Further ones
/// count as without progress. A tree of partitions is 24 deep, and the client may know as many
/// partitions that are gone.
const LEARNED_MAX: u32 = 48;

/// How an operation failed, as far as its caller must tell cases apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The final answer.
    Errno(Errno),
    /// The request may have run, or may yet.
    Unsure(Errno),
    /// The inode is not at the place that was asked.
    NotThere,
    /// The data version is not the one that the request named, or an object belongs to another
    /// session.
    DataChanged,
    /// The session of the request is over ([`Via::In`] only).
    Over,
    /// A directory on the request's trail has changed.
    Stale,
}

/// An operation, and the path by which it comes.
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
            Failure::Errno(errno) | Failure::Unsure(errno) => errno,
            Failure::NotThere | Failure::Stale => Self::ESTALE,
            Failure::DataChanged | Failure::Over => Self::EIO,
        }
    }
}

/// Why a request has no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unanswered {
    /// The caller's patience ran out. The request may have run, or may yet.
    TimedOut,
    /// Shards redirect the request in circles, and a copy was lost.
    Astray,
    /// The transport is stopped, or the client closed.
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

/// An operation on its way to the shard that runs it.
pub(crate) struct Errand<'a> {
    by: &'a Credentials,
    asked: Asked<'a>,
    /// Where it must run.
    pub(crate) route: Route,
    /// The head of its request. Clock, version and `heard` are filled in when it is sent.
    head: Head,
    /// When the caller's patience ends, by `Transport::now_nanos`.
    pub(crate) deadline: Option<u64>,
}

/// The session in which a changing request runs.
#[derive(Clone, Copy)]
pub(crate) enum Via<'a> {
    /// The client's current session; if that is over, the next.
    Current,
    /// This session only. Patience ends the request only where the caller sets a deadline.
    In(&'a Arc<Session>),
}

/// How chasing a request ended.
pub(crate) enum Answer {
    /// With a final answer.
    Final(Result<Body, Failure>),
    /// The session is over.
    NoSession,
}

/// The session was over before the request ran.
struct Over;

impl Client {
    /// Runs `op`: exactly once if it changes something, any number of times if it only reads.
    pub(crate) async fn run(&self, by: &Credentials, op: Op) -> Result<Body, Failure> {
        self.run_told(Via::Current, by, (&op).into()).await.map(|(body, _)| body)
    }

    /// As [`Client::run`], with every failure as an errno.
    pub(crate) async fn run_plain(&self, by: &Credentials, op: Op) -> Result<Body, Errno> {
        self.run(by, op).await.map_err(Errno::from)
    }

    /// As [`Client::run_plain`], for a request with a trail.
    pub(crate) async fn run_by(
        &self,
        by: &Credentials,
        op: &Op,
        on: Option<&OnPath>,
    ) -> Result<Body, Errno> {
        let ran = self.run_told(Via::Current, by, Asked { op, on }).await;
        ran.map(|(body, _)| body).map_err(Errno::from)
    }

    /// As [`Client::run`]; returns also the session in which the operation ran.
    pub(crate) async fn run_told(
        &self,
        via: Via<'_>,
        by: &Credentials,
        asked: Asked<'_>,
    ) -> Result<(Body, SessionId), Failure> {
        let Plan { route, changes } = plan(asked.op, &self.secrets);
        let mut errand = self.errand(by, asked, route, self.reading());
        errand.deadline = self.deadline(via);
        if changes {
            return self.run_once(via, &mut errand).await;
        }
        match self.chase(&errand, &mut false).await {
            Ok(Answer::Final(answer)) => answer.map(|body| (body, errand.head.id.session)),
            Ok(Answer::NoSession) => Err(Failure::Over),
            Err(unanswered) => Err(Failure::Errno(unanswered.into())),
        }
    }

    /// Runs a changing operation in `session`, or not at all, until `deadline`.
    pub(crate) async fn run_within(
        &self,
        session: &Arc<Session>,
        by: &Credentials,
        op: &Op,
        deadline: Option<u64>,
    ) -> Result<Body, Failure> {
        let route = plan(op, &self.secrets).route;
        let mut errand = self.errand(by, op.into(), route, self.reading());
        errand.deadline = deadline;
        self.run_once(Via::In(session), &mut errand).await.map(|(body, _)| body)
    }

    /// Runs a changing operation exactly once.
    async fn run_once(
        &self,
        via: Via<'_>,
        errand: &mut Errand<'_>,
    ) -> Result<(Body, SessionId), Failure> {
        let mut backoff = Backoff::lost();
        loop {
            let next;
            let session = match via {
                Via::In(session) => session,
                Via::Current => {
                    next = match self.sessions.live() {
                        Some(session) => session,
                        None => Box::pin(self.session_for(errand.deadline))
                            .await
                            .map_err(Failure::Errno)?,
                    };
                    &next
                }
            };
            {
                match self.run_in(session, errand).await {
                    Ok(Err(Failure::Errno(Errno::EBUSY))) => {}
                    Ok(answer) => return answer.map(|body| (body, session.id)),
                    Err(Over) if matches!(via, Via::In(_)) => return Err(Failure::Over),
                    Err(Over) => continue,
                }
            }
            // Some shard could not be told of the change in time.
            if self.is_past(errand.deadline) {
                return Err(Failure::Errno(Errno::ETIMEDOUT));
            }
            Box::pin(backoff.pause_until(self, errand.deadline)).await;
        }
    }

    /// Runs a changing operation once, in `session`.
    async fn run_in(
        &self,
        session: &Arc<Session>,
        errand: &mut Errand<'_>,
    ) -> Result<Result<Body, Failure>, Over> {
        const TIMED_OUT: Result<Body, Failure> = Err(Failure::Errno(Errno::ETIMEDOUT));
        if self.doubts.count() > 0 {
            let clear = self.doubts.clear_of(errand.asked.op);
            if Box::pin(self.within(errand.deadline, clear)).await.is_none() {
                return Ok(TIMED_OUT);
            }
        }
        let slot = match session.slots.acquire_now() {
            Some(slot) => slot,
            None => match Box::pin(self.within(errand.deadline, session.slots.acquire())).await {
                Some(Ok(slot)) => slot,
                Some(Err(Closed)) => return Err(Over),
                None => return Ok(TIMED_OUT),
            },
        };
        errand.head = self.head(Self::changing(session, slot));
        let mut way = UnderWay { client: self, session, slot, errand, is_unsure: false };
        match self.chase(way.errand, &mut way.is_unsure).await {
            Ok(Answer::Final(answer)) => {
                way.is_unsure = false;
                Ok(answer)
            }
            Ok(Answer::NoSession) => {
                self.session_over(session.id);
                let was_lost = std::mem::replace(&mut way.is_unsure, false);
                if was_lost
                    && !concerns_only_its_session(way.errand.asked.op)
                    && !is_planted!(LostSaysNotRun)
                {
                    return Ok(Err(Failure::Unsure(Errno::EIO)));
                }
                Err(Over)
            }
            Err(unanswered) => Ok(Err(Failure::Unsure(unanswered.into()))),
        }
    }

    /// Follows redirects until a shard answers. `is_unsure` is true while a copy may run without an
    /// answer: while one is pending, and after one was lost.
    pub(crate) async fn chase(
        &self,
        errand: &Errand<'_>,
        is_unsure: &mut bool,
    ) -> Result<Answer, Unanswered> {
        let route = errand.route;
        let (mut astray, mut learned) = (0, 0);
        let mut backoff = Backoff::astray();
        let failed = |failure| Ok(Answer::Final(Err(failure)));
        loop {
            let reply = self.send(errand, is_unsure).await?;
            self.given_back.answered(errand.head.id, errand.asked.op, &reply);
            let refusal = match reply.result {
                Ok(body) => return Ok(Answer::Final(Ok(body))),
                Err(refusal) => refusal,
            };
            let is_progress = match refusal {
                Refusal::Errno(errno) => return failed(Failure::Errno(errno)),
                Refusal::NotUnderName => return failed(Failure::NotThere),
                Refusal::DataChanged => return failed(Failure::DataChanged),
                // Only this client answers for its slots, so an outcome that is gone means a fault.
                Refusal::Answered => return failed(Failure::Unsure(Errno::EIO)),
                Refusal::NoSession => return Ok(Answer::NoSession),
                // The caller stores the objects of a session that is over once more.
                Refusal::Improper(Improper::ForeignObject) => return failed(Failure::DataChanged),
                Refusal::Improper(improper) => {
                    return failed(Failure::Errno(errno_of(improper)));
                }
                Refusal::Stale => {
                    self.ways.refused();
                    return failed(Failure::Stale);
                }
                Refusal::Redirect(history) => {
                    self.counters.redirected();
                    let dir = route.dir().filter(|_| !is_planted!(RedirectNotLearned));
                    dir.is_some_and(|dir| self.routes.learn(dir, &history))
                }
                Refusal::Slot(news) => {
                    self.counters.redirected();
                    let is_news = self.routes.learn_slot(news);
                    // If what is known here is newer, the request asked that shard for a partition.
                    // Then the directory's map was wrong.
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
                Box::pin(backoff.pause(self)).await;
            }
        }
    }

    /// Sends the request until a reply comes.
    pub(crate) async fn send(
        &self,
        errand: &Errand<'_>,
        is_unsure: &mut bool,
    ) -> Result<Box<Reply>, Unanswered> {
        let was_unsure = *is_unsure;
        let mut was_lost = false;
        let mut backoff = Backoff::lost();
        // The shard is chosen once, whatever other requests learn meanwhile. If it has run a lost
        // copy, it has the outcome, even if the directory is gone.
        let shard = self.routes.shard(errand.route);
        loop {
            if self.sessions.is_closed() {
                return Err(Unanswered::Stopped);
            }
            let id = match was_lost && is_planted!(RetryRenumbered) {
                true => RequestId { sequence: errand.head.id.sequence + 1, ..errand.head.id },
                false => errand.head.id,
            };
            let shard = match was_lost && is_planted!(RetryAstray) {
                true => self.routes.beside(shard),
                false => shard,
            };
            let request = Box::new(Request {
                head: Head {
                    id,
                    clock: self.clock.load(Ordering::Relaxed),
                    version: self.version.load(Ordering::Relaxed),
                    heard: self.heard.load(Ordering::Acquire),
                    ..errand.head
                },
                credentials: errand.by.clone(),
                op: errand.asked.op.clone(),
                trail: errand.asked.on.map(|on| on.trail.clone()),
            });
            self.counters.sent(errand.asked.op);
            let asked = self.transport.machine_nanos();
            *is_unsure = true;
            match self.transport.call(shard, request).await {
                Ok(reply) => {
                    *is_unsure = was_unsure || was_lost;
                    raise(&self.clock, reply.clock);
                    if reply.shard == shard {
                        let moments = (asked, self.transport.machine_nanos());
                        self.clocks.hear(shard, reply.clock, moments);
                    }
                    raise(&self.version, reply.version);
                    if let Some(news) = &reply.news {
                        self.ways.apply(news);
                    }
                    if let Some(on) = errand.asked.on {
                        on.answered(reply.version);
                    }
                    return Ok(reply);
                }
                Err(TransportError::Stopped) => return Err(Unanswered::Stopped),
                Err(TransportError::Lost) => was_lost = true,
            }
            let left = |at: u64| at.saturating_sub(self.transport.now_nanos());
            let left = errand.deadline.map_or(u64::MAX, left);
            if left == 0 {
                return Err(Unanswered::TimedOut);
            }
            self.counters.retried();
            Box::pin(backoff.pause_at_most(self, left)).await;
        }
    }

    /// When the patience of a call that begins now ends. Counted by the clock, as each try takes
    /// time: a stopped process takes seconds to count as lost.
    pub(crate) fn deadline(&self, via: Via<'_>) -> Option<u64> {
        let patience = self.options.patience.filter(|_| matches!(via, Via::Current))?;
        Some(self.transport.now_nanos().saturating_add(patience))
    }

    pub(crate) fn is_past(&self, deadline: Option<u64>) -> bool {
        deadline.is_some_and(|at| self.transport.now_nanos() >= at)
    }

    /// The output of `future`, unless the deadline comes first.
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

    /// An operation to run as `id`, without a deadline.
    pub(crate) fn errand<'a>(
        &self,
        by: &'a Credentials,
        asked: Asked<'a>,
        route: Route,
        id: RequestId,
    ) -> Errand<'a> {
        Errand { by, asked, route, head: self.head(id), deadline: None }
    }

    /// The head of a new request, with a trace number of its own. Clock and version are filled in
    /// when it is sent.
    pub(crate) fn head(&self, id: RequestId) -> Head {
        let number = self.traces.fetch_add(1, Ordering::Relaxed);
        Head { id, trace: id.session.0.rotate_left(40) ^ number, ..Head::default() }
    }

    /// The identity of a request that only reads.
    pub(crate) fn reading(&self) -> RequestId {
        RequestId { session: self.sessions.id(), slot: 0, sequence: 0 }
    }

    /// The identity of a changing request.
    pub(crate) const fn changing(session: &Session, slot: Slot) -> RequestId {
        RequestId { session: session.id, slot: slot.index, sequence: slot.sequence }
    }
}

/// What the caller hears of a request that a shard finds improper.
const fn errno_of(improper: Improper) -> Errno {
    match improper {
        Improper::NotOwner => Errno::EPERM,
        Improper::Sessions => Errno::EAGAIN,
        Improper::Unnumbered | Improper::Slot | Improper::ForeignObject | Improper::TooMuch => {
            Errno::EINVAL
        }
    }
}

/// A changing request with its slot. If it is dropped while a copy may run, it is in doubt.
struct UnderWay<'a> {
    client: &'a Client,
    session: &'a Arc<Session>,
    slot: Slot,
    errand: &'a Errand<'a>,
    is_unsure: bool,
}

impl Drop for UnderWay<'_> {
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
            by: self.errand.by.clone(),
            op: self.errand.asked.op.clone(),
            trail: self.errand.asked.on.map(|on| on.trail.clone()),
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

/// Takes the value of a reply's body. A body of another form is an error of the shard's: `EIO`.
macro_rules! take {
    ($body:expr, $pattern:pat => $value:expr) => {
        match $body {
            $pattern => Ok($value),
            _ => Err(Errno::EIO),
        }
    };
}
pub(crate) use take;

/// The errno of a missing inode that was asked for by number.
pub(crate) const fn stale(errno: Errno) -> Errno {
    match errno {
        Errno::ENOENT => Errno::ESTALE,
        other => other,
    }
}

/// Raises `cell` to `value`. It writes only if that changes something, as many threads share the
/// cell.
fn raise(cell: &AtomicU64, value: u64) {
    if cell.load(Ordering::Relaxed) < value {
        cell.fetch_max(value, Ordering::Relaxed);
    }
}
