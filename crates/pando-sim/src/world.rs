//! The event loop: shards, network, disks and time.

use std::collections::BTreeMap;

use pando_client::TransportError;
use pando_core::{ClientTag, Config, Input, Out};
use pando_placement::{ClusterMap, Secrets};
use pando_types::ShardIndex;
use pando_types::codec;

use crate::config::{Durability, MILLISECOND, SimConfig};
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
    network: Network,
    inboxes: Vec<Vec<Input>>,
    queue: BTreeMap<(u64, u64), Happening>,
    sequence: u64,
    random: Random,
    is_faulty: bool,
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

    fn is_alive(&self, shard: usize, life: u64) -> bool {
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

    fn dispatch(&mut self, shard: usize, result: Result<Yield, Died>) {
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

    fn background_sync(&mut self, shard: usize) {
        let host = &self.hosts[shard];
        if host.process.as_ref().is_some_and(|process| process.is_waiting()) {
            self.after(10_000, Happening::Sync(shard, host.life));
        }
        self.after(self.config.sync_interval, Happening::BackgroundSync(shard));
    }

    fn checkpoint(&mut self, shard: usize) {
        let mut delay = self.random.between(1, 2 * self.config.checkpoint_interval);
        if self.hosts[shard].process.is_some() {
            match self.hosts[shard].checkpoint() {
                Ok(true) => delay = self.random.between(100_000, 10 * MILLISECOND),
                Ok(false) => self.stats.checkpoints += 1,
                Err(_) => {
                    self.stats.checkpoint_crashes += 1;
                    self.crash(shard);
                }
            }
        }
        self.after(delay, Happening::Checkpoint(shard));
    }

    /// The disk stops at one of its next changes.
    fn arm_crash(&mut self, shard: usize) {
        let changes = self.random.between(1, 30);
        self.hosts[shard].disk.crash_at(changes);
        self.plan_crash(shard);
    }

    fn crash(&mut self, shard: usize) {
        let power = self.config.durability == Durability::Disk && self.random.chance(1, 2);
        self.trace.note(self.time, &[], format_args!("shard {shard} dies, power lost: {power}"));
        self.stats.crash(&self.hosts[shard], power);
        self.inboxes[shard].clear();
        self.hosts[shard].die(power);
        let delay = self.random.between(1, 40) * MILLISECOND;
        self.after(delay, Happening::Restart(shard));
    }

    fn restart(&mut self, shard: usize) {
        self.trace.note(self.time, &[], format_args!("shard {shard} starts"));
        if self.is_faulty && self.time > 0 && self.random.chance(1, 8) {
            let changes = self.random.between(1, 12);
            self.hosts[shard].disk.crash_at(changes);
        }
        let started = self.hosts[shard].start(self.time);
        self.dispatch(shard, started);
    }

    fn plan_faults(&mut self, shard: usize) {
        let sync = self.random.between(1, 1 + self.config.sync_interval);
        self.after(sync, Happening::BackgroundSync(shard));
        let checkpoint = self.random.between(1, 2 * self.config.checkpoint_interval);
        self.after(checkpoint, Happening::Checkpoint(shard));
        self.plan_crash(shard);
    }

    fn plan_crash(&mut self, shard: usize) {
        if self.config.crash_interval == 0 {
            return;
        }
        let delay = self.random.between(1, 2 * self.config.crash_interval);
        self.after(delay, Happening::ArmCrash(shard));
        if self.random.chance(1, 3) {
            self.after(delay / 2, Happening::Crash(shard, self.hosts[shard].life));
        }
    }

    fn after(&mut self, delay: u64, happening: Happening) {
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
