//! Runs shards in this process and serves them over sockets. `pando server` is only this; `pando
//! up` adds a mount.

use std::num::NonZeroU16;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use pando_net::{ListenError, this_host};
use pando_server::folder::FolderLock;
use pando_server::founding::Site;
use pando_server::host::HostOptions;
use pando_server::moving::{Faults, Moves, Parts};
use pando_server::net::{Answer, Hosts, Server, ServerOptions, StartError};
use pando_server::store::{Gap, Page, StoreOptions};
use pando_server::{Folder, Host, Superblock};
use pando_types::ShardIndex;
use pando_wire::{Ask, Hosting as Place, SCAN_MAX, Told, VolumeFacts};
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cli::{DurabilityArg, SizesArgs};
use crate::failure::{FAILED, Failure, IN_USE};
use crate::gc::by_itself::{self, Collector};
use crate::protocol::ServerStatus;
use crate::settle::settled;

/// The shards of this process and its server. Fields are dropped in this order.
pub struct Hosting {
    collector: Option<Collector>,
    server: Arc<Server>,
    moves: Option<Arc<Moves>>,
    pub host: Arc<Host>,
    pub superblock: Superblock,
    pub folder: Folder,
    pub durability: &'static str,
    _lock: Option<FolderLock>,
}

/// What the process does when it receives `Ask::Stop`.
pub type OnStop = Box<dyn Fn() + Send + Sync>;

/// What a [`Hosting`] starts from.
pub struct Plan<'a> {
    pub folder: Folder,
    pub superblock: Superblock,
    pub lock: FolderLock,
    pub shards: &'a [ShardIndex],
    pub durability: DurabilityArg,
    pub options: &'a HostOptions,
    pub listen: ServerOptions,
    pub on_stop: OnStop,
    /// Whether shards may move to and from this process while it runs. A process with a mount
    /// beside must keep all of its shards.
    pub may_move: MayMove,
    /// Time between two collections of objects that no file names. Zero: never.
    pub gc_every: Duration,
}

/// Whether shards may move to and from this process, as [`Plan::may_move`] says.
#[derive(Clone, Copy)]
pub enum MayMove {
    No,
    Yes { faults: Faults },
}

pub fn host_options(durability: DurabilityArg, sizes: &SizesArgs) -> HostOptions {
    let mut options = HostOptions {
        durability: durability.into(),
        checkpoint_bytes: sizes.checkpoint_bytes,
        store: StoreOptions {
            log_chunk_bytes: sizes.log_chunk_bytes,
            reserve_bytes: sizes.reserve_bytes,
            ballast_bytes: sizes.ballast_bytes,
            ..StoreOptions::default()
        },
        split_threshold: sizes.split_threshold,
        partitions_per_shard: NonZeroU16::new(sizes.partitions_per_shard),
        ..HostOptions::default()
    };
    options.lease = std::time::Duration::from_millis(sizes.lease_ms);
    options
}

impl Hosting {
    /// Recovers the shards and listens.
    pub fn start(plan: Plan<'_>) -> Result<Self, Failure> {
        let Plan { folder, superblock, lock, shards, durability, options, listen, .. } = plan;
        allow_many_files();
        folder.mark_objects(&superblock.uuid)?;
        let start = || Ok(Host::start(&folder, &superblock, options, shards)?);
        let (host, starts) = settled(&folder, start)?;
        for start in starts {
            if let Some(torn) = start.opened.torn {
                eprintln!("pando: shard {}: cut what a crash left unfinished: {torn}", start.shard);
            }
        }
        let host = Arc::new(host);
        let (mut lock, mut moves) = (Some(lock), None);
        if let MayMove::Yes { faults } = plan.may_move
            && let Some(lock) = lock.take()
        {
            moves = Some(Arc::new(Moves::new(Parts {
                folder: folder.clone(),
                superblock: superblock.clone(),
                options: options.clone(),
                keys: listen.keys.clone(),
                host: host.clone(),
                lock,
                faults,
            })));
        }
        let keys = listen.keys.clone();
        let itself = Arc::new(OnceLock::new());
        let answers = Answers {
            moves: moves.clone(),
            host: host.clone(),
            superblock: superblock.clone(),
            folder: folder.clone(),
            durability: durability.name(),
            began: Instant::now(),
            on_stop: plan.on_stop,
            options: options.clone(),
            server: itself.clone(),
            founding: Mutex::new(()),
        };
        let server = Server::start(host.clone(), listen, |hosts| answers.into_answer(hosts))
            .map_err(not_started)?;
        let server = Arc::new(server);
        let _ = itself.set(Arc::downgrade(&server));
        if let Some(moves) = &moves {
            moves.begin(&server);
        }
        let durability = durability.name();
        let collector =
            by_itself::begin(&host, folder.clone(), superblock.clone(), keys, plan.gc_every);
        Ok(Self { collector, server, moves, host, superblock, folder, durability, _lock: lock })
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Stops moves, the collector, the server and the host, in this order. Fails if a shard had
    /// failed.
    pub fn finish(self) -> Result<(), Failure> {
        if let Some(moves) = &self.moves {
            moves.stop();
        }
        drop(self.collector);
        self.server.stop();
        self.host.stop();
        match self.host.status_failures().first() {
            None => Ok(()),
            Some(reason) => {
                Err(Failure::plain(format!("stopped, but a shard had failed: {reason}")))
            }
        }
    }
}

fn not_started(error: StartError) -> Failure {
    let code = match &error {
        StartError::Listen(ListenError::InUse(_)) => IN_USE,
        _ => FAILED,
    };
    Failure::new(code, error)
}

/// Raises the limit of open files to its maximum. A store keeps each index file open, and each
/// connection takes a file. The usual limit of 1,024 exists for programs that use `select`.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, the present limit stays.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

struct Answers {
    moves: Option<Arc<Moves>>,
    host: Arc<Host>,
    superblock: Superblock,
    folder: Folder,
    durability: &'static str,
    began: Instant,
    on_stop: OnStop,
    options: HostOptions,
    server: Arc<OnceLock<Weak<Server>>>,
    founding: Mutex<()>,
}

impl Answers {
    fn into_answer(self, hosts: Arc<Hosts>) -> Answer {
        Arc::new(move |ask, is_near| self.answer(ask, is_near, &hosts))
    }

    fn answer(&self, ask: Ask, is_near: bool, hosts: &Hosts) -> Told {
        if let Some(told) = self.moves.as_ref().and_then(|moves| moves.answer(&ask)) {
            return told;
        }
        match ask {
            Ask::Volume => Told::Volume(Box::new(self.facts(hosts.all()))),
            Ask::Hosts => Told::Hosts(hosts.all()),
            Ask::Status => match serde_json::to_string(&self.status(hosts)) {
                Ok(json) => Told::Json(json),
                Err(error) => Told::Failed(error.to_string()),
            },
            Ask::Scan { shard, from, bytes } => self.scan(shard, &from, bytes.min(SCAN_MAX)),
            Ask::Stop if is_near => {
                (self.on_stop)();
                Told::Stopping
            }
            Ask::Superblock => Told::Superblock {
                file: self.superblock.encode(),
                objects: self.folder.told_objects().display().to_string(),
            },
            Ask::Census(shard, from) => match self.host.census(shard, &from) {
                None => Told::Failed(format!("shard {shard} is not served here")),
                Some(Ok(census)) => Told::Census(census),
                Some(Err(why)) => Told::Failed(format!("shard {shard}: {why}")),
            },
            Ask::Watch(shard, id) => match self.host.watch(shard, id) {
                None => Told::Failed(format!("shard {shard} is not served here")),
                Some(None) => Told::Failed(format!("shard {shard} has not joined the volume yet")),
                Some(Some(watching)) => Told::Watching(watching),
            },
            Ask::Settle(shard, id, first) => match self.host.settle_watch(shard, id, first) {
                None => Told::Failed(format!("shard {shard} is not served here")),
                Some(settled) => Told::Settled(settled),
            },
            Ask::Moves => Told::Moves(Vec::new()),
            Ask::Found(shard) => match self.found(shard) {
                Ok(()) => Told::Founded,
                Err(why) => Told::Failed(why),
            },
            Ask::Adopt(..) | Ask::Move(..) => Told::Failed(
                "`pando up` serves all shards of its volume by itself: shards move between processes of `pando server`"
                    .to_owned(),
            ),
            Ask::Stop => {
                Told::Failed("only a process of the same machine may stop a server".to_owned())
            }
        }
    }

    /// Makes a new shard in this folder. `pando up` uses this; `Moves` does it for `pando server`.
    fn found(&self, shard: ShardIndex) -> Result<(), String> {
        let server =
            self.server.get().and_then(Weak::upgrade).ok_or("it is starting or stopping")?;
        let _one = self.founding.lock();
        let site = Site {
            folder: &self.folder,
            superblock: &self.superblock,
            options: &self.options,
            host: &self.host,
            server: &server,
        };
        site.found(shard, |_| Ok(()))
    }

    fn facts(&self, hosts: Vec<Place>) -> VolumeFacts {
        let mut map = self.superblock.map();
        self.host.update(&mut map);
        VolumeFacts {
            id: self.superblock.id(),
            secrets: self.superblock.secrets(),
            map,
            objects: self.folder.told_objects().display().to_string(),
            host: this_host(),
            hosts,
        }
    }

    fn status(&self, hosts: &Hosts) -> ServerStatus {
        ServerStatus {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_seconds_ago: self.began.elapsed().as_secs(),
            durability: self.durability.to_owned(),
            addresses: hosts.own().first().map_or_else(Vec::new, |own| own.addresses.clone()),
            shards: self.host.status(),
        }
    }

    fn scan(&self, shard: ShardIndex, from: &[u8], bytes: u32) -> Told {
        match self.host.page(shard, from, bytes as usize) {
            None => Told::Failed(format!("shard {shard} is not served here")),
            Some(Ok(Page { gap: Some(Gap { keys, why }), .. })) => Told::Gap { keys, why },
            Some(Ok(Page { rows, is_last, .. })) => Told::Rows { rows, is_last },
            Some(Err(why)) => Told::Failed(format!("shard {shard}: {why}")),
        }
    }
}
