//! A server: its threads, and how they begin and end.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

use pando_keys::KeyRole;
use pando_net::{HostsFolder, Keys, ListenError, Listener};
use pando_types::{Epoch, ShardIndex};
use pando_wire::Address;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::common::log::say;
use crate::host::shards::Host;
use crate::net::accept::{Door, listen};
use crate::net::bounds::greetings::Greetings;
use crate::net::bounds::limits::Limits;
use crate::net::bounds::murmur::Murmur;
use crate::net::error::StartError;
use crate::net::keys::guests::Guests;
use crate::net::keys::revoked::Revoked;
use crate::net::peers::hosts::Hosts;
use crate::net::peers::links::{Links, Way};
use crate::net::serving::threads::Workers;
use crate::net::serving::tool::Answer;

/// How a process serves its shards.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// UUID of the volume.
    pub volume: [u8; 16],
    /// Addresses at which the server listens. Others hear of them.
    pub listen: Vec<Address>,
    /// Further addresses at which the server listens, if no other process does. Others do not hear
    /// of them: earlier processes of the folder listened there.
    pub also: Vec<Address>,
    /// Addresses that others hear of in place of a TCP address that stands for all of this
    /// machine's.
    pub advertise: Vec<Address>,
    /// Whether others hear of `advertise` only: they reach this server through a relay.
    pub only_advertised: bool,
    /// Keys that this process shows, and that decide which peers it believes. `None`: it listens at
    /// Unix sockets only.
    pub keys: Option<Keys>,
    /// Limits on what others may ask.
    pub limits: Limits,
    /// Path of the `run` folder.
    pub run: PathBuf,
    /// Servers that are asked at the start where shards are.
    pub join: Vec<Address>,
}

/// How often the net thread looks whether there are new shards or changed keys.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A process that serves shards. Dropping it ends all connections.
pub struct Server {
    threads: Mutex<Vec<JoinHandle<()>>>,
    stop: Mutex<Option<oneshot::Sender<()>>>,
    addresses: Vec<Address>,
    hosts: Arc<Hosts>,
    links: Arc<Links>,
    guests: Arc<Guests>,
    workers: Workers,
}

impl Server {
    /// Listens, and serves the shards of `host`. `answer` makes the function that answers tools.
    pub fn start(
        host: Arc<Host>,
        options: ServerOptions,
        answer: impl FnOnce(Arc<Hosts>) -> Answer,
    ) -> Result<Self, StartError> {
        check(&options)?;
        let revoked = Arc::new(Revoked::new(options.keys.clone(), &options.run)?);
        let (entrance, net) = Entrance::open(options.listen.clone(), options.also.clone())?;
        let addresses = entrance.addresses.clone();
        let own: Vec<_> =
            host.hosted().into_iter().filter_map(|s| Some((s, host.epoch(s)?))).collect();
        let told = told(&addresses, &options)?;
        let hosts = Arc::new(Hosts::new(HostsFolder::new(&options.run), &own, &told));
        let links = Arc::new(Links::new(options.limits.link));
        host.set_links(links.clone());
        let guests = Arc::new(Guests::default());
        let mut threads = Vec::new();
        let workers = Workers::new(&host, &options.limits);
        for shard in host.hosted() {
            threads.push(workers.start(shard)?);
        }
        threads.push(net);
        let way = Arc::new(Way {
            volume: options.volume,
            keys: options.keys.clone(),
            hosts: hosts.clone(),
            revoked: revoked.clone(),
        });
        let shards = host.shards();
        let door = Arc::new(Door {
            host,
            volume: options.volume,
            keys: options.keys,
            limits: options.limits,
            hosts: hosts.clone(),
            revoked,
            answer: answer(hosts.clone()),
            workers: workers.clone(),
            guests: guests.clone(),
            greetings: Arc::new(Greetings::default()),
            murmur: Murmur::of_strangers(),
        });
        let (stop, stopped) = oneshot::channel();
        let duty = Duty { door, links: links.clone(), way, shards, join: options.join, stopped };
        // The net thread waits for nothing but this.
        let _ = entrance.begin.send(duty);
        Ok(Self {
            threads: Mutex::new(threads),
            stop: Mutex::new(Some(stop)),
            addresses,
            hosts,
            links,
            guests,
            workers,
        })
    }

    /// Addresses at which the server listens.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The table of hosts.
    #[must_use]
    pub const fn hosts(&self) -> &Arc<Hosts> {
        &self.hosts
    }

    /// Number of connections.
    #[must_use]
    pub fn connections(&self) -> u32 {
        self.guests.count()
    }

    /// Bytes that wait in connections of clients, and in connections of shards, as [`Limits`]
    /// counts them.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        self.workers.waiting()
    }

    /// Number of writes to connections of clients since the start. One write takes all replies that
    /// are at hand.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.workers.writes()
    }

    /// Number of messages to shards of other processes that could not be sent.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.links.dropped.load(Ordering::Relaxed)
    }

    /// Admits connections to a shard that the host has begun to run, and tells other servers.
    pub fn open_shard(&self, shard: ShardIndex, epoch: Epoch) -> io::Result<()> {
        let thread = self.workers.start(shard)?;
        self.threads.lock().push(thread);
        self.hosts.add_own(shard, epoch);
        self.links.reopen();
        Ok(())
    }

    /// Ends all connections to a shard that the host no longer runs, and tells other servers.
    pub fn close_shard(&self, shard: ShardIndex) {
        self.hosts.drop_own(shard);
        self.workers.end(shard);
        self.links.reopen();
    }

    /// Ends all connections and threads.
    pub fn stop(&self) {
        if let Some(stop) = self.stop.lock().take() {
            let _ = stop.send(());
        }
        self.workers.end_all();
        // The net thread, which admits connections, is joined before the shards' threads that began
        // with it.
        for thread in self.threads.lock().drain(..).rev() {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the net thread does once its sockets are bound.
struct Duty {
    door: Arc<Door>,
    links: Arc<Links>,
    way: Arc<Way>,
    /// Number of shards that the volume was made with.
    shards: u16,
    join: Vec<Address>,
    stopped: oneshot::Receiver<()>,
}

impl Duty {
    async fn serve(self, listeners: Vec<Listener>) {
        for listener in listeners {
            tokio::spawn(listen(self.door.clone(), listener));
        }
        crate::net::peers::join::join(&self.way, &self.join).await;
        let mut kept = BTreeSet::new();
        let mut stopped = self.stopped;
        loop {
            let added = self.way.hosts.all().into_iter().map(|hosting| hosting.shard);
            for shard in (0..self.shards).map(ShardIndex).chain(added) {
                if kept.insert(shard) {
                    tokio::spawn(self.links.clone().keep(shard, self.way.clone()));
                }
            }
            self.door.revoked.look(&self.door.guests, &self.links);
            self.door.murmur.say_rest();
            self.door.workers.murmur().say_rest();
            if tokio::time::timeout(LOOK_EVERY, &mut stopped).await.is_ok() {
                self.door.revoked.note();
                return;
            }
        }
    }
}

/// Bound sockets, on a thread that waits for its [`Duty`].
struct Entrance {
    addresses: Vec<Address>,
    begin: oneshot::Sender<Duty>,
}

impl Entrance {
    fn open(
        listen: Vec<Address>,
        also: Vec<Address>,
    ) -> Result<(Self, JoinHandle<()>), StartError> {
        let (begin, duty) = oneshot::channel::<Duty>();
        let (opened, is_open) = sync_channel(1);
        let body = move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(opened.send(Err(error.into()))),
            };
            runtime.block_on(async {
                match bind(&listen).await {
                    Ok((mut listeners, addresses)) => {
                        for address in also.iter().filter(|at| !listen.contains(at)) {
                            match Listener::bind(address).await {
                                Ok(listener) => listeners.push(listener),
                                Err(ListenError::InUse(_)) => {}
                                Err(error) => say(&error.to_string()),
                            }
                        }
                        let _ = opened.send(Ok(addresses));
                        if let Ok(duty) = duty.await {
                            duty.serve(listeners).await;
                        }
                    }
                    Err(error) => drop(opened.send(Err(error))),
                }
            });
            // Questions of tools may not be answered yet.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("pando-net".to_owned()).spawn(body)?;
        let addresses = is_open.recv().map_err(|_| io::Error::other("the net thread ended"))??;
        Ok((Self { addresses, begin }, thread))
    }
}

/// Checks the key: it must be a server's of this volume. TCP needs a key.
fn check(options: &ServerOptions) -> Result<(), StartError> {
    if let Some(keys) = &options.keys {
        let identity = keys.identity();
        if identity.volume != options.volume {
            return Err(StartError::OtherVolume(identity.volume, options.volume));
        }
        if identity.role != KeyRole::Server {
            return Err(StartError::NotAServer(identity.role));
        }
        return Ok(());
    }
    let mut all = options.listen.iter().chain(&options.also);
    let over_tcp = all.find(|address| matches!(address, Address::Tcp(..)));
    over_tcp.map_or(Ok(()), |address| Err(StartError::NoKey(address.clone())))
}

async fn bind(addresses: &[Address]) -> Result<(Vec<Listener>, Vec<Address>), StartError> {
    let (mut listeners, mut bound) = (Vec::new(), Vec::new());
    for address in addresses {
        let listener = Listener::bind(address).await?;
        bound.push(listener.address()?);
        listeners.push(listener);
    }
    Ok((listeners, bound))
}

/// Addresses that others hear of. Unix sockets come first, as they are nearest.
fn told(addresses: &[Address], options: &ServerOptions) -> Result<Vec<Address>, StartError> {
    if options.only_advertised {
        return Ok(options.advertise.clone());
    }
    let mut told: Vec<Address> =
        addresses.iter().filter(|at| matches!(at, Address::Unix(_))).cloned().collect();
    told.extend(options.advertise.iter().cloned());
    for address in addresses {
        let Address::Tcp(host, _) = address else { continue };
        let is_any = host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_unspecified());
        if !is_any {
            told.push(address.clone());
        } else if options.advertise.is_empty() {
            return Err(StartError::Any(address.clone()));
        }
    }
    Ok(told)
}
