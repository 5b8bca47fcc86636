//! The begin of a run: all shards are formatted and started. The end of its faults.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use pando_core::Config;
use pando_placement::{ClusterMap, Secrets};
use pando_types::ShardIndex;

use crate::base::executor::Executor;
use crate::base::random::Random;
use crate::base::time::MILLISECOND;
use crate::base::trace::Trace;
use crate::check::History;
use crate::clients::local::Here;
use crate::config::parameters::SimConfig;
use crate::counts::stats::Stats;
use crate::judges::ear::Ear;
use crate::judges::locks::Locks;
use crate::machines::clocks::Clocks;
use crate::machines::host::Host;
use crate::machines::objects::Objects;
use crate::machines::server::Server;
use crate::network::connections::Network;
use crate::network::mail::Mail;
use crate::world::state::event::SimEvent;
use crate::world::state::world::World;

/// Time of day at true time 0, nanoseconds.
const NOON: u64 = 1_000_000_000 * 1_000_000_000;

impl World {
    /// Formats and starts all shards.
    #[must_use]
    pub fn new(
        config: SimConfig,
        map: &ClusterMap,
        secrets: &Secrets,
        history: Arc<Mutex<History>>,
        locks: Arc<Mutex<Locks>>,
    ) -> Self {
        let mut random = Random::new(config.seed);
        let objects = Objects::of(&config);
        let locks = (config.locking > 0).then_some(locks);
        let ear = Ear { history: Arc::clone(&history), locks: locks.clone() };
        let hosts = (0..config.hosts()).map(|shard| {
            let core = core_config(&config, ShardIndex(shard), map, secrets);
            let mut host = Host::format(core, NOON, random.fork(), Arc::clone(&history));
            #[cfg(feature = "planted")]
            {
                host.planted = config.planted;
            }
            host.locks.clone_from(&locks);
            if config.disk_interval > 0 {
                host.spoil();
            }
            host
        });
        let hosts: Vec<Host> = hosts.collect();
        let servers = (0..config.processes.min(hosts.len())).map(|server| {
            let shards = (server..hosts.len()).step_by(config.processes);
            let drift = random.below(2 * config.drift + 1) as i64 - config.drift as i64;
            let mut clocks = Clocks::new(NOON + random.below(200) * MILLISECOND, drift);
            clocks.is_one = config.one_clock;
            Server::new(shards.collect(), &config, clocks, objects.clone())
        });
        let servers: Vec<Server> = servers.collect();
        let mut world = Self {
            time: 0,
            executor: Executor::default(),
            objects,
            here: Here::of(&config, &ear),
            ear,
            mail: Mail::default(),
            trace: Trace::new(config.verbose),
            stats: Stats::new(config.hosts()),
            network: Network::new(&config, random.fork()),
            calls: BTreeMap::new(),
            asked: BTreeMap::new(),
            hosts,
            servers,
            queue: BTreeMap::new(),
            sequence: 0,
            random,
            moves: None,
            disk_random: Random::new(config.seed ^ 0xD15C_0000),
            is_faulty: true,
            config,
        };
        world.begin_moves();
        (0..world.servers.len()).for_each(|server| world.restart(server));
        world.plan_all_faults();
        world
    }

    /// Plans the first faults of each kind.
    fn plan_all_faults(&mut self) {
        (0..self.hosts.len()).for_each(|shard| self.plan_faults(shard));
        for _ in 0..self.config.client_deaths {
            let at = self.random.between(20, 500) * MILLISECOND;
            self.after(at, SimEvent::ClientDies);
        }
        for _ in 0..self.config.pauses {
            let at = self.random.between(20, 1_000) * MILLISECOND;
            self.after(at, SimEvent::ClientPauses);
        }
        if self.config.handover_interval > 0 {
            self.after(self.config.handover_interval, SimEvent::HandOver);
        }
        if self.config.clock_interval > 0 {
            self.after(self.config.clock_interval, SimEvent::SetClock);
        }
        for _ in 0..self.config.absences {
            let at = self.random.between(20, 400) * MILLISECOND;
            self.after(at, SimEvent::ClientIsAway);
        }
        self.plan_session_ends();
        self.plan_disk_troubles();
        if self.config.cut_interval > 0 {
            self.after(self.config.cut_interval, SimEvent::Cut);
        }
    }

    /// Ends all faults, and starts every process that does not run.
    pub fn heal(&mut self) {
        self.is_faulty = false;
        self.network.is_faulty = false;
        self.hosts.iter().for_each(|host| host.disk.crash_at(1 << 60));
        self.mend_disks();
        self.objects.iter().for_each(|objects| objects.bucket.heal());
        self.heal_moves();
        (0..self.servers.len()).for_each(|server| self.restart(server));
    }
}

fn core_config(
    config: &SimConfig,
    shard: ShardIndex,
    map: &ClusterMap,
    secrets: &Secrets,
) -> Config {
    Config {
        split_threshold: config.split_threshold,
        partitions_per_shard: config.partitions_per_shard,
        split_page_rows: config.split_page_rows,
        split_dirty_rows: config.split_dirty_rows,
        handover_rate: config.handover_rate,
        resend_after: 15 * MILLISECOND,
        ask_after: 60 * MILLISECOND,
        lease: config.lease,
        number_block: config.number_block,
        versions_wait: config.versions_wait,
        votes_wait: config.votes_wait,
        lends: config.lends,
        ..Config::new(shard, map.clone(), secrets.clone())
    }
}
