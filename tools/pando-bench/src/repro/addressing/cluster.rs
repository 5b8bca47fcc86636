//! Servers of one directory, for the real client. Each server knows only its own partitions. They
//! accept creates and lookups of names in the root. A request for a foreign name gets the server's
//! split history. Splits take no time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pando_client::{BoxFuture, Calling, Client, Options, Transport, Volume, block_on};
use pando_placement::{ClusterMap, Secrets};
use pando_types::op::{Op, Request};
use pando_types::reply::{Body, Refusal, Reply};
use pando_types::{
    Attr, DirId, Epoch, Errno, FileKind, Ino, Lsn, Order, SessionId, ShardIndex, Timestamp,
};

use crate::BenchError;
use crate::repro::directory::{Directory, Rules};

/// All servers, as the client's transport.
pub struct Cluster {
    state: Mutex<State>,
    secrets: Secrets,
    map: ClusterMap,
    sessions: AtomicU64,
    /// Requests for names, including those that reached a wrong server.
    requests: AtomicU64,
}

struct State {
    directory: Directory,
    rng: fastrand::Rng,
    splits: u64,
}

impl Cluster {
    /// Makes servers with an empty directory.
    pub fn new(rules: Rules, seed: u64) -> Arc<Self> {
        let map = ClusterMap::new(rules.servers);
        let directory = Directory::based(rules, map.home(DirId::ROOT));
        let rng = fastrand::Rng::with_seed(seed);
        Arc::new(Self {
            state: Mutex::new(State { directory, rng, splits: 0 }),
            // The orders of names follow from these secrets.
            secrets: Secrets { dir: [1; 32], name: (u128::from(seed) + 1).to_le_bytes() },
            map,
            sessions: AtomicU64::new(0),
            requests: AtomicU64::new(0),
        })
    }

    /// A new client that knows nothing of the directory.
    pub fn client(self: &Arc<Self>) -> Result<Client, BenchError> {
        let volume = Volume { id: [1; 16], secrets: self.secrets.clone(), map: self.map.clone() };
        let transport = Arc::clone(self) as Arc<dyn Transport>;
        block_on(Client::connect_with(transport, volume, Options::default()))
            .map_err(BenchError::operation("opening a session", b""))
    }

    /// The secrets from which orders of names follow.
    #[cfg(test)]
    pub const fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Requests for names since the last call.
    pub fn take_requests(&self) -> u64 {
        self.requests.swap(0, Ordering::Relaxed)
    }

    /// Splits since the last call.
    pub fn take_splits(&self) -> u64 {
        std::mem::take(&mut self.state().splits)
    }

    /// A copy of the present directory.
    pub fn directory(&self) -> Directory {
        self.state().directory.clone()
    }

    /// Splits every partition that may ever split.
    pub fn grow_up(&self) {
        let state = &mut *self.state();
        state.directory.grow_up(&mut state.rng);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, shard: ShardIndex, op: &Op) -> Result<Body, Refusal> {
        match op {
            Op::OpenSession => {
                let number = self.sessions.fetch_add(1, Ordering::Relaxed) + 1;
                Ok(Body::Session(SessionId(number)))
            }
            // No kernel remembers anything here.
            Op::Hold(..) => Ok(Body::Done),
            Op::Create { name, .. } => {
                let order = self.secrets.order(name.as_bytes());
                let state = &mut *self.owned(shard, order)?;
                let radix = state.directory.radix(order);
                state.splits += state.directory.create(order, &mut state.rng);
                Ok(Body::Created(file(), true, radix))
            }
            // Only the number of entries is kept, so every lookup fails.
            Op::Lookup(_, name) => {
                drop(self.owned(shard, self.secrets.order(name.as_bytes()))?);
                Err(Refusal::Errno(Errno::ENOENT))
            }
            _ => Err(Refusal::Errno(Errno::EOPNOTSUPP)),
        }
    }

    /// Locks the state, if the name with this order belongs to the server. Else it returns the
    /// redirect.
    fn owned(&self, shard: ShardIndex, order: Order) -> Result<MutexGuard<'_, State>, Refusal> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let state = self.state();
        if state.directory.locate(order).1 == shard {
            return Ok(state);
        }
        Err(Refusal::Redirect(state.directory.told_by(shard)))
    }
}

/// The attributes of every file.
fn file() -> Attr {
    let time = Timestamp::default();
    Attr {
        ino: Ino(2),
        kind: FileKind::Regular,
        mode: 0o644,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        size: 0,
        atime: time,
        mtime: time,
        ctime: time,
        btime: time,
        data_version: 0,
        change: 0,
        project: 0,
    }
}

impl Transport for Cluster {
    fn call<'a>(&'a self, shard: ShardIndex, request: Box<Request>) -> Calling<'a> {
        let reply = Reply {
            id: request.head.id,
            trace: request.head.trace,
            shard,
            epoch: Epoch(1),
            durable: Lsn(0),
            seen: Lsn(0),
            version: 0,
            clock: 0,
            result: self.run(shard, &request.op),
            news: None,
            amendment: None,
        };
        Calling::answered(Ok(Box::new(reply)))
    }

    fn sleep<'a>(&'a self, _nanos: u64) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    fn now_nanos(&self) -> u64 {
        0
    }
}
