//! Runs shards in this process and serves them over sockets. `pando server` is only this; `pando
//! up` adds a mount.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pando_net::ListenError;
use pando_server::folder::FolderLock;
use pando_server::host::HostOptions;
use pando_server::moving::{Faults, Moves, Parts};
use pando_server::net::{Server, ServerOptions, StartError};
use pando_server::{Folder, Host, Superblock};
use pando_types::ShardIndex;
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::answers::{Answers, OnStop};
use crate::collecting::by_itself::{self, Collector};
use crate::console::output::say;
use crate::failure::{FAILED, Failure, IN_USE};
use crate::serving::options::DurabilityArg;
use crate::volume::settle::settled;

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
                say!("shard {}: cut what a crash left unfinished: {torn}", start.shard);
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

    pub const fn server(&self) -> &Arc<Server> {
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
