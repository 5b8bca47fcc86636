//! A run from start to end, and its verdict.
//!
//! ```text
//!   format, start ─► clients work while things break ─► heal ─► clients end ─► drain ─► walk ─► drain
//!                        ▲ is the structure whole now?   │ and if everything died?
//!                                            ─► is there an order? are the listings right? is the structure whole?
//! ```

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock};

use pando_client::{Transport, Volume};
use pando_placement::{ClusterMap, Secrets};
use pando_types::op::{Head, Op as Wire, Request};
use pando_types::{Credentials, Errno, SessionId, ShardIndex};

use crate::check::{Event, Excuse, Excuses, History, go_forward, linearize};
use crate::client_run::{ClientRun, Shared, lock};
use crate::config::{Durability, MILLISECOND, SECOND, SimConfig};
use crate::executor::TaskIndex;
use crate::fsck;
use crate::happening::Happening;
use crate::host::Host;
use crate::local::Here;
use crate::mail::Mail;
use crate::objects::store::Bucket;
use crate::random::Random;
use crate::stats::Stats;
use crate::walk::walk;
use crate::world::{ToClient, World};

/// Maximum time in which faults happen, nanoseconds.
const FAULTY_MAX: u64 = 3 * SECOND;
/// The structure is checked once in the running cluster, at a random time before this, nanoseconds.
const CHECK_MAX: u64 = 800 * MILLISECOND;
/// Time in which the shards come to rest after the last client has ended, nanoseconds.
const DRAIN: u64 = 5 * SECOND;

/// The result of a run.
#[derive(Debug)]
pub struct Verdict {
    /// The fault that was found, if any.
    pub fault: Option<String>,
    /// Counts of what happened.
    pub stats: Stats,
    /// Hash of everything in the trace.
    pub hash: u64,
    /// Lines of the trace, if they were kept.
    pub tail: Vec<String>,
}

pub(crate) struct Running {
    pub(crate) run: Arc<ClientRun>,
    pub(crate) tasks: Vec<TaskIndex>,
}

pub(crate) struct Run {
    pub(crate) world: World,
    pub(crate) shared: Shared,
    pub(crate) clients: Vec<Running>,
    dead: Vec<Arc<ClientRun>>,
    pub(crate) others: Vec<TaskIndex>,
    pub(crate) random: Random,
    who: u32,
    /// The fault that was found so far, if the run is watched.
    seen: Option<String>,
}

/// Runs `config` and judges the run.
#[must_use]
pub fn run(config: SimConfig) -> Verdict {
    let mut run = Run::new(config);
    // A panic anywhere is a verdict, too. The trace shows what led to it.
    let fault = match catch_unwind(AssertUnwindSafe(|| run.work())) {
        Ok(worked) => worked.err(),
        Err(panic) => Some(format!("panic: {}", said(&*panic))),
    };
    run.verdict(fault)
}

impl Run {
    fn new(config: SimConfig) -> Self {
        let mut random = Random::new(config.seed ^ 0xC11E_4175);
        let map = map(config.shards);
        let secrets = secrets(&mut random);
        let (history, patience) = (Arc::default(), config.patience);
        let (names, churn, ebbs, moves) = (config.names, config.churn, config.ebbs, config.moves);
        let (by_path, paths_bytes, keeping) = (config.by_path, config.paths_bytes, config.keeping);
        let (locking, lock_patience, locks) =
            (config.locking, config.lock_patience, Arc::default());
        let world = World::new(config, &map, &secrets, Arc::clone(&history), Arc::clone(&locks));
        let volume = Volume { id: [7; 16], secrets, map };
        let mail = world.mail.clone();
        let shared = Shared {
            mail,
            volume,
            history,
            patience,
            names,
            churn,
            ebbs,
            by_path,
            moves,
            paths_bytes,
            keeping,
            promises: Arc::default(),
            locking,
            lock_patience,
            locks,
            objects: world.objects.clone(),
            here: None,
        };
        let (clients, dead, others) = (Vec::new(), Vec::new(), Vec::new());
        Self { world, shared, clients, dead, others, random, who: 0, seen: None }
    }

    fn work(&mut self) -> Result<(), String> {
        let SimConfig { clients, locals, operations, .. } = self.world.config;
        let here = self.world.here.clone();
        for nth in 0..clients {
            self.begin_client(here.as_ref().filter(|_| nth < locals), operations);
        }
        let check_at = self.random.below(CHECK_MAX);
        let mut is_checked = false;
        while !self.is_idle() && self.world.time < FAULTY_MAX {
            if self.world.time >= check_at && !is_checked {
                is_checked = true;
                // A shard may die during the collection, so its errors are ignored.
                let _ = self.collect_objects();
                let (faults, given_up) = fsck::while_running(self);
                self.world.stats.suspicions += given_up;
                self.seen.take().map_or(Ok(()), Err)?;
                if !faults.is_empty() {
                    return Err(format!("structure, while running:\n{}", faults.join("\n")));
                }
            }
            self.step();
            self.seen.take().or_else(|| self.world.broken_moves()).map_or(Ok(()), Err)?;
        }
        self.if_all_died()?;
        self.world.heal();
        self.until_idle("the clients")?;
        self.drain();
        self.who += 1;
        let walker = ClientRun::new(self.who, self.shared.of(self.who), 1, 0);
        self.others.push(self.world.executor.spawn(walk(walker)));
        self.until_idle("the last look")?;
        if self.world.config.keeping > 0 {
            self.who += 1;
            let looker = ClientRun::new(self.who, self.shared.of(self.who), 1, 0);
            self.others.push(self.world.executor.spawn(looker.look_at_all()));
            self.until_idle("the look at what was fsynced")?;
        }
        if self.world.config.objects > 0 {
            self.who += 1;
            let mut shared = self.shared.of(self.who);
            // Garbage of an added shard must be deleted, too.
            for process in self.world.hosts.iter().filter_map(|host| host.process.as_ref()) {
                shared.volume.map.merge(process.core().map());
            }
            let looker = ClientRun::new(self.who, shared, 1, 0);
            self.others.push(self.world.executor.spawn(looker.look_at_objects()));
            self.until_idle("the look at objects")?;
        }
        if self.world.config.locking > 0 {
            self.who += 1;
            let looker = ClientRun::new(self.who, self.shared.of(self.who), 1, 0);
            self.others.push(self.world.executor.spawn(looker.look_at_locks()));
            self.until_idle("the look at what was locked")?;
        }
        self.drain();
        if self.world.can_collect() {
            self.collect_objects()?;
        }
        Ok(())
    }

    /// Begins another client, in the process of all shards or in its own. Each lane has
    /// `operations` operations.
    pub(crate) fn begin_client(&mut self, here: Option<&Arc<Here>>, operations: u64) {
        self.who += 1;
        let lanes = self.world.config.lanes;
        let shared = Shared { here: here.cloned(), ..self.shared.of(self.who) };
        let run = ClientRun::new(self.who, shared, lanes, operations);
        let mut tasks = vec![self.world.executor.spawn(Arc::clone(&run).connect())];
        tasks.push(self.world.executor.spawn(Arc::clone(&run).maintain()));
        for _ in 0..lanes {
            let lane = Arc::clone(&run).lane(self.random.fork());
            tasks.push(self.world.executor.spawn(lane));
        }
        self.clients.push(Running { run, tasks });
    }

    fn if_all_died(&self) -> Result<(), String> {
        let faults = fsck::if_all_died(&self.world.hosts, fsck::Live::bucket(self));
        if faults.is_empty() {
            return Ok(());
        }
        Err(format!("structure, if all died:\n{}", faults.join("\n")))
    }

    pub(crate) fn step(&mut self) {
        match self.world.step() {
            Some(ToClient::Dies) => self.client_dies(),
            Some(ToClient::Pauses) => self.client_pauses(),
            Some(ToClient::SessionEnds) => self.session_ends(),
            Some(ToClient::Resumes(who)) => self.client_resumes(who),
            None => {}
        }
        self.heed_local_deaths();
        self.world.judge_moves();
        if self.world.time >= self.world.config.watched_from && self.seen.is_none() {
            let at = |fault| format!("{} ns: {fault}", self.world.time);
            self.seen = self.if_all_died().err().map(at);
        }
    }

    /// Some client stands still, sometimes for longer than its lease. What arrives for it waits.
    fn client_pauses(&mut self) {
        let nth = self.random.below(self.clients.len() as u64) as usize;
        let lease = self.world.config.lease;
        let length = match self.random.chance(1, 3) {
            true => self.random.between(MILLISECOND, lease),
            false => self.random.between(lease, 3 * lease),
        };
        let Running { run, tasks } = &self.clients[nth];
        for task in tasks {
            self.world.executor.pause(*task);
        }
        self.world.stats.pauses += 1;
        let line = format_args!("client {} stands still", run.who);
        self.world.trace.note(self.world.time, &[], line);
        self.world.after(length, Happening::ClientResumes(run.who));
    }

    fn client_resumes(&mut self, who: u32) {
        let Some(client) = self.clients.iter().find(|client| client.run.who == who) else { return };
        self.world.trace.note(self.world.time, &[], format_args!("client {who} goes on"));
        for task in &client.tasks {
            self.world.executor.resume(*task);
        }
    }

    /// Some client dies, and another takes its place. Its session is ended by a request, or when
    /// its lease ends.
    fn client_dies(&mut self) {
        let nth = self.random.below(self.clients.len() as u64) as usize;
        let is_over = |task: &TaskIndex| self.world.executor.is_over(*task);
        let Running { run, tasks } = &self.clients[nth];
        if run.client().is_none() || tasks.iter().all(is_over) {
            return;
        }
        if run.shared.here.is_some() {
            self.world.crash(0);
            return;
        }
        let dead = self.clients.swap_remove(nth);
        let who = dead.run.who;
        self.world.stats.client_deaths += 1;
        if let Some(session) = self.bury_client(dead)
            && self.random.chance(1, 3)
        {
            let delay = self.random.below(300 * MILLISECOND);
            let reaper = bury(self.shared.mail.of(who), session, delay);
            self.others.push(self.world.executor.spawn(reaper));
        }
        self.begin_client(None, self.world.config.operations);
    }

    /// Ends a dead client's tasks. Returns the session that the client had.
    pub(crate) fn bury_client(&mut self, dead: Running) -> Option<SessionId> {
        for task in dead.tasks {
            self.world.executor.kill(task);
        }
        let session = dead.run.client().map(|client| client.session());
        lock(&self.shared.locks).dies(dead.run.who);
        let line = format_args!("client {} dies, session {session:?}", dead.run.who);
        self.world.trace.note(self.world.time, &[], line);
        // The session may have ended before the client died.
        let mut history = lock(&self.shared.history);
        let since = history.last_alive(dead.run.session_noticed());
        history.gone(dead.run.who, since);
        drop(history);
        self.dead.push(dead.run);
        session
    }

    fn is_idle(&self) -> bool {
        let clients = self.clients.iter().flat_map(|client| &client.tasks);
        clients.chain(&self.others).all(|task| self.world.executor.is_over(*task))
    }

    fn until_idle(&mut self, who: &str) -> Result<(), String> {
        let deadline = self.world.time + self.world.config.end_within;
        while !self.is_idle() {
            if self.world.time > deadline {
                return Err(format!("{who} did not come to an end:\n{}", self.stuck()));
            }
            self.step();
        }
        Ok(())
    }

    fn stuck(&self) -> String {
        let history = lock(&self.shared.history);
        let open = history.events().iter().filter(|event| event.returned.is_none());
        let open = open.map(|event| format!("  client {}: {:?}\n", event.call.who, event.call.op));
        let tasks = self.clients.iter().map(|client| {
            let left = |task: &&TaskIndex| !self.world.executor.is_over(**task);
            let left = client.tasks.iter().filter(left).count();
            format!("  client {} has {left} tasks left\n", client.run.who)
        });
        tasks.chain(open).collect()
    }

    fn drain(&mut self) {
        let deadline = self.world.time + DRAIN;
        while self.world.time < deadline {
            self.step();
        }
        // A shard may retry something just now. It retries for ever, at growing intervals.
        while self.world.time < deadline + DRAIN && at_rest(&self.world).is_err() {
            self.step();
        }
    }

    fn verdict(mut self, fault: Option<String>) -> Verdict {
        for host in &self.world.hosts {
            if let Some(process) = &host.process {
                self.world.stats.absorb(process);
            }
        }
        self.world.count_disks();
        self.world.count_here();
        self.world.count_objects();
        self.world.stats.shards_moved = self.world.move_counts();
        self.world.stats.bytes = self.world.network.bytes;
        for run in self.clients.iter().map(|client| &client.run).chain(&self.dead) {
            if let Some(client) = run.client() {
                let losses = run.losses.load(std::sync::atomic::Ordering::Relaxed);
                self.world.stats.client(&client, losses as u64);
            }
        }
        let history = lock(&self.shared.history).clone();
        self.world.stats.count(&history);
        let promises = lock(&self.shared.promises);
        (self.world.stats.promises.0, self.world.stats.promises.1) =
            (promises.made, promises.looks);
        let fault = promises.broken.first().cloned().or(fault);
        let fault = self.world.broken_moves().or(fault);
        let fault = {
            let locks = &mut lock(&self.shared.locks);
            locks.noticed();
            self.world.stats.locks = locks.counts;
            locks.broken.first().cloned().or(fault)
        };
        let fault = {
            let objects = self.shared.objects.as_ref();
            objects.and_then(|it| lock(&it.contents).broken.first().cloned()).or(fault)
        };
        let mut excuses = Excuses::new();
        let fault = fault.or_else(|| judge(&self.world, &history, &mut excuses).err());
        self.world.stats.excuses = excuses;
        Verdict {
            fault,
            hash: self.world.trace.hash(),
            tail: self.world.trace.tail(usize::MAX).to_vec(),
            stats: self.world.stats,
        }
    }
}

impl fsck::Live for Run {
    fn step(&mut self) {
        Self::step(self);
    }

    fn time(&self) -> u64 {
        self.world.time
    }

    fn hosts(&self) -> &[Host] {
        &self.world.hosts
    }

    fn bucket(&self) -> Option<Bucket> {
        let objects = self.shared.objects.as_ref();
        objects.filter(|it| !it.may_lose).map(|it| it.bucket.clone())
    }
}

fn judge(world: &World, history: &History, excuses: &mut Excuses) -> Result<(), String> {
    let keeps_its_word = world.config.durability != Durability::OsWithPowerLoss;
    // Every request is answered in the end, unless its session was over.
    let gave_up = history.events().iter().filter(|event| event.lost == Some(Errno::EIO));
    let (over, gave_up): (Vec<&Event>, Vec<_>) = gave_up.partition(|event| event.lost_session);
    Excuse::SessionOver.count(over.len(), excuses);
    match gave_up.first() {
        Some(event) if keeps_its_word && !world.may_stop() => {
            return Err(format!("a client gave up: {event:?}"));
        }
        _ => Excuse::PowerLost.count(gave_up.len(), excuses),
    }
    if let Some(event) = history.events().iter().find(|event| event.walked.is_forbidden()) {
        return Err(format!("asked without its way, though not refused eight times: {event:?}"));
    }
    if let Some(ino) = history.ino_made_twice() {
        return Err(format!("{ino:?} was given twice"));
    }
    if keeps_its_word {
        let is_one_clock = world.config.processes == 1 && world.config.clock_interval == 0;
        go_forward(history, is_one_clock)?;
        match linearize(history) {
            Ok(order) => excuses.extend(order.excuses),
            Err(failure) if failure.gave_up && world.may_stop() => {
                Excuse::NotFound.count(1, excuses);
            }
            Err(failure) => return Err(failure.to_string()),
        }
    } else {
        Excuse::Unordered.count(1, excuses);
    }
    at_rest(world)?;
    world.judge_objects()?;
    world.moves_at_rest()?;
    let faults = fsck::at_rest(&world.hosts);
    if faults.is_empty() { Ok(()) } else { Err(format!("structure:\n{}", faults.join("\n"))) }
}

/// Checks that every shard runs and is at rest: no sessions, locks, transactions, prepared steps or
/// opens are left.
fn at_rest(world: &World) -> Result<(), String> {
    for (index, host) in world.hosts.iter().enumerate() {
        let Some(process) = &host.process else { return Err(format!("shard {index} is dead")) };
        let sessions: Vec<SessionId> = process.core().sessions().collect();
        let over: Vec<SessionId> = process.core().sessions_over().collect();
        let in_flight = process.core().in_flight();
        if !sessions.is_empty() || !over.is_empty() || in_flight != [0; 4] {
            return Err(format!(
                "shard {index} is not at rest: sessions {sessions:?}, over {over:?}; locks, transactions, prepared steps, opens {in_flight:?}"
            ));
        }
    }
    Ok(())
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// Ends a session by a request to shard 0, after a delay in nanoseconds. Repeats the request until
/// it is answered.
pub(crate) async fn bury(mail: Mail, session: SessionId, delay: u64) {
    mail.sleep(delay).await;
    let op = Wire::EndSession(session);
    let request =
        Request { head: Head::default(), credentials: Credentials::ROOT, op, trail: None };
    while mail.call(ShardIndex(0), Box::new(request.clone())).await.is_err() {
        mail.sleep(20 * MILLISECOND).await;
    }
}

fn map(shards: u16) -> ClusterMap {
    static MAPS: OnceLock<Mutex<std::collections::BTreeMap<u16, ClusterMap>>> = OnceLock::new();
    let mut maps = lock(MAPS.get_or_init(Mutex::default));
    maps.entry(shards).or_insert_with(|| ClusterMap::new(shards)).clone()
}

fn secrets(random: &mut Random) -> Secrets {
    let mut secrets = Secrets { dir: [0; 32], name: [0; 16] };
    secrets.dir.fill_with(|| random.draw() as u8);
    secrets.name.fill_with(|| random.draw() as u8);
    secrets
}
