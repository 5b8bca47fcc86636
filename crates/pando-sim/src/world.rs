//! The event loop: shards, network, disks and time.

use std::collections::BTreeMap;

use pando_client::TransportError;
use pando_core::{ClientTag, Config, Input, Out};
use pando_placement::{ClusterMap, Secrets};
use pando_types::ShardIndex;
use pando_types::codec;

use crate::config::{MILLISECOND, SimConfig};
use crate::executor::Executor;
use crate::happening::Happening;
use crate::host::{Died, Host, Yield};
use crate::mail::{Mail, Wish};
use crate::network::Network;
use crate::random::Random;
use crate::stats::Stats;
use crate::trace::Trace;

const VERSION: u8 = 1;
/// A client gives up waiting for a reply after this.
const TIMEOUT: u64 = 25 * MILLISECOND;

/// Everything there is.
pub struct World {
    /// What the run is like.
    pub config: SimConfig,
    /// True time, nanoseconds.
    pub time: u64,
    /// The shards.
    pub hosts: Vec<Host>,
    /// The clients' futures.
    pub executor: Executor,
    /// The clients' network.
    pub mail: Mail,
    /// What happened.
    pub trace: Trace,
    /// How often what happened.
    pub stats: Stats,
    pub(crate) network: Network,
    pub(crate) inboxes: Vec<Vec<Input>>,
    queue: BTreeMap<(u64, u64), Happening>,
    sequence: u64,
    pub(crate) random: Random,
    pub(crate) is_faulty: bool,
}

impl World {
    /// Formats and starts all shards.
    #[must_use]
    pub fn new(config: SimConfig, map: &ClusterMap, secrets: &Secrets) -> Self {
        let mut random = Random::new(config.seed);
        let hosts = (0..config.shards).map(|shard| {
            let core = core_config(&config, ShardIndex(shard), map, secrets);
            let skew = 1_000_000_000 * 1_000_000_000 + random.below(200) * MILLISECOND;
            Host::format(core, &config, skew, random.fork())
        });
        let hosts: Vec<Host> = hosts.collect();
        let mut world = Self {
            time: 0,
            executor: Executor::default(),
            mail: Mail::default(),
            trace: Trace::new(config.verbose),
            stats: Stats::new(config.shards),
            network: Network::new(&config, random.fork()),
            inboxes: vec![Vec::new(); hosts.len()],
            hosts,
            queue: BTreeMap::new(),
            sequence: 0,
            random,
            is_faulty: true,
            config,
        };
        for shard in 0..world.hosts.len() {
            world.restart(shard);
            world.plan_faults(shard);
        }
        for _ in 0..world.config.client_deaths {
            let at = world.random.between(20, 500) * MILLISECOND;
            world.after(at, Happening::ClientDies);
        }
        if world.config.cut_interval > 0 {
            world.after(world.config.cut_interval, Happening::Cut);
        }
        world
    }

    /// Nothing breaks from now on, and everything runs.
    pub fn heal(&mut self) {
        self.is_faulty = false;
        self.network.is_faulty = false;
        for shard in 0..self.hosts.len() {
            self.hosts[shard].disk.crash_at(1 << 60);
            if self.hosts[shard].process.is_none() {
                self.restart(shard);
            }
        }
    }

    /// Lets the clients run, then the next thing happen. True: a client dies.
    pub fn step(&mut self) -> bool {
        self.executor.run();
        for wish in self.mail.wishes() {
            self.grant(wish);
        }
        let Some(((time, _), happening)) = self.queue.pop_first() else { return false };
        self.time = time;
        self.mail.tick(time);
        self.happen(happening)
    }

    fn grant(&mut self, wish: Wish) {
        match wish {
            Wish::Sleep(ticket, nanos) => self.after(nanos, Happening::Wake(ticket)),
            Wish::Call(ticket, shard, request) => {
                self.after(TIMEOUT, Happening::TimeOut(ticket));
                let bytes = codec::encode(VERSION, &*request);
                for delay in self.network.copies() {
                    self.after(delay, Happening::Request(shard.0.into(), ticket, bytes.clone()));
                }
            }
        }
    }

    fn happen(&mut self, happening: Happening) -> bool {
        if let Some((bytes, number)) = happening.traced() {
            self.trace.note(self.time, bytes, format_args!("{}", happening.line(number)));
        }
        match happening {
            Happening::Request(shard, ticket, bytes) => {
                let request = codec::decode(VERSION, &bytes).expect("requests return from bytes");
                self.stats.requests[shard] += 1;
                self.arrive(shard, Input::Client(ClientTag(ticket), request));
            }
            Happening::Reply(ticket, bytes) => {
                let reply = codec::decode(VERSION, &bytes).expect("replies return from bytes");
                self.mail.answer(ticket, Ok(Box::new(reply)));
            }
            Happening::Peer(shard, bytes) => {
                let peer = codec::decode(VERSION, &bytes).expect("messages return from bytes");
                self.arrive(shard, Input::Peer(peer));
            }
            Happening::TimeOut(ticket) | Happening::Wake(ticket) => {
                self.mail.answer(ticket, Err(TransportError::Lost));
            }
            Happening::Turn(shard, life) if self.is_alive(shard, life) => self.turn(shard),
            Happening::Tick(shard, life) if self.is_alive(shard, life) => {
                if let Some(process) = &mut self.hosts[shard].process {
                    (process.wake_at, process.planned) = (None, None);
                }
                self.arrive(shard, Input::Tick);
            }
            Happening::Sync(shard, life) if self.is_alive(shard, life) => {
                let synced = self.hosts[shard].sync();
                self.stats.syncs += 1;
                self.dispatch(shard, synced);
            }
            Happening::BackgroundSync(shard) => self.background_sync(shard),
            Happening::Checkpoint(shard) => self.checkpoint(shard),
            Happening::ArmCrash(shard) if self.is_faulty => self.arm_crash(shard),
            Happening::Crash(shard, life) if self.is_alive(shard, life) && self.is_faulty => {
                self.crash(shard);
            }
            Happening::Restart(shard) if self.hosts[shard].process.is_none() => self.restart(shard),
            Happening::Cut if self.is_faulty => {
                self.network.cut(self.config.shards, self.time);
                self.after(self.config.cut_interval, Happening::Cut);
            }
            Happening::ClientDies => return self.is_faulty,
            _ => {}
        }
        false
    }

    pub(crate) fn is_alive(&self, shard: usize, life: u64) -> bool {
        self.hosts[shard].life == life && self.hosts[shard].process.is_some()
    }

    /// Puts an input into a running shard's inbox; the shard turns to it, and to what comes meanwhile, soon.
    fn arrive(&mut self, shard: usize, input: Input) {
        if self.hosts[shard].process.is_none() {
            return;
        }
        if self.inboxes[shard].is_empty() {
            let delay = self.random.below(40_000);
            self.after(delay, Happening::Turn(shard, self.hosts[shard].life));
        }
        self.inboxes[shard].push(input);
    }

    fn turn(&mut self, shard: usize) {
        let inputs = std::mem::take(&mut self.inboxes[shard]);
        let result = self.hosts[shard].run(self.time, inputs);
        self.dispatch(shard, result);
    }

    pub(crate) fn dispatch(&mut self, shard: usize, result: Result<Yield, Died>) {
        let (result, died) = match result {
            Ok(result) => (result, false),
            Err(Died(out)) => (Yield { out, wants_sync: false }, true),
        };
        for out in result.out {
            self.send(shard, out);
        }
        if died {
            self.crash(shard);
            return;
        }
        let host = &self.hosts[shard];
        let (life, skew) = (host.life, host.skew);
        if result.wants_sync {
            let delay = self.random.between(50_000, 800_000);
            self.after(delay, Happening::Sync(shard, life));
        }
        let Some(process) = &mut self.hosts[shard].process else { return };
        let wanted = process.wake_at.filter(|at| process.planned.is_none_or(|p| *at < p));
        if let Some(at) = wanted {
            process.planned = Some(at);
            let at = at.saturating_sub(skew).max(self.time + 1_000);
            self.at(at, Happening::Tick(shard, life));
        }
    }

    fn send(&mut self, from: usize, out: Out) {
        match out {
            Out::Reply(ClientTag(ticket), reply) => {
                let bytes = codec::encode(VERSION, &reply);
                for delay in self.network.copies() {
                    self.after(delay, Happening::Reply(ticket, bytes.clone()));
                }
            }
            Out::Peer(to, peer) => {
                self.stats.peers += 1;
                let bytes = codec::encode(VERSION, &peer);
                if to.0 as usize != from && self.network.is_cut(from as u16, to.0, self.time) {
                    return;
                }
                for delay in self.network.copies() {
                    self.after(delay, Happening::Peer(to.0.into(), bytes.clone()));
                }
            }
        }
    }

    pub(crate) fn after(&mut self, delay: u64, happening: Happening) {
        self.at(self.time + delay, happening);
    }

    fn at(&mut self, time: u64, happening: Happening) {
        self.sequence += 1;
        self.queue.insert((time, self.sequence), happening);
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
        split_page_rows: 3,
        resend_after: 15 * MILLISECOND,
        ask_after: 60 * MILLISECOND,
        ..Config::new(shard, map.clone(), secrets.clone())
    }
}
