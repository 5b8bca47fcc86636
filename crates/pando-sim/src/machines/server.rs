//! A server process: the real shell of its shards, over simulated disks and clocks.
//!
//! ```text
//!   network ─► submit ─► run ──────┐          ┌─► post ─► network
//!   timer, syncers, checkpoints ───┴► Driven ─┴─► disks
//! ```
//!
//! Everything that the world makes a process do happens within [`Server::driven`]. Then the world
//! looks at the results. Messages have left, a disk may have stopped, which means that the process
//! is dead, and the process may want something done later.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use pando_core::Now;
use pando_server::clock::Time;
use pando_server::host::connection::{Asked, ReplySink};
use pando_server::host::driven::Driven;
use pando_server::host::{AtOnce, Call};
use pando_server::store::Store;
use pando_server::{Durability, HostOptions};
use pando_types::ShardIndex;
use pando_types::op::Request;
use pando_types::peer::Peer;

use crate::config::parameters as config;
use crate::config::parameters::SimConfig;
use crate::machines::bucket::Door;
use crate::machines::clocks::Clocks;
use crate::machines::folder::Folder;
use crate::machines::host::Host;
use crate::machines::objects::Objects;
use crate::machines::post::{Leaving, Links, Post, Replies};

/// The process died, because of a disk.
#[derive(Debug)]
pub struct Died;

/// A server process, which runs or not.
pub struct Server {
    /// The shards that it hosts.
    pub shards: Vec<usize>,
    /// Number of the process's life: one more with each death.
    pub life: u64,
    /// The clocks of its machine.
    pub clocks: Arc<Clocks>,
    /// Time for which its timer's wake-up is planned.
    pub timer_planned: Option<u64>,
    /// Whether a shard has stopped, and a restart of the process is planned.
    pub is_replaced_soon: bool,
    /// Whether the next step of a checkpoint is planned.
    pub is_checkpoint_planned: bool,
    /// The folder of its shards, if shards move.
    pub folder: Option<Folder>,
    options: HostOptions,
    /// Whether power was lost while the process started, so that room it keeps for a full disk may
    /// be gone (`babu::log::ballast`).
    pub may_lack_room: bool,
    /// Whether the last start failed for want of that room.
    pub lacked_room: bool,
    /// Number of shards of the volume.
    count: u16,
    /// Objects that must be synced before the logs are.
    objects: Option<Arc<Objects>>,
    /// The process's door to the store of objects.
    door: Option<Arc<Door>>,
    driven: Option<Arc<Driven>>,
    post: Arc<Post>,
    calls: Vec<(u64, Pin<Box<Call>>)>,
    woken: Arc<Woken>,
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Server {
    /// A process that has not started.
    #[must_use]
    pub fn new(
        shards: Vec<usize>,
        config: &SimConfig,
        clocks: Clocks,
        objects: Option<Arc<Objects>>,
    ) -> Self {
        let durability = match config.durability {
            config::Durability::Os | config::Durability::OsWithPowerLoss => Durability::Os,
            config::Durability::Disk => Durability::Disk,
        };
        let options = HostOptions {
            durability,
            checkpoint_bytes: config.checkpoint_bytes,
            trees_max: config.trees_max,
            standstill: Duration::from_nanos(config.standstill),
            #[cfg(feature = "planted")]
            planted: config.planted_in_shell,
            ..HostOptions::default()
        };
        Self {
            shards,
            life: 0,
            clocks: Arc::new(clocks),
            timer_planned: None,
            is_replaced_soon: false,
            is_checkpoint_planned: false,
            folder: None,
            options,
            may_lack_room: false,
            lacked_room: false,
            count: config.shards,
            objects,
            door: None,
            driven: None,
            post: Arc::default(),
            calls: Vec::new(),
            woken: Arc::default(),
        }
    }

    /// The shell of its shards, if the process runs.
    #[must_use]
    pub fn driven(&self) -> Option<Arc<Driven>> {
        self.driven.clone()
    }

    /// What leaves the process in its current life.
    #[must_use]
    pub fn post(&self) -> Arc<Post> {
        Arc::clone(&self.post)
    }

    /// The options with which its shards run.
    pub(crate) const fn options(&self) -> &HostOptions {
        &self.options
    }

    /// The reading of its timers' clock, nanoseconds.
    pub(crate) fn mono(&self) -> u64 {
        self.clocks.mono()
    }

    /// Starts the process with its shards. `Err`: the process died during the start.
    ///
    /// # Panics
    /// If a shard refuses what is on a disk that works.
    pub fn start(&mut self, hosts: &mut [Host]) -> Result<(), Died> {
        let disks = self.shards.iter().map(|&shard| hosts[shard].disk.clone());
        self.post = Post::new(disks.collect(), self.folder.clone());
        self.clocks.begin();
        let begun = self.objects.as_ref().map(|objects| objects.before_sync());
        let (before_sync, door) = begun.unzip();
        self.door = door;
        let before_sync = before_sync.unwrap_or_else(|| Box::new(|| Ok(())));
        let mut stores = Vec::new();
        for &shard in &self.shards {
            match hosts[shard].open() {
                Ok(opened) => stores.push((ShardIndex(shard as u16), opened)),
                Err(_) if self.post.has_stopped() || self.has_failed(&hosts[shard]) => {
                    return Err(Died);
                }
                Err(error) => panic!("shard {shard} cannot open: {error}"),
            }
        }
        let recovered = Mutex::new((hosts, Vec::new()));
        let recover = |shard: ShardIndex, now: Now, store: &Store| {
            let mut recovered = crate::base::lock::lock(&recovered);
            let (core, machine, effects) = recovered.0[usize::from(shard.0)].recover(now, store)?;
            recovered.1.push((shard, core));
            Ok((machine, effects))
        };
        let shards = self.shards.clone();
        let (links, clocks) = (Arc::new(Links(Arc::clone(&self.post))), Arc::clone(&self.clocks));
        let begun =
            Driven::start(self.count, stores, &self.options, clocks, recover, links, before_sync);
        let driven = match begun {
            Ok(driven) => Arc::new(driven),
            Err(error) => {
                let hosts = &recovered.into_inner().expect("nothing panicked").0;
                let has_failed = shards.iter().any(|&shard| self.has_failed(&hosts[shard]));
                let is_full = error.to_string().contains("the disk is full");
                self.lacked_room = self.may_lack_room && is_full;
                if self.post.has_stopped() || has_failed || self.lacked_room {
                    return Err(Died);
                }
                panic!("{error}");
            }
        };
        let (hosts, cores) = recovered.into_inner().expect("nothing panicked");
        for (shard, core) in cores {
            hosts[usize::from(shard.0)].runs(core, Arc::clone(&driven));
        }
        self.driven = Some(driven);
        Ok(())
    }

    /// Whether something that a shard needs has failed in this life of the process.
    fn has_failed(&self, host: &Host) -> bool {
        host.has_failed() || self.door.as_ref().is_some_and(|door| door.has_failed())
    }

    /// The process ends.
    pub fn die(&mut self) {
        self.calls.clear();
        self.driven = None;
        self.life += 1;
        (self.timer_planned, self.is_checkpoint_planned) = (None, false);
        self.is_replaced_soon = false;
    }

    /// Puts a request from a connection into a shard's inbox.
    pub fn submit(&self, shard: ShardIndex, stream: u64, request: Request) {
        let Some(driven) = &self.driven else { return };
        let sink: Arc<dyn ReplySink> = Arc::new(Replies(Arc::clone(&self.post)));
        let asked = Asked { stream, bytes: 0, reply: u32::MAX };
        driven.host().submit(shard, &sink, &mut vec![(asked, request)]);
    }

    /// Puts a message from a shard of another process into a shard's inbox.
    pub fn submit_peer(&self, shard: ShardIndex, peer: Peer) {
        if let Some(driven) = &self.driven {
            driven.host().submit_peer(shard, peer);
        }
    }

    /// Runs a request on the calling thread, as a caller within the process does.
    pub fn call(&mut self, shard: ShardIndex, stream: u64, request: Request) {
        let Some(driven) = &self.driven else { return };
        match driven.host().call_at_once(shard, Box::new(request)) {
            AtOnce::Answered(reply) => self.post.leave(Leaving::Reply(stream, reply)),
            AtOnce::Later(call) => {
                self.calls.push((stream, Box::pin(call)));
                self.woken.0.store(true, Ordering::Relaxed);
            }
        }
        driven.host().settle();
    }

    /// Takes what has left since the last call. `Err`: the process is dead.
    ///
    /// # Panics
    /// If a shard has stopped though its disk works, or uses a log that has failed.
    pub fn leaving(&mut self, hosts: &[Host]) -> (Vec<Leaving>, Result<(), Died>) {
        let Some(driven) = self.driven.clone() else { return (Vec::new(), Ok(())) };
        self.poll();
        let left = self.post.take();
        if self.post.has_stopped() {
            return (left, Err(Died));
        }
        for &shard in &self.shards {
            match driven.failure_of(hosts[shard].config.shard) {
                Some(reason) if !self.has_failed(&hosts[shard]) && !hosts[shard].may_stop => {
                    panic!("shard {shard} stops: {reason}");
                }
                _ => {}
            }
            let is_used = hosts[shard].is_log_used();
            assert!(
                !is_used,
                "shard {shard} goes on with a log that could not be written or synced"
            );
        }
        (left, Ok(()))
    }

    /// Polls the calls of callers within the process, until no more of them are woken.
    fn poll(&mut self) {
        let waker = Waker::from(Arc::clone(&self.woken));
        while self.woken.0.swap(false, Ordering::Relaxed) {
            let post = &self.post;
            self.calls.retain_mut(|(stream, call)| {
                match call.as_mut().poll(&mut Context::from_waker(&waker)) {
                    Poll::Ready(reply) => {
                        post.leave(Leaving::Reply(*stream, reply));
                        false
                    }
                    Poll::Pending => true,
                }
            });
        }
    }
}
