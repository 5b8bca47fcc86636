//! The event loop, with shards, network, disks and time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use pando_client::TransportError;
use pando_core::Config;
use pando_placement::{ClusterMap, Secrets};
use pando_server::Host as PandoHost;
use pando_server::host::driven::Driven;
use pando_types::op::{Head, Op, Request};
use pando_types::reply::{Body, Refusal};
use pando_types::{Credentials, ShardIndex, SlotIndex};
use pando_wire::{Message, Stream};

use crate::check::History;
use crate::clocks::Clocks;
use crate::config::{MILLISECOND, SimConfig};
use crate::cuts::Cut;
use crate::ear::{Ear, Heard};
use crate::executor::Executor;
use crate::happening::Happening;
use crate::host::Host;
use crate::local::Here;
use crate::locking::judge::Locks;
use crate::mail::{Mail, Ticket, Wish};
use crate::moves::Moves;
use crate::network::{End, Network, Way};
use crate::objects::Objects;
use crate::random::Random;
use crate::server::Server;
use crate::stats::Stats;
use crate::trace::Trace;
use crate::words::Line;

/// How long a client waits for a reply, nanoseconds.
const TIMEOUT: u64 = 25 * MILLISECOND;

/// Time of day at true time 0, nanoseconds.
const NOON: u64 = 1_000_000_000 * 1_000_000_000;

/// Something that happens to a client. The caller of [`World::step`] carries it out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToClient {
    /// Some client dies.
    Dies,
    /// Some client stands still for a while.
    Pauses,
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
    heard: Heard,
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
    calls: BTreeMap<Ticket, (u32, usize)>,
    /// Requests that shards have not answered, by number.
    pub(crate) asked: BTreeMap<u64, Asked>,
    queue: BTreeMap<(u64, u64), Happening>,
    sequence: u64,
    pub(crate) random: Random,
    /// State of the shards' moves, if shards move.
    pub(crate) moves: Option<Moves>,
    /// Random numbers for faults of disks.
    pub(crate) disk_random: Random,
    pub(crate) is_faulty: bool,
}

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
        let ear = Ear {
            history: Arc::clone(&history),
            locks: (config.locking > 0).then(|| Arc::clone(&locks)),
        };
        let hosts = (0..config.hosts()).map(|shard| {
            let core = core_config(&config, ShardIndex(shard), map, secrets);
            let history = Arc::clone(&history);
            let mut host = Host::format(core, &config, NOON, random.fork(), history);
            host.locks = (config.locking > 0).then(|| Arc::clone(&locks));
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
        (0..world.hosts.len()).for_each(|shard| world.plan_faults(shard));
        for _ in 0..world.config.client_deaths {
            let at = world.random.between(20, 500) * MILLISECOND;
            world.after(at, Happening::ClientDies);
        }
        for _ in 0..world.config.pauses {
            let at = world.random.between(20, 1_000) * MILLISECOND;
            world.after(at, Happening::ClientPauses);
        }
        if world.config.handover_interval > 0 {
            world.after(world.config.handover_interval, Happening::HandOver);
        }
        if world.config.clock_interval > 0 {
            world.after(world.config.clock_interval, Happening::SetClock);
        }
        world.plan_session_ends();
        world.plan_disk_troubles();
        if world.config.cut_interval > 0 {
            world.after(world.config.cut_interval, Happening::Cut);
        }
        world
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

    /// Lets the clients run, then takes the next event. Returns what happens to a client: the
    /// caller carries that out.
    pub fn step(&mut self) -> Option<ToClient> {
        self.set_clocks_here();
        self.executor.run();
        self.settle_here();
        for wish in self.mail.wishes() {
            self.grant(wish);
        }
        let ((time, _), happening) = self.queue.pop_first()?;
        self.time = time;
        self.mail.tick(time);
        let to_client = self.happen(happening);
        self.heed_ended_sessions();
        to_client
    }

    fn grant(&mut self, wish: Wish) {
        match wish {
            Wish::LosePower => self.lose_power(),
            Wish::Sleep(ticket, nanos) => self.after(nanos, Happening::Wake(ticket)),
            Wish::Call(client, ticket, shard, request) => {
                let (from, to) = (End::Client(client), End::Shard(shard.0.into()));
                self.calls.insert(ticket, (client, shard.0.into()));
                self.after(TIMEOUT, Happening::TimeOut(ticket));
                self.put(from, to, ticket, &Message::Request(*request));
            }
        }
    }

    fn happen(&mut self, happening: Happening) -> Option<ToClient> {
        match happening {
            Happening::Deliver(way) => self.deliver(way),
            Happening::Linger(number) => {
                if let Some((way, messages)) = self.network.linger(number) {
                    for (stream, message) in messages {
                        self.receive(way, stream, message);
                    }
                }
            }
            Happening::Break(way) if self.is_connected(way) => self.break_off(way.from, way.to),
            Happening::TimeOut(ticket) | Happening::Wake(ticket) => {
                self.calls.remove(&ticket);
                self.mail.answer(ticket, Err(TransportError::Lost));
            }
            Happening::Turn(shard, life) if self.is_alive(self.server_of(shard), life) => {
                self.turn(shard);
            }
            Happening::Timer(server, life) if self.is_alive(server, life) => {
                self.servers[server].timer_planned = None;
                self.act(server, Driven::fire_due);
            }
            Happening::Sync(shard, life) if self.is_alive(self.server_of(shard), life) => {
                self.hosts[shard].is_sync_planned = false;
                self.sync(shard, true);
            }
            Happening::BackgroundSync(shard) => self.background_sync(shard),
            Happening::Checkpoint(shard) => self.want_checkpoint(shard),
            Happening::CheckpointStep(server, life) if self.is_alive(server, life) => {
                self.servers[server].is_checkpoint_planned = false;
                self.act(server, Driven::step_checkpoint);
            }
            Happening::ArmCrash(shard) if self.is_faulty => self.arm_crash(shard),
            Happening::Crash(server, life) if self.is_alive(server, life) && self.is_faulty => {
                self.crash(server);
            }
            Happening::Restart(server) => self.restart(server),
            Happening::HandOver if self.is_faulty => {
                self.hand_over();
                let delay = self.random.between(1, 2 * self.config.handover_interval);
                self.after(delay, Happening::HandOver);
            }
            Happening::Cut if self.is_faulty => {
                self.cut();
                self.after(self.config.cut_interval, Happening::Cut);
            }
            Happening::SetClock if self.is_faulty => self.set_clock(),
            Happening::ClientDies if self.is_faulty => return Some(ToClient::Dies),
            Happening::ClientPauses if self.is_faulty => return Some(ToClient::Pauses),
            Happening::DiskFails(shard) if self.is_faulty => self.disk_fails(shard),
            Happening::DiskMends(shard, nth) => self.disk_mends(shard, Some(nth)),
            Happening::Replace(server, life) if self.is_alive(server, life) => {
                self.replace(server);
            }
            Happening::Move if self.is_faulty => self.want_move(),
            Happening::MoveGoesOn(server, shard, number) => {
                self.move_goes_on(server, shard, number);
            }
            Happening::MoveSilent(server, shard, number) => {
                self.move_is_silent(server, shard, number);
            }
            Happening::LookWhetherClear(server, life, shard) if self.is_alive(server, life) => {
                self.clear(server, shard);
            }
            Happening::Greet(server, life, other) if self.is_alive(server, life) => {
                self.greet(server, other);
            }
            Happening::SessionEnds if self.is_faulty => return Some(ToClient::SessionEnds),
            Happening::ClientResumes(who) => return Some(ToClient::Resumes(who)),
            _ => {}
        }
        None
    }

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

    /// Asks a shard to hand over one of its hash slots that holds something, or asks to add a
    /// shard.
    fn hand_over(&mut self) {
        if self.add_shard() {
            return;
        }
        let Some((from, slot)) = self.locked_slot().or_else(|| self.some_slot()) else { return };
        let to = self.random.below(self.hosts.len() as u64) as u16;
        let (from_shard, to) = (ShardIndex(from as u16), ShardIndex(to));
        let what = format_args!("slot {} is to go from {from} to {to}", slot.0);
        self.trace.note(self.time, &[], what);
        self.ask(from, Op::HandOver(from_shard, slot, to));
    }

    fn some_slot(&mut self) -> Option<(usize, SlotIndex)> {
        let from = self.random.below(self.hosts.len() as u64) as usize;
        let slots = self.hosts[from].process.as_ref()?.slots();
        let is_any = !slots.is_empty();
        is_any.then(|| (from, slots[self.random.below(slots.len() as u64) as usize]))
    }

    /// With probability 1/4, asks shard 0 to add a formatted shard that has not joined. Returns
    /// whether it did.
    fn add_shard(&mut self) -> bool {
        let is_new = |host: &Host| host.process.as_ref().is_some_and(|p| !p.core().has_joined());
        let made = usize::from(self.config.shards)..self.hosts.len();
        let Some(new) = made.into_iter().find(|&shard| is_new(&self.hosts[shard])) else {
            return false;
        };
        if !self.random.chance(1, 4) {
            return false;
        }
        self.trace.note(self.time, &[], format_args!("shard {new} is to be added"));
        if self.hosts[0].process.is_some() {
            self.ask(0, Op::AddShard(ShardIndex(new as u16)));
        }
        true
    }

    /// Sends a request without a session to a shard.
    pub(crate) fn ask(&mut self, shard: usize, op: Op) {
        let credentials = Credentials::ROOT;
        let request = Request { head: Head::default(), credentials, op, trail: None };
        self.sequence += 1;
        self.servers[self.server_of(shard)].submit(self.index(shard), self.sequence, request);
        self.plan_turn(shard);
    }

    /// Reports what a reply says of a session or of an operation.
    pub(crate) fn overhear(&mut self, asked: &Asked, result: &Result<Body, Refusal>) {
        let End::Shard(shard) = asked.way.to else { return };
        let is_doubtful = self.is_doubtful(shard, result);
        match result {
            Err(Refusal::NoSession) if asked.heard.id.sequence > 0 => {
                self.stats.refused_sessions += 1;
            }
            Err(Refusal::Stale) => self.stats.stale_ways += 1,
            _ => {}
        }
        self.ear.leaves(&asked.heard, result, is_doubtful);
    }

    /// Puts a message on its way.
    pub(crate) fn put(&mut self, from: End, to: End, stream: u64, message: &Message) {
        self.aim(from, to);
        let (at, way) = self.network.send(from, to, stream, message, self.time);
        self.at(at, Happening::Deliver(way));
        if self.network.breaks() {
            let moment = self.random.between(self.time, at + 1);
            self.at(moment, Happening::Break(way));
        }
    }

    pub(crate) fn is_connected(&self, way: Way) -> bool {
        self.network.connection(way.from, way.to) == way.connection
    }

    fn deliver(&mut self, way: Way) {
        let delivered = self.network.deliver(way, self.time);
        let (bytes, count) = (&delivered.bytes, delivered.bytes.len());
        if count > 0 {
            let line = format_args!("{:?} -> {:?}: {count} bytes", way.from, way.to);
            self.trace.note(self.time, bytes, line);
        }
        for (stream, message) in delivered.messages {
            self.receive(way, stream, message);
        }
        if let Some(at) = delivered.again {
            self.at(at, Happening::Deliver(way));
        }
        if let Some(at) = delivered.noticed {
            self.at(at, Happening::Break(way));
        }
        if delivered.is_broken {
            self.break_off(way.from, way.to);
        }
    }

    fn receive(&mut self, way: Way, stream: Stream, message: Message) {
        let line = Line { way, stream, message: &message };
        self.trace.note(self.time, &[], format_args!("{line}"));
        match (way.to, message) {
            (End::Shard(shard), Message::Request(request)) => {
                self.stats.requests[shard] += 1;
                self.sequence += 1;
                let number = self.sequence;
                let heard = self.ear.comes(&request);
                if self.is_heard(shard, way) {
                    self.asked.insert(number, Asked { way, stream, heard });
                    self.hear(shard, number, request);
                }
            }
            (End::Shard(shard), Message::Peer(peer)) => {
                if self.is_heard(shard, way) {
                    self.servers[self.server_of(shard)].submit_peer(self.index(shard), peer);
                    self.plan_turn(shard);
                }
            }
            (End::Client(_), Message::Reply(reply)) => {
                self.calls.remove(&stream.0);
                self.mail.answer(stream.0, Ok(Box::new(reply)));
            }
            (End::Process(server), Message::Ask(ask)) => {
                self.process_is_asked(server, way, stream, ask);
            }
            (End::Target(server), Message::Told(told)) => self.target_is_told(server, stream, told),
            (to, message) => panic!("{message:?} came to {to:?}"),
        }
    }

    /// Whether a process runs the shard, and may let the message in. If not, the connection is
    /// broken.
    fn is_heard(&mut self, shard: usize, way: Way) -> bool {
        let is_heard = self.comes_right(way, shard) && self.hosts[shard].process.is_some();
        if !is_heard && self.is_connected(way) {
            self.break_off(way.from, way.to);
        }
        is_heard
    }

    /// Delivers now everything that `end` has sent.
    pub(crate) fn say_all(&mut self, end: End) {
        for other in self.network.neighbours(end) {
            let way = self.network.hurry(end, other, self.time);
            self.deliver(way);
        }
    }

    /// Breaks the connection of two ends. Calls on it are lost.
    pub(crate) fn break_off(&mut self, a: End, b: End) {
        self.trace.note(self.time, &[], format_args!("{a:?} and {b:?} are disconnected"));
        let (broken, lingering) = self.network.break_off(a, b, self.time);
        self.stats.broken += 1;
        self.target_hears_nothing(a, b);
        for (at, number) in lingering {
            self.at(at, Happening::Linger(number));
        }
        let (End::Client(client), End::Shard(shard)) = (a.min(b), a.max(b)) else { return };
        let lost: Vec<Ticket> = self
            .calls
            .iter()
            .filter(|(_, call)| **call == (client, shard))
            .map(|(ticket, _)| *ticket)
            .collect();
        self.stats.broken_with_reply += u64::from(!lost.is_empty() && broken.replies);
        self.stats.broken_with_request += u64::from(!lost.is_empty() && broken.requests);
        for ticket in lost {
            self.calls.remove(&ticket);
            self.mail.answer(ticket, Err(TransportError::Lost));
        }
    }

    fn cut(&mut self) {
        let clients: Vec<u32> = self.network.clients();
        if clients.is_empty() {
            return;
        }
        let cut = Cut::random(&mut self.random, &self.config, &clients, self.time);
        self.trace.note(self.time, &[], format_args!("{cut:?}"));
        self.stats.cut(&cut, &self.hosts);
        self.network.cuts.add(cut, self.time);
    }

    /// A number that nothing else has.
    pub(crate) const fn next_number(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    pub(crate) fn after(&mut self, delay: u64, happening: Happening) {
        self.at(self.time + delay, happening);
    }

    pub(crate) fn at(&mut self, time: u64, happening: Happening) {
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
        split_page_rows: config.split_page_rows,
        split_dirty_rows: config.split_dirty_rows,
        handover_rate: config.handover_rate,
        resend_after: 15 * MILLISECOND,
        ask_after: 60 * MILLISECOND,
        lease: config.lease,
        number_block: config.number_block,
        versions_wait: config.versions_wait,
        votes_wait: config.votes_wait,
        ..Config::new(shard, map.clone(), secrets.clone())
    }
}
