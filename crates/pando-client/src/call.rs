//! One operation from its first request to its final answer.
//!
//! ```text
//!   run ── session, slot, identity
//!    └ chase ── Redirect: learn, AskHome: forget; then ask the next shard
//!       └ send ── Lost: wait, send the same again
//! ```
//!
//! Redirects and losses keep the identity: whether it ran is for the owner to know. Everything else
//! is an answer.
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
//! | the same, of a lock | whatever it did went with the session | as said in [`crate::locks`] |
//! | refused with `EBUSY`: a directory's rename or change of permissions, and a shard that could not be told of it in time | never ran | repeated with a new identity; when patience runs out, `ETIMEDOUT` |
//! | refused since its objects were made in a session that is over by now | never ran | the caller stores the bytes anew |
//! | in doubt, then refused with `NoSession` | does not run any more | the doubt is over |
//! | answered after another request has heard that the session is over | what the answer says | as said; an open is opened anew ([`crate::reopen`]) |
//! | the transport is stopped, or the client closed | unknown | `EIO` |
//!
//! Reading requests belong to no session: they are asked again until patience runs out.
//!
//! Futures of what hardly ever has to be waited for are boxed, so that those of all calls stay
//! small: one that begins is memory taken, of which an allocator has a kilobyte at hand.

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

/// Fruitless answers of "not here" in a row of attempts, after which a shard is taken for mistaken.
const ASTRAY_MAX: u32 = 64;
/// Of those, how many are followed at once; before the others there is a pause, since the target of
/// a split may not be ready yet.
const ASTRAY_AT_ONCE: u32 = 4;
/// Answers of "not here" from which something can be learned, after which they count as fruitless,
/// too: a tree of partitions is 24 deep, and as much of it may be known that is gone.
const LEARNED_MAX: u32 = 48;

/// What an operation's caller must tell apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// Final.
    Errno(Errno),
    /// It may have run, or may yet.
    Unsure(Errno),
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
            Failure::Errno(errno) | Failure::Unsure(errno) => errno,
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

/// An operation on its way to who runs it.
pub(crate) struct Errand<'a> {
    by: &'a Credentials,
    asked: Asked<'a>,
    /// Where it must be run.
    pub(crate) route: Route,
    /// Of its request, but for clock and version, which are those of the moment in which it is
    /// sent.
    head: Head,
    /// When its caller's patience ends.
    pub(crate) deadline: Option<u64>,
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
        op: &Op,
        on: Option<&OnPath>,
    ) -> Result<Body, Errno> {
        let ran = self.run_told(Via::Current, by, Asked { op, on }).await;
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

    /// Runs a changing operation in `session`, or not at all; with a caller whose patience ends.
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
            // Some shard could not be told of it.
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

    /// Follows redirects to whoever answers. `is_unsure` is true whenever a copy may run that
    /// nobody has answered: while one is under way, and after one was lost.
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
                // Nobody but us answers for our slots, so an answer cannot be gone.
                Refusal::Answered => return failed(Failure::Unsure(Errno::EIO)),
                Refusal::NoSession => return Ok(Answer::NoSession),
                // What was stored in a session that is over is to be stored again.
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
                    // What is known here is newer: then it was a partition that was looked for
                    // there.
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

    /// Sends until there is a reply.
    pub(crate) async fn send(
        &self,
        errand: &Errand<'_>,
        is_unsure: &mut bool,
    ) -> Result<Box<Reply>, Unanswered> {
        let was_unsure = *is_unsure;
        let mut was_lost = false;
        let mut backoff = Backoff::lost();
        // Who may have run it is asked again, whatever others have learned meanwhile: the answer is
        // recorded there, even if the directory is gone.
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

    /// When the patience of a call that begins now ends. By the clock, as the calls themselves take
    /// time: that of a stopped process takes seconds to get lost.
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

    /// An operation to be run as `id`, for as long as it takes.
    pub(crate) fn errand<'a>(
        &self,
        by: &'a Credentials,
        asked: Asked<'a>,
        route: Route,
        id: RequestId,
    ) -> Errand<'a> {
        Errand { by, asked, route, head: self.head(id), deadline: None }
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

/// What the caller is told of a request that shards take for no proper one.
const fn errno_of(improper: Improper) -> Errno {
    match improper {
        Improper::NotOwner => Errno::EPERM,
        Improper::Sessions => Errno::EAGAIN,
        Improper::Unnumbered | Improper::Slot | Improper::ForeignObject | Improper::TooMuch => {
            Errno::EINVAL
        }
    }
}

/// A changing request with its slot. Dropped while it may run, it is in doubt.
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

/// Whether all that a request does goes with its session.
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
