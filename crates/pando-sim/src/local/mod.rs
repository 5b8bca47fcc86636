//! Clients in the process of all shards, as `pando up` has one: their calls run the shards at once, and they die with the process.
//!
//! ```text
//!   client ── call ──► the host, which answers before it returns, or later
//!                      now and then another thread has the shard, or one of its neighbours
//!   the process dies ──► all of them die; the next process ends the sessions that the last one has noted
//! ```
//!
//! Nothing of what they ask gets lost, so requests are repeated only when a program was interrupted, and its client asks what came of it.

use std::future::pending;
use std::ops::AddAssign;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use pando_client::{BoxFuture, Calling, Client, Transport, TransportError};
use pando_model::{Call, Op};
use pando_server::host::AtOnce;
use pando_server::host::driven::Driven;
use pando_types::op::{Op as Wire, Request};
use pando_types::reply::{Body, Refusal, Reply};
use pando_types::{Errno, SessionId, ShardIndex};

use crate::client_run::{ClientRun, lock};
use crate::config::{MILLISECOND, SimConfig};
use crate::ear::{Ear, Heard};
use crate::execute::{Executed, execute};
use crate::host::Process;
use crate::mail::Mail;
use crate::post::Post;
use crate::random::Random;
use crate::run::Run;
use crate::world::World;

/// The process that hosts all shards.
const SERVER: usize = 0;

/// How often what happened to such clients.
#[derive(Clone, Copy, Default, Debug)]
pub struct LocalCounts {
    /// Calls that were answered before they returned.
    pub at_once: u64,
    /// Calls that were answered later.
    pub later: u64,
    /// Calls while another thread had some shard.
    pub beside: u64,
    /// Operations whose program was interrupted.
    pub interrupted: u64,
    /// Clients that died with the process.
    pub died: u64,
    /// Sessions of theirs that the next process ended.
    pub ended: u64,
}

impl AddAssign for LocalCounts {
    fn add_assign(&mut self, other: Self) {
        self.at_once += other.at_once;
        self.later += other.later;
        self.beside += other.beside;
        self.interrupted += other.interrupted;
        self.died += other.died;
        self.ended += other.ended;
    }
}

/// What these clients share: the process.
pub struct Here {
    ear: Ear,
    inner: Mutex<Inner>,
}

struct Inner {
    running: Option<Running>,
    /// Sessions that have begun and not ended, in a file that a loss of power leaves.
    noted: Vec<SessionId>,
    /// The process has died, and its clients do not know.
    has_died: bool,
    /// Shards that were called, or are to be run for what came while another thread had them.
    turns: Vec<ShardIndex>,
    random: Random,
    counts: LocalCounts,
}

/// One life of the process.
#[derive(Clone)]
struct Running {
    driven: Arc<Driven>,
    post: Arc<Post>,
}

impl Here {
    /// Of a run with such clients.
    #[must_use]
    pub fn of(config: &SimConfig, ear: &Ear) -> Option<Arc<Self>> {
        let inner = Inner {
            running: None,
            noted: Vec::new(),
            has_died: false,
            turns: Vec::new(),
            random: Random::new(config.seed ^ 0x10CA_1000),
            counts: LocalCounts::default(),
        };
        let here = Self { ear: ear.clone(), inner: Mutex::new(inner) };
        (config.locals > 0).then(|| Arc::new(here))
    }

    fn running(&self) -> Option<Running> {
        lock(&self.inner).running.clone()
    }

    /// After how long the program that calls this is interrupted, if it is.
    fn interrupts(&self, op: &Op) -> Option<u64> {
        // Listings, walks and what only reads is begun anew; a `close` is not interrupted.
        let may_be = matches!(
            op,
            Op::Create { .. }
                | Op::Mkdir(..)
                | Op::Unlink(..)
                | Op::Rmdir(..)
                | Op::Link(..)
                | Op::Rename { .. }
                | Op::SetAttr(..)
                | Op::Open { .. }
                | Op::Write(..)
                | Op::SetXattr(..)
                | Op::RemoveXattr(..)
        );
        let random = &mut lock(&self.inner).random;
        (may_be && random.chance(1, 4)).then(|| random.below(MILLISECOND))
    }

    /// Calls a shard, sometimes while other threads have shards.
    fn call(&self, driven: &Driven, shard: ShardIndex, request: Box<Request>) -> AtOnce {
        let mut busy = driven.host().hosted();
        {
            let Inner { random, counts, turns, .. } = &mut *lock(&self.inner);
            let is_beside = random.chance(1, 6);
            busy.retain(|_| is_beside && random.chance(1, 2));
            counts.beside += u64::from(!busy.is_empty());
            turns.push(shard);
            turns.extend(&busy);
        }
        driven.call_beside(&busy, shard, request)
    }

    /// A reply comes to its caller.
    fn heard(&self, (heard, ending): (&Heard, Option<SessionId>), reply: &Reply, is_failed: bool) {
        let is_eio = matches!(reply.result, Err(Refusal::Errno(Errno::EIO)));
        self.ear.leaves(heard, &reply.result, is_eio && is_failed);
        let noted = &mut lock(&self.inner).noted;
        match (&reply.result, ending) {
            (Ok(Body::Session(session)), _) => noted.push(*session),
            (Ok(_) | Err(Refusal::NoSession), Some(session)) => noted.retain(|it| *it != session),
            _ => {}
        }
    }
}

/// The way of one client to the shards of its process.
pub struct Local {
    /// The process.
    pub here: Arc<Here>,
    /// True time, for as long as the process does not run.
    pub mail: Mail,
}

impl Transport for Local {
    fn call<'a>(&'a self, shard: ShardIndex, request: Box<Request>) -> Calling<'a> {
        let here = &self.here;
        let Some(Running { driven, post }) = here.running() else {
            return Calling::answered(Err(TransportError::Stopped));
        };
        let ending = match request.op {
            Wire::EndSession(session) => Some(session),
            _ => None,
        };
        let heard = here.ear.comes(&request);
        let begun = here.call(&driven, shard, request);
        let told = move |reply: Option<Box<Reply>>| {
            let reply = reply.ok_or(TransportError::Stopped)?;
            here.heard((&heard, ending), &reply, driven.failure_of(shard).is_some());
            Ok(reply)
        };
        match begun {
            // A disk has stopped, and with it the process: nobody hears anything any more.
            AtOnce::Answered(_) if post.has_stopped() => Calling::waiting(pending()),
            AtOnce::Answered(reply) => {
                lock(&here.inner).counts.at_once += 1;
                Calling::answered(told(reply))
            }
            AtOnce::Later(call) => Calling::waiting(async move {
                let reply = call.await;
                if post.has_stopped() {
                    return pending().await;
                }
                lock(&here.inner).counts.later += 1;
                told(reply)
            }),
        }
    }

    fn sleep<'a>(&'a self, nanos: u64) -> BoxFuture<'a, ()> {
        match self.here.running() {
            Some(Running { driven, .. }) => Box::pin(driven.host().sleep(nanos)),
            None => self.mail.sleep(nanos),
        }
    }

    fn now_nanos(&self) -> u64 {
        let running = self.here.running();
        running.map_or_else(|| self.mail.now_nanos(), |it| it.driven.host().now_nanos())
    }

    fn is_local(&self) -> bool {
        true
    }
}

impl ClientRun {
    /// Runs a call; the program may be interrupted meanwhile, and does not wait for what comes of it.
    pub(crate) async fn execute(&self, client: &Arc<Client>, call: &Call, page: u32) -> Executed {
        let mut executing = pin!(execute(client, call, page));
        let here = self.shared.here.as_ref();
        let Some(after) = here.and_then(|here| here.interrupts(&call.op)) else {
            return executing.await;
        };
        let mut signal = self.shared.mail.sleep(after);
        let executed = std::future::poll_fn(|context| match executing.as_mut().poll(context) {
            Poll::Ready(executed) => Poll::Ready(Some(executed)),
            Poll::Pending => signal.as_mut().poll(context).map(|()| None),
        });
        executed.await.unwrap_or_else(|| {
            here.into_iter().for_each(|here| lock(&here.inner).counts.interrupted += 1);
            Executed { outcome: Err(Errno::EINTR), is_loose: false, attr: None }
        })
    }
}

impl World {
    /// Clients of the process look at its clocks.
    pub(crate) fn set_clocks_here(&self) {
        if self.here.is_some() {
            self.servers[SERVER].clocks.set(self.time);
        }
    }

    /// What their calls have led to.
    pub(crate) fn settle_here(&mut self) {
        let Some(here) = self.here.clone() else { return };
        let Some(Running { driven, .. }) = here.running() else { return };
        let (turns, goes_on) = {
            let inner = &mut *lock(&here.inner);
            (std::mem::take(&mut inner.turns), inner.random.chance(3, 4))
        };
        if turns.is_empty() {
            return;
        }
        if goes_on {
            driven.host().settle();
        }
        drop(driven);
        turns.iter().for_each(|shard| self.plan_turn(usize::from(shard.0)));
        self.settle(SERVER);
    }

    /// The process has started: it ends what the last one's clients have left.
    pub(crate) fn begin_here(&mut self) {
        let (Some(here), Some(driven)) = (self.here.clone(), self.servers[SERVER].driven()) else {
            return;
        };
        let post = self.servers[SERVER].post();
        let known = |process: &Process| process.core().sessions().collect::<Vec<_>>();
        let known = self.hosts[0].process.as_ref().map(known).unwrap_or_default();
        let noted = {
            let inner = &mut *lock(&here.inner);
            // One that nobody knows any more has ended, too.
            inner.noted.retain(|session| known.contains(session));
            inner.running = Some(Running { driven, post });
            inner.counts.ended += inner.noted.len() as u64;
            inner.noted.clone()
        };
        noted.into_iter().for_each(|session| self.ask(SERVER, Wire::EndSession(session)));
    }

    /// The process ends.
    pub(crate) fn end_here(&self) {
        if let Some(here) = &self.here {
            let inner = &mut *lock(&here.inner);
            (inner.running, inner.has_died) = (None, true);
        }
    }

    /// Whether the process has died since the last time; what was counted, at the end.
    pub(crate) fn count_here(&mut self) {
        if let Some(here) = &self.here {
            self.stats.local = lock(&here.inner).counts;
        }
    }
}

impl Run {
    /// Clients that have died with their process are replaced by others, which do what is left to be done.
    pub(crate) fn heed_local_deaths(&mut self) {
        let Some(here) = self.world.here.clone() else { return };
        if !std::mem::take(&mut lock(&here.inner).has_died) {
            return;
        }
        let is_done = |task: &_| self.world.executor.is_over(*task);
        let (dead, others) = std::mem::take(&mut self.clients)
            .into_iter()
            .partition(|it| it.run.shared.here.is_some() && !it.tasks.iter().all(is_done));
        let dead: Vec<_> = dead;
        self.clients = others;
        for client in dead {
            lock(&here.inner).counts.died += 1;
            let left = client.run.left.load(Ordering::Relaxed);
            self.bury_client(client);
            self.begin_client(Some(&here), left.div_ceil(self.world.config.lanes as u64).max(3));
        }
    }
}
