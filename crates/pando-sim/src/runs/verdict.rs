//! The verdict of a run.

use pando_core::TxnKind;
use pando_types::{Errno, SessionId};

use crate::base::lock::lock;
use crate::check::{Event, Excuse, Excuses, History, Why, go_forward, linearize};
use crate::config::parameters::Durability;
use crate::counts::parts::Promises;
use crate::counts::stats::Stats;
use crate::runs::fsck;
use crate::runs::state::Run;
use crate::world::state::world::World;

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

impl Run {
    pub(crate) fn verdict(mut self, fault: Option<String>) -> Verdict {
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
        let loans = &mut self.world.stats.loans;
        (loans.set_aside, loans.died) = history.loans.lost_counts();
        loans.journals = history.loans.journals_sent;
        loans.remembered = history.loans.remembered;
        loans.known_to_kernels = history.loans.known_to_kernels;
        (loans.untold, loans.told) = history.loans.untold;
        loans.journals_failed = history.loans.journals_failed;
        self.world.stats.count(&history);
        let promises = lock(&self.shared.promises);
        self.world.stats.promises = Promises { made: promises.made, looks: promises.looks };
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
            objects.and_then(|it| lock(&it.contents).fault().cloned()).or(fault)
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
        return Err(format!("asked without its trail, though not refused eight times: {event:?}"));
    }
    if let Some(ino) = history.ino_made_twice() {
        return Err(format!("{ino:?} was given twice"));
    }
    history.loans.judge()?;
    if keeps_its_word {
        let (before, last) = history.views();
        for (name, view) in before {
            let mut needed = Excuses::new();
            has_order(world, &view, &mut needed).map_err(|it| format!("{name}: {it}"))?;
            // All else is forgiven in the end, too, but for what is lost by then.
            let undecided = needed.get(&Excuse::NotFound).copied().unwrap_or(0);
            Excuse::NotFound.count(undecided as usize, excuses);
        }
        Excuse::SetAside.count(history.left_out(&last), excuses);
        has_order(world, &last, excuses)?;
    } else {
        Excuse::Unordered.count(1, excuses);
    }
    at_rest(world)?;
    world.judge_objects()?;
    world.moves_at_rest()?;
    let faults = fsck::at_rest(&world.hosts);
    if faults.is_empty() { Ok(()) } else { Err(format!("structure:\n{}", faults.join("\n"))) }
}

/// Checks that a history has an order, and that nothing goes back in it.
fn has_order(world: &World, history: &History, excuses: &mut Excuses) -> Result<(), String> {
    let is_one_clock = world.config.processes == 1 && world.config.clock_interval == 0;
    go_forward(history, is_one_clock)?;
    match linearize(history) {
        Ok(needed) => excuses.extend(needed),
        Err(failure) if failure.why == Why::GaveUp => Excuse::NotFound.count(1, excuses),
        Err(failure) => return Err(failure.to_string()),
    }
    Ok(())
}

/// Checks that every shard runs and is at rest: no sessions, locks, transactions, prepared steps or
/// opens are left.
pub(crate) fn at_rest(world: &World) -> Result<(), String> {
    for (index, host) in world.hosts.iter().enumerate() {
        let Some(process) = &host.process else { return Err(format!("shard {index} is dead")) };
        let sessions: Vec<SessionId> = process.core().sessions().collect();
        let over: Vec<SessionId> = process.core().sessions_over().collect();
        let in_flight = process.core().in_flight();
        if !sessions.is_empty() || !over.is_empty() || in_flight != [0; 4] {
            let core = process.core();
            let alive = TxnKind::ALL.iter().zip(core.txns_alive()).filter(|(_, alive)| *alive > 0);
            let alive: Vec<_> = alive.map(|(kind, alive)| (kind.name(), alive)).collect();
            return Err(format!(
                "shard {index} is not at rest: sessions {sessions:?}, over {over:?}; locks, transactions, prepared steps, opens {in_flight:?}; transactions {alive:?}; copies {:?}",
                core.copies_alive()
            ));
        }
    }
    Ok(())
}
