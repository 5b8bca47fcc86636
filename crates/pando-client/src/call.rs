//! One operation from its first request to its final answer.
//!
//! ```text
//!   run ── slot, identity
//!    └ chase ── Redirect: learn, AskHome: forget; then ask the next shard
//!       └ send ── Lost: wait, send the same again
//! ```
//!
//! Redirects and losses keep the identity: whether it ran is for the owner to know. Everything else is an answer.

use pando_types::op::{Head, Op, Request, RequestId};
use pando_types::reply::{Body, Refusal};
use pando_types::{Credentials, Errno};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::client::Client;
use crate::route::{Plan, Route, plan};
use crate::transport::TransportError;

const MILLISECOND: u64 = 1_000_000;
/// Fruitless answers of "not here" in a row of attempts, after which a shard is taken for mistaken.
const ASTRAY_MAX: u32 = 64;
/// Of those, how many are followed at once; before the others there is a pause, since the target of a split may not be
/// ready yet.
const ASTRAY_AT_ONCE: u32 = 4;

/// What an operation's caller must tell apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// Final.
    Errno(Errno),
    /// The inode is not where it was looked for.
    NotThere,
    /// The data is not what it was.
    DataChanged,
}

impl From<Failure> for Errno {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Errno(errno) => errno,
            Failure::NotThere => Self::ESTALE,
            Failure::DataChanged => Self::EIO,
        }
    }
}

/// There is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unanswered {
    /// Within the caller's patience. It may have run, or may yet.
    TimedOut,
    /// The transport is shut down.
    Stopped,
}

impl From<Unanswered> for Errno {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::TimedOut => Self::ETIMEDOUT,
            Unanswered::Stopped => Self::EIO,
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

    /// A pause that is cut to `most` nanoseconds.
    async fn pause_at_most(&mut self, client: &Client, most: u64) {
        let nanos = self.next;
        self.next = (nanos * 2).min(self.max);
        client.transport.sleep(nanos.min(most)).await;
    }
}

impl Client {
    /// Runs `op` exactly once, or any number of times if it only reads.
    pub(crate) async fn run(&self, by: &Credentials, op: Op) -> Result<Body, Failure> {
        let Plan { route, changes } = plan(&op, &self.secrets);
        let mut id = self.reading();
        if !changes {
            return match self.chase(by, &op, route, id).await {
                Ok(answer) => answer,
                Err(unanswered) => Err(Failure::Errno(unanswered.into())),
            };
        }
        let slot = self.slots.acquire().await.map_err(|_| Failure::Errno(Errno::EIO))?;
        (id.slot, id.sequence) = (slot.index, slot.sequence);
        match self.chase(by, &op, route, id).await {
            Ok(answer) => {
                slot.answered();
                answer
            }
            Err(unanswered) => Err(Failure::Errno(unanswered.into())),
        }
    }

    /// As [`Client::run`], where every failure is an errno.
    pub(crate) async fn run_plain(&self, by: &Credentials, op: Op) -> Result<Body, Errno> {
        self.run(by, op).await.map_err(Errno::from)
    }

    /// Follows redirects to whoever answers.
    async fn chase(
        &self,
        by: &Credentials,
        op: &Op,
        route: Route,
        id: RequestId,
    ) -> Result<Result<Body, Failure>, Unanswered> {
        let head = self.head(id);
        let mut astray = 0;
        let mut backoff = Backoff::astray();
        loop {
            let refusal = match self.send(by, op, route, head).await? {
                Ok(body) => return Ok(Ok(body)),
                Err(refusal) => refusal,
            };
            let is_progress = match refusal {
                Refusal::Errno(errno) => return Ok(Err(Failure::Errno(errno))),
                Refusal::NotUnderName => return Ok(Err(Failure::NotThere)),
                Refusal::DataChanged => return Ok(Err(Failure::DataChanged)),
                // Nobody but us answers for our slots, so an answer cannot be gone.
                Refusal::Answered => return Ok(Err(Failure::Errno(Errno::EIO))),
                Refusal::NoSession => {
                    self.session_lost.store(true, Ordering::Release);
                    return Ok(Err(Failure::Errno(Errno::EIO)));
                }
                Refusal::Redirect(history) => {
                    self.counters.redirected();
                    route.dir().is_some_and(|dir| self.routes.learn(dir, &history))
                }
                Refusal::AskHome => {
                    self.counters.redirected();
                    if let Some(dir) = route.dir() {
                        self.routes.forget(dir);
                    }
                    false
                }
            };
            if is_progress {
                continue;
            }
            astray += 1;
            if astray >= ASTRAY_MAX {
                return Ok(Err(Failure::Errno(Errno::EIO)));
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
        op: &Op,
        route: Route,
        mut head: Head,
    ) -> Result<Result<Body, Refusal>, Unanswered> {
        if self.session_lost.load(Ordering::Acquire) {
            return Ok(Err(Refusal::NoSession));
        }
        let mut backoff = Backoff::lost();
        // A release that gets lost would keep an orphan for as long as the session lives.
        let patience = self.options.patience.filter(|_| !matches!(op, Op::Release(_)));
        // By the clock, as the calls themselves take time: that of a stopped process takes seconds to get lost.
        let deadline = patience.map(|nanos| self.transport.now_nanos().saturating_add(nanos));
        // Who may have run it is asked again, whatever others have learned meanwhile: the answer is recorded there, even if the
        // directory is gone.
        let shard = self.routes.shard(route);
        loop {
            head.clock = self.clock.load(Ordering::Relaxed);
            head.version = self.version.load(Ordering::Relaxed);
            let request = Request { head, credentials: by.clone(), op: op.clone() };
            self.counters.sent(op);
            match self.transport.call(shard, request).await {
                Ok(reply) => {
                    raise(&self.clock, reply.clock);
                    raise(&self.version, reply.version);
                    return Ok(reply.result);
                }
                Err(TransportError::Stopped) => return Err(Unanswered::Stopped),
                Err(TransportError::Lost) => {}
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

    /// The head of a new request: a trace of its own; clock and version are set when it is sent.
    pub(crate) fn head(&self, id: RequestId) -> Head {
        let number = self.traces.fetch_add(1, Ordering::Relaxed);
        Head { id, trace: self.session.0.rotate_left(40) ^ number, ..Head::default() }
    }

    /// Identity of a request that only reads.
    pub(crate) const fn reading(&self) -> RequestId {
        RequestId { session: self.session, slot: 0, sequence: 0 }
    }
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
