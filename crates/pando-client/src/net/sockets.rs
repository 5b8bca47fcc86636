//! Links to all shards, as a transport.

use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant, SystemTime};

use pando_types::op::Request;
use pando_types::{SHARDS_MAX, ShardIndex};
use pando_wire::VolumeFacts;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::client::Volume;
use crate::net::finder::Finder;
use crate::net::link::{Link, Shared};
use crate::net::options::{NetError, NetOptions, Target};
use crate::transport::traits::{BoxFuture, Calling, Transport, TransportError};

/// A transport over sockets. Dropping it ends all connections.
pub struct Net {
    links: Vec<Arc<Link>>,
    runtime: Handle,
    /// The runtime's thread, if it has only one.
    own_thread: Option<ThreadId>,
    begun: Instant,
    sweeper: Mutex<Option<AbortHandle>>,
}

/// Time between two sweeps over waiting calls.
const SWEEP: Duration = Duration::from_millis(250);

impl Net {
    /// Asks a server for the facts of the volume. Call it in the runtime that is to do the work.
    pub async fn connect(
        target: &Target,
        options: NetOptions,
    ) -> Result<(Arc<Self>, VolumeFacts), NetError> {
        let finder = Finder::new(target, &options);
        let facts = finder.facts().await?;
        let runtime = Handle::current();
        let is_single = runtime.runtime_flavor() == tokio::runtime::RuntimeFlavor::CurrentThread;
        let patience = options.answer_within.as_millis().div_ceil(SWEEP.as_millis()) as u32 + 1;
        let shared = Arc::new(Shared { finder, notice: options.notice });
        let links = (0..SHARDS_MAX).map(|shard| Link::new(ShardIndex(shard), &shared)).collect();
        let net = Arc::new(Self {
            links,
            runtime: runtime.clone(),
            own_thread: is_single.then(|| std::thread::current().id()),
            begun: Instant::now(),
            sweeper: Mutex::new(None),
        });
        let links = net.links.clone();
        let sweeper = runtime.spawn(async move {
            loop {
                tokio::time::sleep(SWEEP).await;
                let now = SystemTime::now();
                for link in &links {
                    link.sweep(patience);
                    link.judge(now);
                }
            }
        });
        *net.sweeper.lock() = Some(sweeper.abort_handle());
        Ok((net, facts))
    }

    fn is_own_thread(&self) -> bool {
        self.own_thread.is_some_and(|own| own == std::thread::current().id())
    }
}

impl Transport for Net {
    fn call<'a>(&'a self, shard: ShardIndex, request: Box<Request>) -> Calling<'a> {
        match self.links.get(usize::from(shard.0)) {
            Some(link) => {
                link.start(&self.runtime);
                Calling::waiting(link.call(request, self.is_own_thread()))
            }
            None => Calling::answered(Err(TransportError::Stopped)),
        }
    }

    fn sleep<'a>(&'a self, nanos: u64) -> BoxFuture<'a, ()> {
        let _runtime = self.runtime.enter();
        Box::pin(tokio::time::sleep(Duration::from_nanos(nanos)))
    }

    fn now_nanos(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn machine_nanos(&self) -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        (now.tv_sec * 1_000_000_000 + now.tv_nsec).cast_unsigned()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        if let Some(sweeper) = self.sweeper.lock().take() {
            sweeper.abort();
        }
        self.links.iter().for_each(|link| link.stop());
    }
}

impl From<&VolumeFacts> for Volume {
    fn from(facts: &VolumeFacts) -> Self {
        Volume { id: facts.id, secrets: facts.secrets.clone(), map: facts.map.clone() }
    }
}
