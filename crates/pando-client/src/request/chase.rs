//! One request, sent until a shard answers: redirects are followed, and lost copies sent again.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use pando_types::op::{Head, Request, RequestId};
use pando_types::reply::{Improper, Refusal, Reply};
use pando_types::{Errno, ShardIndex};

use crate::client::Client;
use crate::request::backoff::Backoff;
use crate::request::outcome::{Answer, Failure, Unanswered, errno_of};
use crate::request::pending::PendingRequest;
use crate::route::plan::Route;
use crate::transport::traits::TransportError;

/// Redirects without progress that one request may get. After that many it fails with `EIO`.
const ASTRAY_MAX: u32 = 64;
/// How many of these are followed at once. Before each further one comes a pause, since the target
/// of a split may not be ready yet.
const ASTRAY_AT_ONCE: u32 = 4;
/// Redirects with progress (the client learned something) that one request may get. Further ones
/// count as without progress. A tree of partitions is 24 deep, and the client may know as many
/// partitions that are gone.
const LEARNED_MAX: u32 = 48;

impl Client {
    /// Follows redirects until a shard answers. `is_unsure` is true while a copy may run without an
    /// answer: while one is pending, and after one was lost.
    pub(crate) async fn chase(
        &self,
        pending: &PendingRequest<'_>,
        is_unsure: &mut bool,
    ) -> Result<Answer, Unanswered> {
        let (mut astray, mut learned) = (0, 0);
        let mut backoff = Backoff::astray();
        loop {
            let reply = self.send(pending, is_unsure).await?;
            self.given_back.answered(pending.id, pending.asked.op, &reply);
            let refusal = match reply.result {
                Ok(body) => return Ok(Answer::Final(Ok(body))),
                Err(refusal) => refusal,
            };
            let is_progress = match self.refused(pending.route, refusal) {
                ControlFlow::Break(answer) => return Ok(answer),
                ControlFlow::Continue(is_progress) => is_progress,
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
                return Ok(failed(Failure::Errno(Errno::EIO)));
            }
            if astray > ASTRAY_AT_ONCE {
                Box::pin(backoff.pause(self)).await;
            }
        }
    }

    /// What a refusal means: the answer, or that the request must go elsewhere. In that case, the
    /// value tells whether the client has learned where.
    fn refused(&self, route: Route, refusal: Refusal) -> ControlFlow<Answer, bool> {
        ControlFlow::Break(match refusal {
            Refusal::Errno(errno) => failed(Failure::Errno(errno)),
            Refusal::NotUnderName => failed(Failure::NotThere),
            Refusal::DataChanged => failed(Failure::DataChanged),
            // Only this client answers for its slots, so an outcome that is gone means a fault.
            Refusal::Answered => failed(Failure::Unsure(Errno::EIO)),
            Refusal::NoSession => Answer::NoSession,
            // The caller stores the objects of a session that is over once more.
            Refusal::Improper(Improper::ForeignObject) => failed(Failure::DataChanged),
            Refusal::Improper(improper) => failed(Failure::Errno(errno_of(improper))),
            Refusal::Stale => {
                self.paths.refused();
                failed(Failure::Stale)
            }
            Refusal::Redirect(history) => {
                self.counters.redirected();
                let dir = route.dir().filter(|_| !is_planted!(RedirectNotLearned));
                let is_news = dir.is_some_and(|dir| self.routes.learn(dir, &history));
                return ControlFlow::Continue(is_news);
            }
            Refusal::HashSlot(news) => {
                self.counters.redirected();
                let is_news = self.routes.learn_hash_slot(news);
                // If what is known here is newer, the request asked that shard for a partition.
                // Then the directory's map was wrong.
                if !is_news && let Some(dir) = route.dir() {
                    self.routes.forget(dir);
                }
                return ControlFlow::Continue(is_news);
            }
            Refusal::AskHome => {
                self.counters.redirected();
                if let Some(dir) = route.dir() {
                    self.routes.forget(dir);
                }
                return ControlFlow::Continue(false);
            }
        })
    }

    /// Sends the request until a reply comes.
    pub(crate) async fn send(
        &self,
        pending: &PendingRequest<'_>,
        is_unsure: &mut bool,
    ) -> Result<Box<Reply>, Unanswered> {
        let was_unsure = *is_unsure;
        let mut was_lost = false;
        let mut backoff = Backoff::lost();
        // The shard is chosen once, whatever other requests learn meanwhile. If it has run a lost
        // copy, it has the outcome, even if the directory is gone.
        let shard = self.routes.shard(pending.route);
        loop {
            if self.sessions.is_closed() {
                return Err(Unanswered::Stopped);
            }
            let shard = match was_lost && is_planted!(RetryAstray) {
                true => self.routes.beside(shard),
                false => shard,
            };
            let request = self.copy_of(pending, was_lost);
            self.counters.sent(pending.asked.op);
            let asked = self.transport.machine_nanos();
            *is_unsure = true;
            match self.transport.call(shard, request).await {
                Ok(reply) => {
                    *is_unsure = was_unsure || was_lost;
                    self.heard_from(shard, pending, &reply, asked);
                    return Ok(reply);
                }
                Err(TransportError::Stopped) => return Err(Unanswered::Stopped),
                Err(TransportError::Lost) => was_lost = true,
            }
            let left = |at: u64| at.saturating_sub(self.transport.now_nanos());
            let left = pending.deadline.map_or(u64::MAX, left);
            if left == 0 {
                return Err(Unanswered::TimedOut);
            }
            self.counters.retried();
            Box::pin(backoff.pause_at_most(self, left)).await;
        }
    }

    /// A copy of the request, with what the client has heard by now.
    fn copy_of(&self, pending: &PendingRequest<'_>, was_lost: bool) -> Box<Request> {
        let id = match was_lost && is_planted!(RetryRenumbered) {
            true => RequestId { sequence: pending.id.sequence + 1, ..pending.id },
            false => pending.id,
        };
        Box::new(Request {
            head: Head {
                id,
                trace: pending.trace,
                clock: self.clock.load(Ordering::Relaxed),
                version: self.version.load(Ordering::Relaxed),
                heard: self.heard.load(Ordering::Acquire),
                ..Head::default()
            },
            credentials: pending.credentials.clone(),
            op: pending.asked.op.clone(),
            trail: pending.asked.on.map(|on| on.trail.clone()),
        })
    }

    /// Notes what a reply tells besides its result: clocks, versions, changes of paths. The request
    /// was sent to `shard` at the moment `asked`.
    fn heard_from(
        &self,
        shard: ShardIndex,
        pending: &PendingRequest<'_>,
        reply: &Reply,
        asked: u64,
    ) {
        raise(&self.clock, reply.clock);
        if reply.shard == ShardIndex(0) {
            self.answered_by(reply.epoch);
        }
        if reply.shard == shard {
            let moments = (asked, self.transport.machine_nanos());
            self.clocks.hear(shard, reply.clock, moments);
        }
        raise(&self.version, reply.version);
        if let Some(news) = &reply.news {
            self.paths.apply(news);
        }
        if let Some(on) = pending.asked.on {
            on.answered(reply.version);
        }
    }
}

fn failed(failure: Failure) -> Answer {
    Answer::Final(Err(failure))
}

/// Raises `cell` to `value`. It writes only if that changes something, as many threads share the
/// cell.
fn raise(cell: &AtomicU64, value: u64) {
    if cell.load(Ordering::Relaxed) < value {
        cell.fetch_max(value, Ordering::Relaxed);
    }
}
