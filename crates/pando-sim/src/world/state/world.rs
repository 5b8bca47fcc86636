//! The state of the whole simulation: shards, network, disks and time.

use std::collections::BTreeMap;
use std::sync::Arc;

use pando_server::Host as PandoHost;
use pando_types::ShardIndex;
use pando_wire::Stream;

use crate::base::executor::Executor;
use crate::base::random::Random;
use crate::base::trace::Trace;
use crate::clients::local::Here;
use crate::config::parameters::SimConfig;
use crate::counts::stats::Stats;
use crate::judges::ear::{Ear, Heard};
use crate::machines::host::Host;
use crate::machines::objects::Objects;
use crate::machines::server::Server;
use crate::network::connections::Network;
use crate::network::end::Way;
use crate::network::mail::{Mail, Ticket};
use crate::world::state::event::SimEvent;
use crate::world::state::moves::Moves;

/// Something that happens to a client. The caller of [`World::step`] carries it out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToClient {
    /// Some client dies.
    Dies,
    /// Some client stands still for a while.
    Pauses,
    /// Some client is away for long.
    IsAway,
    /// This client goes on.
    Resumes(u32),
    /// The session of some client is ended.
    SessionEnds,
}

/// A request that a shard has not answered.
pub(crate) struct Asked {
    /// The connection and direction in which it came.
    pub(crate) way: Way,
    pub(crate) stream: Stream,
    pub(crate) heard: Heard,
}

/// The state of the whole simulation.
pub struct World {
    /// The parameters of the run.
    pub config: SimConfig,
    /// True time, nanoseconds.
    pub time: u64,
    /// The shards.
    pub hosts: Vec<Host>,
    /// The processes that host them. Shard `s` starts in process `s mod processes`.
    pub servers: Vec<Server>,
    /// The clients' futures.
    pub executor: Executor,
    /// The clients' end of the network.
    pub mail: Mail,
    /// The record of what happened.
    pub trace: Trace,
    /// Counts of what happened.
    pub stats: Stats,
    /// Reports requests and replies to the judges.
    pub(crate) ear: Ear,
    /// Objects, if files have them.
    pub(crate) objects: Option<Arc<Objects>>,
    /// Clients in the process that hosts all shards, if there are any.
    pub(crate) here: Option<Arc<Here>>,
    pub(crate) network: Network,
    /// Unanswered calls, each with its client and shard.
    pub(crate) calls: BTreeMap<Ticket, (u32, usize)>,
    /// Requests that shards have not answered, by number.
    pub(crate) asked: BTreeMap<u64, Asked>,
    pub(crate) queue: BTreeMap<(u64, u64), SimEvent>,
    pub(crate) sequence: u64,
    pub(crate) random: Random,
    /// State of the shards' moves, if shards move.
    pub(crate) moves: Option<Moves>,
    /// Random numbers for faults of disks.
    pub(crate) disk_random: Random,
    pub(crate) is_faulty: bool,
}

impl World {
    /// Runs `ask` with the process of a shard, if the process runs.
    pub(crate) fn ask_host<R>(
        &mut self,
        shard: ShardIndex,
        ask: impl FnOnce(&PandoHost) -> R,
    ) -> Option<R> {
        let mut told = None;
        self.act(self.server_of(shard.0.into()), |driven| told = Some(ask(driven.host())));
        told
    }

    pub(crate) fn is_alive(&self, server: usize, life: u64) -> bool {
        self.servers[server].life == life && self.servers[server].driven().is_some()
    }

    pub(crate) fn server_of(&self, shard: usize) -> usize {
        self.home(shard).unwrap_or(shard % self.servers.len())
    }

    pub(crate) fn index(&self, shard: usize) -> ShardIndex {
        self.hosts[shard].config.shard
    }

    /// A number that nothing else has.
    pub(crate) const fn next_number(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    pub(crate) fn after(&mut self, delay: u64, event: SimEvent) {
        self.at(self.time + delay, event);
    }

    pub(crate) fn at(&mut self, time: u64, event: SimEvent) {
        self.sequence += 1;
        self.queue.insert((time, self.sequence), event);
    }
}
