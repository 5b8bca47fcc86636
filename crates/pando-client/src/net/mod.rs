//! The transport over sockets. It opens a connection to each shard when it is first needed, and
//! again whenever it breaks.
//!
//! ```text
//!  call ─► Link of the shard ─► Outbound ─────────────► server
//!            pending calls ◄─── reader ◄───────────────
//!            address ◄─ Finder: folder, or any server that answers
//! ```
//!
//! Tasks run in the tokio runtime in which [`Net::connect`] is called. A call from the only thread
//! of that runtime leaves the write to the link's task, so that many calls become one write. A call
//! from another thread writes on its own, so that no task has to wake for it.
//!
//! A call is [`TransportError::Lost`] if its connection breaks, or if no answer comes in time.
//! Whether the request ran is unknown then. A request that could not be sent yet waits for the
//! connection.

mod calls;
mod finder;
mod in_turn;
mod link;
mod tool;

use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant, SystemTime};

use pando_net::{HandshakeError, Keys};
use pando_types::op::Request;
use pando_types::{SHARDS_MAX, ShardIndex};
use pando_wire::{Address, VolumeFacts};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::transport::{BoxFuture, Calling, Transport, TransportError};
use crate::{Volume, client};
use finder::Finder;
use link::Link;

pub use tool::Tool;

/// Where a volume is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// In a folder on this machine: the one where its processes keep their sockets and addresses.
    Run(std::path::PathBuf),
    /// Behind these addresses, of any of its servers.
    Servers(Vec<Address>),
}

/// Settings of the transport.
#[derive(Clone, Debug)]
pub struct NetOptions {
    /// The id that the volume must have; zero if any will do.
    pub volume: [u8; 16],
    /// The keys of this client for servers over TCP, and the authority that it trusts there.
    pub keys: Option<Keys>,
    /// A call counts as lost after this long without an answer.
    pub answer_within: Duration,
    /// Hears when a shard cannot be reached, and when it can be again.
    pub notice: fn(&str),
}

impl Default for NetOptions {
    fn default() -> Self {
        let notice = |what: &str| eprintln!("pando: {what}");
        Self { volume: [0; 16], keys: None, answer_within: Duration::from_secs(5), notice }
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// No address of a server is known.
    #[error("no server of this volume has been started yet")]
    NoServer,
    /// No known server can be used. The fields tell of one of them.
    #[error("{address}: {why}")]
    Unreachable {
        /// The server's address.
        address: Address,
        /// The reason.
        why: String,
        /// Whether the server was there and refused.
        is_refusal: bool,
    },
    /// The server's answer does not fit the question.
    #[error("the server at {0} did not say what its volume is")]
    OutOfTurn(Address),
}

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
        let way = Arc::new(link::Way { finder, notice: options.notice });
        let links = (0..SHARDS_MAX).map(|shard| Link::new(ShardIndex(shard), &way)).collect();
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
        client::Volume { id: facts.id, secrets: facts.secrets.clone(), map: facts.map.clone() }
    }
}

fn unreachable(address: &Address, error: &HandshakeError) -> NetError {
    use HandshakeError::{Closed, NotTls, Silent, Stranger, Unreached};
    let is_refusal = !matches!(error, Closed(_) | NotTls | Silent(_) | Stranger(_) | Unreached(_));
    NetError::Unreachable { address: address.clone(), why: error.to_string(), is_refusal }
}
