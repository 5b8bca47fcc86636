//! A cluster in one lock: namespace, partitions, sessions. It checks what every request must obey:
//! 1. no slot has two pending requests;
//! 2. no slot goes back to an older sequence, nor uses one for two operations.

pub mod namespace;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

use pando_client::{
    BoxFuture, Calling, Client, Options, Transport, TransportError, Volume, block_on,
};
use pando_placement::{ClusterMap, Secrets};
use pando_types::hold::Holding;
use pando_types::op::{Op, Request, RequestId};
use pando_types::reply::{Body, Refusal, Reply};
use pando_types::{
    Credentials, Epoch, Errno, Ino, LockHolder, LockSet, Lsn, Name, SessionId, ShardIndex,
};

use crate::fake::namespace::Namespace;

pub const ROOT: &Credentials = &Credentials::ROOT;
pub const SHARDS: u16 = 4;

pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a valid name")
}

/// A fault to happen to a request.
pub enum Fate {
    /// The request does not arrive.
    LoseRequest,
    /// The request runs, and its reply does not arrive.
    LoseReply,
    /// The request does not run, and gets this answer.
    Answer(Result<Body, Refusal>),
    /// The request does not arrive, which is known only after so many nanoseconds.
    Hang(u64),
    /// The transport stops.
    Stop,
}

type OnSleep = Box<dyn FnMut(&mut State) + Send>;
type Hook = Box<dyn FnMut(&mut Namespace, ShardIndex, &Request) -> Option<Fate> + Send>;

pub struct Cluster(Mutex<State>);

pub struct State {
    pub namespace: Namespace,
    pub log: Vec<(ShardIndex, Request)>,
    pub slept: Vec<u64>,
    /// Time in nanoseconds. It passes while a client sleeps, and while a call hangs.
    pub now: u64,
    /// Pending polls before each request arrives, and again before its reply does.
    pub delay: u32,
    /// Nanoseconds of sleep that take one poll.
    pub nanos_a_poll: u64,
    /// Called when a client sleeps.
    pub on_sleep: Option<OnSleep>,
    hook: Option<Hook>,
    /// Whether tests see what sessions say of holds. Else shard 0 agrees to all of it.
    pub shows_holds: bool,
    /// Number of sessions that are refused to write, since another one holds.
    pub busy: u32,
    /// How often shard 0 was started.
    pub epoch: u64,
    outcomes: HashMap<(SessionId, u16), Outcome>,
    pending: HashSet<(SessionId, u16)>,
    /// Calls begun and neither answered nor dropped, and the most there ever were.
    pub calls: usize,
    pub calls_max: usize,
    ended: HashSet<SessionId>,
    /// Locks of programs.
    pub locks: HashMap<Ino, BTreeMap<SessionId, LockSet>>,
}

/// The newest request of a slot, and its answer if the owner has run it.
type Outcome = (RequestId, Op, Option<Result<Body, Refusal>>);

impl Cluster {
    pub fn new() -> Arc<Self> {
        Self::with_shards(SHARDS, 8)
    }

    /// A cluster with so many shards, and so many partitions on each.
    pub fn with_shards(shards: u16, per_server: u16) -> Arc<Self> {
        let secrets = Secrets { dir: [1; 32], name: [2; 16] };
        Arc::new(Self(Mutex::new(State {
            namespace: Namespace::new(secrets, ClusterMap::new(shards), per_server),
            log: Vec::new(),
            slept: Vec::new(),
            now: 0,
            delay: 0,
            nanos_a_poll: 50_000,
            on_sleep: None,
            hook: None,
            shows_holds: false,
            busy: 0,
            epoch: 1,
            outcomes: HashMap::new(),
            pending: HashSet::new(),
            calls: 0,
            calls_max: 0,
            ended: HashSet::new(),
            locks: HashMap::new(),
        })))
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics while it holds the state")
    }

    pub fn client(self: &Arc<Self>) -> Client {
        self.client_with(Options::default())
    }

    pub fn client_with(self: &Arc<Self>, options: Options) -> Client {
        let volume = {
            let namespace = &self.state().namespace;
            let (secrets, map) = (namespace.secrets.clone(), namespace.cluster.clone());
            Volume { id: [7; 16], secrets, map }
        };
        let transport = Arc::clone(self) as Arc<dyn Transport>;
        block_on(Client::connect_with(transport, volume, options)).expect("sessions open")
    }

    /// Has `hook` see every request before it runs.
    pub fn on_request(
        &self,
        hook: impl FnMut(&mut Namespace, ShardIndex, &Request) -> Option<Fate> + Send + 'static,
    ) {
        self.state().hook = Some(Box::new(hook));
    }

    /// Ends the lease of a session: the session ends, and its open files are closed.
    pub fn expire(&self, session: SessionId) {
        self.state().expire(session);
    }

    /// Requests since the last call.
    pub fn take_log(&self) -> Vec<(ShardIndex, Request)> {
        std::mem::take(&mut self.state().log)
    }

    /// Names of the operations since the last [`Cluster::take_log`].
    pub fn ops(&self) -> Vec<String> {
        let word = |op: &Op| {
            let text = format!("{op:?}");
            text.chars().take_while(|c| c.is_alphanumeric()).collect()
        };
        self.take_log().iter().map(|(_, request)| word(&request.op)).collect()
    }

    fn arrive(&self, shard: ShardIndex, request: Request) -> Result<Reply, TransportError> {
        let mut state = self.state();
        let state = &mut *state;
        let is_shown = state.shows_holds || !matches!(request.op, Op::Hold(..));
        if is_shown {
            state.log.push((shard, request.clone()));
        }
        let mut hook = state.hook.take();
        let seen = hook.as_mut().filter(|_| is_shown);
        let fate = seen.and_then(|hook| hook(&mut state.namespace, shard, &request));
        state.hook = hook;
        let result = match fate {
            Some(Fate::LoseRequest) => return Err(TransportError::Lost),
            Some(Fate::Hang(nanos)) => {
                state.now += nanos;
                return Err(TransportError::Lost);
            }
            Some(Fate::Stop) => return Err(TransportError::Stopped),
            Some(Fate::LoseReply) => {
                let _lost = state.run(shard, &request);
                return Err(TransportError::Lost);
            }
            Some(Fate::Answer(result)) => result,
            None => state.run(shard, &request),
        };
        let news = request.trail.as_ref().and_then(|trail| state.namespace.news(trail));
        Ok(Reply {
            id: request.head.id,
            trace: request.head.trace,
            shard,
            epoch: Epoch(state.epoch),
            durable: Lsn(0),
            seen: Lsn(0),
            version: state.namespace.version(),
            clock: state.log.len() as u64,
            result,
            news,
            amendment: None,
        })
    }
}

impl State {
    pub fn expire(&mut self, session: SessionId) {
        self.ended.insert(session);
        self.namespace.close_all();
        self.locks.values_mut().for_each(|of| drop(of.remove(&session)));
    }

    /// Locks are of the whole cluster, wherever the file is.
    fn run_by(&mut self, shard: ShardIndex, request: &Request) -> Result<Body, Refusal> {
        let session = request.head.id.session;
        let (ino, wanted) = match &request.op {
            Op::Lock(ino, lock) | Op::TestLock(ino, lock) => (*ino, lock),
            Op::LockOf(target, lock) => (target.ino(), lock),
            Op::Unlock(ino, space, owner, range) => {
                let of_file = self.locks.entry(*ino).or_default();
                of_file.entry(session).or_default().clear(*space, *owner, *range);
                return Ok(Body::Done);
            }
            Op::Hold(_, says) => return self.hold(*says),
            _ => return self.namespace.run_by(shard, request),
        };
        let of_file = self.locks.entry(ino).or_default();
        let holder = of_file.iter().find_map(|(of, set)| {
            let lock = *set.in_the_way(wanted, *of == session)?;
            Some(LockHolder { session: *of, lock })
        });
        if holder.is_none() && matches!(request.op, Op::Lock(..) | Op::LockOf(..)) {
            of_file.entry(session).or_default().put(*wanted);
            return Ok(Body::Locked(0));
        }
        Ok(Body::Lock(holder))
    }

    fn hold(&mut self, says: Holding) -> Result<Body, Refusal> {
        match says {
            Holding::Ask(_) | Holding::Await => Ok(Body::Holds(true)),
            Holding::Wake(_) if self.busy > 0 => {
                self.busy -= 1;
                Err(Refusal::Errno(Errno::EBUSY))
            }
            Holding::Wake(_) | Holding::Quiet(_) | Holding::End(_) => Ok(Body::Done),
        }
    }

    fn run(&mut self, shard: ShardIndex, request: &Request) -> Result<Body, Refusal> {
        let id = request.head.id;
        let renewed = match request.op {
            Op::Renew(session) => Some(session),
            Op::Hold(session, _) if self.shows_holds => Some(session),
            _ => None,
        };
        let changing = (id.sequence > 0).then_some(id.session);
        if renewed.or(changing).is_some_and(|session| self.ended.contains(&session)) {
            return Err(Refusal::NoSession);
        }
        if id.sequence == 0 {
            return self.run_by(shard, request);
        }
        let key = (id.session, id.slot);
        if let Some((last, op, outcome)) = self.outcomes.get(&key) {
            assert!(id.sequence >= last.sequence, "a slot goes back");
            if id.sequence == last.sequence {
                assert_eq!(*op, request.op, "one identity for two operations");
                if let Some(outcome) = outcome {
                    return outcome.clone();
                }
            }
        }
        let result = self.run_by(shard, request);
        let has_run =
            !matches!(result, Err(Refusal::Redirect(_) | Refusal::AskHome | Refusal::Stale));
        self.outcomes.insert(key, (id, request.op.clone(), has_run.then(|| result.clone())));
        result
    }
}

/// Pending for so many polls.
async fn travel(mut polls: u32) {
    poll_fn(|context| {
        if polls == 0 {
            return Poll::Ready(());
        }
        polls -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Ends when the request is answered, or its caller dropped.
struct Pending<'a>(&'a Cluster, (SessionId, u16));

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let Ok(mut state) = self.0.0.lock() {
            state.pending.remove(&self.1);
            state.calls -= 1;
        }
    }
}

impl Transport for Cluster {
    fn call<'a>(&'a self, shard: ShardIndex, request: Box<Request>) -> Calling<'a> {
        Calling::waiting(async move {
            let id = request.head.id;
            let key = (id.session, id.slot);
            let delay = {
                let mut state = self.state();
                if id.sequence > 0 {
                    assert!(state.pending.insert(key), "a slot has two requests under way");
                }
                state.calls += 1;
                state.calls_max = state.calls_max.max(state.calls);
                state.delay
            };
            let _arrives = Pending(self, key);
            travel(delay).await;
            let reply = self.arrive(shard, *request);
            travel(delay).await;
            reply.map(Box::new)
        })
    }

    fn sleep<'a>(&'a self, nanos: u64) -> BoxFuture<'a, ()> {
        let mut state = self.state();
        state.slept.push(nanos);
        // Time is counted in polls. A request takes `delay` of them there and as many back.
        let polls = if state.delay == 0 { 0 } else { (nanos / state.nanos_a_poll) as u32 };
        state.now += nanos;
        if let Some(mut happens) = state.on_sleep.take() {
            happens(&mut state);
        }
        Box::pin(travel(polls))
    }

    fn now_nanos(&self) -> u64 {
        self.state().now
    }
}
